"""Passes of a training, forward and backward: one a step, or one for every sample of a step's batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Callable, Mapping

import sympy as sp

from ...programs.program import Loop

Steps = Mapping[str, int]  # numbers of steps and samples, and of samples a step, by the names of their symbols
SIZE = "a step's samples"  # their number, which no symbol is called


@dataclass(frozen=True)
class Passes:
    """The indices of a pass and of another one, which is earlier or of the same step.

    t, s: their steps; i, j: their samples, None where a step has one; last: the last sample's number.
    """

    t: sp.Symbol
    s: sp.Symbol
    i: sp.Symbol | None = None
    last: sp.Expr = sp.Integer(0)

    @property
    def j(self) -> sp.Symbol | None:
        """The other pass's sample, as sums over a batch have it."""
        return None if self.i is None else other_sample(self.i)

    @classmethod
    def of(cls, t: sp.Symbol, s: sp.Symbol, samples: tuple[Loop, ...]) -> "Passes":
        """Those of a program whose steps have a loop over samples, or none."""
        return cls(t, s, samples[0].index, samples[0].last) if samples else cls(t, s)

    @property
    def several(self) -> bool:
        """Has a step several samples?"""
        return self.i is not None

    def label(self, step: sp.Expr, sample: sp.Expr | None) -> sp.Expr:
        """How a pass is written in an index: by its step, or by step and sample."""
        return step if sample is None else sp.Tuple(step, sample)

    now = property(lambda self: self.label(self.t, self.i))
    other = property(lambda self: self.label(self.s, self.j))

    def before(self, e: sp.Expr) -> sp.Expr:
        """What is written of a pass, of the other one."""
        return e.xreplace(dict(zip(_symbols(self.now), _symbols(self.other))))

    def of_now(self, e: sp.Expr) -> sp.Expr:
        """What is written of the other pass, of this one."""
        return e.xreplace(dict(zip(_symbols(self.other), _symbols(self.now))))

    @property
    def earlier(self) -> tuple[tuple[sp.Expr, ...], ...]:
        """The limits of sums over all passes of earlier steps."""
        return *self.samples(self.j), (self.s, sp.Integer(0), self.t - 1)

    def samples(self, index: sp.Symbol | None) -> tuple[tuple[sp.Expr, ...], ...]:
        """The limits of sums over a step's samples; none where it has one."""
        return () if index is None else ((index, sp.Integer(0), self.last),)

    @property
    def same(self) -> sp.Expr:
        """1 where both passes are one, else 0."""
        return sp.Mul(*(sp.KroneckerDelta(a, b) for a, b in zip(_symbols(self.now), _symbols(self.other))))

    # -- numbers: passes are counted through, step by step

    @property
    def numbers(self) -> frozenset[sp.Symbol]:
        """Symbols that are numbers where they stand beside others."""
        return frozenset((*_symbols(self.now), *_symbols(self.other), *self.last.free_symbols))

    def steps(self, size: int, number: int, other: int | None = None) -> dict[str, int]:
        """Steps and samples of one pass, and of another one, by their numbers."""
        now, earlier, sizes = self._names
        found = {SIZE: size, **dict.fromkeys(sizes, size), **dict(zip(now, divmod(number, size)))}
        return found if other is None else found | dict(zip(earlier, divmod(other, size)))

    @cached_property
    def _names(self) -> tuple[tuple[str, ...], ...]:
        """Names of the symbols of a pass, of the other one, and of the number of samples."""
        several = (_symbols(self.now), _symbols(self.other), self.last.free_symbols)
        now, other, sizes = (tuple(str(symbol) for symbol in symbols) for symbols in several)
        return now, other, sizes


def other_sample(sample: sp.Symbol) -> sp.Symbol:
    """The index of another sample, as the calculus writes it."""
    return sp.Symbol(f"{sample}'", integer=True)


def _symbols(label: sp.Expr) -> tuple[sp.Expr, ...]:
    return tuple(label) if isinstance(label, sp.Tuple) else (label,)


def index_of(index: sp.Expr) -> Callable[[Steps], int]:
    """A step or sample, or one that is so many before or after, as a number."""
    if index.is_Integer:
        return lambda steps: int(index)
    symbol, = index.free_symbols
    name, shift = symbol.name, int(index - symbol)
    return lambda steps: steps[name] + shift


def pass_of(label: sp.Expr) -> Callable[[Steps], int]:
    """The number of a pass, counted through all steps."""
    step, *sample = map(index_of, _symbols(label))
    return lambda steps: step(steps) if not sample else step(steps) * steps[SIZE] + sample[0](steps)


def pass_of_member(indices: tuple[sp.Expr, ...]) -> Callable[[Steps], int]:
    """A pass, told by a stream's or an inner vector's indices, the last of which is layer time."""
    return pass_of(sp.Tuple(*indices[:-1]))


def label_in_text(label: sp.Expr, printed: Callable[[sp.Expr], str]) -> str:
    """How a pass is printed in an index."""
    return ",".join(map(printed, _symbols(label)))


def two_in_text(one: sp.Expr, two: sp.Expr, printed: Callable[[sp.Expr], str]) -> str:
    """How two passes are: a semicolon stands between several indices each."""
    between = ";" if isinstance(one, sp.Tuple) or isinstance(two, sp.Tuple) else ","
    return between.join(label_in_text(label, printed) for label in (one, two))
