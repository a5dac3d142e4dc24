"""Which branches are layers: those whose kind repeats, or of which a deeper model has more."""

from __future__ import annotations

from collections import Counter

from .network import Network
from .stream import Branch, Stream

Signature = tuple[str, ...]
ALIKE = 0.6  # of the parameters of two branches, from which on one of them is the other with an extra


def layer_kinds(network: Network, target: Network | None = None) -> list[set[Signature]]:
    """For every stream, signatures of branches that are layers."""
    found = []
    for i, stream in enumerate(network.streams):
        counts = Counter(branch.signature for branch in stream.branches)
        deeper = counts if target is None or i >= len(target.streams) else Counter(
            branch.signature for branch in target.streams[i].branches)
        grown = {one for one in deeper if deeper[one] != counts[one] and one in counts}
        kinds = grown or {one for one, count in counts.items() if count > 1} or set(counts)
        found.append(_completed(network, stream, kinds))
    return found


def _completed(network: Network, stream: Stream, kinds: set[Signature]) -> set[Signature]:
    """Besides these kinds, branches that have an extra, and those that stand between layers."""
    found = set(kinds)
    usual = [_parameters(network, one) for one in stream.branches if one.signature in kinds]
    for branch in stream.branches:
        own = _parameters(network, branch)
        if branch.signature not in found and own and any(
                sum(one.values()) > 1
                and sum((one & own).values()) >= ALIKE * min(sum(one.values()), sum(own.values())) for one in usual):
            found.add(branch.signature)
    where = [k for k, one in enumerate(stream.branches) if one.signature in found]
    return found | {one.signature for one in stream.branches[where[0]:where[-1]]} if where else found


def _parameters(network: Network, branch: Branch) -> Counter[tuple[str, tuple[int, ...]]]:
    shapes = network.tape.shapes
    return Counter((use.how, shapes[use.parameter]) for use in branch.uses if use.parameter in shapes)
