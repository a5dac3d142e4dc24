"""What a reading says of streams and branches, as plain data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Iterator

import torch

from .claims import rms_of, tolerance, values_for
from .branch_end import BranchEnd
from .kinds_of_ops import PRODUCTS
from .network import RecordedNetwork
from .replay import replay
from .stream import Kind, ResidualStream, StreamBranch
from .tape import Op


@dataclass(frozen=True)
class BranchSummary:
    """One branch. ends: parameters that carry its size; norm: what keeps them from carrying a multiplier, such as a
    norm after matrices, or ""; module: the one whose output is this branch times a constant, or ""; reads: parameters
    in it."""

    stream: int
    index: int
    in_layers: bool
    ends: tuple[str, ...]
    ways: tuple[str, ...]
    norm: str
    module: str
    add: str
    reads: tuple[str, ...]


@dataclass(frozen=True)
class StreamSummary:
    """One residual stream. base, target: branches that are layers; branches: how many there are; norms, factors: on it
    between layers, operation and module; of_layers: whether there are more of these where there are more layers;
    obstacles: of those that are more then, norms, and whatever is no learned factor."""

    index: int
    branches: int
    base: int
    target: int
    norms: tuple[str, ...]
    factors: tuple[str, ...]
    of_layers: bool
    obstacles: tuple[str, ...]

    def __str__(self) -> str:
        which = "the stream" if self.index == 0 else f"stream {self.index}"
        on_it = [f"{len(found)} {name} on it" for name, found in (("norms", self.norms), ("factors", self.factors))
                 if found]
        return f"{which}: {self.base} -> {self.target} branches of layers{''.join(', ' + one for one in on_it)}"


def summaries_of_branches(network: RecordedNetwork, stream: ResidualStream, layers: set[int],
                          said: dict[tuple[int, int], BranchEnd]) -> Iterator[BranchSummary]:
    """Branches of a stream as plain data. layers: those that are layers; said: what each ends in."""
    chosen: dict[Kind, int] = {}  # kind -> which candidate returns the branch
    for branch in stream.branches:
        ends = said[stream.index, branch.index]
        candidates = _candidates(network, branch, ends)
        if branch.kind not in chosen:
            chosen[branch.kind] = _returns(network, branch, candidates)
        which = chosen[branch.kind]
        yield BranchSummary(
            stream.index, branch.index, branch.index in layers, tuple(dict.fromkeys(
                use.parameter for use in ends.carriers)), ends.ways,
            _obstacle(network, ends),
            candidates[which][0] if 0 <= which < len(candidates) else "", branch.add.place,
            tuple(dict.fromkeys(use.parameter for use in branch.uses)))


def summary_of_stream(network: RecordedNetwork, stream: ResidualStream, base: int, target: int,
                      deeper: RecordedNetwork | None) -> StreamSummary:
    """A stream as plain data; deeper: the target, None where that could not be read."""
    other = None if deeper is None or stream.index >= len(deeper.streams) else deeper.streams[stream.index]
    own = stream.norms + stream.factors
    there = [] if other is None else other.norms + other.factors
    before, after = (Counter(op.name for op in ops) for ops in (own, there))
    many = len(stream.branches) / 2  # of one name, from which on they are of layers, where no target tells
    more = [op for op in own if (before[op.name] >= many if other is None or base == target
                                 else before[op.name] != after[op.name])]
    learned = [op for op in stream.factors if op.name in PRODUCTS and (
        op.numbers() == [1.0] or any(number in network.graph.made for number in op.inputs))]
    obstacles = [op for op in more if op not in learned]
    if deeper is not None and base != target:  # matrices of layers that are in no branch, as of a stream of two halves
        there = _matrices(deeper, stream.index)
        obstacles += there if len(there) != len(_matrices(network, stream.index)) else []
    return StreamSummary(stream.index, len(stream.branches), base, target, tuple(op.place for op in stream.norms),
                         tuple(op.place for op in stream.factors), bool(more), tuple(op.place for op in obstacles))


def _matrices(network: RecordedNetwork, stream: int) -> list[Op]:
    """Products with matrices on a stream."""
    return [use.op for use in network.uses if use.how == "matrix" and network.place(use)[:2] == ("stream", stream)]


def _obstacle(network: RecordedNetwork, ends: BranchEnd) -> str:
    """What keeps ends from carrying a multiplier: a norm after matrices, or a gain that is 1 + w."""
    if ends.norm >= 0:
        return network.tape.ops[ends.norm].place
    return next((use.op.place for use in ends.carriers if "add" in use.through), "")


def _returns(network: RecordedNetwork, branch: StreamBranch, candidates: list[tuple[str, int]]) -> int:
    """Which candidate's output, halved, halves the branch; -1 where none does."""
    values = values_for(network, branch) if candidates else None
    for i, (_, number) in enumerate(candidates):
        whole, half = (replay(network.tape, {number: change}, [branch.end], values)[0]
                       for change in (torch.clone, lambda value: value / 2))
        if rms_of(half - whole / 2) <= tolerance(network, branch.end) * rms_of(whole):
            return i
    return -1


def _candidates(network: RecordedNetwork, branch: StreamBranch, ends: BranchEnd) -> list[tuple[str, int]]:
    """Modules that return a tensor between the last matrix or norm and the addition, and that tensor's number: those of
    matrices that the branch ends in, then the outermost."""
    inside, own = set(branch.ops), {use.parameter.rpartition(".")[0] for use in ends.of("matrix")}
    found = [(name, number) for number in ends.tail if network.tape.makers.get(number, -1) in inside
             for name in network.tape.returned.get(number, [])]
    return sorted(found, key=lambda one: (one[0] not in own, one[0].count(".")))
