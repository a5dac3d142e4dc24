"""Training at infinite depth step by step: x through layer time, the output, the gradient back, what is remembered."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import numpy as np
import sympy as sp

from ...calculus.kets import Ket
from ...calculus.memory import initial_weight_factor_of
from ...calculus.setting import Setting
from ...errors import Divergence, NotCovered
from ...programs.language import Scalar, Vector
from ..integral_equations import LimitEquation
from .boundaries import LinearForm, StreamBoundaries
from .nodes import Increment
from .reading import LeafReading


class StepwiseSolution:
    """What all solutions of a ket limit share.

    memory: data, and numbers that optimizers remember, by name and steps.
    """

    memory: dict[tuple, Any]

    def __init__(self, setting: Setting, streams: tuple[Ket, Ket], equations: Sequence[LimitEquation],
                 loss: Callable[[Any, Any], Any], data: Mapping[str, np.ndarray], targets: np.ndarray) -> None:
        self.setting, self.streams, self.equations, self.loss = setting, streams, equations, loss
        self.targets, self.T = targets, len(targets)
        self.time, self.past = setting.time, setting.past
        self.names = tuple(ket.vector.name for ket in streams)
        self.vectors = setting.program.vectors
        self.boundaries = StreamBoundaries.of(setting, streams, equations)
        self.kets: dict[tuple, np.ndarray] = {}  # trained vectors, by name and step
        self.memory = {(initial_weight_factor_of(m)[0].name, 0): 1.0 for m in setting.program.matrices}
        self.memory |= {(name, t): float(value) for name, values in data.items() for t, value in enumerate(values)}

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

    def begin(self, which: int, t: int, ket: np.ndarray) -> None:
        """Start the stream of a step."""
        raise NotImplementedError

    def sweep(self, which: int, t: int) -> None:
        """Take the stream of a step through layer time."""
        raise NotImplementedError

    def boundary(self, which: int, t: int, last: bool) -> np.ndarray:
        """The ket of a stream at layer time 0, or at the last one, 1."""
        raise NotImplementedError

    def overlap(self, one: np.ndarray, two: np.ndarray) -> float:
        """The mean of the product of two kets."""
        raise NotImplementedError

    def outputs(self) -> np.ndarray:
        """f of all steps."""
        found = np.zeros(self.T)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is reported
            for t in range(self.T):
                self.begin(0, t, self._start(0, t))
                self.sweep(0, t)
                found[t] = sum(factor * self.overlap(*(self._ket(vector, t) for vector in bracket.args))
                               for factor, bracket in self.boundaries.overlaps.at(t, self.memory))
                if not np.isfinite(found[t]):
                    raise Divergence(f"the equations of the limit blow up at step {t}", step=t)
                self.memory[self.boundaries.output.name, t] = float(found[t])
                slope = self.boundaries.loss_factor(t, self.memory) * float(self.loss(found[t], self.targets[t]))
                self.memory[self.boundaries.derivative.name, t] = slope
                self.begin(1, t, self._start(1, t))
                self.sweep(1, t)
                self._remember(t)
        return found

    def moved(self, which: int) -> LimitEquation:
        """The equation of a stream's increment."""
        return next(e for e in self.equations if any(one.args[0].vector.name == self.names[which]
                                                     for one in e.target.atoms(Increment)))

    def _start(self, which: int, t: int) -> np.ndarray:
        return self._combined(self.boundaries.starts[self.names[which]], t)

    def _combined(self, form: LinearForm, t: int) -> np.ndarray:
        found = 0 * self.given(0)
        for factor, ket in form.at(t, self.memory):
            found = found + factor * self._ket(ket.vector, t)
        return found

    def _ket(self, vector: Vector, t: int) -> np.ndarray:
        """A vector outside of layers, whose symbol for steps is t: a stream's end, an initial vector, or a trained
        one."""
        indices = [int(index.xreplace({self.time: sp.Integer(t)})) for index in vector.indices]
        if vector.name in self.names:
            return self.boundary(self.names.index(vector.name), indices[0], bool(indices[1]))
        key = (vector.name, *indices)
        if key not in self.kets:
            given = [number for number, one in enumerate(self.vectors) if (one.name, *one.indices) == key]
            made = None if given else self.boundaries.made(vector.name, indices[0])
            if not given and made is None:
                raise NotCovered(f"|{vector}>: no equation says what it is at step {t}")
            self.kets[key] = self.given(given[0]) if given else self._combined(*made)  # type: ignore[misc]
        return self.kets[key]

    def _remember(self, t: int) -> None:
        for target, value in self.remembered:
            for s, key in enumerate(self._keys(target, t + 1)):
                self.memory[key] = float(value(self.known, {self.time.name: t, self.past.name: s}))

    def _keys(self, target: Scalar, t: int) -> list[tuple]:
        """What a remembered number is known by at step t: once, or of every step s."""
        several = len(target.indices) > 1
        return [(target.name, t, s) for s in range(self.T)] if several else [(target.name, t)]
