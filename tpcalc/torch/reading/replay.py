"""A tape run again with tensors changed: how claims about a model are tested."""

from __future__ import annotations

from typing import Callable, Mapping, Sequence, TypeAlias

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from .tape import Layout, Op, Ref, Tape

Change: TypeAlias = "Tensor | Callable[[Tensor], Tensor]"


def replay(tape: Tape, changes: Mapping[int, Change], wanted: Sequence[int]) -> list[Tensor]:
    """Values of the tensors with these numbers when some tensors are changed: replaced, or by a function of their own
    value.

    Whole numbers and what is chosen by them stay as they were recorded. On a tape without values, parameters and inputs
    that are asked for are drawn, from a seed of their own.
    """
    run = _Replay(tape, changes)
    with torch.no_grad():
        for op in _needed(tape, changes, wanted):
            run.step(op)
        return [run.value(number).clone() for number in wanted]


def _needed(tape: Tape, changes: Mapping[int, Change], wanted: Sequence[int]) -> list[Op]:
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


class _Replay:
    def __init__(self, tape: Tape, changes: Mapping[int, Change]) -> None:
        self.tape, self.changes = tape, changes
        self.found: dict[int, Tensor] = {}

    def value(self, number: int) -> Tensor:
        """What a tensor is now: computed, changed, recorded or drawn."""
        if number not in self.found:
            change = self.changes.get(number)
            if isinstance(change, Tensor):
                self.found[number] = change
            else:
                if self.tape.on_meta or change is not None:
                    recorded = self._drawn(number) if self.tape.on_meta else self.tape.values[number].detach()
                    self.found[number] = recorded if change is None else change(recorded)
                else:
                    return self.tape.values[number].detach()
        return self.found[number]

    def step(self, op: Op) -> None:
        touched = any(number in self.found or number in self.changes for number in op.inputs)
        if not touched and not self.tape.on_meta:
            for number in op.outputs:  # as recorded, unless it is itself changed
                if number in self.changes:
                    self.value(number)
            return
        for number, result in zip(op.outputs, self._results(op)):
            if not self.tape.on_meta and not self.tape.is_floating(number):
                continue
            change = self.changes.get(number)
            self.found[number] = result if change is None else change if isinstance(change, Tensor) else change(result)

    def _results(self, op: Op) -> list[Tensor]:
        if op.call is None:
            old, new = op.inputs
            return [_overwritten(self.value(old), self.value(new), self.tape.layouts[old], self.tape.layouts[new])]
        args, kwargs = tree_map(self._argument, op.arguments)
        if op.writes:  # what was recorded stays as it is
            args, kwargs = tree_map(lambda one: one.clone() if isinstance(one, Tensor) else one, (args, kwargs))
        return [one for one in tree_flatten(op.call(*args, **kwargs))[0] if isinstance(one, Tensor)]

    def _argument(self, one: object) -> object:
        if isinstance(one, Ref):
            return self.value(one.number)
        return torch.device("cpu") if isinstance(one, torch.device) and self.tape.on_meta else one

    def _drawn(self, number: int) -> Tensor:
        layout = self.tape.layouts[number]
        if not layout.is_floating:
            return torch.zeros(layout.shape, dtype=layout.dtype)
        generator = torch.Generator().manual_seed(number)
        size = layout.shape[-1]**-0.5 if len(layout.shape) > 1 and number in self.tape.parameters else 1.0
        return (torch.randn(layout.shape, generator=generator) * size).to(layout.dtype)


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
