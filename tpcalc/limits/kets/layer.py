"""One layer of a residual network in kets: two streams, what the layer adds to them, and kets made within it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Iterator

import sympy as sp

from ...calculus.equations import KetEquation, KetEquations
from ...calculus.kets import Averaged, Bracket, Hat, Ket, Response
from ...calculus.setting import Setting
from ...errors import NotCovered
from ...programs.algebra import multiplied_out
from ...programs.language import Matrix, Member, Scalar, Vector
from ...programs.program import Loop, made_of
from .passes import Passes
from .sums import flattened


@dataclass(frozen=True)
class KetStream:
    """A ket that runs through the layers: a layer makes ``after`` of ``before``, ``added`` is their difference."""

    equation: KetEquation
    before: Ket
    added: sp.Expr

    after = property(lambda self: self.equation.target)


@dataclass(frozen=True)
class KetLayer:
    """The kets of a layer in a pass, ``passes.now``: x forward, its gradient backward, and those that the layer makes
    of them, in program order; outside: equations at the ends of layer time and of the outputs."""

    setting: Setting
    passes: Passes
    forward: KetStream
    backward: KetStream
    inner: tuple[KetEquation, ...]
    outside: tuple[KetEquation, ...]

    @property
    def equations(self) -> tuple[KetEquation, ...]:
        """What the layer makes, then its streams."""
        return *self.inner, self.forward.equation, self.backward.equation

    @property
    def trained_vectors(self) -> tuple[KetEquation, ...]:
        """What vectors outside of the layers become by what the streams bring, such as trained embeddings."""
        names = {ket.vector.name for ket in self.streams}
        others = [e for e in self.outside if not e.target.has(Ket) or e.target.vector.name not in names]
        moved = made_of(names, ((_name(e), {one.name for one in e.value.atoms(Vector, Scalar)}) for e in others))
        return tuple(e for e in others if isinstance(e.target, Ket) and _name(e) in moved)

    @property
    def index(self) -> sp.Symbol:
        """The layer's."""
        found: sp.Symbol = self.forward.equation.location.loops[-1].index
        return found

    def at(self, expression: sp.Expr, step: sp.Expr) -> sp.Expr:
        """The expression at another step."""
        return expression.xreplace({self.setting.time: step})

    def before(self, expression: sp.Expr) -> sp.Expr:
        """The expression in the other pass."""
        return self.passes.before(expression)

    def refused(self, why: str) -> NotCovered:
        """What to raise for a layer that is read, and has no limit of this kind."""
        return _refused(self.setting, why)

    @property
    def streams(self) -> tuple[Ket, Ket]:
        """x as the layer meets it, and the gradient as it comes from the layers above."""
        return self.forward.before, self.backward.before


def _name(equation: KetEquation) -> str:
    target = equation.target
    name: str = target.vector.name if isinstance(target, Ket) else target.name
    return name


def is_drawn(term: sp.Expr) -> bool:
    """Is it a multiple of a hat, which has no mean and is independent from layer to layer?"""
    return any(isinstance(factor, Hat) for factor in sp.Mul.make_args(term))


