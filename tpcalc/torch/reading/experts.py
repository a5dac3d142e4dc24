"""Experts that a router chooses between: how many there are, how many act, and how large their gates are."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, Iterator, Mapping

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from ...errors import NotCovered
from ...tune.parameters import FREE, OF_ALL, SHARES
from ..streams import run_on
from .building import Config, Make, NumbersHaveValues, batch_for, on_meta
from .kinds_of_ops import BOUNDED, CHOICES, CONTRACTIONS, CONVOLUTIONS, MOVES, PRODUCTS, SUMS
from .matching import Growth
from .network import OpLocation, RecordedNetwork
from .roles import Role
from .tape import Op, in_evaluation
from .uses import Use

UNKNOWN = "not known"  # of gates
BETWEEN = MOVES | BOUNDED | SUMS | PRODUCTS  # a router's product and the choice
BOUNDS = frozenset("clamp clamp_min maximum".split())
TARGET_UNREAD = ("the target's forward pass does not run without values, so that how many of {} experts act there is "
                 "not read; the plan takes as many as act in the base")


@dataclass(frozen=True)
class Choice:
    """A router's choice. axis: of the router, that counts experts; active: how many act, None where the operation does
    not say; use: the router's product; op: what chooses."""

    router: str
    axis: int
    active: int | None
    use: Use
    op: Op


def choices(network: RecordedNetwork) -> dict[str, Choice]:
    """Routers, by name, with what they choose: matrices of branches among whose outputs is chosen, with no other
    product in between. A softmax that weighs a stack of as many chooses all of them."""
    found = {}
    stacked = {(network.place(use), network.tape.shapes[use.parameter][0]) for use in network.uses
               if use.how == "matrix" and len(network.tape.shapes[use.parameter]) == 3}
    for use in network.uses:
        axes = [axis for axis in use.fan_out if axis is not None]
        if use.how != "matrix" or use.op.name in CONVOLUTIONS or len(axes) != 1 or network.place(use).part != "branch":
            continue
        count = network.tape.shapes[use.parameter][axes[0]]
        among = [op for op in _chosen_by(network, use) if network.tape.shape(op.inputs[0])[-1:] == (count,)]
        ops = [op for op in among if op.name in CHOICES]  # others choose positions, or groups of experts
        if ops:
            found[use.parameter] = Choice(use.parameter, axes[0], _count(network, ops[-1]), use, ops[-1])
        elif among and (network.place(use), count) in stacked:
            found[use.parameter] = Choice(use.parameter, axes[0], count, use, among[-1])
    return found


def _chosen_by(network: RecordedNetwork, use: Use) -> list[Op]:
    """The choices, and softmaxes, that the product of a parameter goes into, in order."""
    graph, found, front, seen = network.graph, dict[int, Op](), list(use.op.outputs), set[int]()
    while front:
        for reader in graph.readers.get(front.pop(), []):
            if reader.index in seen:
                continue
            seen.add(reader.index)
            says_which = reader.name != "max" or graph.readers.get(reader.outputs[-1])
            if reader.name in CHOICES and says_which or reader.name.endswith("softmax"):
                found[reader.index] = reader
            if reader.name in BETWEEN and network.places.get(reader.index) == network.place(use):
                front += reader.outputs
    return [found[index] for index in sorted(found)]


def _count(network: RecordedNetwork, op: Op) -> int | None:
    if op.name in ("argmax", "max"):
        return 1
    positional, named = op.arguments
    given = named.get("k", positional[1] if op.name == "topk" and len(positional) > 1 else None)
    return given if isinstance(given, int) else None


def stacks(network: RecordedNetwork, found: Mapping[str, Choice]) -> dict[str, Choice]:
    """Parameters of experts, with the choice between them: stacks in a router's branch, and matrices of what it chose
    or of what it weighs, of which others of one shape stand beside each other. What all experts are read by, or read,
    has none beside it."""
    branches = {network.place(one.use): one for one in found.values()}
    weighed = {place: _weighed(network, one) for place, one in branches.items()}
    own: dict[str, Choice] = {}
    listed: dict[tuple[OpLocation, tuple[int, ...]], list[tuple[Use, set[int]]]] = defaultdict(list)
    for use in network.uses:
        place, shape = network.place(use), network.tape.shapes[use.parameter]
        choice = branches.get(place)
        if choice is None or use.how != "matrix" or use.parameter in found or use.op.name in CONVOLUTIONS:
            continue
        read = _reads_from(network, use)
        if len(shape) == 3:
            own[use.parameter] = choice
        elif choice.use.op.index in read or use.op.index in weighed[place]:
            listed[place, shape].append((use, read))
    for (place, _), alike in listed.items():
        own.update((use.parameter, branches[place]) for use, read in alike if any(
            other.op.index not in read | {use.op.index} and use.op.index not in there for other, there in alike))
    return own


