"""What is printed is the number that it was: LaTeX and text of random expressions, read back and evaluated."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, given, settings, strategies as st

import tpcalc as tp
from support.printed import values
from support.printed.latex import LatexReader, Name
from support.printed.text import TextReader
from tpcalc.calculus.kets import Averaged, Base, Bracket, Covariance, Dot, Gamma, Hat, Ket, Response
from tpcalc.derivations import mathml
from tpcalc.derivations.printing import latex, statement_latex, with_upright_words
from tpcalc.gaussian.variables import Expectation
from tpcalc.programs.language import (Family, HeadSum, LossDerivative, Matrix, MatVec, Member, Mean, NonlinearOuter,
                                      Outer, Scalar, Transpose, Vector)
from tpcalc.optimizers.polar import polar
from tpcalc.programs.program import Assign, walked

T, L, K, ALPHA = (sp.Symbol(name, integer=True) for name in ("t", "l", "k", "alpha"))
DEPTH = sp.Symbol("L", integer=True, positive=True)
ENV = {"t": 2.0, "l": 3.0, "L": 5.0, "alpha": 2.0}
FAMILIES = (Family(Vector, "x", layered=True), Family(Vector, "dx", r"\delta x", layered=True), Family(Vector, "v"),
            Family(Matrix, "W", layered=True), Family(Matrix, "A"), Family(Scalar, "f"), Family(Scalar, "chi", r"\chi"))
X, DX, V, W, A, F, CHI = FAMILIES
VECTORS = [X[T, L], X[T, L - 1], DX[T, L], V[T], V()]
MATRICES = [W[T, L], A(), A[T]]
NUMBERS = [F[T], CHI[T, 0], CHI(), DEPTH ** -ALPHA, 1 / sp.sqrt(DEPTH), sp.Rational(-2, 3), sp.Integer(-1),
           sp.Integer(2)]
POWERS = [sp.Integer(-2), sp.Integer(-1), sp.Integer(2), sp.Integer(3)]
ROOTS = [sp.Rational(1, 2), -sp.Rational(1, 2), sp.Rational(-3, 2), sp.Rational(1, 3)]
KIND = {Vector: "vector", Matrix: "matrix", Scalar: "scalar"}
TEXT = TextReader({f.name: KIND[f.kind] for f in FAMILIES})
LATEX = LatexReader({f.latex: Name(KIND[f.kind], f.name, f.layered) for f in FAMILIES})
POWER_NODES = ((2,), (2, 3), (2, 1, True), (2, 3, True), (2, 1, False, True))
QUICK = settings(deadline=None, max_examples=120)
SEED = st.integers(0, 2**32 - 1)
FUNCTIONS: tuple[Callable[[sp.Expr], sp.Expr], ...] = (
    sp.tanh, sp.Abs, sp.sign, lambda e: sp.Max(e, 0), lambda e: sp.exp(sp.tanh(e)), sp.erf)
PHI: tuple[Callable[[sp.Expr], sp.Expr], ...] = (
    sp.sign, lambda o: 1 / (1 + o ** 2), lambda o: -2 * o / (o ** 2 + 1) + 3, lambda o: sp.tanh(o) / (2 + sp.Abs(o)))


def summed(e: sp.Expr) -> sp.Expr:
    return sp.Sum(e.subs(T, K), (K, 0, T - 1))


class Drawn:
    """Expressions of a seed: sums, products, quotients, powers, functions and sums over an index, of all nodes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def entrywise(self, atom: Callable[[], sp.Expr], node: Callable[[Callable[[], sp.Expr]], sp.Expr],
                  depth: int) -> sp.Expr:
        def inner() -> sp.Expr:
            return self.entrywise(atom, node, depth - self.one(1, 2))

        if depth <= 0:
            return atom()
        kind = self.random.randrange(12)
        if kind < 4:
            a, b = inner(), inner()
            return self.one(lambda: a + b, lambda: a - b, lambda: a * b, lambda: a / b, lambda: 1 / (a * b))()
        if kind == 4:
            return inner() ** self.one(*POWERS)
        if kind == 5:
            return (inner() ** 2 + 1) ** self.one(*ROOTS)
        if kind == 6:
            return -inner()
        if kind == 7:
            return self.one(*FUNCTIONS)(inner())
        if kind == 8:
            return self.one(summed, lambda e: sp.Sum(e, (K, 0, T)) * atom(), lambda e: summed(e) / atom(),
                            lambda e: sp.Sum(e.subs(T, K), (K, 0, L), (L, 1, T)))(inner())
        return node(inner)

    def vector(self, depth: int) -> sp.Expr:
        return self.entrywise(lambda: self.one(*VECTORS, *VECTORS, *NUMBERS), self.of_programs, depth)

    def of_programs(self, inner: Callable[[], sp.Expr]) -> sp.Expr:
        a, b = inner(), inner()
        return self.one(lambda: MatVec(self.matrix(1), a * VECTORS[0]),
                        lambda: MatVec(self.matrix(0), self.one(*VECTORS)),
                        lambda: Mean(a), lambda: Mean(a * b), lambda: HeadSum(a, *self.one(*POWER_NODES)),
                        lambda: LossDerivative(Mean(a), T))()

    def matrix(self, depth: int) -> sp.Expr:
        if depth <= 0:
            return self.one(*MATRICES, *map(Transpose, MATRICES))
        one, (u, v, w) = self.matrix(depth - 1), (self.vector(depth - 1) * self.one(*VECTORS) for _ in range(3))
        found = self.one(
            lambda: Outer(u, v), lambda: polar(Outer(u, v), self.one(0, 5)), lambda: Transpose(one),
            lambda: summed(one),
            lambda: one * self.one(*NUMBERS), lambda: one - self.matrix(depth - 1),
            lambda: NonlinearOuter(self.one(*PHI[1:])(Outer(u, v))), lambda: Transpose(Outer(u, v) - one),
            lambda: NonlinearOuter(Outer(u, v) * sp.tanh(Outer(v, w)) / (Outer(u, v) + 2 * Outer(v, w))))()
        return A() if found == 0 else found

    def ket(self, depth: int) -> sp.Expr:
        return self.entrywise(self.ket_atom, lambda inner: self.one(
            lambda: Expectation(inner()), lambda: Expectation(inner() * self.ket_atom()))(), depth)

    def ket_atom(self) -> sp.Expr:
        u, v, w = (self.one(*VECTORS, MatVec(W[T, L], X[T, L - 1]), MatVec(Transpose(A[T]), V())) for _ in range(3))
        base = Base(0, sp.Tuple(T, 1), sp.Tuple(L))
        return self.one(
            lambda: Ket(u), lambda: Ket(u), lambda: Hat(u), lambda: Dot(u), lambda: self.one(*NUMBERS), lambda: base,
            lambda: Bracket(u, v), lambda: Bracket(base, u), lambda: Response(u, Ket(v)), lambda: Response(u, base),
            lambda: Response(u, Hat(MatVec(W[0, L], X[T, L - 1]))), lambda: Averaged(self.one(*PHI)(Outer(u, v)), w),
            lambda: self.one(*COEFFICIENTS))()


