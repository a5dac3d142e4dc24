"""What every parameter does where it meets activations."""

from __future__ import annotations

from dataclasses import dataclass

from .graph import STATIC, Axes, Graph
from .kinds_of_ops import ATTENTIONS, CONTRACTIONS, CONVOLUTIONS, FUSED_NORMS, LOOKUPS, MOVES, PRODUCTS
from .norms import Norm
from .tape import Op

ADDED = frozenset("add sub rsub index_put copy lerp".split())
How = tuple[str, Axes, Axes]  # in what way, axes that are summed over, axes that are left


@dataclass(frozen=True)
class Use:
    """One place where a parameter is read. how: "matrix", "gather", "table", "gain", "bias", "cat", "mask" or "other";
    fan_in, fan_out: axes of the parameter; axes: those of it that what is read has, not one that counts layers;
    through: operations on the parameter before; together: parameters that are read as one."""

    parameter: str
    op: Op
    how: str
    fan_in: Axes = ()
    fan_out: Axes = ()
    axes: Axes = ()
    through: tuple[str, ...] = ()
    together: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.how} of {self.op.place}"


def find_uses(graph: Graph, norms: dict[int, Norm]) -> list[Use]:
    """All uses, in the order of operations."""
    found = []
    for op in graph.tape.ops:
        if op.call is None or graph.kinds.get(op.output) == STATIC:
            continue
        for number in op.inputs:
            if graph.kinds.get(number) == STATIC:
                made = graph.made[number]
                how, fan_in, fan_out = _how(graph, norms, op, number)
                found += [Use(name, op, how, fan_in, fan_out, graph.axes(number), made.through, made.parameters)
                          for name in made.parameters if how]
    return found


def _how(graph: Graph, norms: dict[int, Norm], op: Op, number: int) -> How:
    axes = graph.axes(number)
    if op.name in CONTRACTIONS or op.name in FUSED_NORMS:
        statics = [one for one in op.inputs if graph.kinds[one] == STATIC]
        if not graph.activations(op) and len(statics) >= 2 and number == statics[op.name == "addmm"]:
            return "table", (), axes  # a table that is read like an activation
    if op.name in FUSED_NORMS:
        norm = norms[op.index]
        return "gain" if norm.weight == number else "bias" if norm.bias == number else "", (), ()
    if op.name in LOOKUPS or op.name == "index":
        return "gather", axes[:1], axes[1:]
    if op.name in CONTRACTIONS:
        return _contracted(op, number, axes)
    if op.name in PRODUCTS:
        return "gain", (), ()
    if op.name == "addcmul":
        return "bias" if op.argument(0) == number else "gain", (), ()
    if op.name in ADDED:
        return "bias", (), ()
    if op.name in ("cat", "stack"):
        return "cat", (), ()
    return ("" if op.name in MOVES else "mask" if op.name in ATTENTIONS else "other"), (), ()


def _contracted(op: Op, number: int, axes: Axes) -> How:
    """How a matrix product or convolution uses an operand: which axes are summed over."""
    if op.name in CONVOLUTIONS:
        return ("bias", (), ()) if op.argument(2) == number else (
            "matrix", tuple(axis for axis in axes[1:] if axis is not None), axes[:1])
    if op.name == "linear":
        return ("bias", (), ()) if op.argument(2) == number else ("matrix", axes[1:], axes[:1])
    if op.name in ("mv", "dot"):
        return "matrix", axes[-1:], axes[:-1]
    left = 0
    if op.name in ("addmm", "baddbmm", "addmv"):
        if op.argument(0) == number:
            return "bias", (), ()
        left = 1
    if op.argument(left) == number or len(axes) < 2:
        return "matrix", axes[-1:], axes[:-1]
    return "matrix", axes[-2:-1], axes[:-2] + axes[-1:]
