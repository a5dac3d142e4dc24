"""What fields of a linear network owe to all that it draws, and equations of fields along each of these."""

from __future__ import annotations

from typing import Iterator

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc._types import Value
from tpcalc.ledger import Equation

from ..._letters import NODES, WEIGHTS, Letters

RATE = sp.Function("rate")   # of a source, per layer time


class Direction:
    """What fields of a linear network owe to one of the Gaussians that it draws, by its coefficients.

    base: "U" or "V", the embedding and the readout, or (0, b) and (1, b), the sources u and r of step b, or of (step,
    input) b; block: of which block the source is, at finite depth, or None, at infinite depth, for sources that grow
    evenly in layer time.
    """

    side: int
    step: Value

    def __init__(self, run: tp.Run, chi: np.ndarray, base: Value, block: int | None = None) -> None:
        self.run, self.chi, self.block = run, chi, block
        self.side, self.step = ("UV".index(base), -1) if base in ("U", "V") else base
        self.unit = 1.0 if self.step == -1 or self.side == 0 else chi[self.step]   # the hat of W^T delta is chi r

    def field(self, of: int, step: Value, time: float) -> float:
        """dh_t or, of = 1, dg_t at a layer time."""
        def density(where: float) -> float:
            return self.run.gamma(step, self.step, of, self.side, time, where)
        if self.step == -1:
            found = density(float(self.side))
        elif self.block is not None:
            assert self.run.depth is not None
            found = density(self.block / self.run.depth) / np.sqrt(self.run.depth)
        else:
            found = sum(w * (high - low) / 2 * density((low + high + x * (high - low)) / 2)
                        for low, high in ((0.0, time), (time, 1.0)) if high > low for x, w in zip(NODES, WEIGHTS))
        return float(found * self.unit / (self.chi[step] if of else 1))

    @property
    def tables(self) -> dict[str, Value]:
        """Fields and sources by letter, at layer times; at finite depth at nodes, from 1."""
        def of(which: int) -> Value:
            if self.block is None:
                return lambda step, time: self.field(which, step, time)
            return lambda step, node: self.field(which, step, (node - 1) / self.run.depth)

        def source(side: int) -> Value:
            drawn = self.step != -1 and self.side == side
            if self.block is None:
                return lambda step, time: time * (drawn and step == self.step)
            return lambda step, node: float(drawn and step == self.step and node == self.block + 1 - side)
        return {"h": of(0), "phi": of(0), "g": of(1), "u": source(0), "r": source(1),
                "rate": lambda step, time: float(self.side == 1 and step == self.step)}


def bases(steps: int) -> Iterator[Value]:
    """Embedding, readout, and the sources of all steps."""
    yield from ("U", "V", *((side, step) for side in (0, 1) for step in range(steps)))


def left_less_right(equation: Equation, here: Letters) -> float:
    """How far an equation of fields is off; derivatives of sources are their rates."""
    value = equation.value.replace(sp.Derivative, lambda source, *_: RATE(*source.args))
    return float(abs(here.of(equation.target) - here.of(value)))
