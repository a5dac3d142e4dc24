"""``Role``: what a parameter does, from how it is used, where it stands, and which of its axes grow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Mapping, Sequence

from ...groups.names import Shape
from ...tune.parameters import MATRICES, VECTORS
from .graph import Axes
from .kinds_of_ops import ATTENTIONS, BOUNDED, CONTRACTIONS, CONVOLUTIONS, MOVES, PRODUCTS
from .matching import Growth
from .network import NOWHERE, OpLocation, RecordedNetwork
from .stream import mixing
from .uses import Use

CHOOSES = frozenset("topk sort argmax _softmax sigmoid".split())
FURTHEST = 12  # operations from a router's product to its choice
LINEAR = PRODUCTS  # operations on a parameter, other than views, that leave it a matrix
SMALLER = 2    # times, at least, that a router's outputs are fewer than its inputs

SHARED = "shared by several branches"


@dataclass(frozen=True)
class Role:
    """What one parameter of the base does.

    kind: one of ``tpcalc.tune.parameters.ROLES``; in_layers: whether it is used once a layer; ends: whether its branch
    ends in it; stream: the number of the stream that it belongs to; fan_in, fan_out: by how much they grow, to the
    target; growth: that of each axis; places, uses: where and how it is read, as text; forward: by how much what the
    forward pass multiplies its product with grows, at_head: the same where a tied matrix is the head; head: the module
    that returns that product, None for none; visits: by how much grows how often the forward pass comes back to it,
    None where that is not told; experts, active: by how much the number of experts grows that it chooses between, or is
    one of, and of those that act; gates: how large what multiplies them is, as ``gates_of`` says; by_itself:
    whether it is added as it is, whatever the data are; note: what is odd.
    """

    name: str
    kind: str
    in_layers: bool = False
    ends: bool = False
    stream: int = 0
    shape: Shape = ()
    fan_in: float = 1.0
    fan_out: float = 1.0
    growth: Growth = ()
    places: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    forward: float = 1.0
    at_head: float = 1.0
    head: str | None = None
    visits: float | None = 1.0
    experts: float = 1.0
    active: float = 1.0
    gates: str = ""
    by_itself: bool = False
    note: str = ""

    @property
    def is_matrix(self) -> bool:
        return self.kind in MATRICES

    def __str__(self) -> str:
        where = "a layer" if self.in_layers else "outside of layers"
        ends = self.ends and self.kind not in ("branch output", "stream factor")
        return f"{self.kind}{', ends its branch' if ends else ''}, {where}"


def visits_of(name: str, network: RecordedNetwork, inside: Sequence[set[int]]) -> int:
    """How many layers a parameter stands in, of those that are counted."""
    places = {network.place(use) for use in network.uses_of(name)}
    return len({(one.stream, one.branch) for one in places
                if one.part == "branch" and one.branch in inside[one.stream]})


def merged(network: RecordedNetwork) -> dict[str, str]:
    """Parameters that are one matrix together with others, or after operations that are not linear, with what is said
    of them: products, sums and concatenations, as of weights into which others are merged."""
    graph, found = network.graph, {}
    for use in network.uses:
        odd = [one for one in use.through if one not in LINEAR]
        if use.how == "matrix" and (len(use.together) > 1 or odd):
            others = ", ".join(one for one in use.together if one != use.parameter)
            found[use.parameter] = (f"one matrix with {others}" if others else f"read through {odd[0]}") + (
                f", in {use.op.place}")
    for op in network.tape.ops:
        signals = graph.signals(op)
        if op.name in CONTRACTIONS | ATTENTIONS and graph.of_batch.intersection(signals):
            for number in set(signals) - graph.of_batch:
                cone = graph.cone(number, set())
                found.update((use.parameter, f"made of parameters alone what {op.place} multiplies with the batch")
                             for use in network.uses if use.op.index in cone)
    return found


class RoleFinder:
    """Roles of all parameters of a network. layers: as ``layers`` returns them; alone: as ``extras`` does; growth:
    parameter -> that of its axes."""

    def __init__(self, network: RecordedNetwork, layers: Sequence[set[int]], alone: set[str],
                 growth: Mapping[str, Growth]) -> None:
        self.network, self.layers, self.growth = network, layers, growth
        self.widens = any(ratio != 1 for one in growth.values() for ratio in one)
        self.merged, self.alone = merged(network), alone
        self.ends: dict[str, list[tuple[Use, tuple[str, ...]]]] = {}
        for _, branch in network.branches:
            for use in branch.ends.uses:
                self.ends.setdefault(use.parameter, []).append((use, branch.ends.ways))
        own = {use.op.index for use in network.uses}
        self.mixed = {stream.index for stream in network.streams if any(
            op.index not in own and op.name not in CONVOLUTIONS for op in mixing(stream))}

    def roles(self) -> list[Role]:
        """In the order in which the model has its parameters."""
        return [self.role(name) for name in self.network.tape.shapes]

    def role(self, name: str) -> Role:
        uses = self.network.acting(name)
        places = [self.network.place(use) for use in uses]
        matrices = [use for use in uses if use.how == "matrix"]
        kind, note = self._kind(name, uses, matrices, places)
        fan_in = max((self._grown(name, use.fan_in) for use in matrices), default=1.0)
        looked_up = [use for use in uses if use.how == "gather"]
        left = looked_up if kind == "tied" else matrices or looked_up
        fan_out = max((self._grown(name, use.fan_out) for use in left), default=1.0)
        if kind == "input" and fan_in == fan_out == 1 or kind in VECTORS:
            kept = {axis for use in uses for axis in use.axes if axis is not None}
            fan_out = max((self._grown(name, (axis,)) for axis in kept), default=1.0)
        if kind == "output":  # one more number that is returned is no wider matrix
            fan_out = 1.0
        branches = {place for place in places if place.part == "branch"}
        if len({place for use, place in zip(uses, places) if use.how == "matrix" and place.part == "branch"}) > 1:
            note = f"{note}, {SHARED}".strip(", ")
        inside = any(place.branch in self.layers[place.stream] for place in branches) or any(
            place.part == "stream" for place in places)
        if inside and name in self.alone and kind != "table":
            inside, note = False, f"{note}, in one layer alone".strip(", ")
        first = min(branches, default=places[0] if places else NOWHERE)
        return Role(name, kind, inside, name in self.ends, first.stream, self.network.tape.shapes[name], fan_in,
                    fan_out, self.growth.get(name, ()), tuple(dict.fromkeys(map(str, places))),
                    tuple(dict.fromkeys(map(str, uses))), head=self._head(
                        [use for use in matrices if self.network.place(use).part == "out"]),
                    by_itself=kind == "input" and all(use.how in ("cat", "bias") for use in uses), note=note)

    def _head(self, uses: list[Use]) -> str | None:
        """The innermost module that returns a product with a matrix behind the stream, through views."""
        graph, found = self.network.graph, []
        for use in uses:
            front = [use.op.output]
            while front:
                number = front.pop()
                found += graph.tape.returned.get(number, [])
                front += [op.output for op in graph.readers.get(number, []) if op.name in MOVES and op.outputs]
        return max(found, key=len, default=None)

    def _grown(self, name: str, axes: Axes) -> float:
        growth = self.growth.get(name, ())
        return prod(growth[axis] for axis in axes if axis is not None) if growth else 1.0

    def _kind(self, name: str, uses: list[Use], matrices: list[Use], places: list[OpLocation]) -> tuple[str, str]:
        hows = Counter(use.how for use in uses)
        if not uses:
            return "unused", ""
        if self._mixes_streams(places):
            return "stream mixing", ""
        if name in self.merged:
            return "not understood", self.merged[name]
        if hows["gather"]:
            return self._looked_up(name, uses, matrices, hows)
        if hows["table"]:
            return "input", "a table that is read like an activation"
        if matrices:
            return self._matrix(name, matrices[0])
        if hows["cat"]:
            return "table" if any(place.part == "branch" for place in places) else "input", ""
        if hows["mask"]:
            return "table", ""
        if hows["gain"] or hows["bias"]:
            return self._vector(name, uses, places, hows)
        return ("recurrence" if any("exp" in use.through for use in uses) else "not understood"), str(uses[0])

    def _looked_up(self, name: str, uses: list[Use], matrices: list[Use], hows: Counter[str]) -> tuple[str, str]:
        gathers = [use for use in uses if use.how == "gather"]
        place, shape = self.network.place(gathers[0]), self.network.tape.shapes[name]
        grows = any(ratio != 1 for ratio in self.growth.get(name, ()))
        if any(self.network.place(use).part == "out" for use in matrices):
            return "tied", ""
        if place.part == "branch":
            of_several = len(uses) == hows["gather"] and uses[0].op.name == "index" and len(shape) <= 2 and grows
            return ("bias", "one of several, chosen by an index") if of_several else ("table", "")
        return ("input" if self._grown(name, gathers[0].fan_out) != 1 or not self.widens else "table"), ""

    def _matrix(self, name: str, use: Use) -> tuple[str, str]:
        place, shape = self.network.place(use), self.network.tape.shapes[name]
        grows_in, grows_out = (self._grown(name, axes) != 1 for axes in (use.fan_in, use.fan_out))
        if place.part == "stream":
            return "stream matrix", ""
        if place.part in ("in", "out"):
            if not self.widens:
                return ("input" if place.part == "in" else "output"), ""
            if grows_in and grows_out:
                return ("output" if self._is_vocabulary(name, use) else "hidden"), ""
            one_sided = grows_out if place.part == "in" else grows_in
            return (("input" if place.part == "in" else "output") if one_sided else "fixed matrix"), ""
        if place.part != "branch":
            return "not understood", str(use)
        if use.op.name in CONVOLUTIONS and len(shape) > 2 and prod(shape[1:]) == max(shape[1:]) or (
                use.op.name in CONVOLUTIONS and len(shape) == 4 and shape[1] == 1):
            return "convolution", ""
        if len(shape) == 3 and use.op.name not in CONVOLUTIONS:
            return "expert", ""
        if name in self.ends:
            return "branch output", ""
        if not grows_out and SMALLER * min(shape) <= max(shape) and self._chooses(use):
            return "router", ""
        return ("token mixing" if self.widens and not (grows_in or grows_out) else "hidden"), ""

    def _is_vocabulary(self, name: str, use: Use) -> bool:
        """Is a product behind the stream what the model returns, of a size that grows by itself?"""
        if self.network.place(use).part != "out" or self._grown(name, use.fan_in) == self._grown(name, use.fan_out):
            return False
        graph, front, seen = self.network.graph, list(use.op.outputs), set[int]()
        contracted = {one.op.index for one in self.network.uses if one.how == "matrix"}
        while front:
            for reader in graph.readers.get(front.pop(), []):
                if reader.index in contracted:
                    return False
                if reader.index not in seen:
                    seen.add(reader.index)
                    front += reader.outputs
        return True

    def _chooses(self, use: Use) -> bool:
        """Is a product turned into a choice or into weights, with no other product in between?"""
        graph, front, seen = self.network.graph, [use.op], set()
        for _ in range(FURTHEST):
            behind = []
            for op in front:
                for number in op.outputs:
                    for reader in graph.readers.get(number, []):
                        if reader.name in CHOOSES:
                            return True
                        if reader.index not in seen and reader.name in MOVES:
                            seen.add(reader.index)
                            behind.append(reader)
            front = behind
        return False

    def _vector(self, name: str, uses: list[Use], places: list[OpLocation], hows: Counter[str]) -> tuple[str, str]:
        through = [one for use in uses for one in use.through if one in BOUNDED]
        normed = any(use.op.index in self.network.norms for use in uses)
        if through and not normed:
            return "recurrence", through[0]
        on_stream, grows = any(place.part == "stream" for place in places), any(
            ratio != 1 for ratio in self.growth.get(name, ()))
        if not hows["gain"]:
            table = len([n for n in self.network.tape.shapes[name] if n > 1]) > 1
            return ("input" if table and any(place.part == "in" for place in places) and (grows or not self.widens)
                    else "bias"), ""
        ends = self.ends.get(name, [])
        if normed or any(self._is_behind_norm(use) for use in uses if use.how == "gain"):
            return "gain", ""
        if on_stream:
            return "stream factor", ""
        if ends and not all(use.op.index in self.network.norms for use, _ in ends):
            return ("stream factor" if all(ways == ("stream",) for _, ways in ends) else "branch scale"), ""
        return ("gain" if grows or not self.widens and prod(self.network.tape.shapes[name]) > 1 else "scale"), ""

    def _is_behind_norm(self, use: Use) -> bool:
        """Does a factor multiply what a norm returns, through views and other factors?"""
        graph, front = self.network.graph, self.network.graph.activations(use.op)
        for _ in range(6):
            behind: list[int] = []
            for number in front:
                op = graph.tape.maker(number)
                if op is not None and op.index in self.network.norms:
                    return self.network.places.get(op.index) == self.network.place(use)
                if op is not None and op.name in MOVES | PRODUCTS:
                    behind += graph.activations(op)
            front = behind
        return False

    def _mixes_streams(self, places: list[OpLocation]) -> bool:
        """Does it stand where several streams are one, and products mix them?"""
        return any(place.part == "stream" and place.stream in self.mixed for place in places)
