"""Exponents of L of every quantity of a derived recursion, exact and piecewise affine on exact regions.

Quantities are solved in the order in which they depend on each other. Those of one sweep over layers depend on
each other linearly and are eliminated one by one, as in a max-plus linear system. What then enters its own
equation with weight v is a self-loop of the sweep, a guard: y <- y (1 + c L^(v - 1)) over L layers stays bounded
where v <= 0 (Gronwall) and grows like exp(L^v) where v > 0, which ends the count. A guard that has both signs divides
the region. Where c < 0 (``elimination.py``) y forgets instead: only the last L^(1 - v) layers count in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Sequence

import sympy as sp

from .._shown import Short
from ..calculus.recursion import RecursionEquations
from ..errors import NotCovered
from .affine import Affine, Cell as Cell, Contribution, Exponent, Region, point_of
from .elimination import dependency_order, least_solution, present
from .quantities import Quantity, Sort, Values, in_names_of
from .terms import Terms

HALF = Fraction(1, 2)
MOST = 6  # steps that are tried


@dataclass(frozen=True, repr=False)
class Orders(Short):
    """Exponents of L of the quantities of the first training steps, by cells that cover the parameters' space.

    parameters: the symbols in the exponents; contributions: all terms counted.
    """

    parameters: tuple[sp.Symbol, ...]
    cells: tuple[Cell, ...]
    contributions: tuple[Contribution, ...]

    def at(self, point: dict[sp.Symbol, sp.Expr]) -> Cell:
        """The cell that a point lies in. Raises ``ValueError`` for a parameter without a value."""
        numbers = point_of(point, self.parameters)
        return next(cell for cell in self.cells if cell.region.contains(numbers))


def settled_orders(recursion: RecursionEquations, at: Values = ()) -> Orders:
    """The exponents of so many training steps as decide those of all, perhaps with values for some parameters.

    A part of the parameters' space is done where something explodes or an output grows with depth, where a quantity's
    exponent grows from one step to the next (``Cell.grows``) when every stream has been reached, and where the last
    step repeats the exponents of the one before: the maximum being idempotent, they then hold for all later steps.
    Raises ``ValueError`` where some still change after ``MOST`` steps.
    """
    with in_names_of(recursion.setting):
        return _settled(Terms(recursion, at))


def _settled(terms: Terms) -> Orders:
    parameters = terms.parameters
    streams = max(1, len(terms.accumulating) // 2)  # a step's effect on one may reach another with the next step
    done: list[Cell] = []
    active = [Cell(Region(len(parameters)), {})]
    every: list[Contribution] = []
    for t in range(MOST):
        every += terms.of_step(t)
        contributions = present(every)
        order = dependency_order([one for one in contributions if one.target.step == t])
        solved = [replace(cell, contributions=contributions) for before in active
                  for cell in least_solution(before, *order)]
        active = []
        for cell in solved:
            outputs = terms.outputs(t)
            for part in [cell] if cell.explosions else _split(cell, outputs):
                if part.explosions or not part.is_bounded(outputs):
                    done.append(part)
                    continue
                for one in _split_by_growth(part, t) if t > streams else [part]:
                    finished = one.grows or t > 1 and _classes(one, t) == _classes(one, t - 1)
                    (done if finished else active).append(one)
        if not active:
            return Orders(parameters, tuple(done), contributions)
    raise NotCovered(f"the exponents of program {terms.name} still change at step {MOST}")


def _split(cell: Cell, keys: Sequence[Quantity]) -> list[Cell]:
    """Parts on which each of the quantities either grows with depth or stays bounded."""
    for key in keys:
        for form in sorted(cell.of(key).forms):
            if cell.region.sign(form) is None or cell.region.sign(form) == ">=":
                parts = [cell.on(cell.region.where(form, relation)) for relation in ("<=", ">")]
                return [done for part in parts for done in _split(part, keys)]
    return [cell]


def _classes(cell: Cell, t: int) -> dict[Quantity, Exponent]:
    """Exponents of step t: of the coefficients of initial vectors, of the step's own and of earlier hat-kets."""
    largest: dict[Quantity, Exponent] = {}
    for key, exponent in cell.exponents.items():
        if key.step == t:
            base = key.base
            if base is not None and not base.is_initial:
                base = replace(base, step=int(base.step == t))
            kind = replace(key, step=0, base=base)
            largest[kind] = largest.get(kind, Exponent()).plus(exponent).pruned(cell.region)
    return largest


def _split_by_growth(cell: Cell, t: int) -> list[Cell]:
    """Parts where no exponent of step t is positive and exceeds that of the step before, and parts where one is."""
    before = _classes(cell, t - 1)
    for kind, exponent in _classes(cell, t).items():
        own = kind.sort == Sort.COEFFICIENT and kind.base is not None and kind.base.own and not kind.base.is_initial
        for form in sorted(exponent.forms) if kind in before else ():
            size = Affine(form.slopes, form.constant - HALF) if own else form  # the sqrt(L) of one layer's hat-ket
            larger = cell.region.where(size, ">")
            for other in sorted(before[kind].forms):
                larger = larger.where(form - other, ">")
            if larger.is_empty:
                continue
            parts, rest = [replace(cell.on(larger), grows=True)], cell.region
            for excess in [size, *(form - other for other in sorted(before[kind].forms))]:
                fits = rest.where(excess, "<=")
                parts += [] if fits.is_empty else _split_by_growth(cell.on(fits), t)
                rest = rest.where(excess, ">")
            return parts
    return [cell]
