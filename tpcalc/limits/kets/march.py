"""The equations of streams solved as they stand, by steps in layer time.

Kets are combinations of initial vectors and of what layers draw.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from ...errors import Divergence, NotCovered
from ...gaussian.scalar_functions import scalar_function
from ..functions import P
from .nodes import Density, STEP
from .reading import EquationReading, Here
from .stepwise import StepwiseSolution

OCTAVES = 10              # of layer time towards 0, where means of kinked functions of alike inputs are singular
ITERATIONS, SETTLED = 60, 1e-13


class March(StepwiseSolution):
    """One solution: coefficients of the streams over initial vectors and over what cells of layer time draw, pass by
    pass; t and s count passes. cells: of layer time, or of each octave of it where functions have kinks."""

    def __init__(self, cells: int, *given: Any) -> None:
        super().__init__(*given)
        reading = EquationReading(self.equations, self.passes, self.size)
        self.mesh = _mesh(cells, any(scalar_function(f).has_kinks for f in reading.functions.values()))
        self.h = np.diff(self.mesh)
        self.N = len(self.h)
        self.densities = {(str(e.target.args[0]), e.target.args[1] == e.target.args[2]): reading.number(e.value)
                          for e in self.equations if isinstance(e.target, Density)}
        for which, letter in enumerate("AB"):
            self._require_combination(which, letter)
        self.drawn = [reading.covariance(sp.expand(self.moved(which).value).coeff(sp.sqrt(STEP))) for which in (0, 1)]
        self.base = len(self.vectors)
        shape = (self.M, self.N + 1, self.base + 2 * self.N * self.M)
        self.coefficients = [np.zeros(shape), np.zeros(shape)]     # of x, of its gradient, at the mesh
        self.noise = np.zeros((2, self.N, self.M, self.M))         # covariances of what cells draw, times their size
        self.brackets = np.zeros((2, self.N + 1, self.M, self.M))  # <x|x> and <dx|dx> at the mesh
        self.jumps: dict[tuple[int, int, int, int], float] = {}    # of what is answered in the middle of cells
        self.here = [Here(memory=self.memory) for _ in range(self.N)]
        self.read_memory(reading, Here(memory=self.memory))

    def values(self) -> dict[tuple, np.ndarray]:
        """Brackets of streams at the mesh, by both names and passes; the mesh by ("p",)."""
        found: dict[tuple, np.ndarray] = {("p",): self.mesh}
        for name, brackets in zip(self.names, self.brackets):
            found |= {(name, name, t, s): brackets[:, t, s] for t in range(self.M) for s in range(t + 1)}
        return found

    def given(self, number: int) -> np.ndarray:
        return np.eye(1, self.coefficients[0].shape[-1], number)[0]

    def begin(self, which: int, t: int, ket: np.ndarray) -> None:
        node = 0 if which == 0 else self.N
        self.coefficients[which][t, node] = ket
        self._bracket(which, t, node)

    def boundary(self, which: int, t: int, last: bool) -> np.ndarray:
        return self.coefficients[which][t, self.N if last else 0]

    def overlap(self, one: np.ndarray, two: np.ndarray) -> float:
        return float(self._overlaps(one, two[None])[0])

    def _overlaps(self, one: np.ndarray, many: np.ndarray) -> np.ndarray:
        found = many[:, :self.base] @ one[:self.base]
        for which in (0, 1):
            drawn, several = (self._over(part, which) for part in (one[None], many))
            found = found + np.einsum("kr,kru,tku->t", drawn[0], self.noise[which], several)
        return found

    def _bracket(self, which: int, t: int, node: int) -> None:
        """<x_t|x_s> at a node for all s up to t."""
        found = self._overlaps(self.coefficients[which][t, node], self.coefficients[which][:t + 1, node])
        self.brackets[which, node, t, :t + 1] = self.brackets[which, node, :t + 1, t] = found

    def _over(self, coefficients: np.ndarray, side: int) -> np.ndarray:
        """Coefficients over what cells draw forward (0) or backward (1), of shape (..., cells, passes)."""
        start = self.base + side * self.N * self.M
        return coefficients[..., start:start + self.N * self.M].reshape(*coefficients.shape[:-1], self.N, self.M)

    def _require_combination(self, which: int, letter: str) -> None:
        """A stream takes of the other one what its densities say: the step of the march."""
        passes, source, symbol = self.passes, self.streams[1 - which], sp.Symbol(letter)
        at_p = source.xreplace({source.vector.indices[-1]: P})
        terms = {False: sp.Sum(Density(symbol, passes.now, passes.other, P) * passes.before(at_p), *passes.earlier),
                 True: Density(symbol, passes.now, passes.now, P) * at_p}
        expected = STEP * sp.Add(*(terms[own] for name, own in self.densities if name == letter))
        found = sp.expand(self.moved(which).value - expected)
        if any(term.has(STEP) and not term.has(sp.sqrt(STEP)) for term in sp.Add.make_args(found)):
            raise NotCovered(f"{self.streams[which]}: got {self.moved(which)}; expected {expected} beside what layers "
                             "draw")

    def sweep(self, which: int, t: int) -> None:
        """A stream of a pass through all cells."""
        cells = range(self.N) if which == 0 else range(self.N - 1, -1, -1)
        for k in cells:
            before, after = (k, k + 1) if which == 0 else (k + 1, k)
            self.coefficients[which][t, after] = self.coefficients[which][t, before]
            self._bracket(which, t, after)
            for _ in range(ITERATIONS):
                old = self.coefficients[which][t, after].copy(), self.brackets[which, after, t].copy()
                self._cell(which, t, k, before, after)
                change = max(np.max(np.abs(self.coefficients[which][t, after] - old[0])),
                             np.max(np.abs(self.brackets[which, after, t] - old[1])))
                if not np.isfinite(change):
                    step = t // self.size
                    unknown = ", or have variances there that means of the activation are not known at"
                    raise Divergence(f"the equations of the limit blow up at step {step}, layer time "
                                     f"{self.mesh[k]:.2g}, as far as {self.N} cells of it resolve them"
                                     f"{unknown * bool(np.isnan(change))}", step=step)
                if change <= SETTLED * max(1.0, float(np.max(np.abs(old[0])))):
                    break

    def _cell(self, which: int, t: int, k: int, before: int, after: int) -> None:
        """One iteration of the midpoint rule: numbers are means of both ends, kets too."""
        here, h = self.here[k], self.h[k]
        self._know(which, t, k)
        for s in range(t + 1):
            covariance = h * self.drawn[which](here, self.passes.steps(self.size, t, s))
            self.noise[which, k, t, s] = self.noise[which, k, s, t] = covariance
        letter = "A" if which == 0 else "B"
        moved = np.zeros(self.coefficients[which].shape[-1])
        source = self.coefficients[1 - which]
        past, own = self.densities.get((letter, False)), self.densities.get((letter, True))
        for s in range(t - t % self.size if past else 0):  # passes of earlier steps
            assert past is not None
            value = past(here, self.passes.steps(self.size, t, s))
            moved += value * (source[s, k] + source[s, k + 1]) / 2
            self._direct(which, t, s, k, value)
        if own:
            value = own(here, self.passes.steps(self.size, t))
            moved += value * (source[t, k] + source[t, k + 1]) / 2
            self._direct(which, t, t, k, value)
        new = self.coefficients[which][t, before] + h * moved
        new[self.base + which * self.N * self.M + k * self.M + t] += 1.0
        self.coefficients[which][t, after] = new
        self._bracket(which, t, after)

    def _know(self, which: int, t: int, k: int) -> None:
        """Brackets and answers in the middle of a cell."""
        here = self.here[k]
        here.made.clear()
        for s in range(t + 1):
            value = (self.brackets[which, k, t, s] + self.brackets[which, k + 1, t, s]) / 2
            name = self.names[which]
            here.brackets[name, name, t, s] = here.brackets[name, name, s, t] = value
            ends = self._over(self.coefficients[which][t, k:k + 2], 1 - which)[:, k, s]
            letter = "re"[which]
            here.answers[letter, t, s] = float(np.mean(ends)) + self.jumps.get((which, t, s, k), 0.0)

    def _direct(self, which: int, t: int, s: int, k: int, value: float) -> None:
        """Half a cell of the push's own way: a push in the middle of the cell is halved in the means of both ends."""
        self.jumps[which, t, s, k] = self.h[k] * value / 4


def _mesh(cells: int, kinked: bool) -> np.ndarray:
    if not kinked:
        return np.linspace(0.0, 1.0, cells + 1)
    ends = np.concatenate([[0.0], 2.0 ** np.arange(-OCTAVES, 1)])
    parts = max(cells // 4, 1)
    return np.unique(np.concatenate([np.linspace(a, b, parts + 1) for a, b in zip(ends, ends[1:])]))
