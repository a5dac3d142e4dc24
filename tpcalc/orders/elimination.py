"""One step's quantities solved: a linear system over (max, +), sweep by sweep, with guards that divide the region.

Sums over layers that contract are guarded too: y <- y (1 - c L^(v - 1)) with v > 0 forgets what is older than L^(1 - v)
layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Mapping, Sequence

import numpy as np
from sympy.utilities.iterables import strongly_connected_components

from ..errors import NotCovered
from .affine import EXPLODES, Affine, Cell, Contribution, Exponent, Region, product_of
from .cycles import Loops, growth, passed
from .quantities import Quantity, Sort

FEW = 8  # quantities of a sweep that arrays do not pay for
ROUNDS = 12  # of values put in, until they stay
MANY = 100  # of which walks are not followed: how fast they grow is left unsaid
NOTHING, EVERYTHING = -2**40, 2**30  # what vanishes and what explodes, as whole numbers


def lost(cell: Cell, quantities: set[Quantity]) -> Cell:
    """After an explosion all that follows counts as one."""
    return replace(cell, exponents={**cell.exponents, **dict.fromkeys(quantities, EXPLODES)})


def dependency_order(found: Sequence[Contribution]) -> tuple[list[list[Quantity]], dict[Quantity, list[Contribution]]]:
    """The quantities of a step, those that depend on each other together, each after what it depends on."""
    by_target: dict[Quantity, list[Contribution]] = {}
    for one in found:
        by_target.setdefault(one.target, []).append(one)
    edges = [(one.target, f) for one in found for f in one.factors if f in by_target]
    return strongly_connected_components((sorted(by_target), sorted(edges))), by_target


def present(found: list[Contribution]) -> tuple[Contribution, ...]:
    """The terms none of whose factors vanishes: least fixed point, starting from the terms without factors."""
    present: set[Quantity] = set()
    waiting, before = found, -1
    while len(waiting) != before:
        before, late = len(waiting), []
        for one in waiting:
            if present.issuperset(one.factors):
                present.add(one.target)
            else:
                late.append(one)
        waiting = late
    return tuple(one for one in found if present.issuperset(one.factors))


def least_solution(cell: Cell, sweeps: Sequence[list[Quantity]], by_target: dict[Quantity, list[Contribution]]
                   ) -> list[Cell]:
    """Solve one sweep after the other; where a guard has both signs, go on with the part where it holds."""
    for number, sweep in enumerate(sweeps):
        forgetting = Forgetting.of(cell.region, cell.exponents, [one for u in sweep for one in by_target.get(u, [])])
        if isinstance(forgetting, Affine):  # it forgets on a part of the region
            parts = [cell.on(cell.region.where(forgetting, relation)) for relation in ("<=", ">")]
            return [done for part in parts for done in least_solution(part, sweeps[number:], by_target)]
        solved = _eliminate(cell, sweep, by_target, forgetting)
        if isinstance(solved, GrowingLoop):
            _require_one_sign(sweep, by_target)
            broken = cell.on(cell.region.where(solved.form, ">"))
            rate = solved.quantity, solved.weight.pruned(broken.region)
            broken = replace(lost(broken, set(sweep)), explosions=(*broken.explosions, rate))
            bounded = cell.region.where(solved.form, "<=")
            return [*least_solution(broken, sweeps[number + 1:], by_target),
                    *([] if bounded.is_empty else least_solution(cell.on(bounded), sweeps[number:], by_target))]
        cell = solved
    return [cell]


def _require_one_sign(sweep: Sequence[Quantity], by_target: dict[Quantity, list[Contribution]]) -> None:
    """Raise ``ValueError`` for a loop through several quantities of which one damps another: it may turn, or decay."""
    inner = set(sweep)
    damping = next((one for u in sweep for one in by_target.get(u, []) if one.sign < 0 and not one.update
                    and one.rule == "layers" and inner.intersection(one.factors) - {u}), None)
    if damping is not None:
        raise NotCovered(f"{damping.term}: lets {damping.target} fall with another quantity of the same layers, and "
                         "together they change by more than 1/L a layer; no rule says whether they grow, turn or decay")


@dataclass(frozen=True)
class GrowingLoop:
    """A sweep that grows like exp(L^weight), a quantity of it, and a form that is positive where it does."""

    quantity: Quantity
    weight: Exponent
    form: Affine


def _eliminate(cell: Cell, sweep: list[Quantity], by_target: dict[Quantity, list[Contribution]],
               forgetting: Forgetting) -> Cell | GrowingLoop:
    """The exponents of one sweep's quantities; or a loop that does not stay bounded everywhere on the region.

    Terms with several of them are taken as linear in each, the others at the values of the round before, until the
    values stay: the least solution.
    """
    terms = [one for u in sweep for one in by_target.get(u, [])]
    short = forgetting.short(cell, terms)
    sweep = sorted(sweep, key=lambda u: u in short)  # a loop is met at the last of its quantities
    terms = forgetting.limited(terms)
    cell = replace(cell, forgotten=(*cell.forgotten, *forgetting.rates.items()))
    inner = set(sweep)
    several = any(sum(f in inner for f in one.factors) > 1 for one in terms)
    current: dict[Quantity, Exponent] = {}
    for _ in range(ROUNDS):
        solved = _eliminate_linear(cell, sweep, short, *_system(cell, sweep, terms, current))
        if isinstance(solved, GrowingLoop) and len(sweep) > MANY:
            return replace(solved, weight=EXPLODES)
        if isinstance(solved, GrowingLoop):
            by_layers = [_system(cell, sweep, [one for one in terms if passed(one) == number], current)[1]
                         for number in range(3)]
            return replace(solved, weight=growth(cell.region.where(solved.form, ">"), by_layers))
        if not several or all(solved.exponents[u] == current.get(u) for u in sweep):
            return solved
        current = {u: solved.exponents[u] for u in sweep}
    raise NotCovered(f"the exponents of {', '.join(map(str, sweep))} do not settle within {ROUNDS} rounds")


def _system(cell: Cell, sweep: list[Quantity], terms: list[Contribution], current: dict[Quantity, Exponent]
            ) -> tuple[dict[Quantity, Exponent], Loops]:
    """What enters a sweep's quantities from outside, and from each other, of products at ``current`` values."""
    inner = set(sweep)
    alone: dict[Quantity, Exponent] = {u: Exponent() for u in sweep}
    loops: Loops = {}
    for one in terms:
        u, unknown = one.target, [f for f in one.factors if f in inner]
        known = product_of(one, (cell.exponents.get(f, Exponent()) for f in one.factors if f not in inner))
        if not unknown:
            alone[u] = alone[u].plus(known)
        for i, f in enumerate(unknown):
            weight = known
            for g in (*unknown[:i], *unknown[i + 1:]):
                weight = weight.times(current.get(g, Exponent()))
            loops[u, f] = loops.get((u, f), Exponent()).plus(weight).pruned(cell.region)
    return alone, loops