def _weighed(network: RecordedNetwork, choice: Choice) -> set[int]:
    """Operations of what a product weighs with what was chosen, where every expert acts on everything."""
    place, found = network.place(choice.use), set[int]()
    on_stream = {number for stream in network.streams for number in stream.path.values}
    for op in network.tape.ops:
        signals = network.graph.signals(op)
        if network.places.get(op.index) != place or len(signals) != 2 or op.name not in PRODUCTS:
            continue
        cones = [network.graph.cone(number, on_stream) for number in signals]
        for gate, product in (cones, cones[::-1]):
            if choice.op.index in gate and choice.op.index not in product:
                found |= product - gate
    return found


def _reads_from(network: RecordedNetwork, use: Use) -> set[int]:
    """Operations that what a matrix acts on depends on, in its branch."""
    on_stream = {number for stream in network.streams for number in stream.path.values}
    return set().union(*(network.graph.cone(number, on_stream) for number in network.graph.activations(use.op)
                         if number not in on_stream))


def without_experts(network: RecordedNetwork, growth: Mapping[str, Growth]) -> dict[str, Growth]:
    """By how much axes grow that are widths: those that count experts do not."""
    routers = choices(network)
    counted = {name: one.axis for name, one in routers.items()} | {
        name: 0 for name in stacks(network, routers) if len(network.tape.shapes[name]) == 3}
    return {name: tuple(1.0 if counted.get(name) == axis else ratio for axis, ratio in enumerate(one))
            for name, one in growth.items()}


def with_experts(roles: list[Role], network: RecordedNetwork, other: RecordedNetwork | None,
                 names: Mapping[str, str], growth: Mapping[str, Growth], unread: Mapping[int, int] | None
                 ) -> tuple[list[Role], list[str]]:
    """Roles with the growth of experts and of active ones, and sentences on what is not read. unread: where the target
    does not run without values, what ``choices_before_a_value`` found.

    Raises ``NotCovered`` where these grow, and the operation that chooses does not say how many, or what makes gates is
    not understood.
    """
    routers = choices(network)
    there, notes = {} if other is None else choices(other), list[str]()
    twins = {one: name for name, one in names.items()}
    of = {**stacks(network, routers), **routers}
    require_stacks_as_a_whole(network, routers)
    require_weights_that_are_read(network, of, growth)
    found = []
    for role in roles:
        choice = of.get(role.name)
        if choice is None or not role.is_matrix:
            found.append(role)
            continue
        grown = growth.get(choice.router)
        experts = 1.0 if grown is None else grown[choice.axis]
        twin = there.get(twins.get(choice.router, ""))
        active = 1.0
        if unread is not None:
            count = round(network.tape.shapes[choice.router][choice.axis] * experts)
            if choice.active and count in unread:
                active = unread[count] / choice.active
            else:
                notes.append(TARGET_UNREAD.format(count))
        if twin is not None and choice.active and twin.active:
            active = twin.active / choice.active
        elif twin is not None and (choice.active, twin.active) != (None, None):
            raise NotCovered(f"{choice.router}: got {choice.op.place}, which does not say how many experts act; "
                             "expected topk and argmax")
        gates = gates_of(network, choice, of)
        if gates == UNKNOWN and (experts, active) != (1, 1):
            raise NotCovered(f"{choice.router}: got experts that grow in number by {experts:g}, active ones by "
                             f"{active:g}, and behind {choice.op.place} no gates that are read; expected a softmax, a "
                             "sigmoid, or shares over their sum, that multiplies stacks or lists of experts")
        kind = "router" if role.name in routers else "expert"
        found.append(replace(role, kind=kind, experts=experts, active=active, gates=gates))
    return found, notes


def require_stacks_as_a_whole(network: RecordedNetwork, routers: Mapping[str, Choice]) -> None:
    """Raise ``NotCovered`` for stacks of which every vector gathers the matrices that it chose."""
    shapes = network.tape.shapes
    counts = {(network.place(one.use), shapes[one.router][one.axis]): one.router for one in routers.values()}
    for use in network.uses:
        shape = shapes[use.parameter]
        router = counts.get((network.place(use), shape[0])) if use.how == "gather" and len(shape) == 3 else None
        if router is not None:
            raise NotCovered(f"{use.parameter}: got matrices that are gathered by what {router} chose, a product a "
                             "vector; expected products of whole stacks, or of each expert with its vectors")


