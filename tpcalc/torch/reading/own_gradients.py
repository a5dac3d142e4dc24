"""Functions with a backward pass of their own, and whether it is the derivative of their forward pass."""

from __future__ import annotations

import torch
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from .claims import rms_of
from .replay import operations_needed, run
from .tape import Tape

SAME = 1e-4  # relative, of gradients that are one: in single precision, by formulas that people write


def own_derivatives(tape: Tape) -> dict[int, list[int]]:
    """Number of what a ``torch.autograd.Function`` returned -> numbers of the tensors that it was given, where its
    backward pass is the derivative of what its forward pass was recorded to do, and none where it is not.

    Both are pulled back along a drawn direction, at the recorded values, whose entries are tested one by one where a
    function acts on entries. What rounds forward and passes gradients on has none, nor what returns several tensors,
    nor anything without values.
    """
    edges = {number: edge for number in tape.makers for edge in [_edge(tape, number)]
             if edge is not None and isinstance(edge.node, torch.autograd.function.BackwardCFunction)}
    several = {edge.node for edge in edges.values() if edge.output_nr}
    return {number: given if not tape.on_meta and edge.node not in several and _is_derivative(
        tape, number, edge.node, given) else [] for number, edge in edges.items() for given in [_given(tape, number)]}


def _edge(tape: Tape, number: int) -> GradientEdge | None:
    """Where a tensor is in torch's own graph, None where it is not in it."""
    source = tape.differentiable(number)
    return get_gradient_edge(source) if isinstance(source, torch.Tensor) else source


def _given(tape: Tape, number: int) -> list[int]:
    """The nearest tensors in front that gradients go through."""
    op = tape.maker(number)
    found, front, seen = list[int](), list(op.inputs if op else ()), set[int]()
    while front:
        one = front.pop()
        if one in seen or not tape.is_floating(one):
            continue
        seen.add(one)
        if tape.differentiable(one) is not None:
            found.append(one)
        elif (made := tape.maker(one)) is not None:
            front += made.inputs
    return sorted(found)


def _is_derivative(tape: Tape, number: int, node: Node, given: list[int]) -> bool:
    edges = [(edge.node, edge.output_nr) for one in given if (edge := _edge(tape, one))]
    if not edges or {edge for edge in node.next_functions if edge[0] is not None} != set(edges):
        return False
    known = {one: tape.values[one].detach().clone().requires_grad_() for one in given}
    with torch.enable_grad():
        for op in operations_needed(tape, known, [number]):
            results = run(tape, op, lambda one: known[one] if one in known else tape.values[one].detach())
            known.update((made, result) for made, result in zip(op.outputs, results) if made not in known)
    again, recorded = known[number], tape.values[number].detach()
    if not again.requires_grad or not _same(again.detach(), recorded):
        return False
    drawn = torch.randn(recorded.shape, generator=torch.Generator().manual_seed(0)).to(recorded)
    derivative = torch.autograd.grad([again], [known[one] for one in given], [drawn], allow_unused=True)
    with torch.no_grad():
        own = node.apply(drawn)  # the backward pass that is written, and no other way back
    own = own if isinstance(own, tuple) else (own,)
    pushed = dict(zip(node.next_functions, own))
    return all(pushed[edge] is not None and slope is not None and _same(pushed[edge], slope)
               for edge, slope in zip(edges, derivative))


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return rms_of(one - other) <= SAME * rms_of(other)
