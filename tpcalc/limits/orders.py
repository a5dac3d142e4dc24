"""Exponents of L of every quantity of a derived recursion, exact and piecewise affine on exact regions.

Quantities are solved in the order in which they depend on each other. Those of one sweep over layers depend on
each other linearly and are eliminated one by one, as in a max-plus linear system. What then enters its own
equation with weight v is a self-loop of the sweep, a guard: y <- y (1 + c L^(v - 1)) over L layers stays bounded
where v <= 0 (Gronwall) and grows like exp(L^v) where v > 0, which ends the count. A guard that has both signs divides
the region. Where c < 0 (``forgetting.py``) y forgets instead: only the last L^(1 - v) layers count in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Iterable, Protocol, Sequence

import numpy as np
import sympy as sp
from sympy.utilities.iterables import strongly_connected_components

from ..calculus.equations import KetEquations
from ..calculus.recursion import RecursionEquations
from .affine import Affine, point_of
from .exponent import EXPLODES, Exponent, join
from .forgetting import Forgetting
from .region import Region
from .ket_terms import KetTerms
from .quantities import Quantity, Sort
from .terms import Contribution, Terms, Values


FEW = 8  # quantities of a sweep that arrays do not pay for
NOTHING = -2**40  # what vanishes, as a whole number


@dataclass(frozen=True)
class Cell:
    """A region on which the same guards hold, and the exponents of all quantities there.

    explosions: (quantity, v) of the first self-loop that grows like exp(L^v); all that comes after it counts as +oo.
    grows: a positive exponent exceeds that of the training step before; held: the outputs stay bounded whatever
    explodes, because bounded functions hold them; saturated: bounded functions, by their BEND,
    that are so large there that they do not grow any more; contributions: the terms that were counted.
    forgotten: (quantity, v) of those that forget what is older than L^(1 - v) layers.
    """

    region: Region
    exponents: dict[Quantity, Exponent]
    explosions: tuple[tuple[Quantity, Exponent], ...] = ()
    grows: bool = False
    held: bool = False
    saturated: frozenset[Quantity] = frozenset()
    contributions: tuple[Contribution, ...] = ()
    forgotten: tuple[tuple[Quantity, Exponent], ...] = ()

    def on(self, region: Region) -> "Cell":
        """The same on a part of the region."""
        exponents = {key: exponent.pruned(region) for key, exponent in self.exponents.items()}
        return replace(self, region=region.reduced(), exponents=exponents)

    def is_bounded(self, keys: Sequence[Quantity]) -> bool:
        """Does none of the quantities grow with depth, anywhere on the cell?"""
        return not any(self.of(key).explodes or self.region.sign(form) not in ("<", "=", "<=")
                       for key in keys for form in self.of(key).forms)

    def of(self, quantity: Quantity | str, step: int = 0) -> Exponent:
        """The exponent of a quantity, or of the scalar of a name at a step; -oo where it vanishes."""
        key = Quantity.scalar(quantity, step) if isinstance(quantity, str) else quantity
        return self.exponents.get(key, Exponent())

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


class Counted(Protocol):
    """Equations whose terms can be counted: the parameters, contributions and outputs of a training step."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]: ...

    def of_step(self, t: int) -> tuple[Contribution, ...]: ...

    def outputs(self, t: int) -> list[Quantity]: ...