COEFFICIENTS = (
    Gamma(0, 1, (T,), (T - 1,), (L,), (L - 1,)), Gamma(0, 1, (T, 1), (0, 0), (L,), (1,)),
    Gamma(0, 1, (T,), (-1,), (L,), ()),
    Covariance(0, 0, (T,), (T - 1,), (L,), (L,)), Covariance(0, 1, (T,), (0,), (L,), (L - 1,)))


def held(expression: sp.Expr, env: values.Env = ENV, names: LatexReader = LATEX, text: TextReader = TEXT) -> None:
    """Text, and LaTeX in both orders, are the number that the expression is."""
    with np.errstate(all="ignore"):
        expected = numbers(values.value(expression, env))
        assert np.isfinite(expected).all() and np.abs(expected).max() < 1e12
        scale = 1e-9 * (1 + np.abs(expected).max())
        for printed, read in ((latex(expression), names), (statement_latex(expression), names),
                              (str(expression), text)):
            found = numbers(read.read(printed, env))
            assert np.abs(found - expected).max() < scale, (printed, sp.srepr(expression))


def assume_number(expression: sp.Expr) -> sp.Expr:
    """sympy may make a matrix 0, a vector a number, or a denominator 0: of few, or Hypothesis says that it filters."""
    assume(isinstance(expression, sp.Expr) and not expression.has(sp.nan, sp.zoo, sp.oo))
    try:
        for node in sp.preorder_traversal(expression):
            getattr(node, "own_kind", None)
        with np.errstate(all="ignore"):
            found = numbers(values.value(expression, ENV))
    except (TypeError, ValueError, ZeroDivisionError):
        assume(False)
    assume(np.isfinite(found).all() and np.abs(found).max() < 1e8)
    return expression


