"""``Graph``: what every tensor of a tape depends on, and which axis of a parameter each axis of a view is."""

from __future__ import annotations

from dataclasses import dataclass

from .kinds_of_ops import CHOICES, CONTRACTIONS, FUSED_NORMS, LOOKUPS, MOVES, SHAPES_ALONE
from .tape import Op, Tape

CONSTANT, STATIC, ACTIVATION = "constant", "static", "activation"
SAME_AXES = ("cat", "clone", "_to_copy", "pad", "mul", "div", "add", "slice")
Axes = tuple[int | None, ...]


@dataclass(frozen=True)
class Made:
    """A tensor that is made of parameters alone. parameters: their names; shape, stride, axes: of the tensor that its
    memory belongs to, and which axis of the parameter each axis is; through: operations that are no views."""

    parameters: tuple[str, ...]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    axes: Axes
    through: tuple[str, ...] = ()


class Graph:
    """kinds: number -> constant, static (made of parameters alone) or activation; made: number -> how a static one is
    made; readers: number -> operations that read it; reads: for every operation, what it reads of the batch; of_batch:
    numbers of what depends on the batch itself, which rows of a table do not where their indices are constants."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.kinds: dict[int, str] = {}
        self.made: dict[int, Made] = {}
        self.readers: dict[int, list[Op]] = {}
        self.reads: list[list[int]] = []
        self.of_batch = set(tape.inputs)
        for number, layout in tape.layouts.items():
            if number in tape.makers:
                continue
            self.kinds[number] = (STATIC if number in tape.parameters else
                                  ACTIVATION if number in tape.inputs else CONSTANT)
            if number in tape.parameters:
                self.made[number] = Made((tape.parameters[number],), layout.shape, layout.stride,
                                         tuple(range(len(layout.shape))))
        for op in tape.ops:
            for number in dict.fromkeys(op.inputs):
                self.readers.setdefault(number, []).append(op)
            if self.of_batch.intersection(op.inputs) and op.name not in SHAPES_ALONE:
                self.of_batch.update(op.outputs)
            kind = self._kind(op)
            self.reads.append([number for number in op.inputs if self.is_activation(number)])
            for number in op.outputs:
                self.kinds[number] = kind
                if kind == STATIC:
                    self.made[number] = self._made(op, number)

    def is_activation(self, number: int) -> bool:
        return self.kinds.get(number) == ACTIVATION

    def activations(self, op: Op) -> list[int]:
        """What an operation reads of the batch."""
        return self.reads[op.index]

    def signals(self, op: Op) -> list[int]:
        """Those that are no whole numbers."""
        return [number for number in self.activations(op) if self.tape.is_floating(number)]

    def _kind(self, op: Op) -> str:
        kinds = [self.kinds[number] for number in op.inputs]
        if op.name in SHAPES_ALONE or not kinds:
            return CONSTANT
        if kinds[0] == STATIC and self._gathers_matrices(op):
            return STATIC  # each of them is a matrix as those of the whole stack are
        if ACTIVATION in kinds:
            return ACTIVATION
        chosen = op.name == "index" and any(self.tape.shape(number) not in ((), (1,)) for number in op.inputs[1:])
        if kinds[0] == STATIC and (op.name in LOOKUPS or chosen):
            return ACTIVATION  # rows of a table
        several = kinds.count(STATIC) >= 2 and (op.name in CONTRACTIONS or op.name in FUSED_NORMS)
        return ACTIVATION if several else STATIC if STATIC in kinds else CONSTANT

    def _gathers_matrices(self, op: Op) -> bool:
        """Does it take matrices of a stack, those that a choice by size says?"""
        places = op.arguments[0][1] if op.name in ("index", "index_select") else None
        first = places == 0 or isinstance(places, (list, tuple)) and places[0] is not None
        stack = self.made[op.inputs[0]].axes if op.inputs[0] in self.made else ()
        return first and len(op.inputs) == 2 and len(stack) == 3 and len(
            self.tape.shape(op.inputs[0])) == 3 and self._is_chosen(op.inputs[1])

    def _is_chosen(self, number: int) -> bool:
        """Are they whole numbers that ``topk`` and the like have made?"""
        front = [number]
        while front:
            one = front.pop()
            index = self.tape.makers.get(one, -1)
            if index < 0 or self.tape.is_floating(one):
                continue
            if self.tape.ops[index].name in CHOICES:
                return True
            front += self.tape.ops[index].inputs
        return False

    def _made(self, op: Op, number: int) -> Made:
        sources = [one for one in op.inputs if self.kinds[one] == STATIC]
        parameters = tuple(dict.fromkeys(name for one in sources for name in self.made[one].parameters))
        layout, first = self.tape.layouts[number], self.made[sources[0]]
        through = () if op.name in MOVES else (op.name,)
        if layout.memory == self.tape.layouts[sources[0]].memory:
            return Made(parameters, first.shape, first.stride, first.axes, first.through + through)
        axes, rank = self.axes(sources[0]), len(layout.shape)
        if len(axes) != rank or layout.shape != self.tape.shape(sources[0]) and op.name not in SAME_AXES:
            axes = (None,) * (rank - len(axes)) + axes if rank > len(axes) else (
                (None,) * rank if len(axes) < rank else axes[len(axes) - rank:])
        return Made(parameters, layout.shape, layout.stride, axes, first.through + through)

    def axes(self, number: int) -> Axes:
        """For every axis of a static tensor, the axis of its parameter, by strides; None where it is no axis of it."""
        made, layout = self.made[number], self.tape.layouts[number]
        roots = sorted(zip(made.stride, made.shape, made.axes), key=lambda one: -one[0])
        return tuple(next((axis for step, length, axis in roots if length > 1 and step <= stride), None)
                     if size > 1 and stride > 0 else None for size, stride in zip(layout.shape, layout.stride))

    def cone(self, end: int, stop: set[int]) -> set[int]:
        """Operations on the batch that a tensor depends on, no further back than to tensors in ``stop``."""
        found: set[int] = set()
        open_numbers, makers = [end], self.tape.makers
        while open_numbers:
            number = open_numbers.pop()
            index = makers.get(number, -1)
            if index >= 0 and index not in found and number not in stop:
                found.add(index)
                open_numbers += self.reads[index]
        return found