@dataclass
class Hypotheses:
    """The terms of a program's equations, under hypotheses on which bounded functions are saturated."""

    program: RecursionEquations | KetEquations
    at: Values = ()
    counted: dict[frozenset[Quantity], tuple[Counted, list[tuple[Contribution, ...]]]] = field(default_factory=dict)

    @property
    def plain(self) -> Counted:
        return self._terms(frozenset())[0]

    def upto(self, saturated: frozenset[Quantity], t: int) -> tuple[Contribution, ...]:
        """All terms of the steps up to t that do not vanish."""
        terms, steps = self._terms(saturated)
        while len(steps) <= t:
            steps.append(terms.of_step(len(steps)))
        return _present([one for step in steps[:t + 1] for one in step])

    def _terms(self, saturated: frozenset[Quantity]) -> tuple[Counted, list[tuple[Contribution, ...]]]:
        if saturated not in self.counted:
            terms = (KetTerms(self.program, self.at, saturated=saturated) if isinstance(self.program, KetEquations)
                     else Terms(self.program, self.at))
            self.counted[saturated] = (terms, [])
        return self.counted[saturated]

    def step(self, before: Cell, t: int, tried: frozenset[frozenset[Quantity]] = frozenset()) -> list[Cell]:
        """A step's exponents, on parts of the cell on which what is taken to be saturated is, and nothing else."""
        contributions = self.upto(before.saturated, t)
        sweeps, by_target = _in_order([one for one in contributions if one.target.step == t])
        solved = _solve(before, sweeps, by_target)
        return [replace(done, contributions=contributions) if done.saturated == before.saturated else done
                for cell in solved for done in self._consistent(before, cell, t, tried | {before.saturated})]

    def _consistent(self, before: Cell, cell: Cell, t: int, tried: frozenset[frozenset[Quantity]]) -> list[Cell]:
        wrong: set[Quantity] = set()
        for bend in sorted(q for q in cell.exponents if q.sort == Sort.BEND and q.step == t):
            exponent = cell.of(bend)
            for form in sorted(exponent.forms):
                mixed, cut = ((None, "<="), ("<", ">=")) if bend in cell.saturated else ((None, ">="), ("<=", ">"))
                if cell.region.sign(form) in mixed:
                    parts = [cell.on(cell.region.where(form, relation)) for relation in cut]
                    return [done for part in parts for done in self._consistent(before, part, t, tried)]
            positive = exponent.explodes or any(cell.region.sign(form) == ">" for form in exponent.forms)
            negative = not exponent.explodes and all(cell.region.sign(form) == "<" for form in exponent.forms)
            if positive if bend not in cell.saturated else negative:
                wrong.add(bend)
        more = wrong - cell.saturated or wrong
        saturated = cell.saturated.symmetric_difference(more)
        if not wrong or saturated in tried:
            return [cell]
        return self.step(replace(before.on(cell.region), saturated=saturated), t, tried)


def settled_orders(program: RecursionEquations | KetEquations, most: int = 6, at: Values = ()) -> Orders:
    """The exponents of so many training steps as decide those of all, perhaps with values for some parameters.

    A part of the parameters' space is done where something explodes or an output grows with depth, where a quantity's
    exponent grows from one step to the next (``Cell.grows``), and where the last step repeats the exponents of the one
    before: the maximum being idempotent, they then hold for all later steps. Raises ``ValueError`` where some still
    change after ``most`` steps.
    """
    hypotheses = Hypotheses(program, at)
    terms = hypotheses.plain
    done: list[Cell] = []
    active = [Cell(Region(len(terms.parameters)), {})]
    for t in range(most):
        solved = [cell for before in active for cell in hypotheses.step(before, t)]
        active = []
        for cell in solved:
            for part in [cell] if cell.explosions else _split(cell, terms.outputs(t)):
                held = bool(t and part.saturated and part.is_bounded(terms.outputs(t)))
                if part.explosions and held and t < 2:
                    active.append(part)  # what explodes is an upper bound, and reaches no output
                    continue
                if part.explosions or not part.is_bounded(terms.outputs(t)):
                    done.append(replace(part, held=held))
                    continue
                for one in _split_by_growth(part, t) if t > 1 else [part]:
                    finished = one.grows or t > 1 and _classes(one, t) == _classes(one, t - 1)
                    (done if finished else active).append(one)
        if not active:
            return Orders(terms.parameters, tuple(done), hypotheses.upto(frozenset(), t))
    raise ValueError(f"the exponents of program {terms.name} still change at step {most}")


