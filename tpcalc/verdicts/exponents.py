"""The exponents of L of a network's training, on regions of the (alpha, gamma) plane or at a point."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Callable, Sequence

import sympy as sp

from .._types import Fields
from ..asymptotics import SizeSolution
from ..asymptotics.cells import ParameterCell, Evaluated, Point, cells, inner_walls
from ..asymptotics.parts import LARGE, unit_directions
from ..errors import NotCovered
from ..limits.layer_map import NoStreams
from ..orders import EXPLODES, Affine, Exponent, Region, Values, point_of
from ..scaling import DepthScaling
from ..optimizers import SGD
from ..models.network import Network
from ..training.builders import counted_training
from ..programs.program import Assign, Program, mapped
from .counted import require_frozen_embedding_readout
from .counting import ALPHA, GAMMA, Counting, OwnLayers
from .ket_exponents import Exponents, rate_of

Counted = Network | Program
FIRST = ("at_first", "f_at_first")
Evaluation = Callable[[Point, Sequence[Point]], Evaluated[Exponents]]


def exponents_of(net: Counted, at: Values = (), updates: int = 1, first_alone: bool = False
                 ) -> tuple[tuple[Region, Exponents], ...]:
    """The exponents of a network's training on regions that cover the plane of its symbols, (alpha, gamma) or others.

    Exponents are read off evaluated ket equations; they are upper bounds, reached unless something cancels that no rule
    knows, in linear networks all are. at: rational values of alpha and gamma; then there is one region. updates: after
    how many; first_alone: do no later ones matter? Raises ``ValueError`` for a network with a statement that no rule
    covers, naming it. Source: Tensor Programs VI, appendix H [tensor_programs_vi/appendix_h], here for any network.
    """
    alone = updates > 1 or first_alone
    return _at_point(net, tuple(at), updates, alone) if at else _on_plane(net, updates, alone)


@lru_cache(maxsize=256)
def _at_point(net: Counted, at: Values, updates: int, alone: bool) -> tuple[tuple[Region, Exponents], ...]:
    try:
        counting = counting_of(net, at)
    except OwnLayers as regime:
        return ((Region(0), in_every_depth(regime, 0)),)
    return ((Region(0), counting.there(dict(at)).exponents(updates, alone)),)


@lru_cache(maxsize=32)
def _on_plane(net: Counted, updates: int, alone: bool) -> tuple[tuple[Region, Exponents], ...]:
    try:
        return regions(counting_of(net), updates, alone)
    except OwnLayers as regime:
        return ((Region(2), in_every_depth(regime, 2)),)


def regions(counting: Counting, updates: int = 1, alone: bool = False) -> tuple[tuple[Region, Exponents], ...]:
    """Exponents on the faces of all dimensions into which walls between cells divide the space of the symbols."""
    size = len(counting.counted.parameters)
    if not size:
        return ((Region(0), counting.exponents(updates, alone)),)

    def evaluated(point: Point, directions: Sequence[Point]) -> Evaluated[Exponents]:
        there = _at(counting, point, directions)
        solution = there.counted_after(updates, alone)
        found = there.read(solution, updates)
        every, known = evaluated_exponents(solution, found), found.known_at(point, directions)
        if known is found:
            return every
        return replace(every, answer=known, zeros=every.zeros | {"dx", "df"})  # the larger one decides

    divided = cells(evaluated, size, Exponents.common)
    found: list[tuple[Region, Exponents]] = []
    faces = [Region(size)]
    for wall in inner_walls(divided):
        faces = [part for face in faces for _, part in face.split(wall)]
    for face in faces:
        found.append((face, _on_face(counting, divided, face, updates, alone) if face.equations
                      else _inside(divided, face, evaluated)))
    return tuple(found)


def alone_by_regions(counting: Counting, matrix: str) -> tuple[Exponents, ...]:
    """What updates of one matrix do by themselves, on all regions of the symbols' space, wherever the network does not
    explode at first."""
    def evaluated(point: Point, directions: Sequence[Point]) -> Evaluated[Exponents]:
        there = _at(counting, point, directions)
        solution = there.after(2, matrix)
        return evaluated_exponents(solution, there.read(solution, at_first=False))

    found = [cell.found.answer for cell in cells(evaluated, len(counting.counted.parameters))]
    return tuple(one for one in found if not (one.explosions and one.explosions[0][0] == 0))


def _at(counting: Counting, point: Point, directions: Sequence[Point] = ()) -> Counting:
    return counting.there(dict(zip(counting.counted.parameters, map(sp.Rational, point))), directions)


def _inside(divided: Sequence[ParameterCell[Exponents]], face: Region, evaluated: Evaluation) -> Exponents:
    """What a cell says of an open face."""
    point = face.point()
    assert point is not None
    held = next((cell for cell in divided if all(wall.at(point) >= 0 for wall in cell.walls)), None)
    return held.found.answer if held is not None else evaluated(point, unit_directions(face.size)).answer


def _on_face(counting: Counting, divided: Sequence[ParameterCell[Exponents]], face: Region, updates: int, alone: bool
             ) -> Exponents:
    """Exponents on a face that is flat: those of a cell beside it where these are they, or affine forms of its own
    points."""
    points = spanning(face)
    read = [_at(counting, point).exponents(updates, alone).known_at(()) for point in points]
    for cell in divided:
        if all(wall.at(point) >= 0 for wall in cell.walls for point in points):
            beside = cell.found.answer
            if all(_are(beside, point, one) for point, one in zip(points, read)):
                return beside
    return along(points, read)


def evaluated_exponents(solution: SizeSolution, found: Exponents) -> Evaluated[Exponents]:
    """What is read, with the affine forms that divide cells."""
    forms = {one.name: form for one in Exponents.sizes() for form in getattr(found, one.name).forms}
    forms |= {"at first": form for form in found.at_first.forms}
    forms |= {"f at first": form for form in found.f_at_first.forms}
    rates = {f"rate of {key.name} {key.step}": form for key, v in solution.explosions
             for form in rate_of(solution, v).forms}
    hidden = {f"{key.name} {key.step}": solution.form(value) for key, value in solution.thresholds().items()}
    inside = {name: form for name, form in hidden.items() if form is not None}
    outputs = {f"output {number}": form for number, form in enumerate(map(solution.form, solution.outputs()))
               if form is not None}
    growing = {f"growth {number}": solution.scale.form(value) for number, value in enumerate(
        x for pair in (solution.growing(solution.steps - 1) if solution.grows else []) for x in pair if x < LARGE)}
    zeros = {**rates, **inside, **outputs, **growing}
    return Evaluated(found, {**forms, **zeros}, frozenset(zeros))


def spanning(face: Region) -> list[Point]:
    """Points inside a face, as many as affine forms on it are told by."""
    first = face.point()
    assert first is not None
    found = [first]
    for direction in directions_in(face):
        step = Fraction(1)
        while not face.contains(tuple(x + step * d for x, d in zip(first, direction))):
            step = -step if step > 0 else -step / 2
        found.append(tuple(x + step * d for x, d in zip(first, direction)))
    return found


def directions_in(face: Region) -> list[Point]:
    """Directions along which a face extends."""
    equations = sp.Matrix([[*map(sp.Rational, form.slopes)] for form in face.equations])
    return [tuple(map(Fraction, one)) for one in equations.nullspace()]


def _are(forms: Exponents, point: Point, there: Exponents) -> bool:
    """Are exponents at a point what forms are there?"""
    same = ("grows", "exact", "bounds")
    return (all(getattr(forms, name) == getattr(there, name) for name in same) and forms.at(point) == there.at(())
            and [(t, v.at(point)) for t, v in forms.explosions] == [(t, v.at(())) for t, v in there.explosions]
            and all(getattr(forms, name).at(point) == getattr(there, name).at(()) for name in FIRST))


def along(points: Sequence[Point], read: Sequence[Exponents]) -> Exponents:
    """Affine exponents from their values at points that span a face."""
    sizes: Fields = {one.name: _form_through(points, [getattr(e, one.name) for e in read]) for one in Exponents.sizes()}
    rates = tuple((step, _form_through(points, [e.explosions[number][1] for e in read]))
                  for number, (step, _) in enumerate(read[0].explosions))
    first: Fields = {name: _form_through(points, [getattr(e, name) for e in read]) for name in FIRST}
    return replace(read[0], **sizes, **first, explosions=rates)


def _form_through(points: Sequence[Point], values: Sequence[Exponent]) -> Exponent:
    """The exponent that has these values, one form."""
    if any(not one.forms for one in values):
        return values[0]
    size, heights = len(points[0]), [next(iter(one.forms)).constant for one in values]
    moved = [[y - x for x, y in zip(points[0], point)] for point in points[1:]]
    slopes = [Fraction(0)] * size
    if moved:
        rows = sp.Matrix([[*map(sp.Rational, row)] for row in moved])
        rises = sp.Matrix([sp.Rational(h - heights[0]) for h in heights[1:]])
        solved = rows.T * (rows * rows.T).LUsolve(rises)
        slopes = [*map(Fraction, solved)]
    constant = heights[0] - sum((a * x for a, x in zip(slopes, points[0])), Fraction(0))
    return Exponent.single(Affine(tuple(slopes), constant))


def in_every_depth(regime: OwnLayers, size: int) -> Exponents:
    """exp(L) or exp(-L) for all that there is, where layers explode or forget of themselves, whatever the scaling."""
    everything: Fields = {f.name: EXPLODES if regime.explodes else Exponent() for f in Exponents.sizes()}
    rate = Exponent.single(Affine.number(1, size))
    return Exponents(**everything, explosions=((0, rate),) if regime.explodes else ())


def counting_of(net: Counted, at: Values = ()) -> Counting:
    """A network's training by its ket equations in normal form; a ResNet is trained by plain SGD.

    They are written in symbols, once for all points, unless what layers do can be judged at the values ``at`` alone.
    Raises ``OwnLayers`` where they explode or forget by themselves.
    """
    require_frozen_embedding_readout(net)
    if at:
        try:
            found = _counting(net, ())
        except NoStreams:
            pass
        else:
            if found.counted.is_gradual(dict(at)):
                return found
    return _counting(net, at)


@lru_cache(maxsize=32)
def _counting(net: Counted, at: Values) -> Counting:
    one = _program(net)
    return replace(Counting.of(_with_numbers(one, at)), source=one)


def _program(net: Counted) -> Program:
    """A ResNet is trained by plain SGD."""
    return net if isinstance(net, Program) else counted_training(net, SGD(), DepthScaling(ALPHA, GAMMA))


def _with_numbers(one: Program, at: Values) -> Program:
    """The program with its symbols alpha and gamma as ours, or as numbers."""
    names = {s: ours for s in set().union(*(p.statement.value.free_symbols for p in one.locations()))
             for ours in (ALPHA, GAMMA) if s.name == ours.name}
    values = {s: dict(at).get(ours, ours) for s, ours in names.items()}

    if all(s == v for s, v in values.items()):
        return one
    return replace(one, body=mapped(one.body, lambda s: [Assign(s.target, s.value.subs(values))]))


def region_of(net: Counted, alpha: sp.Expr, gamma: sp.Expr, updates: int = 1, first_alone: bool = False
              ) -> tuple[Region, Exponents]:
    """The region that a point lies in, and the exponents there; of a rational point, the point itself."""
    at: Values = ((ALPHA, alpha), (GAMMA, gamma))
    if alpha.is_Rational and gamma.is_Rational:
        (only,) = exponents_of(net, at, updates, first_alone)
        return only
    if updates > 1 or first_alone:
        raise NotCovered(f"updates: got {updates} at alpha = {alpha}, gamma = {gamma}; expected rational exponents, "
                         "where steps are counted one by one")
    point = point_of({ALPHA: alpha, GAMMA: gamma}, (ALPHA, GAMMA))
    return next((region, found) for region, found in exponents_of(net) if region.contains(point))