def require_weights_that_are_read(network: RecordedNetwork, of: Mapping[str, Choice], growth: Mapping[str, Growth]
                                  ) -> None:
    """Raise ``NotCovered`` for a stack that grows in number beside a matrix with as many outputs, among which nothing
    that is known chooses: weights of experts that something else makes."""
    shapes = network.tape.shapes
    counts = {(network.place(use), shapes[use.parameter][0]): use.parameter for use in network.uses
              if use.how == "matrix" and len(shapes[use.parameter]) == 3 and use.op.name not in CONVOLUTIONS
              and use.parameter not in of and use.parameter in growth and growth[use.parameter][0] != 1}
    for use in network.uses:
        axes = [axis for axis in use.fan_out if axis is not None]
        if use.how != "matrix" or use.parameter in of or len(shapes[use.parameter]) != 2 or len(axes) != 1:
            continue
        stack = counts.get((network.place(use), shapes[use.parameter][axes[0]]))
        if stack is not None:
            raise NotCovered(f"{use.parameter}: got as many outputs as {stack} has matrices, whose number grows, and "
                             "nothing that is known chooses among them; expected a softmax, a sigmoid or topk")


def gates_of(network: RecordedNetwork, choice: Choice, of: Mapping[str, Choice]) -> str:
    """How large gates are: shares of those that act, shares of all experts, or of order one by themselves."""
    kinds = {_size(network, number, choice) for number in _gates(network, choice, of)}
    return kinds.pop() if len(kinds) == 1 else UNKNOWN


def _gates(network: RecordedNetwork, choice: Choice, of: Mapping[str, Choice]) -> Iterator[int]:
    """What products of experts are multiplied with that the router makes."""
    place = network.place(choice.use)
    own = {use.op.index for use in network.uses if use.parameter in of and use.parameter != choice.router
           and network.place(use) == place}
    on_stream = {number for stream in network.streams for number in stream.path.values}
    for op in network.tape.ops:
        signals = network.graph.signals(op)
        if network.places.get(op.index) != place or len(signals) != 2 or op.name not in PRODUCTS | CONTRACTIONS:
            continue
        cones = [network.graph.cone(number, on_stream) for number in signals]
        for gate, product in (cones, cones[::-1]):
            if choice.use.op.index in gate and not own & gate and own & product:
                yield signals[cones.index(gate)]


def _size(network: RecordedNetwork, number: int, choice: Choice) -> str:
    """How large a gate is, by the operation that made it."""
    graph, front, seen = network.graph, [number], set[int]()
    while front:
        op = network.tape.maker(front.pop())
        if op is None or op.index in seen:
            continue
        seen.add(op.index)
        signals = graph.signals(op)
        if op.name.startswith("div") and len(signals) == 2 and _is_total(network, signals[1]):
            return SHARES
        if op.name.endswith("softmax"):
            count = network.tape.shape(op.output)[-1]
            behind = choice.op.index in graph.cone(op.inputs[0], set())  # others are out by what is put in their place
            return SHARES if count == choice.active or behind else OF_ALL
        if op.name == "sigmoid":
            return FREE
        if op.name not in MOVES | SUMS | CHOICES and not (op.name in PRODUCTS and len(signals) == 1):
            return UNKNOWN
        front += signals
    return UNKNOWN


def _is_total(network: RecordedNetwork, number: int) -> bool:
    """Is it a sum, with a bound or a small number beside it?"""
    op = network.tape.maker(number)
    while op is not None and op.name in (MOVES | SUMS | BOUNDS) - {"sum"}:
        op = next((network.tape.maker(one) for one in network.graph.signals(op)), None)
    return op is not None and op.name == "sum"


class _Choosing(TorchDispatchMode):  # type: ignore[misc]
    """Notes how many are chosen of how many, by ``topk``."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, int] = {}

    def __torch_dispatch__(self, call: Any, types: object, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> object:
        given = kwargs or {}
        if call._schema.name == "aten::topk":
            self.found[args[0].shape[-1]] = int(given["k"] if "k" in given else args[1])
        return call(*args, **given)


def choices_before_a_value(make: Make, config: Config, batch: object) -> dict[int, int]:
    """How many are chosen of how many, in a forward pass without values, up to where it asks for one."""
    model = on_meta(make, config)
    taken = batch_for(model) if batch is None else batch
    taken = tree_map(lambda one: one.to("meta") if isinstance(one, torch.Tensor) else one, taken)
    choosing = _Choosing()
    try:
        with torch.device("meta"), NumbersHaveValues(), torch.no_grad(), choosing:
            run_on(in_evaluation(model), taken)
    except Exception:  # the user's own code, on data without values
        pass
    return choosing.found
