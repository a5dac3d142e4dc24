"""What limits of infinite depth have in common: regions that cover the parameters' space, for people and for papers."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Generic, Sequence, TypeVar

import sympy as sp

from .._shown import Short
from .._text import Aligned
from .._types import Number
from ..derivations.printing import latex
from ..orders.affine import Affine, Region, exact_parameters, point_of
from .survival import on_region
from .translation import Remembered

Part = TypeVar("Part", bound="OnRegion")


class OnRegion(Short, Aligned):
    """What holds on a region of the parameters: a limit with its ``equations`` and its ``rate``, or a ``reason``."""

    parameters: tuple[sp.Symbol, ...]
    region: Region

    @cached_property
    def conditions(self) -> tuple[sp.Expr, ...]:
        """Equations and inequalities in the parameters; () where there are none."""
        return self.region.expressions(self.parameters)

    def scaled(self) -> Sequence[tuple[str, Sequence[sp.Expr], sp.Expr]]:
        """The limit functions that are quantities divided by a power of L: (the depth, functions, the exponent)."""
        return ()

    def remembered(self) -> Sequence[Remembered]:
        """What optimizers remember, beside the equations."""
        return ()

    def latex(self: Any) -> str:
        """Conditions, scaled functions, equations and rate as lines of an ``aligned`` environment."""
        conditions = r",\; ".join(map(latex, self.conditions)) or r"\text{all exponents}"
        lines = [rf"\textbf{{where }} & {conditions}"]
        if not self.has_limit:
            return " \\\\\n".join([*lines, rf"& \text{{no limit: {self.reason_latex()}}}"])
        if self.is_trivial:
            lines.append(r"& \text{trivial limit: updates add up to nothing}")
        for depth, functions, exponent in self.scaled():
            names = r",\; ".join(map(latex, functions))
            lines.append(rf"& {names}: \text{{at depth ${depth}$, divided by }} L^{{{latex(exponent)}}}")
        lines += [equation.latex() for equation in self.equations]
        for one in self.remembered():
            where = "" if (one.first, one.last) == (0, 1) else rf", \quad {latex(one.first)} < p < {latex(one.last)}"
            lines.append(rf"{latex(one.target)} &= {latex(one.value)}{where}")
        return " \\\\\n".join([*lines, rf"\text{{rate}} &: L^{{-r}}, \quad r = {latex(self.rate)}"])

    def __str__(self: Any) -> str:
        lines = [", ".join(f"{c.lhs} = {c.rhs}" if isinstance(c, sp.Eq) else str(c) for c in self.conditions)
                 or "everywhere"]
        lines += [f"  {'' if self.has_limit else 'no limit: '}{self.reason}"] * bool(self.reason)
        if self.has_limit:
            lines += [f"  {', '.join(map(str, functions))}: at depth {depth}, divided by L^({exponent})"
                      for depth, functions, exponent in self.scaled()]
            lines += [f"  {one}" for one in (*self.equations, *self.remembered())]
            lines.append(f"  rate: L^(-r), r = {self.rate}")
        return "\n".join(lines)

    def _written(self, form: Affine) -> sp.Expr:
        return on_region(form, self.region).expression(self.parameters)


class ByRegions(Short, Aligned, Generic[Part]):
    """Limits by regions that cover the parameters' space."""

    parameters: tuple[sp.Symbol, ...]
    regions: tuple[Part, ...]

    def at(self, **values: Number) -> Part:
        """The region of a point, given by the parameters' names: numbers, 0.1 meaning 1/10.

        Raises ``ValueError`` for missing or unknown parameters and for what is not a real number.
        """
        point = point_of(exact_parameters(values, self.parameters), self.parameters)
        return next(one for one in self.regions if one.region.contains(point))

    def latex(self) -> str:
        """The account of all regions as lines of an ``aligned`` environment."""
        return " \\\\[1ex]\n".join(region.latex() for region in self.regions)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.regions))
