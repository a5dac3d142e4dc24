"""The path of a residual stream: from the batch to a tensor through fewest matrices, and then most additions."""

from __future__ import annotations

from dataclasses import dataclass

from .graph import ACTIVATION, Graph
from .kinds_of_ops import ATTENTIONS, CONTRACTIONS, LOOKUPS, MOVES, PRODUCTS, REDUCTIONS, SUMS
from .norms import Norm
from .tape import Op

MATRIX, POSITIONS, NONLINEAR, GATE = 1000, 50000, 100, 1
NORM, FACTOR_OF_NORM, MEAN = 10, 50, 10


@dataclass(frozen=True)
class Path:
    """values: numbers of tensors, from the batch on; ops: from each of them to the next; costs: number -> least
    cost."""

    values: tuple[int, ...]
    ops: tuple[int, ...]
    costs: dict[int, int]

    @property
    def positions(self) -> dict[int, int]:
        """Number of a tensor -> how far along the path it stands."""
        return {number: k for k, number in enumerate(self.values)}


class CheapestPaths:
    """The cheapest paths from the batch to all tensors of a graph."""

    def __init__(self, graph: Graph, norms: dict[int, Norm]) -> None:
        tape = graph.tape
        best = {number: (0, 0) for number in tape.layouts if graph.is_activation(number) and number not in tape.makers}
        self.back: dict[int, tuple[int, int]] = {}
        for op in tape.ops:
            if op.outputs and graph.kinds[op.output] == ACTIVATION and op.name in (*LOOKUPS, "index") and not any(
                    number in best for number in op.inputs):
                best[op.output] = (POSITIONS, 0)  # a table's rows: worse than what comes from the batch
                continue
            signals = graph.activations(op)
            adds = op.name in SUMS and len(signals) >= 2
            ways = [((best[number][0] + _cost(graph, norms, op, number), best[number][1] - adds), number)
                    for number in signals if number in best]
            if not ways:
                continue
            cost, number = min(ways, key=lambda way: way[0])
            for output in op.outputs:
                if graph.is_activation(output) and output not in best:
                    best[output], self.back[output] = cost, (number, op.index)
        self.costs = {number: cost for number, (cost, _) in best.items()}

    def to(self, sink: int) -> Path:
        """The path to ``sink``; empty where it does not depend on the batch."""
        values, ops = [sink], []
        while values[-1] in self.back:
            number, index = self.back[values[-1]]
            values.append(number)
            ops.append(index)
        if sink not in self.costs:
            return Path((), (), {})
        return Path(tuple(values[::-1]), tuple(ops[::-1]), self.costs)


def _cost(graph: Graph, norms: dict[int, Norm], op: Op, number: int) -> int:
    """The cost of going through an operation from one of its operands."""
    if op.call is None or op.name in SUMS:
        return 0
    if op.name in LOOKUPS or op.name in CONTRACTIONS or op.name in ATTENTIONS:
        return MATRIX
    if op.index in norms:
        return NORM if number == norms[op.index].x else FACTOR_OF_NORM
    if op.name in REDUCTIONS or "pool" in op.name:
        return MEAN
    if op.name in MOVES:
        return 0
    if op.name in PRODUCTS:
        return GATE if len(graph.activations(op)) > 1 else 0
    return NONLINEAR
