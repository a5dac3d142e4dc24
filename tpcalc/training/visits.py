"""The way of a stream through the layers: once, or as often as they are visited, in cycles or layer by layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Mapping, Sequence

import sympy as sp

from ..models.network import Network
from ..programs.indices import VISITS, L, c, l
from ..programs.language import Family, Member
from ..programs.program import Assign, Loop, Statement

Index = tuple[sp.Expr, ...]
Each = Callable[..., list[Statement]]
ONE = sp.Integer(1)


@dataclass(frozen=True)
class Way:
    """Where a stream goes, behind the indices of a sample.

    first, last: the indices of x^0 and of what the readout reads; before, after: of what a layer acts on and of what it
    makes, as the network writes them; read: of what it acts on, as the program has it; inject: what every visit adds of
    x^0 to a stream that is read out. Streams that are not are memories of their own, such as the x^0 of a ``tp.Skip``.

    Layers in cycles have x[c - 1, L] go on as x[c, 0]. Where every layer is visited N times in a row, a visit acts on
    x[c - 1, l], and x[N, l - 1] goes on as x[0, l].
    """

    first: Index
    last: Index
    before: Index
    after: Index
    read: Index
    inject: Mapping[str, sp.Expr] = field(default_factory=dict)

    @classmethod
    def of(cls, net: Network) -> Way:
        """The way through the layers of a network."""
        if net.visits == 1:
            return cls((sp.Integer(0),), (L,), (l - 1,), (l,), (l - 1,))
        if net.order == "cycle":
            read_out = [stream.name for stream, weight in zip(net.streams, net.readout_weights) if weight != 0]
            return cls((sp.Integer(0), L), (VISITS, L), (c, l - 1), (c, l), (c, l - 1),
                       dict.fromkeys(read_out, net.inject / VISITS))
        return cls((VISITS, sp.Integer(0)), (VISITS, L), (c, l - 1), (c, l), (c - 1, l))

    @property
    def visits(self) -> Index:
        """The index of visits, where there are several."""
        return self.before[:-1]

    @property
    def parts(self) -> sp.Expr:
        """How many visits the change by a layer is made of."""
        return VISITS if self.visits else ONE

    def at(self, expression: sp.Expr) -> sp.Expr:
        """What a layer reads where the program has it."""
        if self.read == self.before:
            return expression
        count = len(self.before)
        return expression.xreplace({one: one.func(*one.args[:-count], *self.read) for one in expression.atoms(Member)
                                    if one.args[-count:] == self.before})

    def placed(self, one: Assign) -> Assign:
        """A statement of a layer where the program has it."""
        return Assign(self.at(one.target), self.at(one.value))

    def total(self, gradient: sp.Expr) -> sp.Expr:
        """Over visits, of what each of them asks of a layer."""
        return sp.Sum(gradient, (c, 1, VISITS)) if self.visits else gradient

    def forward(self, layer: Sequence[Statement], streams: Sequence[Family], sample: Index, each: Each
                ) -> list[Statement]:
        """The statements of all layers; each: loops for statements over what else a sample has."""
        joined = [Assign(stream[(*sample, *self._entered)], stream[(*sample, *self._left)]
                         + self.inject.get(stream.name, 0) * stream[(*sample, *self.first)])
                  for stream in streams] if self.visits else []
        return self._looped(layer, each(*joined), False)

    def backward(self, layer: Sequence[Statement], gradients: Sequence[Family], sample: Index, each: Each
                 ) -> list[Statement]:
        """The statements that go back through all layers."""
        joined = [Assign(one[(*sample, *self._left)], one[(*sample, *self._entered)])
                  for one in gradients] if self.visits else []
        return self._looped(layer, each(*joined), True)

    def of_start(self, stream: Family, gradient: Family, sample: Index) -> sp.Expr:
        """The gradient of x^0, which every visit may have read."""
        entered, inject = gradient[(*sample, *self._entered)], self.inject.get(stream.name, 0)
        return gradient[(*sample, *self.first)] + (inject * sp.Sum(entered, (c, 1, VISITS)) if inject else 0)

    @property
    def _in_cycles(self) -> bool:
        return self.read == self.before

    @property
    def _entered(self) -> Index:
        """What a visit of all layers, or all visits of a layer, start from."""
        return (c, sp.Integer(0)) if self._in_cycles else (sp.Integer(0), l)

    @property
    def _left(self) -> Index:
        """What the one before has made."""
        return (c - 1, L) if self._in_cycles else (VISITS, l - 1)

    def _looped(self, layer: Sequence[Statement], joined: Sequence[Statement], down: bool) -> list[Statement]:
        indices = [(c, VISITS), (l, L)] if self._in_cycles else [(l, L), (c, VISITS)]
        *outer, (inner, size) = indices if self.visits else [(l, L)]
        body: list[Statement] = [_loop(inner, size, layer, down)]
        for index, size in outer:
            body = [_loop(index, size, [*body, *joined] if down else [*joined, *body], down)]
        return body


def _loop(index: sp.Symbol, size: sp.Symbol, body: Sequence[Statement], down: bool) -> Loop:
    first, last = (size, ONE) if down else (ONE, size)
    return Loop(index, first, last, tuple(body), down)
