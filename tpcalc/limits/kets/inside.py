"""Where updates stand inside the activation: nothing is expanded, and streams take means over what a layer draws.

At alpha = 1, gamma = 0 an update moves the arguments of a layer's functions by as much as its hats do. What the other
layers owe to the layer still vanishes: streams do not answer it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy as sp

from ...calculus.kets import Bracket, Hat, Ket, Response
from ...gaussian.variables import Expectation
from ..integral_equations import LimitEquation
from .layer import KetStream, is_drawn
from .nodes import LayerGaussian, GivenStreams, Increment, STEP
from .sums import factors_inside, total

if TYPE_CHECKING:
    from .in_layer_time import StreamEquations


def inside_equations(streams: "StreamEquations") -> tuple[LimitEquation, ...]:
    """The equations of the streams, and of the kets that a layer makes of them."""
    layer = streams.expansion.layer
    moved = [(sign * Increment(stream.before), _taken(streams, stream))
             for sign, stream in ((1, layer.forward), (-1, layer.backward))]
    made = [(e.target, _surviving(streams, e.value)) for e in layer.inner]
    needed = _needed(dict(made), [value for _, value in moved])
    kept = [*((target, value) for target, value in made if target in needed), *moved]
    return (*_laws(streams, [value for _, value in kept]),
            *(LimitEquation(streams.in_time(target), streams.in_time(_lettered(streams, value)), ())
              for target, value in kept))


def _surviving(streams: "StreamEquations", value: sp.Expr, layers: sp.Expr = sp.Integer(0)) -> sp.Expr:
    """The value without what vanishes: terms with a power of L that is negative, answers of streams."""
    expansion = streams.expansion

    def answers(e: sp.Basic) -> bool:
        now = isinstance(e, Response) and expansion.passes.of_now(Ket(e.vector))
        return bool(now) and now in expansion.layer.streams
    value = value.replace(answers, lambda e: sp.Integer(0))
    found = streams.settled(value, layers)
    return found.replace(lambda e: isinstance(e, sp.Sum), lambda e: total(e.function, *e.limits))


def _taken(streams: "StreamEquations", stream: KetStream) -> sp.Expr:
    """What a stream takes per layer time: means of what the layer makes, given the streams."""
    layer, drawn, numbers = streams.expansion.layer, sp.Integer(0), sp.Integer(0)
    entering = {one for ket in layer.streams for one in (ket, layer.before(ket))}
    for term in sp.Add.make_args(_surviving(streams, factors_inside(stream.added), sp.Integer(1))):
        if is_drawn(term):
            continue  # it has no mean, and layers draw it independently
        if term.atoms(Ket) - {k for e in term.atoms(Expectation) for k in e.atoms(Ket)} <= entering:
            numbers += term
        else:
            drawn += term
    given = GivenStreams(drawn, *layer.streams) if drawn != 0 else sp.Integer(0)
    return STEP * (given + numbers)


def _needed(made: dict[Ket, sp.Expr], values: list[sp.Expr]) -> set[Ket]:
    """The kets that values stand on, through brackets and answers too."""
    found: set[Ket] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        inside = set(value.atoms(Ket)) | {Ket(v) for e in value.atoms(Bracket) for v in e.args}
        inside |= {Ket(e.vector) for e in value.atoms(Response)}
        for ket in made:
            if ket not in found and any(one.vector.same_family(ket.vector) for one in inside):
                found.add(ket)
                waiting.append(made[ket])
    return found


def _lettered(streams: "StreamEquations", value: sp.Expr) -> sp.Expr:
    """With letters for hats; what is answered to a hat is answered to its letter."""
    fresh, scale = streams.letters.fresh, streams.letters.scale
    hats = {hat: fresh(hat) / scale(hat) for hat in value.atoms(Hat)}
    kept = {e: Response(e.vector, fresh(e.base)) * scale(e.base) for e in value.atoms(Response)}
    return value.xreplace(kept).xreplace(hats)


def _laws(streams: "StreamEquations", values: list[sp.Expr]) -> list[LimitEquation]:
    """What the letters are, and their covariances."""
    passes = streams.expansion.passes
    met = {streams.letters.fresh(hat): hat for value in values for hat in map(passes.of_now, value.atoms(Hat))}
    names, laws = [], []
    for letter, hat in sorted(met.items(), key=str):
        scale, vector = streams.letters.scale(hat), hat.vector.vector
        earlier = passes.before(scale) * Bracket(vector, passes.before(vector))
        names.append(LimitEquation(letter, streams.in_time(scale * hat), ()))
        product = Expectation(letter * LayerGaussian(letter.args[0], passes.other))
        laws.append(LimitEquation(product, streams.in_time(scale * earlier), ()))
    return [*names, *laws]
