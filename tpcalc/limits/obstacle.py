"""Why there is no limit of infinite depth, or none but zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

import sympy as sp

from ..derivations.printing import latex
from ..orders.cell import Cell
from ..orders.exponent import join
from ..orders.quantities import Quantity


@dataclass(frozen=True)
class Obstacle:
    """What grows with depth: ``quantity``, at a training step, with an exponent of L.

    kind: "explodes" (like exp(L^exponent), oo where there is no rule for it), "decays" (like exp(-L^exponent)), "grows"
    (an output, like L^exponent) or "accelerates" (an output's exponent grows by so much, or by at least so much, with
    every step; exponent None where it is another quantity's).
    """

    kind: str
    quantity: str
    step: int
    exponent: sp.Expr | None

    def words(self, values: Mapping[sp.Symbol, sp.Expr] | None = None) -> str:
        """The reason as a sentence, with the parameters' values where given."""
        power = "" if self.exponent is None else str(self.exponent.subs(values or {}))
        return self._sentence(f"exp(L^({power}))", f"L^({power})", power)

    def latex(self) -> str:
        """The reason as LaTeX text with formulas in it."""
        power = "" if self.exponent is None else latex(self.exponent)
        return self._sentence(rf"$\exp(L^{{{power}}})$", rf"$L^{{{power}}}$", f"${power}$")

    def _sentence(self, exponential: str, polynomial: str, power: str) -> str:
        if self.kind == "explodes":
            when = "at initialization" if self.step == 0 else f"at step {self.step}"
            how = "faster than every power of L" if self.exponent is sp.oo else f"like {exponential}"
            return f"the network explodes {when} {how}"
        if self.kind == "decays":
            return f"the network decays: its layers forget what they are given, and outputs fall like 1 / {exponential}"
        if self.kind == "grows":
            update = "the first update" if self.step == 1 else f"update {self.step}" if self.step else "initialization"
            return f"{update} moves the output by {polynomial}"
        if self.exponent is None:
            return "exponents of L grow from each training step to the next"
        return f"the output's exponent of L grows by {power} from step {self.step - 1} to step {self.step}, and so on"


def obstacle(cell: Cell, outputs: Sequence[str], parameters: Sequence[sp.Symbol]) -> Obstacle | None:
    """What stands in the way of a limit on a cell; None where there is one."""
    if cell.explosions:
        key, _ = cell.explosions[0]
        fastest = join(guard for other, guard in cell.explosions if other.step == key.step).pruned(cell.region)
        return Obstacle("explodes", str(key), key.step, fastest.expression(parameters))
    keys = sorted((k for k in cell.exponents if k.name in outputs), key=lambda k: (k.step, k.name))
    if cell.forgotten:
        quantity, rate = cell.forgotten[0]
        cell.require_forgotten(parameters)
        return Obstacle("decays", str(quantity), quantity.step, rate.expression(parameters))
    if cell.grows:
        return _accelerating(cell, keys, parameters)
    for key in keys:
        if not cell.is_bounded([key]):
            return Obstacle("grows", key.name, key.step, cell.of(key).expression(parameters))
    return None


def _accelerating(cell: Cell, keys: Sequence[Quantity], parameters: Sequence[sp.Symbol]) -> Obstacle:
    for before, after in zip(keys, keys[1:]):
        growth = {a - b for a in cell.of(after).forms for b in cell.of(before).forms}
        if before.name == after.name and len(growth) == 1:
            form, = growth
            if cell.region.sign(form) == ">":
                return Obstacle("accelerates", after.name, after.step, form.expression(parameters))
    return Obstacle("accelerates", "", keys[-1].step if keys else 0, None)
