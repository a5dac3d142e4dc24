"""Layers of live models: which parameters are theirs, and where on a residual stream these act."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from os.path import commonprefix
from typing import Callable, Iterable, Mapping, NamedTuple, Sequence

from torch import Tensor
from torch.nn import Module as Model

from .._checks import short
from ..errors import NotCovered
from .reading.constants import product_through
from .reading.layers import extras, layers
from .reading.matching import first_uses, grown_counters, starred
from .reading.network import OpLocation, RecordedNetwork, read_network
from .reading.stream import Kind, ResidualStream, StreamBranch
from .reading.tape import record_call
from .reading.uses import Use
from .streams import Loss, build

GROWS = "depth_key: got {!r}, with which no list of layers grows; expected the argument of make that is the depth"
AXES = {"L": "the depth", "N": "the number of visits"}  # along which a script's models differ
NO_STREAM = ("make: got a model in which nothing is added to a residual stream; expected residual networks, whose "
             "layers add to one")


def observed(model: Model, loss: Loss, batch: object) -> tuple[RecordedNetwork, Tensor]:
    """A model as it is, read while the loss runs it, and the loss."""
    tape, value = record_call(model, lambda: loss(model, batch), batch)
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise ValueError(f"loss: it returned {short(value)}; expected a function of model and batch that returns "
                         "a tensor of one number")
    return read_network(tape), value


def live_layers(make: Callable[..., Model], small: Mapping[str, object], large: Mapping[str, object], loss: Loss,
                batch: object, depth_key: str) -> LiveLayers:
    """The layers of the models that a script builds; ``ValueError`` where the larger one has no more of them."""
    found = LiveLayers(*(observed(build(make, config, seed=0), loss, batch)[0] for config in (small, large)))
    if not all(one.streams[0].branches for one in (found.small, found.large)):
        raise NotCovered(NO_STREAM)
    if not found.growing:
        raise ValueError(GROWS.format(depth_key))
    for network in (found.small, found.large):
        counts = found.visits_of_matrices(network)
        if len(set(counts.values())) > 1:
            most = max(counts, key=lambda name: counts[name])
            raise NotCovered(f"{most}: got a matrix that {counts[most]} layers share, and others that "
                             f"{min(counts.values())} share, for whose updates no power is known; expected layers with "
                             "matrices of their own, or a loop that comes to all of them equally often")
    before, after = (len(found.inside(network)) for network in (found.small, found.large))
    if found.grows == "N" and before * found.visits[1] != after * found.visits[0]:
        raise NotCovered(f"depth_key: got {depth_key!r}, with which layers grow in number and are visited more often; "
                         "expected the argument of make that is one of both")
    return found


@dataclass(frozen=True)
class LayerGroup:
    """Parameters that do the same in all layers. in_layers: of a stream that has more layers in deeper models;
    on_stream: whether they multiply the stream itself; ends: whether branches end with them."""

    pattern: str
    in_layers: bool
    on_stream: bool
    ends: bool


class LiveLayers:
    """Groups of parameters of models that differ in their sizes, from the least and the largest of them. visits: how
    often all matrices of layers are visited in either; grows: "N" where that is what differs, else "L"."""

    def __init__(self, small: RecordedNetwork, large: RecordedNetwork) -> None:
        self.small, self.large = small, large
        counts = [[len(one) for one in layers(*pair)] for pair in ((small, large), (large, small))]
        self.growing = {i for i, (one, two) in enumerate(zip(*counts)) if one != two}
        self.visits = tuple(max(self.visits_of_matrices(one).values(), default=1) for one in (small, large))
        self.grows = "L" if self.visits[0] == self.visits[1] else "N"
        self.stems = grown_counters(small.tape.shapes, large.tape.shapes)
        self.counts = Counter(self.keys(small).values())
        self.groups = self._grouped()

    def inside(self, network: RecordedNetwork) -> set[tuple[int, int]]:
        """(stream, branch) of all layers of streams that have more of them in deeper models."""
        other = self.large if len(network.branches) < len(self.large.branches) else self.small
        return {(i, branch) for i, found in enumerate(layers(network, other)) if i in self.growing for branch in found}

    def visits_of_matrices(self, network: RecordedNetwork) -> dict[str, int]:
        """Matrix of layers -> how many of these it stands in."""
        inside = self.inside(network)
        return {name: len(places) for name, places in _locations(network, inside).items()
                if any(use.how == "matrix" and network.place(use) in places for use in network.uses_of(name))}

    def visits_of(self, network: RecordedNetwork) -> dict[str, int]:
        """Parameter of layers -> how many of these it stands in."""
        return {name: len(places) for name, places in _locations(network, self.inside(network)).items()}

    def unlike_matrices(self, network: RecordedNetwork) -> set[str]:
        """Parameters that several layers share, not as matrices are, or each an entry: what one layer changes is not
        told."""
        visits, shapes = max(self.visits_of_matrices(network).values(), default=1), self.small.tape.shapes
        return {name for name, count in self.visits_of(network).items() if count > 1 and (
            count != visits or shapes.get(name) != self.large.tape.shapes.get(name))}

    def of_layers(self, network: RecordedNetwork) -> list[str]:
        """Names of the parameters of layers."""
        return [name for name, group in self.groups_of(network).items() if group.in_layers]

    def groups_of(self, network: RecordedNetwork) -> dict[str, LayerGroup]:
        """Parameter -> its group; raises ``NotCovered`` for one that is used as none of the two models is."""
        found = {}
        for name, key in self.keys(network).items():
            if key not in self.groups:
                raise NotCovered(f"{name}: used otherwise than in models of the least and the largest size; expected "
                                 "models that differ in how many layers they have and in how wide they are")
            found[name] = self.groups[key]
        return found

    def keys(self, network: RecordedNetwork) -> dict[str, tuple[Kind, str]]:
        """Parameter -> what it does in its layer, and its name without the number of the layer; without a name where no
        number counts layers, so that operations of its branch tell layers of several sorts apart."""
        signatures = {(stream.index, branch.index): branch.signature for stream, branch in network.branches}
        found = {}
        for name, (kind, _, use) in first_uses(network).items():
            text = starred(name, self.stems)
            places = (network.place(one) for one in network.uses_of(name))
            signed = next((signatures.get((place.stream, place.branch), ()) for place in places), ())
            found[name] = ((*kind, *use), text) if "*" in text else ((*kind, *use, *signed), "")
        return found

    @property
    def name(self) -> str:
        """What the names of all parameters of layers begin with, up to the number of the layer; else "layers"."""
        common = commonprefix([group.pattern for group in self.groups.values() if group.in_layers])
        return common[:common.index("*") + 1] if "*" in common else "layers"

    def _grouped(self) -> dict[tuple[Kind, str], LayerGroup]:
        members: dict[tuple[Kind, str], list[str]] = defaultdict(list)
        for name, key in self.keys(self.large).items():
            members[key].append(name)
        for name, key in self.keys(self.small).items():
            if key not in members:
                members[key].append(name)
        texts = Counter(text for _, text in members)
        inside, on_stream = self.inside(self.large), _on_stream(self.large)
        ends = {use.parameter for _, branch in self.large.branches for use in branch.ends.carriers}
        alone = extras(self.large, _by_stream(self.large, inside), None)
        found = {}
        for key, names in members.items():
            places = {self.large.place(use) for name in names for use in self.large.uses_of(name)}
            within = any((place.stream, place.branch) in inside for place in places) and not alone.intersection(names)
            grows = any(place.part == "stream" for place in places) and len(names) > self.counts[key]
            found[key] = LayerGroup(_text(key[1], names, texts[key[1]]), within or grows,
                                    any(place in on_stream or place.part == "stream" for place in places),
                                    not ends.isdisjoint(names))
        return found


def _text(text: str, names: Sequence[str], how_many: int) -> str:
    """A pattern, with names where another group has the same."""
    if len(names) == 1:
        return names[0]
    some = f"{', '.join(names[:2])}, ..."
    return some if not text else text if how_many == 1 else f"{text} ({some})"


def _locations(network: RecordedNetwork, inside: set[tuple[int, int]]) -> dict[str, set[OpLocation]]:
    """Parameters of layers, with those that use them."""
    found: dict[str, set[OpLocation]] = defaultdict(set)
    for use in network.uses:
        place = network.place(use)
        if (place.stream, place.branch) in inside:
            found[use.parameter].add(place)
    return found


def _on_stream(network: RecordedNetwork) -> set[OpLocation]:
    """Branches that are the stream itself, times a factor."""
    return {OpLocation("branch", stream.index, branch.index) for stream, branch in network.branches
            if branch.ends.ways == ("stream",)}


class ActsAt(NamedTuple):
    """Where a parameter acts. front: number of the tensor that its layer is added to; after: of what that addition
    hands on, or of what its own product becomes; of: stream and branch; is_output: whether it stands after the stream.
    """

    front: int
    after: int
    of: tuple[int, int]
    is_output: bool = False


class StreamLocations:
    """Tensors of a live network at which its layers are measured. entries: for every stream, numbers of the tensors
    that branches read of it, in order, and of that behind the last one."""

    def __init__(self, network: RecordedNetwork, live: LiveLayers) -> None:
        self.network, self.inside = network, live.inside(network)
        self.positions = [sorted({*(fork(branch) for branch in stream.branches), stream.last + 1})
                          for stream in network.streams]
        self.entries = [[stream.path.values[k] for k in own] for stream, own in zip(network.streams, self.positions)]
        self.alone = extras(network, _by_stream(network, self.inside), live.large)

    def front(self, stream: ResidualStream, branch: StreamBranch) -> int:
        """Number of the tensor that a branch is added to, as it reads it."""
        return stream.path.values[fork(branch)]

    def entries_of_layers(self, stream: ResidualStream) -> list[int]:
        """Numbers of the tensors that layers of a stream read of it, in order."""
        own = [branch for branch in stream.branches if (stream.index, branch.index) in self.inside]
        return [stream.path.values[k] for k in sorted({fork(branch) for branch in own})]

    def product(self, name: str) -> int:
        """Number of what the first product with a parameter becomes; -1 where there is none."""
        uses = self.network.acting(name)
        return product_through(self.network, uses[0]) if uses else -1

    def acts_at(self, names: Iterable[str]) -> dict[str, ActsAt]:
        """Where parameters are measured; without those on which nothing that the model returns depends."""
        return {name: self._acts_at(uses[0]) for name in names if (uses := self.network.acting(name))}

    def _acts_at(self, use: Use) -> ActsAt:
        place = self.network.place(use)
        stream, of = self.network.streams[place.stream], (place.stream, -1)
        if place.part == "out" or use.parameter in self.alone or not stream.branches:
            product = product_through(self.network, use)
            return ActsAt(product, product, of, place.part == "out")
        if place.part == "in":
            first = self.entries[place.stream][0]
            return ActsAt(first, first, of)
        if place.part == "branch":
            branch = stream.branches[place.branch]
            front, added = fork(branch), branch.where
        else:  # on the stream: of the next branch
            added = next(k for k, index in enumerate(stream.path.ops) if index >= use.op.index)
            own = self.positions[stream.index]
            front = max([k for k in own if k <= added], default=own[0])
            branch = next((one for one in stream.branches if one.where >= added), stream.branches[-1])
        after = next((k for k in self.positions[stream.index] if k > added), added + 1)
        return ActsAt(stream.path.values[front], stream.path.values[after], (stream.index, branch.index))


def fork(branch: StreamBranch) -> int:
    """How far along the stream's path a branch reads it last."""
    return max((k for k in branch.reads if k <= branch.where), default=branch.where)


def _by_stream(network: RecordedNetwork, inside: set[tuple[int, int]]) -> list[set[int]]:
    return [{branch for i, branch in inside if i == stream.index} for stream in network.streams]