def _eliminate_linear(cell: Cell, sweep: list[Quantity], short: frozenset[Quantity],
                      alone: dict[Quantity, Exponent], loops: Loops) -> Cell | GrowingLoop:
    """Max-plus elimination, as long as loops stay bounded; short: what sums over the last layers that count.

    A loop of weight 0 multiplies by a number over all layers, and stays bounded; through what forgets it does so every
    L^(1 - v) layers. Raises ``ValueError`` there.
    """
    if not cell.region.size and not short and len(sweep) > FEW:
        return _eliminate_numbers(cell, sweep, alone, loops)
    for pivot in sweep:
        guard = loops.pop((pivot, pivot), Exponent()).pruned(cell.region)
        if guard.explodes and not alone[pivot].vanishes:
            alone[pivot] = EXPLODES
        for form in sorted(guard.forms):
            if cell.region.sign(form) not in ("<", "=", "<="):
                return GrowingLoop(pivot, guard, form)
            if pivot in short and cell.region.sign(form) != "<":
                raise NotCovered(f"{pivot}: its layers forget, and it is fed by what it makes as fast as it forgets "
                                 "it; coefficients decide whether it grows, and no rule compares them")
        for row, through in _substitute(loops, pivot, cell.region):
            alone[row] = alone[row].plus(through.times(alone[pivot])).pruned(cell.region)
    found = {u: alone[u].pruned(cell.region) for u in sweep}
    return replace(cell, exponents={**cell.exponents, **found})


