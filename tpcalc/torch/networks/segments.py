"""``Segment``: what a model computes between some of its tensors, with gains at 1 and biases at 0."""

from __future__ import annotations

from functools import cached_property
from math import isclose, prod
from typing import Callable, Mapping, Sequence

import torch
from torch import Tensor

from ...errors import NotCovered
from ..reading.kinds_of_ops import MOVES
from ..reading.network import RecordedNetwork
from ..reading.replay import Values, drawn_values, replay
from ..reading.roles import Role
from ..reading.tape import Layout
from ..reading.uses import Use
from .products import is_alone

LARGE = 30.0  # beside which the eps of a norm is nothing
CLOSE = 1e-5    # relative, of numbers that multiply, which are the same
ROUNDED = 2e-7  # relative, of numbers in float32
SAME = 2e-5     # of the largest entry, up to which float32 numbers are the same


class Segment:
    """The operations on the batch from the tensors ``starts`` to the tensor ``end``: a function, when called. uses: of
    parameters in it; norms: in it; left_out: {parameter: what it is}, biases, and with ``tables`` tables.

    Raises ``NotCovered`` for another parameter in it that is not the gain of a norm.
    """

    def __init__(self, network: RecordedNetwork, roles: Mapping[str, Role], starts: Sequence[int], end: int,
                 tables: bool = False) -> None:
        self.network, self.starts, self.end = network, tuple(starts), end
        self.ops = sorted(network.graph.cone(end, set(starts)))
        inside = set(self.ops)
        self.uses = [use for use in network.uses if use.op.index in inside]
        self.norms = [network.norms[index] for index in self.ops if index in network.norms]
        for number in {one for index in self.ops for one in network.graph.signals(network.tape.ops[index])}:
            if number not in starts and number not in network.tape.makers:
                raise NotCovered(f"{self}: got numbers of the batch beside the stream; expected functions of the "
                                 "stream")
        self.left_out: dict[str, str] = {}
        for use in self.uses:
            kind = roles[use.parameter].kind
            if use.how == kind == "bias" or kind == "table" and tables:
                self.left_out[use.parameter] = kind
            elif not (use.how == kind == "gain" and use.through in ((), ("add",))):
                raise NotCovered(f"{use.parameter}: got {kind}, read as {use}; expected matrices, gains of norms and "
                                 "biases, of which networks are made")

    @property
    def gains(self) -> list[Use]:
        return [use for use in self.uses if use.how == "gain"]

    def added(self, factor: float) -> str | None:
        """The bias that is added to the function's value, times ``factor``; None where there is none or several, or it
        does something else."""
        values = [self.draw(start, seed) for seed, start in enumerate(self.starts)]
        bias = torch.randn(self._widths[:1], generator=torch.Generator().manual_seed(len(values)), dtype=torch.float64)
        return self._bias_if(lambda: same(self._with_bias(values, bias), self._with_bias(values, 0 * bias)
                                          + factor * bias))

    def added_behind(self, normed: Callable[[Tensor], Tensor]) -> str | None:
        """The bias that is added to what a norm and its gain make of the start, before a function acts on it: inputs
        that are alike, with the difference of two normed ones, one of them times the gain, are the other one."""
        x, other = (self.draw(self.starts[0], seed) for seed in range(2))
        x, other = (one.reshape(-1, one.shape[-1])[:1].expand(one.numel() // one.shape[-1], -1) for one in (x, other))
        return self._bias_if(lambda: same(self._with_bias([x], (normed(other) - self._gain * normed(x))[0]),
                                          self(other)))

    def _bias_if(self, holds: Callable[[], bool]) -> str | None:
        given = [use for use in self.uses if use.how == "bias"]
        alike = len(given) == 1 and self._widths == self.network.tape.shape(self.end)[-1:]
        return given[0].parameter if alike and is_alone(self.network, given[0]) and holds() else None

    @property
    def _widths(self) -> tuple[int, ...]:
        """The shape of the first bias."""
        return next((self.network.tape.shapes[use.parameter] for use in self.uses if use.how == "bias"), ())

    @property
    def _gain(self) -> Tensor:
        """What a gain of the shape of the first bias is drawn as, or 1 where there is none."""
        drawn = torch.rand(self._widths, generator=torch.Generator().manual_seed(9), dtype=torch.float64) + 0.5
        return drawn if self._drawn_gains else torch.ones(())

    @property
    def _drawn_gains(self) -> list[int]:
        return [number for use in self.gains if self.network.tape.shape(number := self._numbers[use.parameter])
                == self._widths]

    def _with_bias(self, values: Sequence[Tensor], bias: Tensor) -> Tensor:
        """The value with a bias, and gains drawn."""
        tape = self.network.tape
        number, = (self._numbers[use.parameter] for use in self.uses if use.how == "bias")
        gains = {one: _laid_out(self._neutral[one] + self._gain - 1, tape.layouts[one]) for one in self._drawn_gains}
        given = {**self._given(values), **self._neutral, **gains, number: _laid_out(bias, tape.layouts[number])}
        return replay(tape, given, [self.end], self._values)[0].double()

    def __str__(self) -> str:
        """Operations by module, views and copies only where there are no others."""
        ops = [op for op in map(self.network.tape.ops.__getitem__, self.ops) if op.call is not None]
        names: dict[str, dict[str, None]] = {}
        for op in [op for op in ops if op.name not in MOVES] or ops:
            names.setdefault(op.module or "the model", {})[op.name] = None
        return " and ".join(f"{', '.join(each)} in {module}" for module, each in names.items()) or "nothing"

    def __call__(self, *values: Tensor) -> Tensor:
        """The value of ``end`` in float64 for values of the starts, in the order of these."""
        return replay(self.network.tape, {**self._given(values), **self._neutral}, [self.end], self._values)[0].double()

    def _given(self, values: Sequence[Tensor]) -> dict[int, Tensor]:
        return {number: _laid_out(value, self.network.tape.layouts[number])
                for number, value in zip(self.starts, values)}

    def draw(self, number: int, seed: int = 0, large: bool = True, tails: bool = False) -> Tensor:
        """Values for a start: of size 1, or where a norm is behind of one beside which its eps is nothing. tails: with
        entries of up to some hundred, so that functions show where they are cut off."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(self.network.tape.shape(number), generator=generator, dtype=torch.float64)
        return (drawn**5 if tails else drawn) * (LARGE if large and self.norms else 1.0)

    @property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in self.network.tape.parameters.items()}

    @cached_property
    def _neutral(self) -> dict[int, Tensor]:
        """Numbers of gains and biases, with what they are when they do nothing."""
        tape, numbers = self.network.tape, self._numbers
        return {numbers[use.parameter]: torch.full(tape.shape(numbers[use.parameter]),
                                                   float(use.how == "gain" and not use.through),
                                                   dtype=tape.layouts[numbers[use.parameter]].dtype)
                for use in self.uses if use.how in ("gain", "bias")}

    @cached_property
    def _values(self) -> Values | None:
        tape = self.network.tape
        return drawn_values(tape, self.end, self.starts) if tape.on_meta else None


def _laid_out(value: Tensor, layout: Layout) -> Tensor:
    """A value as it lay in memory, which views go by."""
    value = value.to(layout.dtype).reshape(layout.shape)
    return value if 0 in layout.stride else torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype).copy_(
        value)


def same(one: Tensor, other: Tensor) -> bool:
    """Are these the same numbers, in whatever shape?"""
    if prod(one.shape) != prod(other.shape):
        return False
    a, b = one.double().reshape(-1), other.double().reshape(-1)
    return bool((a - b).abs().max() <= SAME * max(float(b.abs().max()), 1e-30))


def factor_between(one: Tensor, other: Tensor) -> float | None:
    """The number by which the first has to be multiplied to be the second; None where there is none."""
    a, b = one.double().reshape(-1), other.double().reshape(-1)
    if len(a) != len(b):
        return None
    found = float(a @ b / max(float(a @ a), 1e-300))
    return found if same(found * a, b) else None


def as_written(number: float) -> float:
    """A number of few digits where it is what float32 has for one, as for 0.9."""
    written = float(f"{number:.6g}")
    return written if isclose(written, number, rel_tol=ROUNDED) else number