def layer_of(kets: KetEquations) -> KetLayer:
    """Read the layer off the equations. Raises ``NotCovered`` for what has no such layer, and says what it has."""
    setting = kets.setting
    if setting.depth is None or setting.clock is None:
        raise _refused(setting, "it has no layers up to a depth that is a symbol, or no training steps")
    for vector in setting.program.vectors:
        if vector.free_symbols & setting.program.layers:
            raise _refused(setting, f"every layer is given a vector {vector} of its own, of which no rule says what "
                           "the streams answer to it")
    streams: dict[bool, KetStream] = {}
    inner: list[KetEquation] = []
    outside: list[KetEquation] = []
    samples: list[tuple[Loop, ...]] = []
    named = dict[object, KetEquation]()
    for equation in _in_one_index(setting, kets.equations):
        equation = _without_names(setting, equation, named)
        loops = equation.location.loops
        if not any(loop.index in setting.program.layers for loop in loops):
            outside += _at_widths(setting, equation)
            continue
        _require_plain(setting, equation)
        samples.append(loops[1:-1])
        if isinstance(equation.target, Scalar):
            named[equation.target.family_key] = equation
            continue
        stream = _stream(equation)
        if stream is None:
            inner.append(equation)
        else:
            upward = not equation.location.loops[-1].descending
            if upward in streams:
                raise _refused(setting, f"two kets run through its layers in one direction, {streams[upward].after} "
                               f"and {stream.after}")
            streams[upward] = stream
    if set(streams) != {True, False}:
        raise _refused(setting, "no ket runs through its layers forward and another one backward as x + ...")
    vectors = [stream.after.vector for stream in streams.values()]
    for equation in inner:
        _require_same_layers(setting, equation, vectors)
    for upward, stream in streams.items():
        _require_same_layers(setting, stream.equation, vectors)
        _require_one_layer(setting, stream, upward)
        _require_given_end(setting, stream, outside)
    for end in outside:
        _require_boundaries(setting, vectors, end)
    for one, other in combinations(setting.products, 2):
        if one.matrix.same_family(other.matrix) and one.transposed == other.transposed:
            raise _refused(setting, f"{one.matvec} and {other.matvec} are products of one matrix")
    passes = _passes(setting, samples)
    for equation in (*inner, *(stream.equation for stream in streams.values())):
        _require_own_pass(setting, passes, equation)
    return KetLayer(setting, passes, streams[True], streams[False], tuple(inner), tuple(outside))


def _in_one_index(setting: Setting, equations: tuple[KetEquation, ...]) -> Iterator[KetEquation]:
    """The equations with one symbol for the layer: loops may have symbols of their own."""
    layers = setting.program.layers
    first = min(layers, key=str, default=None)
    for equation in equations:
        target, value, location = equation.target, equation.value, equation.location
        loop = location.loops[-1] if location.loops else None
        if loop is not None and loop.index in layers:
            target, value = (side.xreplace({loop.index: first}) for side in (target, value))
            location = replace(location, loops=(*location.loops[:-1], replace(loop, index=first)))
        yield KetEquation(target, value if value.has(Averaged) else flattened(value), location)


def _without_names(setting: Setting, equation: KetEquation, named: dict[object, KetEquation]) -> KetEquation:
    """The equation with the values of the numbers that the layer names, and with powers of L alone as such."""
    depth = setting.depth

    def value_of(scalar: Scalar) -> sp.Expr:
        meant = named[scalar.family_key]
        return meant.value.xreplace(dict(zip(meant.target.indices, scalar.indices)))

    def apart(power: sp.Pow) -> sp.Expr:
        number, of_depth = power.base.as_independent(depth, as_Add=False)
        base, exponent = of_depth.as_base_exp()
        return number**power.exp * base**(exponent * power.exp) if number.is_positive and base == depth else power
    value = equation.value.replace(lambda e: isinstance(e, Scalar) and e.family_key in named, value_of)
    return replace(equation, value=value.replace(lambda e: e.is_Pow and e.base != depth and e.base.has(depth), apart))


def _at_widths(setting: Setting, equation: KetEquation) -> Iterator[KetEquation]:
    """The equation of every coordinate of inputs and outputs, sums over such coordinates written out."""
    roles = setting.program.index_roles()
    loops = [loop for loop in equation.location.loops if roles.get(loop.index) == "width"]
    kept = tuple(loop for loop in equation.location.loops if loop not in loops)
    for loop in loops:
        if not (loop.first.is_Integer and loop.last.is_Integer):
            raise _refused(setting, f"{equation.target} has coordinates up to {loop.last}, which is no number")

    def written_out(one: sp.Sum) -> sp.Expr:
        known = all(roles.get(i) == "width" and (first.is_Integer and last.is_Integer) for i, first, last in one.limits)
        return one.doit(deep=False) if known else one
    location = replace(equation.location, loops=kept)
    for numbers in product(*(range(int(loop.first), int(loop.last) + 1) for loop in loops)):
        values = {loop.index: sp.Integer(number) for loop, number in zip(loops, numbers)}
        target, value = (e.xreplace(values) for e in (equation.target, equation.value))
        yield KetEquation(target, value.replace(lambda e: isinstance(e, sp.Sum), written_out), location)


