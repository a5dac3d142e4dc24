"""Numbers of the forward pass that multiply the product of a parameter: what grows of them is not to be counted twice."""

from __future__ import annotations

from .graph import CONSTANT
from .kinds_of_ops import MOVES, PRODUCTS, REDUCTIONS
from .network import Network
from .tape import Op
from .uses import Use

FURTHEST = 12
CHOICES = frozenset(["cat", "index"]) | REDUCTIONS  # behind these, a factor is of more than one product


def factor_of(network: Network, op: Op) -> float:
    """The number that an operation multiplies its activation with; 1 where there is none, or none that is known."""
    if op.name not in PRODUCTS or op.index in network.norms:
        return 1.0
    known = [float(network.tape.values[number]) for number in op.inputs if network.graph.kinds[number] == CONSTANT
             and network.tape.values[number].numel() == 1 and not network.tape.values[number].is_meta]
    found = op.numbers() + known
    if len(found) != 1 or not found[0]:
        return 1.0
    return 1 / found[0] if op.name.startswith("div") else found[0]


def behind(network: Network, use: Use) -> float:
    """What the product of a parameter is multiplied with before anything else happens to it."""
    number, factor = use.op.output, 1.0
    for _ in range(FURTHEST):
        readers = [op for op in network.graph.readers.get(number, []) if op.outputs]
        if len(readers) != 1 or readers[0].name not in PRODUCTS | MOVES or readers[0].name in CHOICES:
            break
        op = readers[0]
        if op.name in PRODUCTS and (op.index in network.norms or len(network.graph.activations(op)) > 1):
            break
        factor *= factor_of(network, op)
        number = op.output
    return factor


def in_front(network: Network, use: Use) -> float:
    """What is multiplied with what a matrix reads, since a norm or another operation that is no factor."""
    signals, factor = network.graph.signals(use.op), 1.0
    for _ in range(FURTHEST):
        op = network.tape.maker(signals[0]) if signals else None
        if op is None or op.index in network.norms or op.name not in PRODUCTS | MOVES or op.name in CHOICES:
            break
        factor *= factor_of(network, op)
        signals = network.graph.signals(op)
    return factor
