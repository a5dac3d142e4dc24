"""Two centered Gaussian variables, their density, and integrals against it: what proofs about expectations share."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from tpcalc.gaussian import Expectation

from ._rewriting import Rewriting, of_nodes

U, V, C = sp.symbols("u v c", real=True)
A, B = sp.symbols("a b", positive=True)
MATRIX = sp.ImmutableMatrix([[A, C], [C, B]])
VARIABLES = (U, V)
F = sp.Function("F", real=True)(U, V)
P = sp.Function("p", positive=True)(U, V, A, B, C)  # the density, a function of the covariance too
WRITTEN = sp.exp(-(sp.Matrix(VARIABLES).T * MATRIX.inv() * sp.Matrix(VARIABLES))[0] / 2) / (
    2 * sp.pi * sp.sqrt(MATRIX.det()))


class Integral(sp.Expr):
    """The integral of an expression over the plane of u and v."""

    is_commutative = True

    def _latex(self, printer: Any) -> str:
        return rf"\int {printer.doprint(self.args[0])} \, du \, dv"

    def _sympystr(self, printer: Any) -> str:
        return f"integral[{printer.doprint(self.args[0])}]"


def mean(body: sp.Expr) -> sp.Expr:
    return Expectation(body, VARIABLES, MATRIX)


BY_DENSITY = Rewriting("density", "the definition of an expectation", "definition",
                       of_nodes(Expectation, lambda e: Integral(P * e.body)))
READ = Rewriting("expectation", "the definition of an expectation, read backwards", "definition",
                 of_nodes(Integral, lambda e: mean(e.args[0] / P)))


def of_density(left: sp.Expr, right: sp.Expr, reason: str) -> Rewriting:
    """``left = right``, an identity of the density and its derivatives, is used inside integrals.

    Raises ``ValueError`` where it does not hold for the density that is written out.
    """
    def apply(expression: sp.Expr) -> sp.Expr:
        difference = (left - right).subs(P, WRITTEN).doit() / WRITTEN
        if sp.simplify(difference) != 0:
            raise ValueError(f"{left} = {right} does not hold for the Gaussian density")
        return of_nodes(Integral, lambda e: _split(Integral(sp.expand(e.args[0] / left * right))))(expression)
    return Rewriting("identity of the density", reason, "differentiation", apply)


def _by_parts(integral: Integral) -> sp.Expr:
    """Derivatives of p in u, v go over to its factor, with a sign for each."""
    body = integral.args[0]
    slopes = [f for f in sp.Mul.make_args(body) if isinstance(f, sp.Derivative) and f.expr == P]
    if len(slopes) != 1:
        return integral
    slope, = slopes
    return (-1) ** len(slope.variables) * Integral(P * sp.diff(body / slope, *slope.variables))


PARTS = Rewriting("integration by parts", "p falls faster than the other factor grows, so that nothing is left at "
                  "infinity", "analysis", of_nodes(Integral, _by_parts))


def _split(integral: Integral) -> sp.Expr:
    """A sum term by term, with what does not depend on u and v in front."""
    terms = (term.as_independent(U, V, P, as_Add=False) for term in sp.Add.make_args(integral.args[0]))
    return sp.Add(*(number * Integral(rest) for number, rest in terms))


def random_covariance(rng: np.random.Generator, size: int = 2) -> np.ndarray:
    gram = rng.standard_normal((size, size))
    return np.asarray(gram @ gram.T + 0.1 * np.eye(size))


def random_polynomial(rng: np.random.Generator, degree: int = 4) -> sp.Expr:
    return sp.Add(*(float(rng.uniform(-1, 1)) * m for m in sp.itermonomials(VARIABLES, degree)))


def exact_mean(body: sp.Expr, covariance: np.ndarray, variables: tuple[sp.Symbol, ...] = VARIABLES) -> float:
    """The mean of a polynomial of degree at most 15 is taken by Gauss-Hermite quadrature, which is exact for it."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    size = len(variables)
    grid = np.stack(np.meshgrid(*[nodes] * size, indexing="ij"), -1).reshape(-1, size)
    weight = np.prod(np.stack(np.meshgrid(*[weights] * size, indexing="ij"), -1).reshape(-1, size), axis=1)
    values = sp.lambdify(variables, body)(*(grid @ np.linalg.cholesky(covariance).T).T)
    return float(weight @ np.broadcast_to(values, weight.shape) / weight.sum())
