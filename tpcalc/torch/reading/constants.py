"""Numbers of the forward pass beside the product of a parameter: what grows of them is not to be counted twice."""

from __future__ import annotations

from math import prod
from typing import Callable

from ...errors import NotCovered
from .graph import CONSTANT
from .kinds_of_ops import MOVES, PRODUCTS, REDUCTIONS, SUMS
from .network import RecordedNetwork
from .tape import Op
from .uses import Use

FURTHEST = 12
CHOICES = frozenset(["cat", "index"]) | REDUCTIONS  # behind these, a factor is of more than one product
Walk = Callable[[RecordedNetwork, Use], "tuple[float, tuple[str, ...]]"]


def factor_of(network: RecordedNetwork, op: Op) -> float:
    """The number that an operation multiplies its activation with; 1 where there is none. Raises ``NotCovered`` for one
    that is not known."""
    if op.name not in PRODUCTS or op.index in network.norms:
        return 1.0
    constants = [network.tape.values[number] for number in op.inputs if network.graph.kinds[number] == CONSTANT
                 and network.tape.values[number].numel() == 1]
    if any(one.is_meta for one in constants):
        raise NotCovered(f"{op.place}: got a number that multiplies and is not known on the meta device; expected "
                         "numbers, or tensors made of them by torch.tensor")
    found = op.numbers() + [float(one) for one in constants]
    if len(found) != 1 or not found[0]:
        return 1.0
    return abs(1 / found[0] if op.name.startswith("div") else found[0])


def after(network: RecordedNetwork, use: Use) -> tuple[float, tuple[str, ...]]:
    """What the product of a parameter is multiplied with before anything else happens to it, and by which
    operations."""
    passed, number, readers = _passed(network, use)
    names = [op.name for op in passed if op.name not in MOVES] + [op.name for op in readers if op.name not in MOVES][:1]
    factor = prod(factor_of(network, op) for op in passed)
    if len(readers) == 1 and readers[0].name in SUMS and readers[0].argument(1) == number:
        factor *= abs(float(str(readers[0].arguments[1].get("alpha", 1))))  # torch.add(x, y, alpha=...)
    return factor, tuple(names)


def product_through(network: RecordedNetwork, use: Use) -> int:
    """Number of what the product of a parameter has become when it is first more than multiplied and viewed."""
    return _passed(network, use)[1]


def _passed(network: RecordedNetwork, use: Use) -> tuple[list[Op], int, list[Op]]:
    """What views and multiplies the product of a parameter, one after the other, the number of what it has become, and
    what reads that."""
    passed, number = list[Op](), use.op.output
    while True:
        readers = [op for op in network.graph.readers.get(number, []) if op.outputs]
        if len(readers) != 1 or len(passed) == FURTHEST or not _is_factor(network, readers[0]):
            return passed, number, readers
        passed += readers
        number = readers[0].output


def _is_factor(network: RecordedNetwork, op: Op) -> bool:
    """Does an operation view an activation, or multiply it with what does not depend on the batch?"""
    if op.name in PRODUCTS and (op.index in network.norms or len(network.graph.activations(op)) > 1):
        return False
    return op.name in PRODUCTS | MOVES and op.name not in CHOICES


def in_front(network: RecordedNetwork, use: Use) -> tuple[float, tuple[str, ...]]:
    """The size of what a matrix reads, since a norm; what multiplies it where there is none."""
    signals, factor, names = network.graph.signals(use.op), 1.0, []
    for _ in range(FURTHEST):
        op = network.tape.maker(signals[0]) if signals else None
        if op is None:
            break
        names += [op.name] if op.name not in MOVES else []
        if op.index in network.norms:
            return factor * network.norms[op.index].result, tuple(names)
        if op.name not in PRODUCTS | MOVES or op.name in CHOICES or len(network.graph.activations(op)) > 1:
            break
        factor *= factor_of(network, op)
        signals = network.graph.signals(op)
    return factor, tuple(names)


def on_itself(network: RecordedNetwork, use: Use) -> tuple[float, tuple[str, ...]]:
    """What a parameter is multiplied with before it is used."""
    made, factor, names = network.graph.made, 1.0, []
    number = next((one for one in use.op.inputs if one in made and use.parameter in made[one].parameters), -1)
    while (op := network.tape.maker(number)) is not None:
        sources = [one for one in op.inputs if one in made]
        if len(sources) != 1:
            break
        factor *= factor_of(network, op)
        names += [op.name] if op.name not in MOVES else []
        number = sources[0]
    return factor, tuple(names)


def grown(walk: Walk, base: RecordedNetwork, use: Use, target: RecordedNetwork, twin: Use) -> float:
    """By how much such a number grows; 1 where other operations stand there."""
    (before, names), (later, others) = walk(base, use), walk(target, twin)
    return float(f"{later / before:.12g}") if names == others and before else 1.0
