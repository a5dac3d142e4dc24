"""``BranchEnd``: the parameters that a branch's size is proportional to, found by going back through linear ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .graph import Graph
from .kinds_of_ops import ATTENTIONS, BOUNDED, CONTRACTIONS, LOOKUPS, MOVES, PRODUCTS, SUMS
from .norms import Norm
from .tape import Op
from .uses import Use


@dataclass(frozen=True)
class BranchEnd:
    """uses: of the matrices, gains and biases that a branch ends with; ways: in what it ends, "matrix", "norm",
    "gated", "attention", "activations", "stream" or the name of an operation that is not linear; norm: the operation of
    a norm behind the matrices, -1 without; tail: numbers of the tensors between there and the addition."""

    uses: tuple[Use, ...] = ()
    ways: tuple[str, ...] = ()
    norm: int = -1
    tail: tuple[int, ...] = ()

    def of(self, how: str) -> list[Use]:
        return [use for use in self.uses if use.how == how]

    @property
    def carriers(self) -> list[Use]:
        """Those that the size goes with: matrices where there are any, else gains; biases besides."""
        main = self.of("matrix") or self.of("gain")
        return main + self.of("bias") if main else []


def find_branch_end(graph: Graph, norms: dict[int, Norm], uses: dict[int, list[Use]], end: int,
                    own: set[int]) -> BranchEnd:
    """The ends of the branch that adds ``end``. uses: operation -> uses of parameters; own: the branch's operations."""
    walk = _EndSearch(graph, norms, uses)
    front, seen = [end], dict[int, None]()
    while front:
        number = front.pop(0)
        if number in seen:
            continue
        seen[number] = None
        op = graph.tape.maker(number)
        if op is None or op.index not in own:
            walk.ways.append("stream")
        else:
            front += walk.back(op)
    ways = [way for way in dict.fromkeys(walk.ways) if way != "stream"] or list(dict.fromkeys(walk.ways))
    return BranchEnd(tuple(walk.found), tuple(ways), walk.norm, tuple(seen))


class _EndSearch:
    def __init__(self, graph: Graph, norms: dict[int, Norm], uses: dict[int, list[Use]]) -> None:
        self.graph, self.norms, self.uses = graph, norms, uses
        self.found: list[Use] = []
        self.ways: list[str] = []
        self.norm = -1

    def back(self, op: Op) -> list[int]:
        """Note what an operation ends the branch with; returns the tensors to go on with."""
        own, signals = self.uses.get(op.index, []), self.graph.signals(op)
        if op.index in self.norms:
            self.norm = op.index
            self.found += [use for use in own if use.how in ("gain", "bias")]
            self.ways.append("norm")
            return []
        if op.name in CONTRACTIONS and not own and (weighed := self._weighed(signals)):
            return weighed
        if op.name in CONTRACTIONS or op.name in ATTENTIONS:
            self.found += own
            self.ways.append("matrix" if own else "attention" if op.name in ATTENTIONS else "activations")
            return []
        if op.name in PRODUCTS:
            return self._factor(op, own, signals)
        if op.name in SUMS:
            self.found += own
            return signals
        if op.name in (*LOOKUPS, "index") and own and not signals:
            self.found += [replace(use, how="bias") for use in own]
            return []
        if op.name in MOVES or op.call is None:
            return signals
        self.ways.append("function " + op.name if op.name in BOUNDED else op.name)
        return []

    def _weighed(self, signals: list[int]) -> list[int]:
        """The signal that others sum up with weights, as gates do experts: it has more entries than they."""
        sizes = {number: self.graph.tape.values[number].numel() for number in signals}
        largest, *others = sorted(sizes, key=sizes.__getitem__, reverse=True) or [0]
        return [largest] if others and sizes[largest] > sizes[others[0]] else []

    def _factor(self, op: Op, own: list[Use], signals: list[int]) -> list[int]:
        if own:
            self.found += own
            return signals[:1]
        if len(signals) == 1:
            return signals
        shape = self.graph.tape.shape
        if not signals:
            return []
        largest = max(signals, key=lambda number: self.graph.tape.values[number].numel())
        alike = [number for number in signals if shape(number) == shape(largest)]
        if len(alike) > 1:
            self.ways.append("gated")
            return alike
        return [largest]
