"""Comparisons of powers of n at one point of their parameters, with a record of what they depended on."""

from __future__ import annotations

from fractions import Fraction
from typing import Iterable, Mapping, Sequence

import sympy as sp

from ...orders.affine import Affine, Region, point_of

WIDTH = sp.Symbol("n", positive=True)


class AffinePowers:
    """Exponents as affine forms, decided at a point; ``region`` is where all decisions so far are the same."""

    def __init__(self, parameters: Sequence[sp.Symbol] = (), values: Mapping[sp.Symbol, sp.Expr] = {}) -> None:
        self.parameters = tuple(parameters)
        self.point = point_of(values, self.parameters)
        self._decided: dict[Affine, str] = {}

    def number(self, value: Fraction | int) -> Affine:
        return Affine.number(value, len(self.parameters))

    def of(self, expression: sp.Expr) -> Affine:
        return Affine.of(expression, self.parameters)

    def sign(self, form: Affine) -> int:
        """1, 0 or -1 at the point."""
        value = form.at(self.point)
        found = (value > 0) - (value < 0)
        if not form.is_constant:
            self._decided[form.scaled()] = "<=>"[found + 1]
        return int(found)

    def largest(self, forms: Iterable[Affine]) -> Affine | None:
        """The largest of some forms, None where there are none."""
        top = None
        for form in forms:
            if top is None or form != top and self.sign(form - top) > 0:
                top = form
        return top

    @property
    def region(self) -> Region:
        """The points at which every comparison comes out as here."""
        found = Region(len(self.parameters))
        for form, relation in self._decided.items():
            found = found.where(form, relation)
        return found.reduced()
