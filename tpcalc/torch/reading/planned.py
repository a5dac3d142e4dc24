"""What a reading says to a plan: parameters by pattern, with their roles and growth, or a refusal."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Hashable, Iterable, Iterator, Mapping, Sequence

from ...errors import NotCovered
from ...groups.names import DIGITS, LayerCount, growth_of_most
from ...groups.roles import Roles
from ...tune.factors import AS_WRITTEN, FEW
from ...tune.parameters import SHARES, UNREAD, Parameter, ParameterGrowth
from .matching import counters, starred
from .reading import Reading
from .roles import SHARED, Role
from .summary import BranchSummary

HEADS_STAY = ("{}: fan-out stays while fan-in grows, as where the number of heads stays; initial sizes and eps are "
              "those of a head for it, of which theory says no more")
ROUTER = ("{}: its learning rate has the power of the depth of hidden matrices, at which it is stable; at Depth-muP it "
          "may be larger by the root of the depth where gates are no shares and experts are wide beside the depth")
UNKNOWN = "{}: {}, not understood ({}); its settings are the base's"


@dataclass(frozen=True)
class Planned:
    """roles: for a plan; returning: {pattern of the module of a branch's end: of the module that returns the branch};
    behind: patterns of modules that return a branch behind which a norm stands, with the growth of the depth and of
    visits; notes: sentences."""

    roles: Roles
    returning: Mapping[str, str]
    behind: tuple[tuple[str, float, float], ...]
    notes: tuple[str, ...]


def planned(reading: Reading, unknown: str) -> Planned:
    """Parameters for a plan. unknown: "refuse" or "as-base".

    Raises ``NotCovered`` naming the parameter, or the operation on a stream, that the theory says nothing of.
    """
    visits = {role.stream: role.visits or 1.0 for role in reading.roles if role.in_layers}
    depths = {one.index: one.target / one.base / visits.get(one.index, 1.0) if one.base else 1.0
              for one in reading.streams}
    grows = any(ratio != 1 for ratio in (*depths.values(), *visits.values()))
    deeper = grows or sum(reading.role(one).experts == 1 for one in reading.names.values()) != sum(
        role.experts == 1 for role in reading.roles)  # more experts make no network deeper
    if deeper:
        _require_depth(reading)
    notes = list(reading.notes)
    patterns = _patterns(reading)
    parameters = []
    for pattern, names in patterns:
        role = reading.role(reading.names[names[0]])
        as_base = _refusal(role, deeper) or _more_outside(reading, names, role)
        if as_base and unknown == "refuse":
            raise NotCovered(f"{pattern}: got {role.kind}, {as_base}; expected roles= that says what it is, or "
                             'unknown="as-base"')
        if as_base:
            notes.append(UNKNOWN.format(pattern, role.kind, as_base))
        if role.kind == "hidden" and role.in_layers and role.fan_in != 1 and role.fan_out == 1:
            notes.append(HEADS_STAY.format(pattern))
        if role.gates == SHARES and role.ends:
            notes.append(f"{pattern}: {AS_WRITTEN}")
        if role.kind == "router" and role.gates:
            notes += [ROUTER.format(pattern)] * grows + [f"{pattern}: {FEW}"] * (role.experts != role.active)
        parameters.append(_parameter(reading, pattern, names, role, depths, bool(as_base)))
    returning, behind = _returning(reading, patterns, depths, visits)
    width = growth_of_most(ratio for role in reading.roles for ratio in role.growth)
    return Planned(Roles(_layers(reading, parameters, visits.get(0, 1.0)), width, tuple(parameters)), returning, behind,
                   tuple(dict.fromkeys(notes)))


def _require_depth(reading: Reading) -> None:
    """Raise ``NotCovered`` for streams that are not branches added up."""
    if all(one.base == one.target for one in reading.streams):
        raise NotCovered("make: got more parameters in the target, and as many branches of a residual stream; expected "
                         "residual networks of which the target has more layers" if any(
                             one.base for one in reading.streams) else
                         "make: got a model in which nothing is added to a residual stream; expected residual "
                         "networks, or base and target of one depth")
    for stream in reading.streams:
        if stream.obstacles and stream.base != stream.target:
            raise NotCovered(f"{stream.obstacles[0]}: changes the stream between layers, so that no multiplier of "
                             "branches makes depths alike; expected branches added to a stream, or one depth")


def _refusal(role: Role, deeper: bool) -> str:
    """Why no power is known; "" where all are."""
    if role.kind in UNREAD:
        return role.note or {"unused": "it is not used on this batch; give batch= on which it is"}.get(
            role.kind, f"used as {', '.join(role.uses)}")
    if "made of several" in role.note or SHARED in role.note and role.visits is None and deeper:
        return role.note
    if role.kind == "stream factor" and role.visits != 1 and deeper:
        return "it multiplies the stream at every visit, and no power of the number of visits is known for that"
    return ""


def _more_outside(reading: Reading, names: list[str], role: Role) -> str:
    """Why parameters outside of layers, of which the target has more, have no known power; "" for others."""
    if role.in_layers or len(names) == len({reading.names[name] for name in names}):
        return ""
    return "in no layer, and there are more of it in the target, as of heads after each layer"


def _patterns(reading: Reading) -> list[tuple[str, list[str]]]:
    """Names of the target by pattern: those that are alike in all but the number of their layer. Where names of one
    pattern differ in what they do, each is a pattern by itself."""
    stems = counters([role.name for role in reading.roles], reading.names)
    groups: dict[str, list[str]] = defaultdict(list)
    for name in reading.names:
        groups[starred(name, stems)].append(name)
    found = []
    for pattern, names in groups.items():
        alike = {_likeness(reading.role(name)) for name in names}
        found += [(pattern, names)] if len(alike) == 1 else [(name, [name]) for name in names]
    return found


def _likeness(role: Role) -> tuple[Hashable, ...]:
    """What parameters of one pattern have in common."""
    return (role.kind, role.in_layers, role.ends, role.stream, role.fan_in, role.fan_out, role.forward, role.at_head,
            role.experts, role.active, role.by_itself, role.shape)


def _parameter(reading: Reading, pattern: str, names: list[str], role: Role, depths: Mapping[int, float],
               as_base: bool) -> Parameter:
    carried = {name for branch in reading.branches if not branch.norm for name in branch.ends}
    growth = role.growth or (1.0,) * len(role.shape)
    base_names = tuple(one.name for one in reading.roles if one.name in {reading.names[name] for name in names})
    stream = reading.streams[role.stream]
    inside = role.in_layers and (stream.of_layers or not role.places[0].startswith("on "))
    kind = "hidden" if role.kind == "branch output" and role.name not in carried else role.kind
    use = ParameterGrowth(role.fan_in, role.fan_out, depths[role.stream], role.forward, role.at_head, as_base,
                          role.visits or 1.0, role.experts, role.active, role.gates, role.by_itself)
    if role.kind == "tied" and role.head is None and role.fan_in != 1:
        raise NotCovered(f"{role.name}: got a tied matrix whose product as the head no module returns, so that nothing "
                         "can be multiplied there; expected a head that is a module")
    return Parameter(pattern, kind, inside, reading.shapes[names[0]], max(growth, default=1.0), tuple(names),
                     tuple(ratio != 1 for ratio in growth), role.name in carried and kind != "branch output",
                     role.head if role.kind == "tied" else None,
                     base_names, use)


def _returning(reading: Reading, patterns: list[tuple[str, list[str]]],
               depths: Mapping[int, float], visits: Mapping[int, float]
               ) -> tuple[dict[str, str], tuple[tuple[str, float, float], ...]]:
    """Modules that can be multiplied: pattern of an end's module -> of the one that returns its branch, "" for none;
    and those of branches behind which a norm stands, with the growth of the depth and of visits."""
    stars = stars_of(reading, patterns)
    stems, known = counters([role.name for role in reading.roles], reading.names), dict(patterns)
    for role in reading.roles:  # of layers that a shallower target has not
        if (pattern := starred(role.name, stems)) in known:
            stars.setdefault(role.name, [pattern])
    behind: dict[str, tuple[float, float]] = {}
    returning: dict[str, str] = {}
    for branch, module, chosen in module_patterns(reading, stars):
        if branch.norm:
            grown = depths[branch.stream], visits.get(branch.stream, 1.0)
            if not module and grown != (1, 1):
                raise NotCovered(f"{branch.norm}: got a norm behind a branch, and no module that returns the branch, "
                                 "so that nothing can be multiplied; expected a module for that norm")
            behind[module] = grown
        else:
            returning.update((chosen.get(name, name).rpartition(".")[0], module) for name in branch.ends)
    return returning, tuple((module, *grown) for module, grown in behind.items())


def stars_of(reading: Reading, patterns: Iterable[tuple[str, Iterable[str]]]) -> dict[str, list[str]]:
    """Parameter of the base -> the patterns of those that it stands for, in the order of these: several where the
    target's layers have no pattern in common."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for pattern, names in patterns:
        for name in names:
            found[reading.names[name]][pattern] = None
    return {name: list(some) for name, some in found.items()}


def module_patterns(reading: Reading, stars: Mapping[str, Sequence[str]]
                    ) -> Iterator[tuple[BranchSummary, str, dict[str, str]]]:
    """Branches of layers, each with the pattern of a module that returns it, "" for none, and with the patterns of the
    parameters in that layer; as often as the base's branch stands for several. stars: as ``stars_of``.

    Raises ``NotCovered`` where parameters of one branch stand for different numbers of layers.
    """
    for branch in reading.branches:
        if not branch.in_layers:
            continue
        beside = {name: stars[name] for name in (*branch.ends, *branch.reads) if name in stars}
        counts = {len(some) for some in beside.values()} - {1}
        if len(counts) > 1:
            raise NotCovered(f"{branch.module or next(iter(beside))}: got a branch whose parameters stand for "
                             f"{' and '.join(map(str, sorted(counts)))} layers of the target, so that it is not known "
                             "which modules return it; expected layers of one kind that are alike")
        for i in range(max(counts, default=1)):
            chosen = {name: some[i if len(some) > 1 else 0] for name, some in beside.items()}
            alone = {name: chosen[name] for name in beside if len(beside[name]) > 1}
            yield branch, _starred(branch.module, alone or chosen), chosen


def _starred(module: str, patterns: Mapping[str, str]) -> str:
    """The pattern of a module of the base, by the patterns of parameters beside it."""
    tokens = module.split(".")
    found = list(tokens)
    for name, pattern in patterns.items():
        for i, (token, own, there) in enumerate(zip(tokens, name.split("."), pattern.split("."))):
            if token != own:
                break
            found[i] = there if there != own else found[i]
    return ".".join(found)


def _layers(reading: Reading, parameters: list[Parameter], visits: float) -> LayerCount:
    """How names number layers, where one number does; branches of the main stream elsewhere. visits: by how much grows
    how often its layers are visited."""
    stems = Counter(one.pattern.partition("*")[0] for one in parameters if one.in_layers and "*" in one.pattern)
    main = reading.streams[0]
    for stem, _ in stems.most_common(1):
        counts = [len({found[0] for name in names if name.startswith(stem)
                       for found in [DIGITS.match(name, len(stem))] if found})
                  for names in ([role.name for role in reading.roles], reading.names)]
        if counts[0] and counts[1] * main.base * visits == counts[0] * main.target:
            return LayerCount(stem, *counts)
    return LayerCount("", main.base or 1, round((main.target or 1) / visits) or 1)
