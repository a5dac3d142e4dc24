"""LaTeX of Gaussian means with names: functions phi, variables u_a and u_b, and a legend that says what they are."""

from __future__ import annotations

from typing import Iterable

import sympy as sp

from .block_kernels import P, Q, RP, RQ
from ..gaussian import Expectation
from ..derivations.printing import latex

LETTERS = "uvyz"
TO_FIRST = {Q: P, RQ: RP}


class NamedMeans:
    """Names for the functions and Gaussian variables in expressions with ``Expectation`` of sites a and b. A Gaussian
    variable is known by its variance at a; the same function of it at b has the variance at b."""

    def __init__(self, expressions: Iterable[sp.Expr]) -> None:
        self.covariances: dict[sp.Expr, tuple[str, str]] = {}  # variance at a -> letter, covariance in LaTeX
        means = sorted({m for e in expressions for m in e.atoms(Expectation)}, key=sp.default_sort_key)
        functions = sorted({f for m in means for f, _ in m.functions}, key=sp.default_sort_key)
        names = [r"\phi"] if len(functions) == 1 else [rf"\phi_{{{i + 1}}}" for i in range(len(functions))]
        self.functions = dict(zip(functions, names))
        for mean in means:
            self._meet(mean)

    def _meet(self, mean: sp.Expr) -> None:
        """Give the variables of an overlap of two sites a letter; those inside its covariance come first."""
        covariance, variance, other = (*mean.entries, sp.S.Zero, sp.S.Zero)[:3]
        if variance.has(Q, RQ) or not other.has(Q, RQ):
            return
        for inner in sorted(covariance.atoms(Expectation), key=sp.default_sort_key):
            self._meet(inner)
        if variance not in self.covariances:
            inside = self.latex(covariance)
            known = len(self.covariances)
            letter = LETTERS[known] if known < len(LETTERS) else rf"{LETTERS[0]}^{{({known + 1})}}"
            self.covariances[variance] = letter, inside

    def latex(self, expression: sp.Expr) -> str:
        """LaTeX of the expression, its means by name."""
        return latex(self._named(expression))

    def legend(self) -> list[str]:
        """Lines of an ``aligned`` environment."""
        lines = [rf"{name}(h) &= {latex(f)}" for f, name in self.functions.items()]
        return lines + [rf"\left\langle {letter}_a {letter}_b \right\rangle &= {covariance}"
                        for letter, covariance in self.covariances.values()]

    def _named(self, expression: sp.Expr) -> sp.Expr:
        if isinstance(expression, Expectation):
            factors = list(zip(expression.functions, expression.matrix.diagonal()))
            if len({variance for _, variance in factors}) == 1:  # of one variable: the higher derivative first
                factors.sort(key=lambda one: (-one[0][1], sp.default_sort_key(one[0][0])))
            return sp.Symbol(r"{\left\langle " + r" \, ".join(self._function(*f, p) for f, p in factors)
                             + r" \right\rangle}", real=True)
        return expression.func(*map(self._named, expression.args)) if expression.args else expression

    def _function(self, f: sp.Expr, order: int, variance: sp.Expr) -> str:
        letter = self.covariances[variance.xreplace(TO_FIRST)][0]
        slot = "b" if variance.has(Q, RQ) else "a"
        primes = "'" * order if order < 4 else f"^{{({order})}}"
        return f"{self.functions[f]}{primes}({letter}_{slot})"
