"""Sizes of a training as maxima of affine forms in alpha and the gammas: values, forms and reasons at points."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Iterable, NamedTuple, Sequence

import sympy as sp

from ..._checks import short
from ...asymptotics import CHANGE, KET, SCALAR, Unknown
from ...asymptotics.cells import FAR
from ...asymptotics.explain import RULES, named
from ...asymptotics.parts import LARGE, towards, unit_directions
from ..counted import Judged, by_gates, require_frozen_embedding_readout
from ..counting import ALPHA, Counting, in_symbols, symbols_of
from ..ket_exponents import Exponents, Reader, exponent_of_value, larger, rate_of
from ..layer_jet import block_jet
from ..verdict import NAMES
from ...errors import Divergence, NotCovered
from ...models.gates import LINEAR
from ...limits.layer_map import NoStreams
from ...orders import Affine, Exponent
from ...orders.polytope import Point, Polytope
from ...optimizers import SGD

INIT = ("x at initialization", "h at initialization", "f at initialization")
CHANGES = {"change of x": "dx", "change of h": "dh", "change of f": "df"}
NOISE = next(name for name, field in NAMES.items() if field == "noise")
EARLY, LATE, FROM_STEP_TO_STEP = "growth at initialization", "growth in training", "growth from step to step"
GROWTH = (EARLY, LATE, FROM_STEP_TO_STEP)
AT_INIT = (*INIT, EARLY)
IN_TRAINING = (*CHANGES, LATE, FROM_STEP_TO_STEP)


BEFORE = "before training"


def update_of(matrix: str) -> str:
    return f"update of {matrix} in a layer"


def effect_of(matrix: str) -> str:
    return f"effect of {matrix} on x and f"


class Reason(NamedTuple):
    """Why a size is as large as it is: a term of the program's equations, and the rule by which it counts."""

    term: sp.Expr
    rule: str

    def __str__(self) -> str:
        return f"{self.rule}, by {self.term}"


@dataclass(frozen=True)
class Form:
    """The affine form that a size is of at a point; bound: an upper bound."""

    name: str
    affine: Affine
    bound: bool

    @property
    def reason(self) -> Reason:
        """The term that attains it, and how it enters."""
        raise NotImplementedError


Forms = dict[str, list[Form]]  # by size; none where the size vanishes


class PowerSizes:
    """Sizes of a training that are maxima of affine forms in exponents, at points of these.

    grows: the variable of which they are powers; net, trained: whose, with the names of its parameters; symbols: the
    exponents, of 1/L or 1/n; acted: the sizes at initialization of what activations act on; required: the wishes
    without which nothing is counted; base: exponents at which nothing that can be small is large; far: a simplex that
    all is looked for in.
    """

    grows: str
    net: object
    trained: tuple[str, ...]
    symbols: list[sp.Symbol]
    acted: tuple[str, ...]
    required: tuple[str, ...] = ()
    base: Point
    far: Polytope

    @property
    def size(self) -> int:
        return len(self.symbols)

    @property
    def pairs(self) -> Iterable[tuple[str, str]]:
        """Parameters whose updates act together on a block at second order."""
        raise NotImplementedError

    def asked(self, names: Iterable[str], point: Point, inner: Point | None = None) -> Forms:
        """Sizes of these names at a point; inner: towards which ties break."""
        raise NotImplementedError

    def require_inside(self, part: Polytope) -> None:
        """Raise ``NotCovered`` for what is left and not counted."""


