"""LaTeX of Gaussian means with names: functions phi, variables u_a and u_b, and a legend that says what they are."""

from __future__ import annotations

from typing import Iterable

import sympy as sp

from .block_kernels import P, Q, RP, RQ
from ..gaussian.overlaps import Mean, Overlap
from ..calculus.printing import latex

LETTERS = "uvyz"
TO_FIRST = {Q: P, RQ: RP}


class NamedMeans:
    """Names for the functions and Gaussian variables in expressions with ``Overlap`` and ``Mean`` of sites a and b.

    A Gaussian variable is known by its variance at a; the same function of it at b has the variance at b.
    """

    def __init__(self, expressions: Iterable[sp.Expr]) -> None:
        self.covariances: dict[sp.Expr, tuple[str, str]] = {}  # variance at a -> letter, covariance in LaTeX
        means = sorted({m for e in expressions for m in e.atoms(Overlap, Mean)}, key=sp.default_sort_key)
        functions = sorted({f for m in means for f in m.args[:2 if isinstance(m, Overlap) else 1]},
                           key=sp.default_sort_key)
        names = [r"\varphi"] if len(functions) == 1 else [rf"\varphi_{{{i + 1}}}" for i in range(len(functions))]
        self.functions = dict(zip(functions, names))
        for mean in means:
            self._meet(mean)

    def _meet(self, mean: sp.Expr) -> None:
        """Give the variables of an overlap of two sites a letter; those inside its covariance come first."""
        if isinstance(mean, Mean) or mean.args[5].has(Q, RQ) or not mean.args[6].has(Q, RQ):
            return
        covariance, variance = mean.args[4:6]
        for inner in sorted(covariance.atoms(Overlap), key=sp.default_sort_key):
            self._meet(inner)
        if variance not in self.covariances:
            inside = self.latex(covariance)
            self.covariances[variance] = LETTERS[len(self.covariances)], inside

    def latex(self, expression: sp.Expr) -> str:
        """LaTeX of the expression, its means by name."""
        return latex(self._named(expression))

    def legend(self) -> list[str]:
        """Lines of an ``aligned`` environment."""
        lines = [rf"{name}(h) &= {latex(f)}" for f, name in self.functions.items()]
        return lines + [rf"\left\langle {letter}_a {letter}_b \right\rangle &= {covariance}"
                        for letter, covariance in self.covariances.values()]

    def _named(self, expression: sp.Expr) -> sp.Expr:
        if isinstance(expression, Overlap):
            f, g, j, k, _, p, q = expression.args
            if p == q and (k, sp.default_sort_key(g)) > (j, sp.default_sort_key(f)):
                f, g, j, k = g, f, k, j
            return _symbol(self._function(f, j, p), self._function(g, k, q))
        if isinstance(expression, Mean):
            return _symbol(self._function(*expression.args))
        return expression.func(*map(self._named, expression.args)) if expression.args else expression

    def _function(self, f: sp.Expr, order: sp.Expr, variance: sp.Expr) -> str:
        letter = self.covariances[variance.xreplace(TO_FIRST)][0]
        slot = "b" if variance.has(Q, RQ) else "a"
        primes = "'" * int(order) if order < 4 else f"^{{({order})}}"
        return f"{self.functions[f]}{primes}({letter}_{slot})"


def _symbol(*factors: str) -> sp.Symbol:
    return sp.Symbol(r"{\left\langle " + r" \, ".join(factors) + r" \right\rangle}", real=True)