def exact_part(cell: Cell) -> Cell:
    """The quantities that attain their exponents through terms none of which is an upper bound, and these terms."""
    exact: set[Quantity] = set()
    terms = [one for one in cell.contributions if not one.bound]
    while True:
        kept = [one for one in terms if exact.issuperset(one.factors)]
        reached: dict[Quantity, Exponent] = {}
        for one in kept:
            reached[one.target] = reached.get(one.target, Exponent()).plus(
                cell.of(one.target) if one.power < 0 else cell.weight(one))
        more = {q for q, e in reached.items() if cell.of(q).forms <= e.forms or cell.of(q).explodes} - exact
        if not more:
            return replace(cell, exponents={q: e for q, e in cell.exponents.items() if q in exact},
                           contributions=tuple(kept))
        exact |= more


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
        if key.step == t and key.sort not in (Sort.BEND, Sort.SHRINK):
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
        for form in sorted(exponent.forms) if kind in before else ():
            larger = cell.region.where(form, ">")
            for other in sorted(before[kind].forms):
                larger = larger.where(form - other, ">")
            if larger.is_empty:
                continue
            parts, rest = [replace(cell.on(larger), grows=True)], cell.region
            for other in [form - form, *sorted(before[kind].forms)]:
                fits = rest.where(form - other, "<=")
                parts += [] if fits.is_empty else _split_by_growth(cell.on(fits), t)
                rest = rest.where(form - other, ">")
            return parts
    return [cell]


def orders(program: RecursionEquations | KetEquations, steps: int = 2) -> Orders:
    """Count the powers of L at the first ``steps`` training steps, in a recursion, or in the ket equations of any
    network, whose kets close on no recursion of numbers.

    Data, targets and learning rates have exponent 0. Raises ``ValueError`` for a program without layers and for a
    term that no rule covers, naming it.
    """
    hypotheses = Hypotheses(program)
    terms = hypotheses.plain
    cells = [Cell(Region(len(terms.parameters)), {})]
    for t in range(steps):
        found = hypotheses.upto(frozenset(), t)
        cells = [done for cell in cells for done in
                 ([_lost(cell, {one.target for one in found if one.target.step == t})]
                  if cell.explosions else hypotheses.step(cell, t))]
    return Orders(terms.parameters, tuple(cells), hypotheses.upto(frozenset(), steps - 1))


def _lost(cell: Cell, quantities: set[Quantity]) -> Cell:
    """After an explosion all that follows counts as one."""
    return replace(cell, exponents={**cell.exponents, **dict.fromkeys(quantities, EXPLODES)})


def _in_order(found: Sequence[Contribution]) -> tuple[list[list[Quantity]], dict[Quantity, list[Contribution]]]:
    """The quantities of a step, those that depend on each other together, each after what it depends on."""
    by_target: dict[Quantity, list[Contribution]] = {}
    for one in found:
        by_target.setdefault(one.target, []).append(one)
    edges = [(one.target, f) for one in found for f in one.factors if f in by_target]
    return strongly_connected_components((sorted(by_target), sorted(edges))), by_target


def _present(found: list[Contribution]) -> tuple[Contribution, ...]:
    """The terms none of whose factors vanishes: least fixed point, starting from the terms without factors."""
    present: set[Quantity] = set()
    while True:
        more = {one.target for one in found if present.issuperset(one.factors)} - present
        if not more:
            return tuple(one for one in found if present.issuperset(one.factors))
        present |= more


def _solve(cell: Cell, sweeps: Sequence[list[Quantity]], by_target: dict[Quantity, list[Contribution]]) -> list[Cell]:
    """Solve one sweep after the other; where a guard has both signs, go on with the part where it holds."""
    for number, sweep in enumerate(sweeps):
        forgetting = Forgetting.of(cell.region, cell.exponents, [one for u in sweep for one in by_target.get(u, [])])
        if isinstance(forgetting, Affine):  # it forgets on a part of the region
            parts = [cell.on(cell.region.where(forgetting, relation)) for relation in ("<=", ">")]
            return [done for part in parts for done in _solve(part, sweeps[number:], by_target)]
        solved = _eliminate(cell, sweep, by_target, forgetting)
        if isinstance(solved, Loop):
            broken = cell.on(cell.region.where(solved.form, ">"))
            first = (solved.quantity, solved.weight.pruned(broken.region))
            broken = replace(_lost(broken, set(sweep)), explosions=(*broken.explosions, first))
            bounded = cell.region.where(solved.form, "<=")
            return [*_solve(broken, sweeps[number + 1:], by_target),
                    *([] if bounded.is_empty else _solve(cell.on(bounded), sweeps[number:], by_target))]
        if isinstance(solved, Affine):  # an exponent under a negative power needs one form, of one sign
            parts = [cell.on(cell.region.where(solved, relation)) for relation in ("<=", ">")]
            return [done for part in parts for done in _solve(part, sweeps[number:], by_target)]
        cell = solved
    return [cell]