def _passes(setting: Setting, samples: list[tuple[Loop, ...]]) -> Passes:
    """The passes that layers make: one a step, or one for every sample."""
    several = {tuple((loop.index, loop.first, loop.last) for loop in loops) for loops in samples}
    if len(several) > 1:
        raise _refused(setting, "its layers have samples in some statements, and none or others in others")
    loops = samples[0] if samples else ()
    if loops and loops[0].first != 0:
        raise _refused(setting, f"its samples are counted from {loops[0].first}; expected 0")
    assert setting.time is not None
    return Passes.of(setting.time, setting.past, loops)


def _require_own_pass(setting: Setting, passes: Passes, equation: KetEquation) -> None:
    """Beside sums over passes, which updates make, a sample of a step knows nothing of the step's others."""
    value = equation.value.replace(lambda e: isinstance(e, sp.Sum), lambda e: sp.Integer(0))
    for one in value.atoms(Vector, Scalar) if passes.several else ():
        sample = [index for index in one.indices if passes.i in index.free_symbols]
        if isinstance(one, Vector) and sample != [passes.i]:
            raise _refused(setting, f"{equation.target} reads {one}, of another sample")


def _stream(equation: KetEquation) -> KetStream | None:
    """The equation as one of a stream: its value has the same ket, one layer before, as a term."""
    index = equation.location.loops[-1].index
    target = equation.target
    for term in sp.Add.make_args(equation.value) if isinstance(target, Ket) else ():
        if (isinstance(term, Ket) and term.vector.same_family(target.vector)
                and term.vector.indices[:-1] == target.vector.indices[:-1]
                and term.vector.indices[-1] - target.vector.indices[-1] in (1, -1)
                and index in term.vector.indices[-1].free_symbols):
            return KetStream(equation, term, equation.value - term)
    return None


def _require_one_layer(setting: Setting, stream: KetStream, upward: bool) -> None:
    """A layer l takes x from l - 1 to l, and its gradient from l to l - 1."""
    index = stream.equation.location.loops[-1].index
    layers = (index - 1, index) if upward else (index, index - 1)
    if (stream.before.vector.indices[-1], stream.after.vector.indices[-1]) != layers:
        raise _refused(setting, f"layer {index} makes {stream.after} of {stream.before}; expected layers {layers[0]} "
                       f"and {layers[1]}")


def _require_boundaries(setting: Setting, streams: list[Vector], equation: KetEquation) -> None:
    """What stands outside of layers reads streams at their ends, and has no size that depends on the depth."""
    depth, said = setting.depth, f"{equation.target} = {equation.value}"
    members = {one for side in (equation.target, equation.value) for one in side.atoms(Member)}
    for one in members:
        if any(one.same_family(stream) for stream in streams) and one.indices[-1] not in (depth, sp.Integer(0)):
            raise _refused(setting, f"{said} reads the stream at a layer within, {one}")
    if depth in equation.value.xreplace({one: sp.Dummy() for one in members}).free_symbols:
        raise _refused(setting, f"{said} has a power of {depth}")
    kets = {one: sp.Dummy() for one in equation.value.atoms(Ket)}
    value = equation.value.xreplace(kets)
    if isinstance(equation.target, Ket) and any(value.diff(one).has(*kets.values()) for one in kets.values()):
        raise _refused(setting, f"{said} is no sum of multiples of kets")


def _require_given_end(setting: Setting, stream: KetStream, outside: list[KetEquation]) -> None:
    """A stream starts from numbers times vectors, initial or trained, that are outside of the layers."""
    given = {vector.name for vector in setting.program.vectors}
    given |= {end.target.vector.name for end in outside if isinstance(end.target, Ket)} - {stream.after.vector.name}
    for end in outside:
        if isinstance(end.target, Ket) and end.target.vector.same_family(stream.after.vector):
            made = {ket.vector.name for ket in end.value.atoms(Ket)}
            if made - given or end.value.has(sp.Sum, Response):
                raise _refused(setting, f"{end.target} = {end.value} is no vector outside of the layers times a number")


