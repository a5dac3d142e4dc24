"""Exponents of L of every quantity of a derived recursion, exact and piecewise affine on exact regions.

Quantities are solved in the order in which they depend on each other. Those of one sweep over layers depend on
each other linearly and are eliminated one by one, as in a max-plus linear system. What then enters its own
equation with weight v is a self-loop of the sweep, a guard: y <- y (1 + c L^(v - 1)) over L layers stays bounded
where v <= 0 (Gronwall) and grows like exp(L^v) where v > 0, which ends the count. A guard that has both signs divides
the region. Where c < 0 (``forgetting.py``) y forgets instead: only the last L^(1 - v) layers count in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Callable, Protocol, Sequence

import sympy as sp

from .._shown import Short
from ..calculus.equations import KetEquations
from ..calculus.recursion import RecursionEquations
from ..errors import NotCovered
from .affine import Affine, point_of
from .cell import Cell as Cell
from .elimination import dependency_order, lost, present, solve
from .exponent import Exponent
from .region import Region
from .ket_terms import KetTerms
from .quantities import Quantity, Sort
from .said import in_names_of
from .growing_variable import Values
from .terms import Contribution, Terms

HALF = Fraction(1, 2)


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


class Counted(Protocol):
    """Equations whose terms can be counted: the parameters, contributions and outputs of a training step."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]: ...

    @property
    def accumulating(self) -> frozenset[int]: ...

    def of_step(self, t: int) -> tuple[Contribution, ...]: ...

    def outputs(self, t: int) -> list[Quantity]: ...


@dataclass
class Hypotheses:
    """The terms of a program's equations, under hypotheses on which bounded functions are saturated.

    last: the last training step that is asked for, None where that is not known;
    keep: which terms are counted; ``only`` shares what was found of them with another choice; point: values of all
    parameters, where the terms are counted in symbols and shared with other points, ``there``; here: the terms there.
    """

    program: RecursionEquations | KetEquations
    at: Values = ()
    keep: Callable[[Contribution], bool] = lambda one: True
    counted: dict[frozenset[Quantity], tuple[Counted, list[tuple[Contribution, ...]]]] = field(default_factory=dict)
    point: tuple[sp.Expr, ...] | None = None
    here: dict[tuple[frozenset[Quantity], int], tuple[Contribution, ...]] = field(default_factory=dict)
    last: int | None = None

    @property
    def plain(self) -> Counted:
        return self._terms(frozenset())[0]

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """The symbols in the exponents that have no value."""
        return self.plain.parameters if self.point is None else ()

    def upto(self, saturated: frozenset[Quantity], t: int) -> tuple[Contribution, ...]:
        """All terms of the steps up to t that do not vanish."""
        return present([one for step in range(t + 1) for one in self._of_step(saturated, step) if self.keep(one)])

    def _of_step(self, saturated: frozenset[Quantity], t: int) -> tuple[Contribution, ...]:
        terms, steps = self._terms(saturated)
        while len(steps) <= t:
            steps.append(terms.of_step(len(steps)))
        if self.point is None:
            return steps[t]
        if (saturated, t) not in self.here:
            self.here[saturated, t] = tuple(
                replace(one, weight=Affine((), one.weight.at(self.point))) for one in steps[t])
        return self.here[saturated, t]

    def only(self, keep: Callable[[Contribution], bool]) -> Hypotheses:
        """Another count, of other terms of this program."""
        return replace(self, keep=keep)

    def there(self, values: dict[sp.Symbol, sp.Expr]) -> Hypotheses:
        """The count at rational values of all parameters; ``ValueError`` where one is missing."""
        return replace(self, point=point_of(values, self.plain.parameters), here={})

    def after(self, steps: int, start: Sequence[Cell] = ()) -> list[Cell]:
        """The exponents of the first so many training steps, whether or not they decide those of all.

        start: those of the first one, where they are known.
        """
        cells = list(start) or [Cell(Region(len(self.parameters)), {})]
        with in_names_of(self.program.setting):
            for t in range(int(bool(start)), steps):
                cells = [part for cell in cells for part in ([cell] if cell.explosions else self.step(cell, t))]
        return cells

    def _terms(self, saturated: frozenset[Quantity]) -> tuple[Counted, list[tuple[Contribution, ...]]]:
        if saturated not in self.counted:
            terms = (KetTerms(self.program, self.at, saturated=saturated, last=self.last)
                     if isinstance(self.program, KetEquations) else Terms(self.program, self.at))
            self.counted[saturated] = (terms, [])
        return self.counted[saturated]

    def step(self, before: Cell, t: int, tried: frozenset[frozenset[Quantity]] = frozenset()) -> list[Cell]:
        """A step's exponents, on parts of the cell on which what is taken to be saturated is, and nothing else."""
        contributions = self.upto(before.saturated, t)
        sweeps, by_target = dependency_order([one for one in contributions if one.target.step == t])
        solved = solve(before, sweeps, by_target)
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
            _require_arguments(cell, t)
            return [cell]
        return self.step(replace(before.on(cell.region), saturated=saturated), t, tried)