@dataclass(frozen=True)
class CountedForm(Form):
    """What a size was read off; as_read: its form in the order of the parameters there."""

    reader: Reader
    as_read: Affine

    @property
    def reason(self) -> Reason:
        at, rule = self.reader.solution, "independent layers" if self.name == NOISE else None
        of_h = self.name == "change of h" or self.name.startswith("update of")
        ways = [(self._is_like(term.value), of_h and term.update, term.value, -number, term, key)
                for key in self._keys() for number, entry in enumerate(at.entries(key))
                for term in at.terms_of(entry) if rule in (None, term.rule)]
        if not ways:
            return Reason(sp.Integer(1), f"{self.name}: of order one as it is")
        *_, term, key = max(ways, key=lambda one: one[:4])
        whole = self.name in (*INIT, *GROWTH, NOISE, "change of x")  # of the stream, not of one layer
        how = f", {RULES[term.rule]}" if term.rule and whole else ""
        return Reason(term.term, f"{self.name}: {named(at, key)}{how}")

    def _is_like(self, value: int) -> int:
        """Is a term of this form, or but for a branch multiplier?"""
        if value > LARGE:
            return 4 * (self.name in GROWTH)
        solution = self.reader.solution
        form, alpha = solution.scale.form(value), solution.counted.parameters.index(ALPHA)
        gammas = [slope for i, slope in enumerate(form.slopes) if i != alpha]
        return 2 * (form == self.as_read) + (gammas == [s for i, s in enumerate(self.as_read.slopes) if i != alpha])

    def _keys(self) -> list[Unknown]:
        reader, at = self.reader, self.reader.solution
        products = [p for p in reader.setting.products if not p.transposed]
        targets = [reader.setting.family_number(p.location.statement.target) for p in products]
        acted = [reader.setting.family_number(p.matvec.vector) for p in products]
        scalars = reader.reading.outputs or list(reader.reading.scalars)
        keys = {"x at initialization": [Unknown(KET, 0, reader.stream)], NOISE: [Unknown(KET, 1, reader.stream)],
                "h at initialization": [Unknown(KET, 0, one) for one in acted],
                "f at initialization": [Unknown(SCALAR, 0, name) for name in scalars],
                "change of h": [Unknown(CHANGE, 1, one) for one in (*targets, reader.stream)],
                "change of f": [Unknown(SCALAR, 1, name) for name in scalars]}.get(self.name)
        if self.name in (EARLY, LATE):
            keys = [key for key, _ in at.explosions[:1]]
        elif self.name.startswith("update of"):
            keys = [Unknown(CHANGE, 1, one) for one in targets]
        elif keys is None:
            keys = [Unknown(CHANGE, 1, reader.stream)]
        return [key for key in keys if key in at.table and at.value_of(key) is not None]


Read = dict[str, list[tuple[Exponent, bool]]]


