"""What of a derived recursion survives at infinite depth, on exact regions of the exponents' parameters.

Quantities are divided by the largest power of L of their kind. A term's relative order is its exponent less that of
its target: 0, and it is kept; negative, and it is dropped, at that rate. A region is divided until every term has one
of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Iterable, Sequence

import sympy as sp

from ..errors import NotCovered
from ..orders.affine import Affine, Cell, Contribution, Exponent, Region
from ..orders.quantities import Quantity, Sort

HERE = "own layer"


@dataclass(frozen=True, order=True)
class Kind:
    """A quantity without its steps: a coefficient, a covariance or a scalar.

    number: of the vector family, or of a covariance's product; start: -1 for coefficients over initial vectors, 0 over
    hat-kets; base: number of the base ket, or of a covariance's other product; own: over base kets of the own layer;
    name: of a scalar.
    """

    sort: Sort
    number: int = -1
    start: int = 0
    base: int = -1
    own: bool = False
    name: str = ""

    @property
    def is_coefficient(self) -> bool:
        return self.sort == Sort.COEFFICIENT

    @property
    def head(self) -> str:
        """What the limit function's name is looked up by: "Gamma", "C", or a scalar's name."""
        return self.name if self.sort == Sort.SCALAR else self.sort.value

    @property
    def written(self) -> tuple:
        """The kind as people write it: ("Gamma", -1 or 0, a, b[, "own layer"]), ("C", b[, b']), (name,)."""
        if self.sort == Sort.SCALAR:
            return (self.name,)
        if self.sort == Sort.COVARIANCE:
            return (self.head, self.number, *([self.base] if self.base != self.number else []))
        return (self.head, self.start, self.number, self.base, *([HERE] if self.own else []))


def kind_of(quantity: Quantity) -> Kind:
    """The kind of a quantity: of base kets only whether they are initial vectors or hat-kets, and their number."""
    base = quantity.base
    if base is None:
        return Kind(quantity.sort, name=quantity.name)
    if quantity.sort == Sort.COVARIANCE:
        return Kind(quantity.sort, min(quantity.number, base.number), 0, max(quantity.number, base.number))
    return Kind(quantity.sort, quantity.number, min(base.step, 0), base.number, base.own)


@dataclass(frozen=True)
class CountedTerm:
    """A term of an equation for one kind of target, and its order relative to the target: 0 where it survives.

    equation, term: where it stands in the recursion, and the symbolic term; rule: how it enters.
    """

    target: Kind
    equation: int
    term: sp.Expr
    rule: str
    order: Exponent

    @property
    def location(self) -> tuple:
        return (self.target, self.equation, self.term, self.rule)


@dataclass(frozen=True)
class RegionPart:
    """A region on which the same terms survive: ``kept`` and ``dropped``.

    exponents: power of L of every kind of quantity; instances: relative orders of the single contributions.
    """

    cell: Cell
    exponents: dict[Kind, Affine]
    instances: tuple[tuple[Contribution, Exponent], ...]

    @property
    def region(self) -> Region:
        return self.cell.region

    @cached_property
    def terms(self) -> tuple[CountedTerm, ...]:
        """All terms by kind of target, with the largest relative order among their instances."""
        found: dict[tuple[Kind, int, sp.Expr, str], Exponent] = {}
        for one, order in self.instances:
            location = (kind_of(one.target), one.equation, one.term, one.rule)
            found[location] = found.get(location, Exponent()).plus(order)
        return tuple(CountedTerm(*location, order.pruned(self.region)) for location, order in found.items())

    @cached_property
    def kept(self) -> tuple[CountedTerm, ...]:
        return tuple(one for one in self.terms if self.is_kept(one.order))

    @cached_property
    def dropped(self) -> tuple[CountedTerm, ...]:
        return tuple(one for one in self.terms if not self.is_kept(one.order))

    def require_one_scale(self) -> None:
        """Is every kept term of order 0 in the scaled quantities too? Raises ``ValueError`` naming one that is not."""
        for one, order in self.instances:
            if self.is_kept(order):
                scaled = one.weight - self.exponents[kind_of(one.target)]
                for factor in one.factors:
                    scaled += self.exponents[kind_of(factor)]
                if self.region.sign(scaled) != "=":
                    raise NotCovered(f"{one.term}: survives for {one.target}, where a factor is smaller than others of "
                                     "its kind; the limit needs one power of L for each kind")

    def is_kept(self, order: Exponent) -> bool:
        return any(self.region.sign(form) == "=" for form in order.forms)

    def feeding(self, outputs: Iterable[Kind]) -> set[Kind]:
        """The kinds of quantities that the outputs depend on through surviving terms, themselves included."""
        reached = set(outputs)
        new = set(reached)
        while new:
            new = {kind_of(f) for one, order in self.instances if kind_of(one.target) in new and self.is_kept(order)
                   for f in one.factors} - reached
            reached |= new
        return reached

    def corrections(self, outputs: Iterable[Kind]) -> Exponent:
        """The largest relative order of what is dropped on the way to the outputs."""
        found, reached = Exponent(), self.feeding(outputs)
        for one, order in self.instances:
            if kind_of(one.target) in reached and not self.is_kept(order):
                found = found.plus(order)
        return Exponent(frozenset(on_region(f, self.region) for f in found.forms)).pruned(self.region)

    @property
    def signature(self) -> frozenset[tuple]:
        return frozenset(one.location for one in self.kept)


def divide_cell(cell: Cell, contributions: Sequence[Contribution]) -> list[RegionPart]:
    """The parts of a cell on which the same terms survive; faces of it are parts of their own where they differ."""
    part = _part(cell, contributions)
    form = _undecided(cell, part, contributions)
    if form is None:
        assert isinstance(part, RegionPart)
        return [part]
    parts = [found for _, region in cell.region.split(form) for found in divide_cell(cell.on(region), contributions)]
    if isinstance(part, RegionPart) and len({one.signature for one in parts}) == 1:
        return [part]
    return parts


def _part(cell: Cell, contributions: Sequence[Contribution]) -> RegionPart | dict[Kind, Exponent]:
    """The orders of terms on a cell; the exponents instead, where a kind of quantity has no one exponent on it."""
    largest: dict[Kind, Exponent] = {}
    for key, exponent in cell.exponents.items():
        largest[kind_of(key)] = largest.get(kind_of(key), Exponent()).plus(exponent).pruned(cell.region)
    if any(len(exponent.forms) > 1 for exponent in largest.values()):
        return largest
    exponents = {kind: form for kind, exponent in largest.items() for form in exponent.forms}
    instances = [(one, cell.weight(one).times(Exponent.single(exponents[kind_of(one.target)] * -1)))
                 for one in contributions if one.target in cell.exponents]
    return RegionPart(cell, exponents, tuple((one, order.pruned(cell.region)) for one, order in instances))


def _undecided(cell: Cell, part: RegionPart | dict[Kind, Exponent],
               contributions: Sequence[Contribution]) -> Affine | None:
    """The simplest affine form whose sign divides the cell into parts of other orders; None where all is decided."""
    if isinstance(part, RegionPart):
        forms = {form for _, order in part.instances for form in order.forms}
    else:
        forms = {one - other for e in part.values() for one in e.forms for other in e.forms if one != other}
    simple = sorted({f.scaled() for f in forms}, key=lambda f: (sum(map(bool, f.slopes)), sum(map(abs, f.slopes)), f))
    return next((form for form in simple if cell.region.sign(form) in ("<=", ">=", None)), None)


def on_region(form: Affine, region: Region) -> Affine:
    """The form with the parameters that the region fixes written through the others, the last ones first."""
    for equation in _echelon(region.equations):
        last = max(i for i, slope in enumerate(equation.slopes) if slope)
        form = form - equation * (form.slopes[last] / equation.slopes[last])
    return form


def _echelon(equations: Sequence[Affine]) -> list[Affine]:
    """The equations solved one by one (echelon form): each has a last parameter that the others do not contain."""
    done: list[Affine] = []
    for equation in equations:
        for other in done:
            last = max(i for i, slope in enumerate(other.slopes) if slope)
            equation = equation - other * (equation.slopes[last] / other.slopes[last])
        if not any(equation.slopes):
            continue
        last = max(i for i, slope in enumerate(equation.slopes) if slope)
        done = [o - equation * (o.slopes[last] / equation.slopes[last]) for o in done] + [equation]
    return done
