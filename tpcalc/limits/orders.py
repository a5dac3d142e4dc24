"""Exponents of L of every quantity of a derived recursion, exact and piecewise affine on exact regions.

Quantities are solved in the order in which they depend on each other. Those of one sweep over layers depend on
each other linearly and are eliminated one by one, as in a max-plus linear system. What then enters its own
equation with weight v is a self-loop of the sweep, a guard: y <- y (1 + c L^(v - 1)) over L layers stays bounded
where v <= 0 (Gronwall) and grows like exp(L^v) where v > 0. A guard that has both signs divides the region.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Sequence

import sympy as sp
from sympy.utilities.iterables import strongly_connected_components

from ..calculus.recursion import RecursionEquations
from .affine import Affine, point_of
from .exponent import EXPLODES, Exponent
from .region import Region
from .terms import Contribution, Key, Terms


@dataclass(frozen=True)
class Cell:
    """A region on which the same guards hold, and the exponents of all quantities there.

    explosions: (quantity, v) of the self-loops that grow like exp(L^v), in the order in which they are met. Once
    there is one, later guards do not divide the region any more: +oo then also stands for what may explode.
    """

    region: Region
    exponents: dict[Key, Exponent]
    explosions: tuple[tuple[Key, Exponent], ...] = ()

    def of(self, *key: object) -> Exponent:
        """The exponent of a quantity, -oo where it vanishes."""
        return self.exponents.get(tuple(sp.sympify(p) if not isinstance(p, str) else p for p in key), Exponent())

    def weight(self, one: Contribution) -> Exponent:
        """The exponent of a term."""
        return _product(one, (self.exponents.get(f, Exponent()) for f in one.factors)).pruned(self.region)


@dataclass(frozen=True)
class Orders:
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


def settled_orders(recursion: RecursionEquations, most: int = 5) -> Orders:
    """``orders`` of so many steps that the last one repeats the exponents of the one before where nothing explodes.

    The maximum being idempotent, they then hold for all later steps. Raises ``ValueError`` where they still change
    after ``most`` steps.
    """
    for steps in range(3, most + 1):
        found = orders(recursion, steps)
        if all(_last_two_equal(cell, steps) for cell in found.cells if not cell.explosions):
            return found
    raise ValueError(f"the exponents of program {recursion.setting.program.name} still change at step {most}")


def _last_two_equal(cell: Cell, steps: int) -> bool:
    """Exponents of the last step against those of the one before, the largest of the earlier base kets' each."""
    found: list[dict[Key, Exponent]] = []
    for t in (steps - 2, steps - 1):
        largest: dict[Key, Exponent] = {}
        for key, exponent in cell.exponents.items():
            if key[1] == t:
                related = key[2:3] and (key[2] if key[2] < 0 else sp.Integer(int(key[2] == t)),)
                kind = (key[0], *related, *key[3:])
                largest[kind] = largest.get(kind, Exponent()).plus(exponent).pruned(cell.region)
        found.append(largest)
    return found[0] == found[1]


def orders(recursion: RecursionEquations, steps: int = 2) -> Orders:
    """Count the powers of L in a recursion at the first ``steps`` training steps.

    Data, targets and learning rates have exponent 0. Raises ``ValueError`` for a program without layers and for a
    term that no rule covers, naming it.
    """
    terms = Terms(recursion)
    found = _present([one for t in range(steps) for one in terms.of_step(t)])
    by_target: dict[Key, list[Contribution]] = {}
    for one in found:
        by_target.setdefault(one.target, []).append(one)
    edges = [(one.target, f) for one in found for f in one.factors]
    vertices = list(dict.fromkeys([*by_target, *(f for _, f in edges)]))
    # nothing depends on later steps, so steps may come in their order
    sweeps = sorted(strongly_connected_components((vertices, edges)), key=lambda sweep: max(int(k[1]) for k in sweep))
    cells = _solve(Cell(Region(len(terms.parameters)), {}), sweeps, by_target)
    return Orders(terms.parameters, tuple(cells), found)


def _present(found: list[Contribution]) -> tuple[Contribution, ...]:
    """The terms none of whose factors vanishes: least fixed point, starting from the terms without factors."""
    present: set[Key] = set()
    while True:
        more = {one.target for one in found if present.issuperset(one.factors)} - present
        if not more:
            return tuple(one for one in found if present.issuperset(one.factors))
        present |= more


def _solve(cell: Cell, sweeps: Sequence[list[Key]], by_target: dict[Key, list[Contribution]]) -> list[Cell]:
    """Solve one sweep after the other; where a guard has both signs, go on with every part of the region."""
    for number, sweep in enumerate(sweeps):
        solved = _eliminate(cell, sweep, by_target)
        if isinstance(solved, Affine):
            parts = [part for relation, part in ((r, cell.region.where(solved, r)) for r in ("<=", ">"))
                     if not part.is_empty]
            return [done for part in parts for done in
                    _solve(Cell(part, {k: e.pruned(part) for k, e in cell.exponents.items()}, cell.explosions),
                           sweeps[number:], by_target)]
        cell = solved
    return [cell]


def _eliminate(cell: Cell, sweep: list[Key], by_target: dict[Key, list[Contribution]]) -> Cell | Affine:
    """The exponents of one sweep's quantities; or a guard's form that has both signs on the region."""
    inner = set(sweep)
    alone: dict[Key, Exponent] = {u: Exponent() for u in sweep}
    loops: dict[tuple[Key, Key], Exponent] = {}
    for u in sweep:
        for one in by_target.get(u, []):
            unknown = [f for f in one.factors if f in inner]
            known = _product(one, (cell.exponents.get(f, Exponent()) for f in one.factors if f not in inner))
            if len(unknown) > 1:
                raise ValueError(f"{one.term}: a product of two quantities of one sweep over layers; no rule")
            if unknown:
                loops[u, unknown[0]] = loops.get((u, unknown[0]), Exponent()).plus(known)
            else:
                alone[u] = alone[u].plus(known)
    explosions = list(cell.explosions)
    for pivot in sweep:
        guard = loops.pop((pivot, pivot), Exponent()).pruned(cell.region)
        if guard.explodes:
            alone[pivot] = EXPLODES
        for form in sorted(guard.forms):
            sign = cell.region.sign(form)
            if sign in ("<", "=", "<="):
                continue
            if sign != ">" and not explosions:
                return form
            explosions += [(pivot, guard)] if sign == ">" else []
            alone[pivot] = EXPLODES if not alone[pivot].vanishes else alone[pivot]
            break
        for row in sweep:
            through = loops.pop((row, pivot), Exponent())
            if row == pivot or through.vanishes:
                continue
            alone[row] = alone[row].plus(through.times(alone[pivot])).pruned(cell.region)
            for (source, factor), weight in list(loops.items()):
                if source == pivot:
                    joined = loops.get((row, factor), Exponent()).plus(through.times(weight))
                    loops[row, factor] = joined.pruned(cell.region)
    found = {u: alone[u].pruned(cell.region) for u in sweep}
    return Cell(cell.region, {**cell.exponents, **found}, tuple(explosions))


def _product(one: Contribution, factors: Iterable[Exponent]) -> Exponent:
    value = Exponent.single(one.weight)
    for factor in factors:
        value = value.times(factor)
    return value
