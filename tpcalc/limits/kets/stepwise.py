"""Training at infinite depth step by step: x through layer time, the output, the gradient back, what is remembered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import sympy as sp

from ...calculus.kets import Ket
from ...calculus.memory import initial_weight_factor_of
from ...calculus.setting import Setting
from ...errors import Divergence, NotCovered
from ...programs.language import Scalar, Vector
from ..integral_equations import LimitEquation
from .boundaries import Indices, LinearForm, StreamBoundaries, initial_vectors, number_of
from .nodes import Increment
from .passes import Passes
from .reading import LeafReading


class StepwiseSolution:
    """What all solutions of a ket limit share.

    targets: of shape (steps,), (steps, samples), and with an axis of outputs behind where there are several. Passes are
    counted through all steps. memory: data, and numbers that optimizers remember, by name and indices.
    """

    memory: dict[tuple, Any]

    def __init__(self, setting: Setting, passes: Passes, streams: tuple[Ket, Ket], equations: Sequence[LimitEquation],
                 loss: Callable[[Any, Any], Any], data: Mapping[str, np.ndarray], targets: np.ndarray) -> None:
        self.setting, self.passes, self.streams, self.loss = setting, passes, streams, loss
        self.targets, self.T = targets, len(targets)
        self.size = targets.shape[1] if passes.several else 1
        self.M = self.T * self.size
        self.time, self.past = setting.time, setting.past
        self.equations = [self._of_batch(e) if e.boundary else e for e in equations]
        self.names = tuple(ket.vector.name for ket in streams)
        self.boundaries = StreamBoundaries.of(setting, streams, self.equations)
        self.vectors = initial_vectors(setting, [e for e in self.equations if e.boundary])
        self.kets: dict[tuple, np.ndarray] = {}  # trained vectors, by name and step
        self.memory = {(initial_weight_factor_of(m)[0].name, 0): 1.0 for m in setting.program.matrices}
        for name, values in data.items():
            self.memory |= {(name, *at): float(value) for at, value in np.ndenumerate(values)}

    def _of_batch(self, equation: LimitEquation) -> LimitEquation:
        """The equation with sums over as many samples as there are."""
        if not self.passes.several:
            return equation
        sizes = {symbol: sp.Integer(self.size) for symbol in self.passes.last.free_symbols}
        value = equation.value.xreplace(sizes).replace(lambda e: isinstance(e, sp.Sum), lambda e: e.doit(deep=False))
        return replace(equation, value=value)

    def _numbers(self, number: int) -> dict[sp.Symbol, sp.Integer]:
        """Step and sample of a pass, by their symbols."""
        step, sample = divmod(number, self.size)
        return {self.time: sp.Integer(step)} | ({self.passes.i: sp.Integer(sample)} if self.passes.several else {})

    def read_memory(self, reading: LeafReading, known: Any) -> None:
        """Read what optimizers remember; known: what readings of numbers without layers ask."""
        self.known = known
        self.remembered = [(e.target, reading.value(e.value)) for e in self.equations
                           if isinstance(e.target, Scalar) and not e.boundary]
        for target, _ in self.remembered:  # buffers start from 0, and nothing of later steps is in earlier ones
            self.memory |= {key: 0.0 for key in self._keys(target, 0) if key not in self.memory}

    def given(self, number: int) -> np.ndarray:
        """An initial vector, as kets are known here."""
        raise NotImplementedError

    def begin(self, which: int, number: int, ket: np.ndarray) -> None:
        """Start the stream of a pass."""
        raise NotImplementedError

    def sweep(self, which: int, number: int) -> None:
        """Take the stream of a pass through layer time."""
        raise NotImplementedError

    def boundary(self, which: int, number: int, last: bool) -> np.ndarray:
        """The ket of a stream at layer time 0, or at the last one, 1."""
        raise NotImplementedError

    def overlap(self, one: np.ndarray, two: np.ndarray) -> float:
        """The mean of the product of two kets."""
        raise NotImplementedError

    def outputs(self) -> np.ndarray:
        """f of all passes, of the targets' shape."""
        found = np.zeros(self.targets.shape)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is reported
            for t in range(self.T):
                for m in self.passes_of(t):
                    self.begin(0, m, self._start(0, m))
                    self.sweep(0, m)
                    self._read_outputs(m, found)
                for m in self.passes_of(t):
                    self.begin(1, m, self._start(1, m))
                    self.sweep(1, m)
                self._remember(t)
        return found

    def passes_of(self, t: int) -> range:
        """The numbers of a step's passes."""
        return range(t * self.size, (t + 1) * self.size)

    def _read_outputs(self, number: int, found: np.ndarray) -> None:
        """The outputs of a pass, and the derivatives of its loss."""
        at = divmod(number, self.size) if self.passes.several else (number,)
        indices = self._numbers(number)
        for o, one in enumerate(self.boundaries.outputs):
            here = (*at, o) if len(self.boundaries.outputs) > 1 else at
            found[here] = sum(factor * self.overlap(*(self._ket(vector, number) for vector in bracket.args))
                              for factor, bracket in one.overlaps.at(indices, self.memory))
            if not np.isfinite(found[here]):
                raise Divergence(f"the equations of the limit blow up at step {at[0]}", step=at[0])
            self.memory[self._key(one.output, indices)] = float(found[here])
        slopes = np.broadcast_to(self.loss(found[at], self.targets[at]), np.shape(self.targets[at])).ravel()
        for one, slope in zip(self.boundaries.outputs, slopes):
            value = number_of(one.factor, indices, self.memory) * float(slope)
            self.memory[self._key(one.derivative, indices)] = value

    def _key(self, scalar: Scalar, indices: Indices) -> tuple:
        return (scalar.name, *(int(index.xreplace(dict(indices))) for index in scalar.indices))

    def moved(self, which: int) -> LimitEquation:
        """The equation of a stream's increment."""
        return next(e for e in self.equations if any(one.args[0].vector.name == self.names[which]
                                                     for one in e.target.atoms(Increment)))

    def _start(self, which: int, number: int) -> np.ndarray:
        return self._combined(self.boundaries.starts[self.names[which]], number)

    def _combined(self, form: LinearForm, number: int) -> np.ndarray:
        found = 0 * self.given(0)
        for factor, ket in form.at(self._numbers(number), self.memory):
            found = found + factor * self._ket(ket.vector, number)
        return found

    def _ket(self, vector: Vector, number: int) -> np.ndarray:
        """A vector outside of layers, of a pass's step and sample: a stream's end, an initial vector, or a trained
        one."""
        indices = [int(index.xreplace(self._numbers(number))) for index in vector.indices]
        if vector.name in self.names:
            step, *sample, last = indices
            return self.boundary(self.names.index(vector.name), step * self.size + sum(sample), bool(last))
        key = (vector.name, *indices)
        if key not in self.kets:
            given = [n for n, one in enumerate(self.vectors) if (one.name, *one.indices) == key]
            self.kets[key] = self.given(given[0]) if given else self._trained(vector, key, number)
        return self.kets[key]

    def _trained(self, vector: Vector, key: tuple, number: int) -> np.ndarray:
        made = self.boundaries.made(key, self.time) if vector.indices else None
        if made is None:
            raise NotCovered(f"|{vector}>: no equation says what it is at step {number // self.size}")
        form, step = made
        return self._combined(form, step * self.size)

    def _remember(self, t: int) -> None:
        for target, value in self.remembered:
            for s, key in enumerate(self._keys(target, t + 1)):
                self.memory[key] = float(value(self.known, {self.time.name: t, self.past.name: s}))

    def _keys(self, target: Scalar, t: int) -> list[tuple]:
        """What a remembered number is known by at step t: once, or of every step s."""
        several = len(target.indices) > 1
        return [(target.name, t, s) for s in range(self.T)] if several else [(target.name, t)]
