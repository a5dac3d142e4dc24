"""What is printed is the number that it was: LaTeX and text of random expressions, read back and evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from support.printed import values
from support.printed.latex import LatexReader, Name
from support.printed.text import TextReader
from tpcalc.calculus.kets import Averaged, Base, Bracket, Covariance, Dot, Gamma, Hat, Ket, Response
from tpcalc.derivations.printing import latex, statement_latex
from tpcalc.gaussian.variables import Expectation
from tpcalc.programs.language import (Family, HeadSum, LossDerivative, Mat, MatVec, Moment, NonlinearOuter, Outer, Scal,
                                      Transpose, Vec)
from tpcalc.programs.polar import Polar

T, L, K, ALPHA = (sp.Symbol(name, integer=True) for name in ("t", "l", "k", "alpha"))
DEPTH = sp.Symbol("L", integer=True, positive=True)
ENV = {"t": 2.0, "l": 3.0, "L": 5.0, "alpha": 2.0}
FAMILIES = (Family(Vec, "x", layered=True), Family(Vec, "dx", r"\delta x", layered=True), Family(Vec, "v"),
            Family(Mat, "W", layered=True), Family(Mat, "A"), Family(Scal, "f"), Family(Scal, "chi", r"\chi"))
X, DX, V, W, A, F, CHI = FAMILIES
VECTORS = [X[T, L], X[T, L - 1], DX[T, L], V[T], V()]
MATRICES = [W[T, L], A(), A[T]]
NUMBERS = [F[T], CHI[T, 0], CHI(), DEPTH ** -ALPHA, 1 / sp.sqrt(DEPTH), sp.Rational(-2, 3), sp.Integer(-1), sp.Integer(2)]
POWERS = [sp.Integer(-2), sp.Integer(-1), sp.Integer(2), sp.Integer(3)]
ROOTS = [sp.Rational(1, 2), -sp.Rational(1, 2), sp.Rational(-3, 2), sp.Rational(1, 3)]
KIND = {Vec: "vector", Mat: "matrix", Scal: "scalar"}
TEXT = TextReader({f.name: KIND[f.kind] for f in FAMILIES})
LATEX = LatexReader({f.latex: Name(KIND[f.kind], f.name, f.layered) for f in FAMILIES})
QUICK = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
Strategy = st.SearchStrategy[Any]


def entrywise(atoms: Strategy, nodes: Any) -> Strategy:
    """Sums, products, quotients, powers, functions and sums over an index of atoms and of nodes made of such."""
    def larger(inner: Strategy) -> Strategy:
        pairs = st.tuples(inner, inner)
        return st.one_of(
            pairs.map(lambda p: p[0] + p[1]), pairs.map(lambda p: p[0] - p[1]), pairs.map(lambda p: p[0] * p[1]),
            pairs.map(lambda p: p[0] / p[1]), st.tuples(inner, st.sampled_from(POWERS)).map(lambda p: p[0] ** p[1]),
            st.tuples(inner, st.sampled_from(ROOTS)).map(lambda p: (p[0] ** 2 + 1) ** p[1]), inner.map(lambda e: -e),
            inner.map(lambda e: sp.tanh(e)), inner.map(lambda e: sp.Abs(e)), inner.map(lambda e: sp.sign(e)),
            inner.map(lambda e: sp.Max(e, 0)), inner.map(lambda e: sp.exp(sp.tanh(e))), inner.map(summed),
            st.tuples(inner, inner).map(lambda p: sp.Sum(p[0], (K, 0, T)) * p[1]), nodes(inner))
    return st.recursive(atoms, larger, max_leaves=7)


def summed(e: sp.Expr) -> sp.Expr:
    return sp.Sum(e.subs(T, K), (K, 0, T - 1))


def is_vector(e: sp.Expr) -> bool:
    return values.np.ndim(values.value(e, ENV)) == 1


def matrices(vectors: Strategy) -> Strategy:
    atoms = st.sampled_from(MATRICES)
    outers = st.tuples(vectors, vectors).map(lambda p: Outer(*p))
    nonlinear = outers.map(lambda o: NonlinearOuter(sp.sign(o) / (1 + sp.Abs(o)) - 2 * o))
    scaled = st.tuples(atoms, st.sampled_from(NUMBERS)).map(lambda p: p[0] * p[1])
    one = st.one_of(atoms, outers, nonlinear, scaled, outers.map(Polar), atoms.map(lambda w: summed(w)))
    pairs = st.tuples(one, one).map(lambda p: p[0] - p[1])
    products = st.tuples(outers, outers).map(lambda p: NonlinearOuter(p[0] * sp.tanh(p[1]) / (p[0] + 2 * p[1])))
    return st.one_of(one, pairs, products, one.map(Transpose), pairs.map(Transpose))


def language(inner: Strategy) -> Strategy:
    """Nodes of programs made of vectors."""
    return st.one_of(
        st.tuples(matrices(inner), inner).map(lambda p: MatVec(*p)), inner.map(Moment),
        st.tuples(inner, inner).map(lambda p: Moment(p[0] * p[1])),
        st.tuples(inner, st.sampled_from([(2,), (2, 3), (2, 1, True), (2, 3, True), (2, 1, False, True)])).map(
            lambda p: HeadSum(p[0], *p[1])),
        inner.map(lambda e: LossDerivative(Moment(e), T)))


def calculus(inner: Strategy) -> Strategy:
    """Nodes of the calculus, made of kets."""
    return st.one_of(inner.map(Expectation), st.tuples(inner, st.sampled_from(VECTORS)).map(lambda p: (
        Expectation(p[0] * Ket(p[1])))))


def of_kets() -> Strategy:
    vectors = st.sampled_from([*VECTORS, MatVec(W[T, L], X[T, L - 1]), MatVec(Transpose(A[T]), V())])
    pairs, base = st.tuples(vectors, vectors), Base(0, sp.Tuple(T, 1), sp.Tuple(L))
    phi = st.sampled_from([lambda o: sp.sign(o), lambda o: 1 / (1 + o ** 2), lambda o: -2 * o / (o ** 2 + 1) + 3,
                           lambda o: sp.tanh(o) / (2 + sp.Abs(o))])
    return st.one_of(
        *(vectors.map(node) for node in (Ket, Ket, Hat, Dot)), st.sampled_from(NUMBERS), st.just(base),
        pairs.map(lambda p: Bracket(*p)), st.just(Bracket(base, X[T, L])),
        pairs.map(lambda p: Response(p[0], Hat(MatVec(W[0, L], p[1])))), pairs.map(lambda p: Response(p[0], Ket(p[1]))),
        st.tuples(vectors, vectors, vectors, phi).map(lambda p: Averaged(p[3](Outer(p[0], p[1])), p[2])),
        st.sampled_from([Gamma(0, 1, (T,), (T - 1,), (L,), (L - 1,)), Gamma(0, 1, (T, 1), (0, 0), (L,), (1,)),
                         Gamma(0, 1, (T,), (-1,), (L,), ()), Covariance(0, 0, (T,), (T - 1,), (L,), (L,)),
                         Covariance(0, 1, (T,), (0,), (L,), (L - 1,))]))


def held(expression: sp.Expr) -> None:
    """Text, and LaTeX in both orders, are the number that the expression is."""
    assume(isinstance(expression, sp.Expr) and not expression.has(sp.nan, sp.zoo, sp.oo))
    with np.errstate(all="ignore"):
        expected = numbers(values.value(expression, ENV))
        assume(np.isfinite(expected).all() and np.abs(expected).max() < 1e8)
        scale = 1e-9 * (1 + np.abs(expected).max())
        for text, read in ((latex(expression), LATEX), (statement_latex(expression), LATEX), (str(expression), TEXT)):
            found = numbers(read.read(text, ENV))
            assert np.abs(found - expected).max() < scale, (text, sp.srepr(expression))


def numbers(value: Any) -> np.ndarray:
    return np.asarray(value.entries if isinstance(value, values.Matrix) else np.broadcast_to(value, values.N))


@QUICK
@given(entrywise(st.sampled_from(VECTORS + NUMBERS), language))
def test_statements_of_programs(expression: sp.Expr) -> None:
    held(expression)


@QUICK
@given(matrices(entrywise(st.sampled_from(VECTORS), language)))
def test_matrices(expression: sp.Expr) -> None:
    held(expression)


@QUICK
@given(entrywise(of_kets(), calculus))
def test_kets(expression: sp.Expr) -> None:
    held(expression)