def _eliminate_numbers(cell: Cell, sweep: list[Quantity], alone: dict[Quantity, Exponent], loops: Loops
                       ) -> Cell | GrowingLoop:
    """The elimination at a point, where every exponent is a number, in whole multiples of a common fraction."""
    location = {u: i for i, u in enumerate(sweep)}
    unit = math.lcm(*(form.constant.denominator for e in (*alone.values(), *loops.values()) for form in e.forms))
    values = np.array([_whole(alone[u], unit) for u in sweep], dtype=np.int64)
    rows, columns = (np.array([location[pair[side]] for pair in loops], dtype=int) for side in (0, 1))
    edges = np.array([_whole(one, unit) for one in loops.values()], dtype=np.int64)
    if not _passed_on(values, rows, columns, edges):  # a loop that grows, or a long way round
        weights = np.full((len(sweep), len(sweep)), NOTHING)
        weights[rows, columns] = edges
        grown = _pivoted(sweep, values, weights, unit)
        if grown is not None:
            return grown
    found = {u: _exponent(int(values[i]), unit) for u, i in location.items()}
    return replace(cell, exponents={**cell.exponents, **found})


def _whole(exponent: Exponent, unit: int) -> int:
    if exponent.explodes:
        return EVERYTHING
    return max((int(form.constant * unit) for form in exponent.forms), default=NOTHING)


def _exponent(value: int, unit: int) -> Exponent:
    if value > EVERYTHING // 2:
        return EXPLODES
    return Exponent() if value < NOTHING // 2 else Exponent.single(Affine((), Fraction(value, unit)))


