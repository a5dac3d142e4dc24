"""``RecordedNetwork``: a tape read as streams, with the place of every operation: in front, on, in a branch, behind."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

from .graph import Graph
from .kinds_of_ops import CHOICES, CONTRACTIONS
from .norms import Norm, find_norms
from .paths import CheapestPaths
from .stream import Kind, ResidualStream, StreamBranch, read_stream
from .tape import Tape
from .uses import Use, find_uses

ENCODERS = 3     # streams besides the main one, at most
CANDIDATES = 400  # tensors that are tried as ends of one
LEAST = 2        # branches that make a stream


class OpLocation(NamedTuple):
    """part: "in" front of a stream, "out" behind it, "stream" on it, "branch"; stream, branch: their numbers."""

    part: str
    stream: int = 0
    branch: int = -1

    def __str__(self) -> str:
        which = "the stream" if self.stream == 0 else f"stream {self.stream}"
        return {"in": f"in front of {which}", "out": f"behind {which}", "stream": f"on {which}",
                "branch": f"branch {self.branch} of {which}"}.get(self.part, "nowhere")


NOWHERE = OpLocation("nowhere")


@dataclass
class RecordedNetwork:
    """graph: of the tape; norms: by operation; uses: of parameters; streams: the one that leads to the output first;
    places: operation -> where it stands; zeros: parameters that are 0 at first, of which others are recorded."""

    graph: Graph
    norms: dict[int, Norm]
    uses: list[Use]
    streams: list[ResidualStream] = field(default_factory=list)
    places: dict[int, OpLocation] = field(default_factory=dict)
    zeros: frozenset[str] = frozenset()

    @property
    def tape(self) -> Tape:
        return self.graph.tape

    @property
    def branches(self) -> list[tuple[ResidualStream, StreamBranch]]:
        return [(stream, branch) for stream in self.streams for branch in stream.branches]

    def place(self, use: Use) -> OpLocation:
        return self.places.get(use.op.index, NOWHERE)

    def uses_of(self, parameter: str) -> list[Use]:
        return self._by_parameter[parameter]

    def acting(self, parameter: str) -> list[Use]:
        """Its uses on which something that is returned depends."""
        return [use for use in self.uses_of(parameter) if self.place(use) != NOWHERE]

    @cached_property
    def _by_parameter(self) -> dict[str, list[Use]]:
        found: dict[str, list[Use]] = defaultdict(list)
        for use in self.uses:
            found[use.parameter].append(use)
        return found


def read_network(tape: Tape) -> RecordedNetwork:
    """Streams and places of a tape."""
    graph = Graph(tape)
    norms = find_norms(graph)
    network = RecordedNetwork(graph, norms, find_uses(graph, norms))
    paths = CheapestPaths(graph, norms)
    network.streams.append(read_stream(graph, norms, network.uses, paths, tape.output, 0))
    for _ in range(ENCODERS):
        other = _another(network, paths)
        if other is None:
            break
        network.streams.append(other)
    network.places = _locations(network)
    for use in network.uses:
        place = network.place(use)
        if place.part == "branch":
            network.streams[place.stream].branches[place.branch].uses.append(use)
    for stream, branch in network.branches:
        branch.kind = _kind(network, stream, branch)
    return network


def _kind(network: RecordedNetwork, stream: ResidualStream, branch: StreamBranch) -> Kind:
    on_path = [k for k, index in enumerate(stream.path.ops) if network.tape.ops[index].name in CONTRACTIONS
               and stream.first <= k < branch.where]
    sources = {network.places[maker].stream for i in branch.ops for number in network.tape.ops[i].inputs
               for maker in [network.tape.makers.get(number, -1)] if maker in network.places}
    uses = tuple((use.how, use.op.name) for use in branch.uses)
    if any(network.tape.ops[i].name in CHOICES for i in branch.ops):
        uses = tuple(dict.fromkeys(uses))  # data say how many experts act
    return stream.index, len(on_path), tuple(sorted(sources)), uses or branch.signature


def _another(network: RecordedNetwork, paths: CheapestPaths) -> ResidualStream | None:
    """A stream of its own that branches of the first one read, such as an encoder's; the one of most branches."""
    on_streams = {number for stream in network.streams for number in stream.path.values
                  if network.tape.is_floating(number)}  # whole numbers, as words are, may be read by both
    read = partial(read_stream, network.graph, network.norms, network.uses, paths, index=len(network.streams))
    weights: dict[int, int] = {}
    ranks = []
    for sink in _other_inputs(network):
        values = paths.to(sink).values
        if not values or on_streams.intersection(values):
            continue
        if sink not in weights:  # the streams to tensors of a path are its beginnings
            weights.update(read(sink).weights)
        ranks.append((weights[sink], -len(values), sink))
    weight, _, sink = max(ranks, key=lambda one: one[:2], default=(0, 0, -1))
    return read(sink) if weight >= LEAST else None


def _other_inputs(network: RecordedNetwork) -> list[int]:
    """Tensors that do not come from the first stream and meet it, the last one first."""
    graph, main = network.graph, network.streams[0]
    behind = set(main.path.values[main.first:])
    for op in network.tape.ops:
        if behind.intersection(op.inputs):
            behind.update(op.outputs)
    counted = Counter(number for op in network.tape.ops for number in set(op.inputs)
                      if graph.is_activation(number) and number not in behind and number in network.tape.makers
                      and (behind.intersection(op.outputs) or op.name in CONTRACTIONS))
    return sorted(counted, key=lambda number: -network.tape.makers[number])[:CANDIDATES]


def _locations(network: RecordedNetwork) -> dict[int, OpLocation]:
    """Own operations of branches and streams; what is left stands where it is read."""
    places: dict[int, OpLocation] = {}
    main, others = network.streams[0], network.streams[1:]
    for stream in network.streams[::-1]:
        places.update(_along(stream))
    for stream in network.streams:
        for index, branch in stream.owners.items():
            places.setdefault(index, OpLocation("branch", stream.index, branch.index))
    for stream in others:
        places.update((index, OpLocation("branch", stream.index, one.index)) for index, one in stream.owners.items())
        places.update(_along(stream))
    on_paths = {index for stream in network.streams for index in stream.path.ops}
    for stream in others:  # what a second stream is made of was counted to the branches that read it
        front = OpLocation("in", stream.index)
        on_path = set(stream.path.values)
        for index in network.graph.cone(stream.path.values[stream.first], set()):
            if not (index in on_paths and places.get(index, OpLocation("branch")).part in ("in", "stream")):
                places[index] = front
        for index in stream.path.ops[:stream.first]:
            for number in network.graph.activations(network.tape.ops[index]):
                places.update((one, front) for one in network.graph.cone(number, on_path))
    places.update(_along(main))
    for op in network.tape.ops[::-1]:
        if op.index not in places:
            read_at = (reader.index for number in op.outputs for reader in network.graph.readers.get(number, [])
                       if reader.index in places)
            found = next(read_at, None)
            if found is not None:
                places[op.index] = places[found]
    return places


def _along(stream: ResidualStream) -> dict[int, OpLocation]:
    return {index: OpLocation("in" if k < stream.first else "out" if k > stream.last else "stream", stream.index)
            for k, index in enumerate(stream.path.ops)}
