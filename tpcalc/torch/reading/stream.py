"""``ResidualStream``: the residual stream of a model, its branches, and what stands on it between them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Hashable

from .branch_end import BranchEnd, find_branch_end
from .graph import Graph
from .kinds_of_ops import ATTENTIONS, CONTRACTIONS, MOVES, PRODUCTS, REDUCTIONS, SUMS
from .norms import Norm
from .paths import CheapestPaths, Path
from .tape import Op
from .uses import Use

Kind = tuple[Hashable, ...]


@dataclass
class StreamBranch:
    """What one addition puts on a stream. end: number of the tensor that is added; stream: of the one that it is added
    to; add: the addition; where: how far along the path; ops: operations that are this branch's own; signature: their
    names; reads: places of the path that it is computed from; ends: what carries its size; uses: of parameters; kind:
    what it is at every size, by its stream, the matrices on that before it, the streams that it reads, and its uses."""

    index: int
    end: int
    stream: int
    add: Op
    where: int
    ops: list[int] = field(default_factory=list)
    signature: tuple[str, ...] = ()
    reads: tuple[int, ...] = ()
    ends: BranchEnd = BranchEnd()
    uses: list[Use] = field(default_factory=list)
    kind: Kind = ()


@dataclass
class ResidualStream:
    """A residual stream. first, last: places of the path where its layers begin and end; norms, factors: operations on
    it in between, other than additions; owners: operation -> branch."""

    index: int
    path: Path
    branches: list[StreamBranch] = field(default_factory=list)
    first: int = 0
    last: int = 0
    norms: list[Op] = field(default_factory=list)
    factors: list[Op] = field(default_factory=list)
    owners: dict[int, StreamBranch] = field(default_factory=dict)

    @property
    def weights(self) -> dict[int, int]:
        """Tensor of the path -> how many branches before it end in matrices or norms."""
        found = Counter(one.where for one in self.branches if {"matrix", "norm"} & set(one.ends.ways))
        return dict(zip(self.path.values, accumulate((found[k] for k in range(len(self.path.ops))), initial=0)))


def read_stream(graph: Graph, norms: dict[int, Norm], uses: list[Use], paths: CheapestPaths, sink: int,
                index: int) -> ResidualStream:
    """The stream that leads to a tensor."""
    path = paths.to(sink)
    stream, on_path = ResidualStream(index, path), path.positions
    for k, (number, op_index) in enumerate(zip(path.values, path.ops)):
        op = graph.tape.ops[op_index]
        if op.name in SUMS:
            for other in graph.signals(op):
                if other != number and _is_branch(graph, uses, path, on_path, number, other):
                    stream.branches.append(StreamBranch(len(stream.branches), other, number, op, k))
    if stream.branches:
        _own(graph, norms, uses, stream, on_path)
        first = stream.branches[0]  # of which all that it needs is its own
        stream.first, stream.last = min([first.where, *first.reads]), _last(graph, norms, uses, stream)
    for k, op_index in enumerate(path.ops):
        op = graph.tape.ops[op_index]
        if stream.branches and stream.first <= k <= stream.last and op.call is not None:
            if op.index in norms:
                stream.norms.append(op)
            elif op.name in PRODUCTS or op.name == "lerp" or op.name not in SUMS | MOVES:
                stream.factors.append(op)
    return stream


def _is_branch(graph: Graph, uses: list[Use], path: Path, on_path: dict[int, int], number: int, other: int) -> bool:
    """Is a tensor that is added to the path a function of the stream, and neither its equal nor a mean of it?"""
    cone = graph.cone(other, set(on_path))
    ops = [graph.tape.ops[index] for index in cone]
    if path.costs.get(other) == path.costs.get(number) and any(op.name in CONTRACTIONS for op in ops):
        return False  # a sum of equals, such as of two heads
    if ops and all(op.name in REDUCTIONS | MOVES for op in ops) and not any(use.op.index in cone for use in uses):
        return False  # a mean that is taken away
    leaves = {number for op in ops for number in op.inputs} | {other}
    return any(one in on_path and graph.tape.is_floating(one) for one in leaves)


def _own(graph: Graph, norms: dict[int, Norm], uses: list[Use], stream: ResidualStream, on_path: dict[int, int]
         ) -> None:
    """Give every branch its operations: an operation belongs to the first branch that needs it."""
    by_op: dict[int, list[Use]] = {}
    for use in uses:
        by_op.setdefault(use.op.index, []).append(use)
    for branch in stream.branches:
        branch.ops = [i for i in sorted(graph.cone(branch.end, set(on_path))) if i not in stream.owners]
        stream.owners.update((i, branch) for i in branch.ops)
        ops = [graph.tape.ops[i] for i in branch.ops]
        branch.signature = tuple(op.name for op in ops if op.call is not None)
        branch.reads = tuple(sorted({on_path[number] for op in ops for number in op.inputs if number in on_path}))
        branch.ends = find_branch_end(graph, norms, by_op, branch.end, set(branch.ops))


def _last(graph: Graph, norms: dict[int, Norm], uses: list[Use], stream: ResidualStream) -> int:
    """The last addition, and behind it the norms, factors and biases that also stand behind those before."""
    ops = [graph.tape.ops[i] for i in stream.path.ops]
    names, last = [(op.name, op.index in norms) for op in ops], stream.branches[-1].where
    biases = {use.op.index for use in uses if use.how == "bias"}
    stays = [op.index in norms or op.name in PRODUCTS or op.name in SUMS and op.index in biases for op in ops]
    adds = {one.add.index for one in stream.branches}
    furthest = 0
    for where in [one.where for one in stream.branches[:-1] if names[one.where] == names[last]][-2:]:
        k = 1
        while last + k < len(ops) and where + k < last and names[where + k] == names[last + k] and (
                stays[where + k] or ops[where + k].name in MOVES | SUMS) and ops[where + k].index not in adds:
            k += 1
        furthest = max([furthest, *(j for j in range(k) if stays[where + j])])
    return last + furthest


def mixing(stream: ResidualStream) -> list[Op]:
    """What combines a stream with itself by products that are no parameters: gates, several streams in one."""
    return [op for op in stream.factors if op.name in CONTRACTIONS | ATTENTIONS]
