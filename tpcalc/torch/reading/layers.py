"""Which branches are layers: those whose kind repeats, or of which the target has another number."""

from __future__ import annotations

from collections import Counter

from .network import RecordedNetwork
from .stream import Kind, ResidualStream, StreamBranch

Shapes = Counter[tuple[str, tuple[int, ...]]]
SIMILAR = 0.6  # of the parameters of two branches, from which on one of them is the other with an extra


def layers(network: RecordedNetwork, target: RecordedNetwork | None = None) -> list[set[int]]:
    """For every stream, numbers of the branches that are layers."""
    found = []
    for stream in network.streams:
        counts = Counter(map(_kind, stream.branches))
        grown: set[Kind] = set()
        if target is not None and stream.index < len(target.streams):
            there = Counter(map(_kind, target.streams[stream.index].branches))
            grown = {kind for kind, count in counts.items() if there[kind] not in (0, count)}
        repeated = {kind for kind, count in counts.items() if count > 1}
        found.append(_completed(network, stream, grown or repeated or set(counts)))
    return found


def _completed(network: RecordedNetwork, stream: ResidualStream, kinds: set[Kind]) -> set[int]:
    """Branches of these kinds, those that are one of these with an extra, and those that stand between layers."""
    taken = [one for one in stream.branches if _kind(one) in kinds]
    usual = [_parameters(network, one) for one in taken]
    found = {one.index for one in taken}
    for branch in stream.branches:
        own = _parameters(network, branch)
        if own and any(_similar(one, own) for one in usual):
            found.add(branch.index)
    return set(range(min(found), max(found) + 1)) if found else found


def extras(network: RecordedNetwork, inside: list[set[int]], target: RecordedNetwork | None) -> set[str]:
    """Parameters that stand in one layer but are not what the others have, as those of a network that all layers read
    and the first one needs first. Target, or else the base, tells which kinds of branches there are several of."""
    found: set[str] = set()
    for stream in network.streams:
        taken = [stream.branches[i] for i in sorted(inside[stream.index])]
        larger = stream if target is None or len(target.streams) <= stream.index else target.streams[stream.index]
        counts = Counter(map(_kind, larger.branches))
        usual = [_parameters(network, one) for one in taken if counts[_kind(one)] > 1]
        for branch in taken:
            own = _parameters(network, branch)
            like = max(usual, key=lambda one: sum((one & own).values()), default=Counter())
            if counts[_kind(branch)] > 1 or not _similar(like, own):
                continue
            rest = own - like
            for use in branch.uses:  # what others need is made first
                key = use.how, network.tape.shapes[use.parameter]
                if rest[key] > 0:
                    rest[key] -= 1
                    found.add(use.parameter)
    return found


def _similar(usual: Shapes, own: Shapes) -> bool:
    """Is one of two branches the other with an extra?"""
    fewer = min(sum(usual.values()), sum(own.values()))
    return sum(usual.values()) > 1 and sum((usual & own).values()) >= SIMILAR * fewer


def _kind(branch: StreamBranch) -> Kind:
    """Whatever stands on the stream."""
    return branch.kind[2:]


def _parameters(network: RecordedNetwork, branch: StreamBranch) -> Shapes:
    shapes = network.tape.shapes
    return Counter((use.how, shapes[use.parameter]) for use in branch.uses if use.parameter in shapes)
