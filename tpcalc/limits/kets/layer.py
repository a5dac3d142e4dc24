"""One layer of a residual network in kets: two streams, what the layer adds to them, and kets made within it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import sympy as sp

from ...calculus.equations import KetEquation, KetEquations
from ...calculus.kets import Averaged, Bracket, Hat, Ket, Response
from ...calculus.setting import Setting
from ...errors import NotCovered
from ...programs.language import Scalar


@dataclass(frozen=True)
class KetStream:
    """A ket that runs through the layers: a layer makes ``after`` of ``before``, ``added`` is their difference."""

    equation: KetEquation
    before: Ket
    added: sp.Expr

    after = property(lambda self: self.equation.target)


@dataclass(frozen=True)
class KetLayer:
    """The kets of a layer at step ``setting.time``: x forward, its gradient backward, and those that the layer makes of
    them, in program order; outside: equations at the ends of layer time and of the outputs."""

    setting: Setting
    forward: KetStream
    backward: KetStream
    inner: tuple[KetEquation, ...]
    outside: tuple[KetEquation, ...]

    @property
    def index(self) -> sp.Symbol:
        """The layer's."""
        found: sp.Symbol = self.forward.equation.location.loops[-1].index
        return found

    def at(self, expression: sp.Expr, step: sp.Expr) -> sp.Expr:
        """The expression at another step."""
        return expression.xreplace({self.setting.time: step})

    def refused(self, why: str) -> NotCovered:
        """What to raise for a layer that is read, and has no limit of this kind."""
        return _refused(self.setting, why)

    @property
    def streams(self) -> tuple[Ket, Ket]:
        """x as the layer meets it, and the gradient as it comes from the layers above."""
        return self.forward.before, self.backward.before


def layer_of(kets: KetEquations) -> KetLayer:
    """Read the layer off the equations. Raises ``NotCovered`` for what has no such layer, and says what it has."""
    setting = kets.setting
    if setting.depth is None or setting.clock is None:
        raise _refused(setting, "it has no layers, or no training steps")
    streams: dict[bool, KetStream] = {}
    inner: list[KetEquation] = []
    outside: list[KetEquation] = []
    for equation in kets.equations:
        if not equation.location.loops[1:]:
            outside.append(equation)
            continue
        _require_plain(setting, equation)
        stream = _stream(equation)
        if stream is None:
            inner.append(equation)
        else:
            upward = stream.after.vector.indices[-1] == equation.location.loops[-1].index
            if upward in streams:
                raise _refused(setting, f"two kets run through its layers in one direction, {streams[upward].after} "
                               f"and {stream.after}")
            streams[upward] = stream
    if set(streams) != {True, False}:
        raise _refused(setting, "no ket runs through its layers forward and another one backward as x + ...")
    for stream in streams.values():
        _require_given_end(setting, stream, outside)
    for one, other in combinations(setting.products, 2):
        if one.matrix.same_family(other.matrix) and one.transposed == other.transposed:
            raise _refused(setting, f"{one.matvec} and {other.matvec} are products of one matrix")
    return KetLayer(setting, streams[True], streams[False], tuple(inner), tuple(outside))


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


def _require_given_end(setting: Setting, stream: KetStream, outside: list[KetEquation]) -> None:
    """A stream starts from initial vectors and numbers."""
    for end in outside:
        if isinstance(end.target, Ket) and end.target.vector.same_family(stream.after.vector):
            given = {Ket(vector) for vector in setting.program.vectors}
            if end.value.atoms(Ket) - given or end.value.has(sp.Sum, Response):
                raise _refused(setting, f"{end.target} = {end.value} is no initial vector times a number")


def _require_plain(setting: Setting, equation: KetEquation) -> None:
    """Kets of a layer have a step and a layer; updates are linear; matrices are of the layer."""
    if len(equation.location.loops) != 2:
        raise _refused(setting, f"{equation.target} has samples or positions beside step and layer")
    if not isinstance(equation.target, Ket):
        return
    if equation.value.has(sp.Piecewise):  # sums over steps would take its pieces apart
        raise _refused(setting, f"{equation.target} is written in pieces, {equation.value}; with Max, Min or Abs it "
                       "has one form")
    if equation.value.has(Averaged):
        raise _refused(setting, f"{equation.target} contains means over independent copies, as updates bring that are "
                       "not linear in gradients")
    index, depth = equation.location.loops[-1].index, setting.depth
    whole = equation.value.atoms(Ket, Hat, Bracket, Response, Scalar)
    numbers = equation.value.xreplace({one: sp.Dummy() for one in whole})
    powers = {one: sp.Dummy() for one in numbers.atoms(sp.Pow) if one.base == depth}
    if {index, depth} & numbers.xreplace(powers).free_symbols:
        raise _refused(setting, f"{equation.target} is made in another way in each layer, {equation.value}")
    for hat in equation.value.atoms(Hat):
        matrix = hat.vector.matrix.member
        if index not in matrix.free_symbols:
            raise _refused(setting, f"{matrix} is shared by layers, which carries memory from one to the next")


def _refused(setting: Setting, why: str) -> NotCovered:
    return NotCovered(f"program {setting.program.name}: {why}; expected one residual stream, x + what a layer's own "
                      "matrices make of it, updates linear in gradients, one sample a step")
