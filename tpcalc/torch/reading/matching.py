"""What parameter of the base a parameter of the target is: by stream, kind of branch, and order of use."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Callable, Iterable, Mapping

from ...errors import NotCovered
from ...groups.names import DIGITS, Shape, count_numbers
from .network import RecordedNetwork
from .stream import Kind

PART = re.compile(r"(?:^|(?<=\.))(\d+)(?=\.|$)")  # a number that is a part of a name by itself
Growth = tuple[float, ...]
OTHERS: tuple[Callable[[int, int], int], ...] = (  # which one of the base's a further branch of a kind is like
    lambda order, count: min(order, count - 1), lambda order, count: order % count)


def growths(names: Mapping[str, str], base: Mapping[str, Shape], target: Mapping[str, Shape]) -> dict[str, Growth]:
    """Parameter of the base -> by how much its axes grow; raises ``NotCovered`` where layers differ in that."""
    found: dict[str, Growth] = {}
    for name, one in names.items():
        if len(base[one]) != len(target[name]):
            raise NotCovered(f"{name}: got shapes {base[one]} in the base and {target[name]}; expected as many axes")
        growth = tuple(b / a for a, b in zip(base[one], target[name]))
        if found.setdefault(one, growth) != growth:
            raise NotCovered(f"{name}: got {target[name]} for {base[one]} in the base, which another layer's grows "
                             "otherwise from; expected layers of one kind that grow alike")
    return found


def matched(base: RecordedNetwork, target: RecordedNetwork) -> dict[str, str]:
    """Name of every parameter of the target -> its name in the base.

    Where the target has more branches of a kind, the base's last one stands for them, or else the kind's branches in
    turn. Raises ``NotCovered`` for a parameter that the base has nothing for, and for layers that grow differently.
    """
    problem: NotCovered | None = None
    for which in OTHERS:
        try:
            names = _names(base, target, which)
            growths(names, base.tape.shapes, target.tape.shapes)
            return names
        except NotCovered as refusal:
            problem = problem or refusal
    assert problem is not None
    raise problem


def _names(base: RecordedNetwork, target: RecordedNetwork, which: Callable[[int, int], int]) -> dict[str, str]:
    known: dict[Kind, str] = {}
    counts: Counter[Kind] = Counter()
    for name, (kind, order, use) in first_uses(base).items():
        known.setdefault((*kind, order, *use), name)
        counts[kind] = max(counts[kind], order + 1)
    found = {}
    uses = first_uses(target)
    for name in target.tape.shapes:
        kind, order, use = uses[name]
        order = which(order, counts[kind]) if counts[kind] else 0
        one = known.get((*kind, order, *use))
        if one is None or DIGITS.sub("*", one) != DIGITS.sub("*", name):
            # behind more experts another parameter is the next in order
            one = nearest_name(name, base.tape.shapes) or one
        if one is None:
            raise NotCovered(f"{name}: got a parameter of the target that is used as none of the base is; expected "
                             "models that differ in how many layers they have and in how wide they are")
        found[name] = one
    return found


def nearest_name(name: str, known: Mapping[str, Shape]) -> str | None:
    """The known name that differs in numbers alone and has the most equal ones; None where there is none."""
    pattern, numbers = DIGITS.sub("*", name), DIGITS.findall(name)
    alike = [other for other in known if DIGITS.sub("*", other) == pattern]
    return max(alike, key=lambda other: sum(a == b for a, b in zip(DIGITS.findall(other), numbers)), default=None)


def counters(base: Iterable[str], target: Iterable[str]) -> set[str]:
    """What stands in front of numbers that count layers: those that base and target have more and less of, and without
    any the first ones that are parts of names by themselves."""
    base, target = list(base), list(target)
    first: dict[str, set[str]] = defaultdict(set)
    for name in base + target:
        part = PART.search(name)
        if part is not None:
            first[name[:part.start(1)]].add(part[1])
    return grown_counters(base, target) or {stem for stem, values in first.items() if len(values) > 1}


def grown_counters(base: Iterable[str], target: Iterable[str]) -> set[str]:
    """What stands in front of numbers that base and target have more and less of."""
    return {stem for stem, (one, two) in count_numbers(base, target).items() if one and two and one != two}


def starred(name: str, stems: set[str]) -> str:
    """A name with a star for every number that counts layers."""
    return DIGITS.sub(lambda digits: "*" if name[:digits.start()] in stems else digits[0], name)


def first_uses(network: RecordedNetwork) -> dict[str, tuple[Kind, int, Kind]]:
    """Parameter -> what kind of place it is first used in, the how-manieth of its kind that is, and which use there."""
    seen: Counter[Kind] = Counter()
    orders: dict[tuple[int, int], tuple[Kind, int]] = {}
    for stream, branch in network.branches:
        orders[stream.index, branch.index] = branch.kind, seen[branch.kind]
        seen[branch.kind] += 1
    used: dict[Kind, int] = defaultdict(int)
    found: dict[str, tuple[Kind, int, Kind]] = {}
    for use in network.uses:
        place = network.place(use)
        following = place.branch
        if place.part == "stream":  # by the branch that it stands in front of
            following = next((one.index for one in network.streams[place.stream].branches
                              if one.add.index > use.op.index), -1)
        kind, order = orders.get((place.stream, following), ((place.stream,), 0))
        kind = (place.part, *kind)
        used[(*kind, order)] += 1
        found.setdefault(use.parameter, (kind, order, (use.how, use.op.name, used[(*kind, order)])))
    for name in network.tape.shapes:
        found.setdefault(name, (("unused", name), 0, ()))
    return found
