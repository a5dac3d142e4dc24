"""Norms of a tape, fused or written out, with their eps."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .graph import CONSTANT, Graph
from .kinds_of_ops import FUSED_NORMS, PRODUCTS, REDUCTIONS
from .tape import Op

CASTS = frozenset("_to_copy alias detach view clone _unsafe_view sub".split())
INSIDE = REDUCTIONS | frozenset(  # between a mean square and what is divided by its root
    "rsqrt sqrt reciprocal pow mul div expand _to_copy view unsqueeze alias clone detach abs square add clamp_min "
    "clamp maximum".split())
LENGTHS = frozenset("sum linalg_vector_norm norm".split())  # what is divided by these is 1 in length, not in entries
FURTHEST = 12  # operations from a mean to the product that it normalizes


@dataclass(frozen=True)
class Norm:
    """What divides a tensor by its own size. x: the tensor's number; eps: 0 where there is none; weight, bias: numbers
    of a fused norm's gain and bias, -1 for none; result: the root mean square of what it returns."""

    op: Op
    x: int
    eps: float
    weight: int = -1
    bias: int = -1
    result: float = 1.0


def find_norms(graph: Graph) -> dict[int, Norm]:
    """Index of an operation -> the norm that it completes."""
    found = {}
    for op in graph.tape.ops:
        norm = _fused(op) if op.name in FUSED_NORMS else _written_out(graph, op) if op.name in PRODUCTS else None
        if norm is not None:
            found[op.index] = norm
    return found


def _fused(op: Op) -> Norm:
    weight, bias, eps = FUSED_NORMS[op.name]
    given = op.arguments[0][eps] if eps < len(op.arguments[0]) else None
    return Norm(op, op.inputs[0], float(given) if isinstance(given, (int, float)) else 0.0, op.argument(weight),
                -1 if bias is None else op.argument(bias))


def _written_out(graph: Graph, op: Op) -> Norm | None:
    """x times, or over, what is made of a mean of x along an axis."""
    if len(op.inputs) != 2:
        return None
    for x, r in (op.inputs, op.inputs[::-1]):
        if op.name.startswith("div") and (x, r) != op.inputs or not graph.is_activation(r):
            continue
        sizes = list(zip(graph.tape.shape(x), graph.tape.shape(r)))
        maker = graph.tape.maker(r)
        reduced = len(graph.tape.shape(x)) == len(graph.tape.shape(r)) and any(a > 1 and b == 1 for a, b in sizes)
        if reduced or maker is not None and maker.name == "expand":
            found = _eps_of_mean(graph, r, x)
            if found is not None:
                eps, reduction, x = found
                own = graph.tape.shape(reduction.inputs[0])
                count = prod(own) / max(1, prod(graph.tape.shape(reduction.output)))
                return Norm(op, x, eps, result=count**-0.5 if reduction.name in LENGTHS else 1.0)
    return None


def _eps_of_mean(graph: Graph, r: int, x: int) -> tuple[float, Op, int] | None:
    """The eps with which r is made of a mean or norm of x, what takes it, and of what; None where it is not made of
    one. Where x is made twice, it is of what x is made of."""
    same, number = {x}, x
    for _ in range(4):
        op = graph.tape.maker(number)
        if op is None or op.name not in CASTS:
            break
        number = op.inputs[0]
        same.add(number)
    eps, seen, made = 0.0, set(), graph.tape.maker(x)
    front: list[tuple[int, Op | None]] = [(r, None)]
    for _ in range(FURTHEST):
        behind: list[tuple[int, Op | None]] = []
        for number, reduction in front:
            op = graph.tape.maker(number)
            if reduction is not None and number in same:
                return eps, reduction, x
            if reduction is not None and op and made and _is_again(op, made):
                return eps, reduction, op.inputs[0]
            if number in seen or op is None or op.name not in INSIDE:
                continue
            seen.add(number)
            if op.name in ("add", "clamp_min", "clamp", "maximum"):
                if len(op.inputs) > 1 and not any(graph.kinds[one] == CONSTANT for one in op.inputs):
                    continue
                eps = next((one for one in op.numbers() if one < 1), eps)
            taken = op if reduction is None and op.name in REDUCTIONS else reduction
            behind += [(one, taken) for one in graph.activations(op)]
        front = behind
    return None


def _is_again(one: Op, other: Op) -> bool:
    """Is it the same operation on the same tensors, as where x less its mean is written twice?"""
    return (one.name, one.inputs, one.arguments) == (other.name, other.inputs, other.arguments)