def numbers(value: Any) -> np.ndarray:
    return np.asarray(value.entries if isinstance(value, values.DenseMatrix) else np.broadcast_to(value, values.N))


@QUICK
@given(SEED)
def test_statements_of_programs(seed: int) -> None:
    held(assume_number(Drawn(seed).vector(3)))


@QUICK
@given(SEED)
def test_matrices(seed: int) -> None:
    held(assume_number(Drawn(seed).matrix(2)))


@QUICK
@given(SEED)
def test_kets(seed: int) -> None:
    held(assume_number(Drawn(seed).ket(3)))


@settings(deadline=None, max_examples=30)
@given(SEED)
def test_every_command_is_known_to_mathml(seed: int) -> None:
    pytest.importorskip("latex2mathml")
    drawn = Drawn(seed)
    for expression in (drawn.vector(2), drawn.matrix(1), drawn.ket(2)):
        assert "\\" not in mathml.inline(latex(expression))


WITHOUT_KETS = {"muon", "heads"}
SHIPPED: dict[str, tuple[Any, Any]] = {
    "tanh": (tp.ResNet("tanh", "mlp", norm="rms"), tp.SGD()), "layer norm": (tp.ResNet("relu", norm="layer"), tp.SGD()),
    "glu": (tp.ResNet(block="swiglu"), tp.SGD()), "signs": (tp.ResNet("tanh"), tp.SignSGD()),
    "adam": (tp.ResNet(), tp.Adam(eps=0.5)), "muon": (tp.ResNet(), tp.Muon()),
    "clipped": (tp.ResNet("tanh"), tp.Clipped(tp.SGD(), 1.0)),
    "transformer": (tp.Transformer(), tp.SGD()), "heads": (tp.Transformer(head_dim=3, qk_norm=True), tp.SGD())}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_networks(name: str) -> None:
    """Every statement of their programs, and every equation of their kets where they have some."""
    net, opt = SHIPPED[name]
    program = tp.program(net, opt, tp.DepthScaling(ALPHA, sp.Symbol("gamma", integer=True)))
    sides = [side for statement, _ in walked(program.body) if isinstance(statement, Assign)
             for side in statement.expressions]
    try:
        sides += [side for e in tp.kets(program).equations for side in (e.target, e.value)]
    except ValueError:
        assert name in WITHOUT_KETS
    else:
        assert name not in WITHOUT_KETS
    found = {m for side in sides for node in sp.preorder_traversal(side) for m in [node] if isinstance(node, Member)}
    latex_names = LatexReader({with_upright_words(str(m.args[1])): Name(KIND[type(m)], m.name, bool(m.args[2]))
                               for m in found})
    kinds = TextReader({m.name: KIND[type(m)] for m in found})
    symbols = sorted({str(s) for side in sides for s in side.atoms(sp.Symbol)})
    env = {s: float(2 + i % 3) for i, s in enumerate(symbols)} | ENV
    for side in dict.fromkeys(sides):
        held(side, env, latex_names, kinds)