def _require_plain(setting: Setting, equation: KetEquation) -> None:
    """Kets of a layer have a step and a layer; updates are linear; matrices are of the layer."""
    roles, loops = setting.program.index_roles(), equation.location.loops
    expected = (("clock", "layer"), ("clock", "sample", "layer"))
    if (found := tuple(roles[loop.index] for loop in loops)) not in expected:
        raise _refused(setting, f"{equation.target} stands in loops over a {', a '.join(found)}; expected them over a "
                       "step, a sample where there are several, and a layer")
    loop = loops[-1]
    ends = sp.Integer(1), setting.depth
    if (loop.first, loop.last) != (ends[::-1] if loop.descending else ends):
        raise _refused(setting, f"{equation.target} has layers {loop.first} to {loop.last}; expected all of them, 1 to "
                       f"{setting.depth}")
    if not isinstance(equation.target, Ket):
        return
    if equation.value.has(sp.Piecewise):  # sums over steps would take its pieces apart
        raise _refused(setting, f"{equation.target} is written in pieces, {equation.value}; with Max, Min or Abs it "
                       "has one form")
    if equation.value.has(Averaged):
        raise _refused(setting, f"{equation.target} contains means over independent copies, as updates bring that are "
                       "not linear in gradients")
    for hat in equation.value.atoms(Hat):
        matrix = hat.vector.matrix.member
        if loop.index not in matrix.free_symbols:
            raise _refused(setting, f"{matrix} is shared by layers, which carries memory from one to the next")


def _require_same_layers(setting: Setting, equation: KetEquation, streams: list[Vector]) -> None:
    """All layers are alike and know each other through streams alone; powers of L multiply updates, and what a layer
    adds to a stream, nothing else."""
    index, depth = equation.location.loops[-1].index, setting.depth
    for one in equation.value.atoms(Vector, Matrix):
        near = (index, index - 1) if any(one.same_family(stream) for stream in streams) else (index,)
        if index in one.free_symbols and one.indices[-1] not in near:
            raise _refused(setting, f"{equation.target} reads {one}, of another layer")
    of_stream = isinstance(equation.target, Ket) and any(equation.target.vector.same_family(one) for one in streams)
    value = sp.Add(*(_without_powers(term, depth) if of_stream or term.has(sp.Sum) else term
                     for term in sp.Add.make_args(multiplied_out(equation.value))))
    whole = value.atoms(Ket, Hat, Bracket, Response, Scalar)
    numbers = value.xreplace({one: sp.Dummy() for one in whole}).free_symbols
    numbers |= set().union(*(one.free_symbols for one in equation.value.atoms(Scalar)))
    if index in numbers:
        raise _refused(setting, f"{equation.target} is made in another way in each layer, {equation.value}")
    if depth in numbers:
        raise _refused(setting, f"{equation.target} = {equation.value}: a power of {depth} stands in a function or "
                       "before what is no update")


def _without_powers(value: sp.Expr, depth: sp.Expr | None) -> sp.Expr:
    """The value without factors of its terms, or of those of its sums, that are powers of L."""
    def rest(factor: sp.Expr) -> sp.Expr:
        total = isinstance(factor, sp.Sum)
        return sp.Sum(_without_powers(factor.function, depth), *factor.limits) if total else factor
    return sp.Add(*(sp.Mul(*(rest(f) for f in sp.Mul.make_args(term) if f.as_base_exp()[0] != depth))
                    for term in sp.Add.make_args(multiplied_out(value))))


def _refused(setting: Setting, why: str) -> NotCovered:
    return NotCovered(f"program {setting.program.name}: {why}; expected one residual stream, x + what a layer's own "
                      "matrices make of it, updates linear in gradients")
