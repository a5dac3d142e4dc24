"""``read``: what every parameter of a model does, read from one forward pass, and tested."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Callable, Mapping

from ... import _checks
from ..._shown import Short, Tabled, text_table
from ..._types import Fields
from ...errors import NotCovered
from ...groups.names import Shape, plain_name
from ...groups.plan import HEADS
from ...tune.parameters import ROLES
from ..networks.network_read import NetworkRead, network_read
from ..streams import MAKE
from .building import Config, Make, NotRun, is_small, network_of, on_meta
from .claims import Claim, claims_of, require
from .constants import after, grown, in_front, on_itself
from .branch_end import BranchEnd
from .experts import choices_before_a_value, with_experts, without_experts
from .kinds_of_ops import ATTENTIONS
from .layers import extras, layers
from .matching import nearest_name, counters, growths, matched, starred
from .network import RecordedNetwork
from .roles import SHARED, Role, RoleFinder, visits_of
from .summary import BranchSummary, StreamSummary, summaries_of_branches, summary_of_stream

ENTRIES = ("input", "tied", "output")  # whose products are multiplied by constants alone


@dataclass(frozen=True, eq=False, repr=False)
class Reading(Short, Tabled):
    """What a model computes. roles: of the base's parameters; names: parameter of the target -> of the base; shapes: of
    the target; streams, branches: as plain data; claims: what was tested; notes: what the theory says nothing of."""

    roles: tuple[Role, ...]
    names: Mapping[str, str]
    shapes: Mapping[str, Shape]
    streams: tuple[StreamSummary, ...]
    branches: tuple[BranchSummary, ...]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...] = ()
    _record: Callable[[], RecordedNetwork] | None = field(default=None, repr=False, compare=False)

    def role(self, name: str) -> Role:
        """The role of a parameter of base or target; ``ValueError`` where there is none of this name."""
        known = {role.name: role for role in self.roles}
        if name in self.names or name in known:
            return known[self.names.get(name, name)]
        raise ValueError(f"{name}: got a parameter that the reading does not know; expected names as "
                         "model.named_parameters() has them")

    def to_network(self) -> NetworkRead:
        """The base as a network of this package, for ``tp.classify``, ``tp.kets`` and ``tp.program``, with what it
        leaves out of the model: ``print`` it.

        Every function between the model's matrices is run on drawn values, and is the network's there; a branch that is
        no block of a network is refused by name, ``NotCovered``. What stands in front of the stream and behind it, and
        what no network has, as tables of scores that differ by layer, is left out and listed.

        >>> import tpcalc as tp, torch
        >>> from torch import nn
        >>> class Net(nn.Module):
        ...     def __init__(self, depth, n=16):
        ...         super().__init__()
        ...         self.a, self.z = nn.Linear(3, n, bias=False), nn.Linear(n, 1, bias=False)
        ...         self.layers = nn.ModuleList(nn.Sequential(nn.Linear(n, 2 * n, bias=False), nn.Tanh(),
        ...                                                   nn.Linear(2 * n, n, bias=False)) for _ in range(depth))
        ...     def forward(self, x):
        ...         x = self.a(x)
        ...         for layer in self.layers:
        ...             x = x + layer(x) / 2
        ...         return self.z(x)
        >>> found = read(Net, dict(depth=3)).to_network()
        >>> print(found)
        tanh residual network with mlp blocks, 3 layers of width 16
        ResNet(phi='tanh', block='mlp', norm=None, train_embedding_readout=False, matrices=2, mlp_ratio=2)
        W1: layers.*.0.weight
        W2: layers.*.2.weight, times 0.5
        left out: embedding and readout: their training, which train_embedding_readout=True has
        >>> tp.classify(1/2, 1/2, found.network).name
        'Depth-muP'
        """
        if self._record is None:
            raise ValueError("reading: got one that does not know its model; expected what read returns")
        recorded = self._record()
        stems = counters([role.name for role in self.roles], self.names)
        return network_read(recorded, {role.name: role for role in self.roles},
                            {one.index for one in self.branches if one.stream == 0 and one.in_layers},
                            lambda name: starred(name, stems))

    @property
    def rows(self) -> list[Fields]:
        """One dictionary a pattern of names and role."""
        stems = counters([role.name for role in self.roles], self.names)
        alike: dict[tuple[str, str], list[Role]] = {}
        for role in self.roles:
            alike.setdefault((starred(role.name, stems), str(role)), []).append(role)
        return [{"pattern": pattern, "role": said, "count": len(roles), "fan_in": roles[0].fan_in,
                 "fan_out": roles[0].fan_out, "where": roles[0].places[0] if roles[0].places else ""}
                for (pattern, said), roles in alike.items()]

    def __str__(self) -> str:
        held = sum(claim.holds for claim in self.claims)
        return "\n".join([*map(str, self.streams), text_table(self.rows),
                          f"claims: {held} of {len(self.claims)} hold", *(f"note: {one}" for one in self.notes)])

    def explain(self, pattern: str) -> str:
        """All that is known of the parameters whose names match, such as "model.layers.*.mlp.down_proj.weight": uses,
        branch, claims. Raises ``ValueError`` where none matches."""
        found = [role for role in self.roles if fnmatchcase(role.name, pattern)]
        if not found:
            raise ValueError(f"pattern: got {pattern!r}, which no parameter matches; expected names or patterns of "
                             "parameters of the base")
        lines: dict[str, None] = {}
        for role in found[:1]:
            lines[f"{role.name} {role.shape}: {role}"] = None
            lines.update((f"  used as {use}, {place}", None) for use, place in zip(role.uses, role.places))
            lines[f"  fan-in grows by {role.fan_in:g}, fan-out by {role.fan_out:g}"] = None
            if role.forward != 1:
                lines[f"  the forward pass multiplies its product by a number that grows by {role.forward:g}"] = None
            if role.note:
                lines[f"  {role.note}"] = None
            for branch in self.branches:
                if role.name in branch.reads:
                    ends = ", ".join(branch.ends) or "nothing"
                    lines[f"  branch {branch.index} of stream {branch.stream} ends in {ends}"
                          f"{', behind it a norm' if branch.norm else ''}"] = None
            lines.update((f"  {claim}", None) for claim in self.claims if role.name in claim.about.split("; ")[0]
                         .split(", "))
        if len(found) > 1:
            lines[f"  and {len(found) - 1} others of this pattern"] = None
        return "\n".join(lines)


def read(make: Make, base: Config, target: Config | None = None, batch: object = None,
         roles: Mapping[str, str] | None = None) -> Reading:
    """What every parameter of ``make(**base)`` does, from one forward pass; no names are looked at.

    Parameters
    ----------
    make, base, target:
        as in ``tpcalc.torch.plan``; None for target reads the base alone, whose axes then do not grow.
    batch:
        what the model takes, a dictionary for arguments by name; None draws one.
    roles:
        {pattern of names: role}, for parameters that are read wrongly or not at all; claims are tested all the same.
        Roles are those of ``tpcalc.tune.parameters.ROLES``; "matrix" is "hidden".

    Returns a ``Reading``: ``print`` it; ``.claims``, ``.explain(pattern)``. Models of more than 3e7 parameters are read
    on the meta device, and claims tested branch by branch on values that are drawn. Raises ``NotCovered`` for a claim
    that does not hold, naming parameter, operation and module. Source: Tensor Programs VI, section 5
    [tensor_programs_vi/definitions_5].

    >>> import torch
    >>> from torch import nn
    >>> class Net(nn.Module):
    ...     def __init__(self, depth, n=16):
    ...         super().__init__()
    ...         self.a, self.z = nn.Linear(3, n), nn.Linear(n, 1)
    ...         self.w = nn.ParameterList(torch.randn(n, n) / 4 for _ in range(2 * depth))
    ...     def forward(self, x):
    ...         x = self.a(x)
    ...         for v, w in zip(self.w[::2], self.w[1::2]):
    ...             x = x + torch.relu(x @ v) @ w
    ...         return self.z(x)
    >>> found = read(Net, dict(depth=2))
    >>> [found.role(f"w.{i}").kind for i in range(4)]
    ['hidden', 'branch output', 'hidden', 'branch output']
    >>> all(claim.holds for claim in found.claims)
    True
    """
    _checks.function("make", make, MAKE, optional=False)
    if roles is not None:
        _checks.instance("roles", roles, Mapping, "a dictionary of patterns and roles")
    network = network_of(make, base, batch)
    other, names, shapes = None, {name: name for name in network.tape.shapes}, network.tape.shapes
    if target is not None:
        other, names, shapes = _target(make, target, network, batch)
    growth = growths(names, network.tape.shapes, shapes)
    found = _reading(network, other, names, shapes, growth, dict(roles or {}),
                     None if target is None or other is not None else choices_before_a_value(make, target, batch))
    return replace(found, _record=partial(network_of, make, base, batch))


def _reading(network: RecordedNetwork, other: RecordedNetwork | None, names: dict[str, str],
             shapes: Mapping[str, Shape], growth: dict[str, tuple[float, ...]], given: dict[str, str],
             unread: Mapping[int, int] | None) -> Reading:
    inside = layers(network, other)
    widths = without_experts(network, growth)
    found, unsaid = with_experts(RoleFinder(network, inside, extras(network, inside, other), widths).roles(), network,
                                 other, names, growth, unread)
    found = _overridden(found, given)
    ends = {(stream.index, branch.index): _said(branch.ends, found, given) for stream, branch in network.branches}
    if other is not None:
        found = _with_visits([_with_forward(role, network, other, names) for role in found], network, other, names)
    else:
        found = [replace(role, visits=None) if SHARED in role.note else role for role in found]
    claims = claims_of(network, ends)
    require(claims)
    counts = _depths(network, other, inside, names)
    branches = tuple(one for stream in network.streams
                     for one in summaries_of_branches(network, stream, inside[stream.index], ends))
    streams = tuple(summary_of_stream(network, stream, *counts[stream.index], other) for stream in network.streams)
    widens = any(ratio != 1 for one in widths.values() for ratio in one)
    notes = *((HEADS,) if widens and heads_may_grow(network, other) else ()), *dict.fromkeys(unsaid)
    return Reading(tuple(found), names, dict(shapes), streams, branches, tuple(claims), notes)


def heads_may_grow(network: RecordedNetwork, other: RecordedNetwork | None) -> bool:
    """Does the size of an attention head grow, or can that not be told?"""
    sizes = []
    for one in (network, other or network):
        ops = [op for op in one.tape.ops if op.index in one.places]
        sizes.append({one.tape.shape(op.inputs[0])[-1] for op in ops if op.name in ATTENTIONS})
        if any(op.name in ("_softmax", "softmax") and one.places[op.index].part == "branch" for op in ops):
            return True
    return sizes[0] != sizes[1]


def _target(make: Make, target: Config, network: RecordedNetwork,
            batch: object) -> tuple[RecordedNetwork | None, dict[str, str], dict[str, Shape]]:
    """The target, read; or its shapes alone, where a large one cannot be run without values."""
    try:
        other = network_of(make, target, batch, network.tape.answers)
    except NotRun as error:
        model = on_meta(make, target)
        if is_small(model):
            raise
        shapes = {plain_name(name): tuple(p.shape) for name, p in model.named_parameters()}
        names = {name: nearest_name(name, network.tape.shapes) or "" for name in shapes}
        if "" in names.values():
            name = next(name for name, one in names.items() if not one)
            raise NotCovered(f"{name}: got a parameter of the target alone, whose forward pass does not run without "
                             f"values ({error.kind}); expected names that differ in numbers") from error
        return None, names, shapes
    return other, matched(network, other), other.tape.shapes


def _depths(network: RecordedNetwork, other: RecordedNetwork | None, inside: list[set[int]],
            names: Mapping[str, str]) -> list[tuple[int, int]]:
    """For every stream, branches of layers in base and target."""
    if other is not None and len(other.streams) == len(network.streams):
        there = layers(other, network)
        return [(len(one), len(two)) for one, two in zip(inside, there)]
    found, copies = [], Counter(names.values())
    for stream in network.streams:
        own = [{use.parameter for use in branch.uses} for branch in stream.branches
               if branch.index in inside[stream.index]]
        total = sum(sum(copies[name] for name in names) / max(1, len(names)) for names in own)
        found.append((len(inside[stream.index]), round(total)))
    return found


def _overridden(found: list[Role], given: Mapping[str, str]) -> list[Role]:
    """Roles with those that the caller gives."""
    result = found
    for pattern, kind in given.items():
        kind = _checks.choice("roles", "hidden" if kind == "matrix" else kind, ROLES)
        if not any(fnmatchcase(role.name, pattern) for role in found):
            raise ValueError(f"roles: got {pattern!r}, which no parameter matches; expected patterns of names")
        result = [replace(role, kind=kind, ends=kind == "branch output" or role.ends and kind in ("gain", "bias"),
                          note="as given") if fnmatchcase(role.name, pattern) else role for role in result]
    return result


def _said(ends: BranchEnd, roles: list[Role], given: Mapping[str, str]) -> BranchEnd:
    """The ends of a branch, but for parameters that the caller says are none."""
    out = {role.name for role in roles if not role.ends and any(fnmatchcase(role.name, one) for one in given)}
    return replace(ends, uses=tuple(use for use in ends.uses if use.parameter not in out))


def _with_visits(found: list[Role], network: RecordedNetwork, other: RecordedNetwork, names: Mapping[str, str]
                 ) -> list[Role]:
    """Roles with the growth of how often layers are visited: a loop comes back to all matrices of its stream equally
    often. Of others that are shared it is not told."""
    inside, there = layers(network, other), layers(other, network)
    twins: dict[str, list[str]] = defaultdict(list)
    for name, one in names.items():
        twins[one].append(name)
    counts: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for role in found:
        if role.is_matrix and role.in_layers:
            counts[role.stream] |= {(visits_of(role.name, network, inside), visits_of(name, other, there))
                                    for name in twins[role.name]}
    ratios: dict[int, float | None] = {}
    for stream, pairs in counts.items():
        before, after = next(iter(pairs))
        ratios[stream] = after / before if len(pairs) == 1 and before else 1.0 if all(
            max(pair) == 1 for pair in pairs) else None
    outside = [None if SHARED in role.note else 1.0 for role in found]
    return [replace(role, visits=ratios.get(role.stream, 1.0) if role.in_layers else other) for role, other in zip(
        found, outside)]


def _with_forward(role: Role, network: RecordedNetwork, other: RecordedNetwork, names: Mapping[str, str]) -> Role:
    """A role with the growth of the constants that its product meets."""
    twin = next((name for name, one in names.items() if one == role.name), "")
    forward = at_head = 1.0
    for use, again in zip(network.uses_of(role.name), other.uses_of(twin)):
        if use.how != again.how or use.how not in ("matrix", "gather", "bias"):
            continue
        front = grown(in_front, network, use, other, again) if use.how == "matrix" else 1.0
        at_ends = role.ends or role.kind in ENTRIES or network.place(use).part in ("in", "out")
        later = grown(after, network, use, other, again) if at_ends else 1.0
        later *= grown(on_itself, network, use, other, again)
        if role.kind == "tied" and use.how == "matrix":
            at_head = front * later
        else:
            forward = front * later
    return replace(role, forward=forward, at_head=at_head)