@dataclass(frozen=True)
class Loop:
    """A self-loop exp(L^weight) of a quantity, and a form of the weight that is positive somewhere on the region."""

    quantity: Quantity
    weight: Exponent
    form: Affine


def _eliminate(cell: Cell, sweep: list[Quantity], by_target: dict[Quantity, list[Contribution]],
               forgetting: Forgetting, rounds: int = 12) -> Cell | Loop | Affine:
    """The exponents of one sweep's quantities; or a loop that does not stay bounded everywhere on the region.

    Terms with several of them are taken as linear in each, the others at the values of the round before, until the
    values stay: the least solution.
    """
    terms = forgetting.limited([one for u in sweep for one in by_target.get(u, [])])
    cell = replace(cell, forgotten=(*cell.forgotten, *forgetting.rates.items()))
    if terms and all(one.power < 0 for one in terms):
        return _shrunk(cell, sweep[0], terms)
    terms = [replace(one, weight=one.weight - one.weight, factors=()) if one.power < 0 else one for one in terms]
    several = any(len([f for f in one.factors if f in set(sweep)]) > 1 for one in terms)
    current: dict[Quantity, Exponent] = {}
    for _ in range(rounds):
        solved = _eliminate_linear(cell, sweep, *_system(cell, sweep, terms, current, 1))
        if isinstance(solved, Loop):
            _, twice = _system(cell, sweep, terms, current, 2)
            return replace(solved, weight=_first_loop(cell.region.where(solved.form, ">"), sweep, twice))
        if not several or all(solved.exponents[u] == current.get(u) for u in sweep):
            return solved
        current = {u: solved.exponents[u] for u in sweep}
    raise ValueError(f"the exponents of {', '.join(map(str, sweep))} do not settle within {rounds} rounds")


def _shrunk(cell: Cell, target: Quantity, terms: list[Contribution]) -> Cell | Affine:
    """A negative power of a size, of order one where the size is small; or a form whose sign has to be known."""
    size = join(cell.weight(one) for one in terms).pruned(cell.region)
    if size.explodes:
        return replace(cell, exponents={**cell.exponents, target: Exponent()})
    zero = cell.region.zero
    forms = sorted(Exponent(size.forms | {zero}).pruned(cell.region).forms)
    if len(forms) > 1:
        return next(f - g for f in forms for g in forms if cell.region.sign(f - g) in (None, ">="))
    return replace(cell, exponents={**cell.exponents, target: Exponent.single(forms[0] * terms[0].power)})


Loops = dict[tuple[Quantity, Quantity], Exponent]


def _system(cell: Cell, sweep: list[Quantity], terms: list[Contribution], current: dict[Quantity, Exponent],
            multiplicity: int) -> tuple[dict[Quantity, Exponent], Loops]:
    """What enters a sweep's quantities from outside, and from each other; of products of several at ``current`` values.

    multiplicity: how often terms of independent layers count: it is their variances that a sweep multiplies.
    """
    inner = set(sweep)
    alone: dict[Quantity, Exponent] = {u: Exponent() for u in sweep}
    loops: Loops = {}
    for one in terms:
        u, unknown = one.target, [f for f in one.factors if f in inner]
        known = _product(one, (cell.exponents.get(f, Exponent()) for f in one.factors if f not in inner))
        if not unknown:
            alone[u] = alone[u].plus(known)
        for i, f in enumerate(unknown):
            weight = known.power(Fraction(multiplicity)) if one.rule == "independent layers" else known
            for g in (*unknown[:i], *unknown[i + 1:]):
                weight = weight.times(current.get(g, Exponent()))
            loops[u, f] = loops.get((u, f), Exponent()).plus(weight).pruned(cell.region)
    return alone, loops