def _require_arguments(cell: Cell, t: int) -> None:
    """Raise ``ValueError`` where a bounded function that is 0 at 0 acts on what falls with L: it is no more of order
    one there, and what it is no rule counts."""
    for one in sorted(q for q in cell.exponents if q.sort == Sort.ARGUMENT and q.step == t):
        exponent = cell.of(one)
        if not exponent.explodes and all(cell.region.sign(form) == "<" for form in exponent.forms):
            raise NotCovered(f"{one.name}: what a bounded function acts on falls with the depth, and the function with "
                             "it; powers of L are counted where it is of order one at least")


def settled_orders(program: RecursionEquations | KetEquations | Hypotheses, most: int = 6, at: Values = ()) -> Orders:
    """The exponents of so many training steps as decide those of all, perhaps with values for some parameters.

    A part of the parameters' space is done where something explodes or an output grows with depth, where a quantity's
    exponent grows from one step to the next (``Cell.grows``) when every stream has been reached, and where the last
    step repeats the exponents of the one before: the maximum being idempotent, they then hold for all later steps.
    Raises ``ValueError`` where some still change after ``most`` steps.
    """
    hypotheses = program if isinstance(program, Hypotheses) else Hypotheses(program, at)
    with in_names_of(hypotheses.program.setting):
        return _settled(hypotheses, most)


def _settled(hypotheses: Hypotheses, most: int) -> Orders:
    terms, parameters = hypotheses.plain, hypotheses.parameters
    streams = max(1, len(terms.accumulating) // 2)  # a step's effect on one may reach another with the next step
    done: list[Cell] = []
    active = [Cell(Region(len(parameters)), {})]
    for t in range(most):
        solved = [cell for before in active for cell in hypotheses.step(before, t)]
        active = []
        for cell in solved:
            for part in [cell] if cell.explosions else _split(cell, terms.outputs(t)):
                outputs = terms.outputs(t)
                held = bool(t and part.saturated and (
                    part.is_bounded(outputs) or part.bends_alone and not part.has_powers(outputs)))
                if part.explosions and held and t < 2:
                    active.append(part)  # what explodes is an upper bound; the next step tells what it does
                    continue
                if part.explosions or not part.is_bounded(outputs):
                    done.append(replace(part, held=held))
                    continue
                for one in _split_by_growth(part, t) if t > streams else [part]:
                    finished = one.grows or t > 1 and _classes(one, t) == _classes(one, t - 1)
                    (done if finished else active).append(one)
        if not active:
            return Orders(parameters, tuple(done), hypotheses.upto(frozenset(), t))
    raise NotCovered(f"the exponents of program {terms.name} still change at step {most}")


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
        if key.step == t and key.sort not in (Sort.BEND, Sort.SHRINK, Sort.ARGUMENT):
            base = key.base
            if base is not None and not base.is_initial:
                base = replace(base, step=int(base.step == t))
            for label in key.label.each():
                kind = replace(key, step=0, base=base, label=label)
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
                 ([lost(cell, {one.target for one in found if one.target.step == t})]
                  if cell.explosions else hypotheses.step(cell, t))]
    return Orders(terms.parameters, tuple(cells), hypotheses.upto(frozenset(), steps - 1))
