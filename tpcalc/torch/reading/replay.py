"""A tape run again with tensors changed: how claims about a model are tested."""

from __future__ import annotations

from math import prod
from typing import Callable, Mapping, Sequence, TypeAlias

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from ..streams import tensors_of
from .tape import Layout, Op, Ref, Tape

Change: TypeAlias = "Tensor | Callable[[Tensor], Tensor]"
Values = Mapping[int, Tensor]
PERIOD = 10007  # a prime: values of large tensors repeat, but not from row to row


def replay(tape: Tape, changes: Mapping[int, Change], wanted: Sequence[int],
           values: Values | None = None) -> list[Tensor]:
    """Values of the tensors with these numbers when some tensors are changed: replaced, or by a function of their own
    value.

    Whole numbers, and what is chosen by them, stay as they were recorded. values: what tensors hold; None is what the
    tape recorded.
    """
    known = tape.values if values is None else values
    found: dict[int, Tensor] = {}

    def value(number: int) -> Tensor:
        if number not in found and number in changes:
            change = changes[number]
            found[number] = change if isinstance(change, Tensor) else change(known[number].detach())
        return found[number] if number in found else known[number].detach()

    with torch.no_grad():
        for op in operations_needed(tape, changes, wanted):
            if any(number in found or number in changes for number in op.inputs):
                results = run(tape, op, value)
                for number, result in zip(op.outputs, results):
                    change = changes.get(number)
                    if tape.is_floating(number):
                        found[number] = result if change is None else (
                            change if isinstance(change, Tensor) else change(result))
        return [value(number).clone() for number in wanted]


def drawn_values(tape: Tape, wanted: int, starts: Sequence[int]) -> dict[int, Tensor]:
    """Values, on a tape without any, of all that a tensor is computed from, back to the tensors in ``starts``, which
    are drawn, as parameters and inputs are."""
    found = {number: _drawn(tape, number) for number in starts}

    def value(number: int) -> Tensor:
        if number not in found:
            recorded = tape.values[number]
            found[number] = _drawn(tape, number) if recorded.is_meta else recorded.detach()
        return found[number]

    with torch.no_grad():
        for op in operations_needed(tape, found, [wanted]):
            found.update((number, result) for number, result in zip(op.outputs, run(tape, op, value))
                         if number not in found)
    return found


def operations_needed(tape: Tape, changes: Mapping[int, Change], wanted: Sequence[int]) -> list[Op]:
    """Operations that the wanted tensors depend on, no further back than to what is replaced."""
    found: set[int] = set()
    open_numbers = list(wanted)
    while open_numbers:
        number = open_numbers.pop()
        op = tape.maker(number)
        if op is None or op.index in found or isinstance(changes.get(number), Tensor):
            continue
        found.add(op.index)
        open_numbers += op.inputs
    return [tape.ops[index] for index in sorted(found)]


def run(tape: Tape, op: Op, value: Callable[[int], Tensor]) -> list[Tensor]:
    """What an operation returns; nothing that exists is written to."""
    if op.call is None:
        old, new = op.inputs
        return [_overwritten(value(old), value(new), tape.layouts[old], tape.layouts[new])]

    def argument(one: object) -> object:
        if isinstance(one, Ref):
            return value(one.number).clone() if op.writes else value(one.number)
        return torch.device("cpu") if isinstance(one, torch.device) and one.type == "meta" else one

    args, kwargs = tree_map(argument, op.arguments)
    return tensors_of(op.call(*args, **kwargs))


def _drawn(tape: Tape, number: int) -> Tensor:
    layout = tape.layouts[number]
    if not layout.is_floating:
        return torch.zeros(layout.shape, dtype=layout.dtype)
    size = layout.shape[-1]**-0.5 if len(layout.shape) > 1 and number in tape.parameters else 1.0
    some = torch.randn(PERIOD, generator=torch.Generator().manual_seed(number)) * size
    count = prod(layout.shape)
    return some.to(layout.dtype).repeat(-(-count // PERIOD))[:count].view(layout.shape)


def _overwritten(old: Tensor, new: Tensor, where: Layout, written: Layout) -> Tensor:
    """A tensor after another one that shares its memory has been written."""
    if (where.shape, where.stride, where.offset) == (written.shape, written.stride, written.offset):
        return new
    ends = [one.offset + 1 + sum(stride * max(0, size - 1) for size, stride in zip(one.shape, one.stride))
            for one in (where, written)]
    memory = torch.zeros(max(ends), dtype=old.dtype)
    memory.as_strided(where.shape, where.stride, where.offset).copy_(old)
    memory.as_strided(written.shape, written.stride, written.offset).copy_(new)
    return memory.as_strided(where.shape, where.stride, where.offset).clone()