class DepthSizes(PowerSizes):
    """The sizes of a network's training by gradient descent, at points (alpha, gamma of each trained parameter).

    summed: the power of L of how many terms there are in the gradient of a parameter.
    """

    grows, acted, summed = "L", ("h at initialization",), 0
    net: Judged

    def __init__(self, net: Judged) -> None:
        require_frozen_embedding_readout(net)
        self.net, self.trained = net, tuple(net.trained_of_block)
        try:
            self.terms = self._terms()
        except NoStreams as error:
            raise NotCovered(f"net: got {net!r}; {error}; expected layers that change a stream by less than it is"
                             ) from None
        except Divergence as error:
            raise NotCovered(f"net: got {net!r}; {error}, so that no powers are left to solve for") from None
        symbols = symbols_of(net)
        self.symbols = [symbols[name] for name in ("alpha", *self.trained)]
        self._order = [self.symbols.index(s) for s in self.terms.counted.parameters]
        self._known: dict[tuple[Point, Point | None, str | None], Forms] = {}
        self._there: dict[tuple[Point, Point | None], Counting] = {}
        self.terms.counted.entries.upto(2)  # what the second step reads of the first is found with it
        self.base = (Fraction(3), *(Fraction(4) + Fraction(i, 7) for i in range(self.size - 1)))
        self.far = Polytope.simplex((0, *[-FAR] * (self.size - 1)), 3 * FAR)  # branch multipliers do not grow

    def _terms(self) -> Counting:
        return in_symbols(self.net, SGD())

    def at(self, point: Point, inner: Point | None = None, what: str | None = None) -> Forms:
        """Sizes at a point; inner: towards which ties break; what: of a matrix's updates alone, by its name, or before
        training, else of training."""
        point, inner = self._own(point, what), None if inner is None else self._own(inner, what)
        found = self._known.get((point, inner, what))
        if found is None:
            found = self._known[point, inner, what] = self._at(point, inner, what)
        return found

    def _own(self, point: Point, what: str | None) -> Point:
        """The point, with gammas of updates that are not counted as they are at one point: no size knows of them."""
        if what is None:
            return point
        return tuple(a if name in ("alpha", what) else b
                     for name, a, b in zip(("alpha", *self.trained), point, self.base))

    @property
    def pairs(self) -> Iterable[tuple[str, str]]:
        return block_jet(self.net).second

    def asked(self, names: Iterable[str], point: Point, inner: Point | None = None) -> Forms:
        found: Forms = {}
        names = tuple(names)
        if self.grows == "L" and LINEAR in by_gates(self.net) and not set(names) <= set(AT_INIT):
            raise NotCovered(f"net: got {short(self.net)}; powers are looked for where logits of routers grow beyond "
                             "order one, too, and gates that are linear in them do not stand for gates there; "
                             "tp.classify takes given powers, and tp.solve experts that grow in number")
        for name in names:
            what = BEFORE if name in AT_INIT else next(
                (m for m in self.trained if name in (update_of(m), effect_of(m))), None)
            found[name] = self.at(point, inner, what).get(name, [])
        return found

    def require_inside(self, part: Polytope) -> None:
        """Raise ``NotCovered`` where branch multipliers that grow with the depth are left."""
        if any(self.far.walls[0].at(corner) == 0 for corner in part.corners):
            raise NotCovered(f"net: got {self.net!r}; a branch multiplier of order one is left, and layers that "
                             "change a stream by as much as it is are counted at given exponents alone")

    def _at(self, point: Point, inner: Point | None, what: str | None) -> Forms:
        values = dict(zip(self.symbols, map(sp.Rational, point)))
        directions = unit_directions(len(self._order))
        if inner is not None and inner != point:
            way = towards(point, inner)
            directions = (tuple(way[i] for i in self._order), *directions)
        there = self._there.setdefault((point, inner), self.terms.there(values, directions))
        reader, read = self._read(there, what)
        return {name: [CountedForm(name, self._ours(form), bound, reader, form)
                       for one, bound in ones for form in one.forms] for name, ones in read.items()}

    def _read(self, there: Counting, what: str | None) -> tuple[Reader, Read]:
        if what == BEFORE:
            reader = Reader(there.after(1), there.source)
            return reader, _before(reader)
        if what is not None:
            return Reader(there.after(2, what), there.source), _of_matrix(there.alone(what), what)
        solution = there.after(2) if self.net.positions else there.decided()
        reader = Reader(solution, there.source)
        found = _in_training(reader.read(there.exact, at_first=False))
        growing = solution.growing(solution.steps - 1) if solution.grows else []
        found[FROM_STEP_TO_STEP] = [(exponent_of_value(solution, value), False) for value, _ in growing]
        return reader, found

    def _ours(self, form: Affine) -> Affine:
        slopes = [Fraction(0)] * self.size
        for i, slope in zip(self._order, form.slopes):
            slopes[i] = slope
        return Affine(tuple(slopes), form.constant)


def height(forms: Sequence[Form], point: Point) -> Fraction | None:
    """The value of a size; None where it vanishes."""
    return max((form.affine.at(point) for form in forms), default=None)


def _before(reader: Reader) -> Read:
    """Sizes at initialization."""
    solution = reader.solution
    rates = [(rate_of(solution, v), False) for _, v in solution.explosions]
    if rates:
        return {EARLY: rates}
    acted = [reader.setting.family_number(p.matvec.vector) for p in reader.setting.products if not p.transposed]
    values = {"x at initialization": reader.ket(reader.stream, 0), "f at initialization": reader.output(0),
              "h at initialization": larger(reader.ket(family, 0) for family in acted)}
    return {name: [(exponent_of_value(solution, value), value is not None and bool(value & 1))]
            for name, value in values.items()}


def _in_training(e: Exponents) -> Read:
    found = {name: [(getattr(e, field), field in e.bounds)] for name, field in {**CHANGES, NOISE: "noise"}.items()}
    return {**found, LATE: [(rate, False) for _, rate in e.explosions]}


def _of_matrix(e: Exponents, matrix: str) -> Read:
    effect = [(getattr(e, name), name in e.bounds) for name in ("dx", "df")]
    return {update_of(matrix): [(e.update, "update" in e.bounds)],
            effect_of(matrix): [*effect, *((rate, False) for _, rate in e.explosions)]}
