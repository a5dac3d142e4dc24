"""The equations of streams solved as they stand, by steps in layer time.

Kets are combinations of initial vectors and of what layers draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from ... import _checks
from ..._shown import Short
from ...calculus.kets import Bracket, Ket
from ...calculus.memory import initial_weight_factor_of
from ...calculus.setting import Setting
from ...errors import Divergence, NotCovered
from ...gaussian.scalar_functions import scalar_function
from ...programs.language import Scalar
from ..collocation import LimitOutputs
from ..functions import P
from ..integral_equations import LimitEquation
from .nodes import Density, Increment, STEP
from .reading import Here, EquationReading

CELLS = (8, 16, 32)       # of layer time, or of each octave of it where functions have kinks
OCTAVES = 10              # of layer time towards 0, where means of kinked functions of alike inputs are singular
ITERATIONS, SETTLED = 60, 1e-13


@dataclass(frozen=True, repr=False)
class CompiledStreams(Short):
    """The equations of a ket limit as a function of data and targets.

    Steps in layer time are second order; outputs are extrapolated from three meshes.

    >>> import tpcalc as tp
    >>> limit = tp.depth_limit(tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), tp.DepthScaling())))
    >>> found = limit.compile()([1.0, 0.8], [1.0, -0.7])
    >>> found.outputs.round(3).tolist()
    [0.0, 0.531]
    """

    setting: Setting
    streams: tuple[Ket, Ket]
    equations: tuple[LimitEquation, ...]
    loss: Callable[[Any, Any], Any]

    def __call__(self, inputs: ArrayLike, targets: ArrayLike, **data: ArrayLike) -> LimitOutputs:
        """Train on inputs and targets of shape (steps,); data: further data of the program by name, such as rates.

        Raises ``ValueError`` for what does not fit, ``Divergence`` naming the step where the solution blows up.
        """
        names = [scalar.name for scalar in self.setting.program.data]
        if set(data) != set(names[1:]):
            raise ValueError(f"data: got {sorted(data)}; expected {sorted(names[1:])}")
        y = _checks.finite_array("targets", targets)
        arrays = {name: _checks.finite_array(name, value) for name, value in zip(names, (inputs, *data.values()))}
        for name, array in arrays.items():
            if array.ndim != 1 or array.shape != y.shape or not len(y):
                raise ValueError(f"{name}: got shape {array.shape} and targets of shape {y.shape}; expected one number "
                                 "a step each")
        marches = [March(self, cells, arrays, y) for cells in CELLS]
        one, two, three = (march.outputs() for march in marches)
        coarse, fine = (4 * two - one) / 3, (4 * three - two) / 3
        last = marches[-1]
        return LimitOutputs(fine, float(np.max(np.abs(fine - coarse))), len(last.mesh), last.values())


class March:
    """One solution: coefficients of the streams over initial vectors and over what cells of layer time draw, step by
    step."""

    def __init__(self, compiled: CompiledStreams, cells: int, data: dict[str, np.ndarray], targets: np.ndarray) -> None:
        self.compiled, self.setting = compiled, compiled.setting
        self.targets, self.T = targets, len(targets)
        self.time, self.past = self.setting.time, self.setting.past
        reading = EquationReading(compiled.equations, self.time, self.past)
        self.mesh = _mesh(cells, any(scalar_function(f).has_kinks for f in reading.functions.values()))
        self.h = np.diff(self.mesh)
        self.N = len(self.h)
        self.names = tuple(ket.vector.name for ket in compiled.streams)
        self.densities = {(str(e.target.args[0]), e.target.args[1] == e.target.args[2]): reading.number(e.value)
                          for e in compiled.equations if isinstance(e.target, Density)}
        for ket, letter, source in zip(compiled.streams, "AB", reversed(compiled.streams)):
            self._require_combination(ket, letter, source)
        self.drawn = [reading.covariance(_drawn(compiled.equations, ket)) for ket in compiled.streams]
        self.vectors = list(self.setting.program.vectors)
        size = len(self.vectors)
        self.base = size
        shape = (self.T, self.N + 1, size + 2 * self.N * self.T)
        self.coefficients = [np.zeros(shape), np.zeros(shape)]     # of x, of its gradient, at the mesh
        self.noise = np.zeros((2, self.N, self.T, self.T))         # covariances of what cells draw, times their size
        self.brackets = np.zeros((2, self.N + 1, self.T, self.T))  # <x|x> and <dx|dx> at the mesh
        self.here = [Here() for _ in range(self.N)]
        self.memory: dict[tuple, float] = {(initial_weight_factor_of(m)[0].name, 0): 1.0
                                           for m in self.setting.program.matrices}
        self.remembered = [(e.target, reading.number(e.value)) for e in compiled.equations
                           if isinstance(e.target, Scalar) and e.target.name.startswith(("rho_", "w_"))]
        self.first = {e.target.vector.name: e.value for e in compiled.equations if e.boundary
                      and isinstance(e.target, Ket)}
        self.memory |= {(name, t): float(value) for name, values in data.items() for t, value in enumerate(values)}
        for target, _ in self.remembered:  # buffers start from 0, and nothing of later steps is in earlier ones
            self.memory |= {key: 0.0 for key in self._keys(target, 0) if key not in self.memory}
        for here in self.here:
            here.memory = self.memory

    def outputs(self) -> np.ndarray:
        """f of all steps."""
        found = np.zeros(self.T)
        for t in range(self.T):
            self._begin(0, t)
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is reported
                self._sweep(0, t)
            found[t] = self._output(t)
            if not np.isfinite(found[t]):
                raise Divergence(f"the equations of the limit blow up at step {t}", step=t)
            self.memory["chi", t] = float(self.compiled.loss(found[t], self.targets[t]))
            self._begin(1, t)
            with np.errstate(over="ignore", invalid="ignore"):
                self._sweep(1, t)
            self._remember(t)
        return found

    def values(self) -> dict[tuple, np.ndarray]:
        """Brackets of streams at the mesh, by both names and steps; the mesh by ("p",)."""
        found: dict[tuple, np.ndarray] = {("p",): self.mesh}
        for name, brackets in zip(self.names, self.brackets):
            found |= {(name, name, t, s): brackets[:, t, s] for t in range(self.T) for s in range(t + 1)}
        return found

    def _begin(self, which: int, t: int) -> None:
        """The end of layer time where a stream starts."""
        value = self.first[self.names[which]]
        node = 0 if which == 0 else self.N
        for number, vector in enumerate(self.vectors):
            factor = sp.expand(value).coeff(Ket(vector))
            numbers = {s: self.memory[s.name, t] for s in factor.atoms(Scalar)}
            self.coefficients[which][t, node, number] = float(factor.xreplace(numbers))
        self._bracket(which, t, node)

    def _output(self, t: int) -> float:
        scalar = next(e.value for e in self.compiled.equations if isinstance(e.value, Bracket) and e.boundary)
        vector = next(v for v in scalar.args if v in self.vectors)
        return float(self.coefficients[0][t, self.N, self.vectors.index(vector)])

    def _bracket(self, which: int, t: int, node: int) -> None:
        """<x_t|x_s> at a node for all s up to t."""
        own = self.coefficients[which][t, node]
        other = self.coefficients[which][:t + 1, node]
        found = other[:, :self.base] @ own[:self.base]
        for side in (0, 1):
            one, many = (self._over(part, side) for part in (own[None], other))
            found = found + np.einsum("kr,kru,tku->t", one[0], self.noise[side], many)
        self.brackets[which, node, t, :t + 1] = self.brackets[which, node, :t + 1, t] = found

    def _over(self, coefficients: np.ndarray, side: int) -> np.ndarray:
        """Coefficients over what cells draw forward (0) or backward (1), of shape (..., cells, steps)."""
        start = self.base + side * self.N * self.T
        return coefficients[..., start:start + self.N * self.T].reshape(*coefficients.shape[:-1], self.N, self.T)

    def _require_combination(self, ket: Ket, letter: str, source: Ket) -> None:
        """A stream takes of the other one what its densities say: the step of the march."""
        t, s, p = self.time, self.past, P
        at_p = source.xreplace({source.vector.indices[-1]: p})
        terms = {False: sp.Sum(Density(sp.Symbol(letter), t, s, p) * at_p.xreplace({t: s}), (s, 0, t - 1)),
                 True: Density(sp.Symbol(letter), t, t, p) * at_p}
        expected = STEP * sp.Add(*(terms[own] for name, own in self.densities if name == letter))
        found = sp.expand(_moved(self.compiled.equations, ket).value - expected)
        if any(term.has(STEP) and not term.has(sp.sqrt(STEP)) for term in sp.Add.make_args(found)):
            raise NotCovered(f"{ket}: got {_moved(self.compiled.equations, ket)}; expected {expected} beside what "
                             "layers draw")

    def _sweep(self, which: int, t: int) -> None:
        """A stream of a step through all cells."""
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
                    raise Divergence(f"the equations of the limit blow up at step {t}, layer time "
                                     f"{self.mesh[k]:.2g}", step=t)
                if change <= SETTLED * max(1.0, float(np.max(np.abs(old[0])))):
                    break

    def _cell(self, which: int, t: int, k: int, before: int, after: int) -> None:
        """One iteration of the midpoint rule: numbers are means of both ends, kets too."""
        here, steps, h = self.here[k], {self.time: t}, self.h[k]
        self._know(which, t, k)
        for s in range(t + 1):
            covariance = h * self.drawn[which](here, {**steps, self.past: s})
            self.noise[which, k, t, s] = self.noise[which, k, s, t] = covariance
        letter = "A" if which == 0 else "B"
        moved = np.zeros(self.coefficients[which].shape[-1])
        source = self.coefficients[1 - which]
        past, own = self.densities.get((letter, False)), self.densities.get((letter, True))
        for s in range(t if past else 0):
            assert past is not None
            value = past(here, {**steps, self.past: s})
            moved += value * (source[s, k] + source[s, k + 1]) / 2
            self._direct(which, t, s, k, value)
        if own:
            value = own(here, steps)
            moved += value * (source[t, k] + source[t, k + 1]) / 2
            self._direct(which, t, t, k, value)
        new = self.coefficients[which][t, before] + h * moved
        new[self.base + which * self.N * self.T + k * self.T + t] += 1.0
        self.coefficients[which][t, after] = new
        self._bracket(which, t, after)

    def _know(self, which: int, t: int, k: int) -> None:
        """Brackets and answers in the middle of a cell."""
        here = self.here[k]
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

    @property
    def jumps(self) -> dict[tuple[int, int, int, int], float]:
        return self.__dict__.setdefault("_jumps", {})

    def _remember(self, t: int) -> None:
        for target, value in self.remembered:
            for s, key in enumerate(self._keys(target, t + 1)):
                self.memory[key] = value(Here(memory=self.memory), {self.time: t, self.past: s})

    def _keys(self, target: Scalar, t: int) -> list[tuple]:
        """What a remembered number is known by at step t: once, or of every step s."""
        several = len(target.indices) > 1
        return [(target.name, t, s) for s in range(self.T)] if several else [(target.name, t)]


def _drawn(equations: Sequence[LimitEquation], stream: Ket) -> sp.Expr:
    """What a layer draws for a stream: what stands with the root of dp."""
    return sp.expand(_moved(equations, stream).value).coeff(sp.sqrt(STEP))


def _moved(equations: Sequence[LimitEquation], stream: Ket) -> LimitEquation:
    """The equation of a stream's increment."""
    return next(e for e in equations if any(
        one.args[0].vector.same_family(stream.vector) for one in e.target.atoms(Increment)))


def _mesh(cells: int, kinked: bool) -> np.ndarray:
    if not kinked:
        return np.linspace(0.0, 1.0, cells + 1)
    ends = np.concatenate([[0.0], 2.0 ** np.arange(-OCTAVES, 1)])
    parts = max(cells // 4, 1)
    return np.unique(np.concatenate([np.linspace(a, b, parts + 1) for a, b in zip(ends, ends[1:])]))