def _sums(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Exponents of products: what vanishes makes all vanish, what explodes all else explode."""
    found = np.minimum(one + other, EVERYTHING)
    return np.where(found < NOTHING // 2, NOTHING, np.where(found > EVERYTHING // 2, EVERYTHING, found))


def _passed_on(values: np.ndarray, rows: np.ndarray, columns: np.ndarray, edges: np.ndarray) -> bool:
    """Let values pass along all loops at once, in place, until they stay; False where they do not."""
    for _ in range(64):
        before = values.copy()
        np.maximum.at(values, rows, _sums(edges, before[columns]))
        if np.array_equal(values, before):
            return True
    return False


def _pivoted(sweep: list[Quantity], values: np.ndarray, weights: np.ndarray, unit: int) -> GrowingLoop | None:
    """Eliminate one quantity after the other, in place; a loop that grows, where there is one."""
    for k, pivot in enumerate(sweep):
        if weights[k, k] > EVERYTHING // 2:
            values[k] = EVERYTHING if values[k] > NOTHING // 2 else NOTHING
        elif weights[k, k] > 0:
            form = Affine((), Fraction(int(weights[k, k]), unit))
            return GrowingLoop(pivot, Exponent.single(form), form)
        weights[k, k] = NOTHING
        rows = np.flatnonzero(weights[:, k] > NOTHING // 2)
        through, source = weights[rows, k], weights[k].copy()
        values[rows] = np.maximum(values[rows], _sums(through, values[k]))
        weights[rows, k] = NOTHING
        weights[rows] = np.maximum(weights[rows], _sums(through[:, None], source))
    return None


def _substitute(loops: Loops, pivot: Quantity, region: Region) -> list[tuple[Quantity, Exponent]]:
    """Put the pivot's equation into those of the others; which these are, with the weight that the pivot had there."""
    rows = [(row, loops.pop((row, column))) for row, column in list(loops) if column == pivot]
    entries = [(factor, weight) for (source, factor), weight in loops.items() if source == pivot] if rows else []
    for row, through in rows:
        for factor, weight in entries:
            joined = loops.get((row, factor), Exponent()).plus(through.times(weight))
            loops[row, factor] = joined.pruned(region)
    return rows


@dataclass(frozen=True)
class Forgetting:
    """The quantities of a sweep that forget, with their rates v, and the loops that make them."""

    rates: dict[Quantity, Exponent]
    loops: frozenset[Contribution]

    @classmethod
    def of(cls, region: Region, known: Mapping[Quantity, Exponent], terms: Sequence[Contribution]
           ) -> "Forgetting | Affine":
        """What forgets on a region; or a form whose sign decides it there.

        Raises ``ValueError`` where a loop that contracts and one that amplifies are of one order, or of orders whose
        larger is not the same everywhere: then coefficients decide, which are not compared.
        """
        rates: dict[Quantity, Exponent] = {}
        loops: set[Contribution] = set()
        by_target: dict[Quantity, list[tuple[Contribution, Exponent]]] = {}
        for one in terms:
            if one.rule == "layers" and one.factors.count(one.target) == 1:  # fed with itself, from layer to layer
                others = (known.get(f, Exponent()) for f in one.factors if f != one.target)
                by_target.setdefault(one.target, []).append((one, product_of(one, others)))
        for target, own in by_target.items():
            down = [(one, weight) for one, weight in own if _sign(one) < 0]
            for _, weight in down:
                for form in weight.forms:
                    if region.sign(form) in (None, ">=") and not region.never(form, ">"):
                        return form
            strong = [(one, w) for one, w in down if any(region.sign(form) == ">" for form in w.forms)]
            if not strong:
                loops |= {one for one, w in down if all(region.sign(form) in ("<", "=", "<=") for form in w.forms)}
                continue
            rate = max((form for _, w in strong for form in w.forms), key=lambda form: form.at(region.point() or ()))
            for one, weight in own:
                if _sign(one) >= 0 and any(region.sign(rate - form) != ">" for form in weight.forms):
                    raise NotCovered(f"{target}: {one.term} amplifies it from layer to layer, other terms let it "
                                     "decay, and neither is of larger order; no rule compares their coefficients")
            rates[target] = Exponent.single(rate)
            loops |= {one for one, _ in own}
        return cls(rates, frozenset(loops))

    def limited(self, terms: Sequence[Contribution]) -> list[Contribution]:
        """The terms as they count for what forgets: without where the sweep starts, sums over fewer layers."""
        found = []
        for one in terms:
            if one in self.loops:
                continue
            rate = self.rates.get(one.target)
            if rate is None:
                found.append(one)
            elif one.rule:
                form, = rate.forms
                share = Fraction(1) if one.rule == "layers" else Fraction(1, 2)
                found.append(replace(one, weight=one.weight - form * share))
        return found

    def short(self, cell: Cell, terms: Sequence[Contribution]) -> frozenset[Quantity]:
        """The quantities that sum over the last layers alone: what forgets, and sums over base kets that it forgets."""
        forgotten = {*self.rates, *(quantity for quantity, _ in cell.forgotten)}
        return frozenset(self.rates) | {one.target for one in terms
                                        if one.rule == "base layers" and forgotten.intersection(one.factors)}


def _sign(one: Contribution) -> int:
    """The sign of a loop's coefficient: variances are positive, other quantities of unknown sign."""
    others = [f for f in one.factors if f != one.target]
    positive = all(f.sort == Sort.COVARIANCE and f.base is not None
                   and (f.number, f.step) == (f.base.number, f.base.step) for f in others)
    return one.sign if positive else 0