def _eliminate_linear(cell: Cell, sweep: list[Quantity], alone: dict[Quantity, Exponent], loops: Loops) -> Cell | Loop:
    """Max-plus elimination, as long as loops stay bounded."""
    if not cell.region.size and len(sweep) > FEW and not any(e.explodes for e in (*alone.values(), *loops.values())):
        return _eliminate_numbers(cell, sweep, alone, loops)
    for pivot in sweep:
        guard = loops.pop((pivot, pivot), Exponent()).pruned(cell.region)
        if guard.explodes and not alone[pivot].vanishes:
            alone[pivot] = EXPLODES
        for form in sorted(guard.forms):
            if cell.region.sign(form) not in ("<", "=", "<="):
                return Loop(pivot, guard, form)
        for row, through in _substitute(loops, pivot, cell.region):
            alone[row] = alone[row].plus(through.times(alone[pivot])).pruned(cell.region)
    found = {u: alone[u].pruned(cell.region) for u in sweep}
    return replace(cell, exponents={**cell.exponents, **found})


def _eliminate_numbers(cell: Cell, sweep: list[Quantity], alone: dict[Quantity, Exponent], loops: Loops
                       ) -> Cell | Loop:
    """The elimination at a point, where every exponent is a number, in whole multiples of a common fraction."""
    place = {u: i for i, u in enumerate(sweep)}
    unit = math.lcm(*(form.constant.denominator for e in (*alone.values(), *loops.values()) for form in e.forms))
    values, weights = np.full(len(sweep), NOTHING), np.full((len(sweep), len(sweep)), NOTHING)
    for u, exponent in alone.items():
        values[place[u]] = max((int(form.constant * unit) for form in exponent.forms), default=NOTHING)
    for (row, column), exponent in loops.items():
        weights[place[row], place[column]] = max((int(f.constant * unit) for f in exponent.forms), default=NOTHING)
    for k, pivot in enumerate(sweep):
        if weights[k, k] > 0:
            form = Affine((), Fraction(int(weights[k, k]), unit))
            return Loop(pivot, Exponent.single(form), form)
        weights[k, k] = NOTHING
        rows = np.flatnonzero(weights[:, k] > NOTHING // 2)
        through, source = weights[rows, k], weights[k].copy()
        values[rows] = np.maximum(values[rows], np.maximum(through + values[k], NOTHING))
        weights[rows, k] = NOTHING
        weights[rows] = np.maximum(weights[rows], np.maximum(through[:, None] + source, NOTHING))
    found = {u: Exponent() if values[i] < NOTHING // 2 else Exponent.single(Affine((), Fraction(int(values[i]), unit)))
             for u, i in place.items()}
    return replace(cell, exponents={**cell.exponents, **found})


def _substitute(loops: Loops, pivot: Quantity, region: Region) -> list[tuple[Quantity, Exponent]]:
    """Put the pivot's equation into those of the others; which these are, with the weight that the pivot had there."""
    rows = [(row, loops.pop((row, column))) for row, column in list(loops) if column == pivot]
    entries = [(factor, weight) for (source, factor), weight in loops.items() if source == pivot] if rows else []
    for row, through in rows:
        for factor, weight in entries:
            joined = loops.get((row, factor), Exponent()).plus(through.times(weight))
            loops[row, factor] = joined.pruned(region)
    return rows


def _first_loop(region: Region, sweep: list[Quantity], loops: Loops) -> Exponent:
    """The weight of the first loop that does not stay bounded; later ones would go round it."""
    for pivot in sweep:
        guard = loops.pop((pivot, pivot), Exponent()).pruned(region)
        if any(not region.never(form, ">") for form in guard.forms):
            return guard
        _substitute(loops, pivot, region)
    return Exponent()


def _product(one: Contribution, factors: Iterable[Exponent]) -> Exponent:
    value = Exponent.single(one.weight)
    for factor in factors:
        value = value.times(factor)
    return value
