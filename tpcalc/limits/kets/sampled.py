"""Equations with updates inside functions, solved as they stand.

Means over streams and over what layers draw are means over scrambled Sobol points, steps in layer time those of the
midpoint rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Any, Callable

import numpy as np
import sympy as sp

from ...calculus.kets import Bracket, Ket, Response
from ...errors import Divergence, NotCovered
from ...gaussian.scalar_functions import KINKED
from ...gaussian.variables import Expectation
from ...programs.language import Scalar
from .nodes import GivenStreams, LayerGaussian, STEP
from .passes import Passes, Steps, index_of, pass_of, pass_of_member
from .reading import LeafReading, delta
from .stepwise import StepwiseSolution

STREAM_SHARE = 4      # points of draws to one of streams
SEEDS_APART = 10**6  # of points of streams and of draws
SHIFT = 1e-4         # of a Gaussian, by which what is answered to it is found
ITERATIONS = 4       # of the midpoint rule in a cell

Array = Any


@dataclass
class LayerSample:
    """What is known of one cell: streams, Gaussians, kets and numbers of the passes so far, each found when asked for.

    moved: a Gaussian's letter and pass, and by how much it is moved; numbers are then those of ``base``, unmoved.
    """

    march: "SampledMarch"
    streams: dict[tuple[str, int], Array] = field(default_factory=dict)
    kets: dict[tuple[str, int], Array] = field(default_factory=dict)
    numbers: dict[tuple, float] = field(default_factory=dict)
    base: "LayerSample | None" = None
    moved: tuple[str, int, float] | None = None

    def forget(self, step: int) -> None:
        """Forget what was found of a pass: its streams have changed."""
        for known in (self.kets, self.numbers):
            for key in [key for key in known if step in key[1:]]:
                del known[key]

    def ket(self, name: str, step: int) -> Array:
        """The ket of a pass: a stream's as a column, one that the layer makes as a table of streams and draws."""
        if (name, step) in self.streams:
            return self.streams[name, step]
        if (name, step) not in self.kets:
            self.kets[name, step] = self.march.inner[name](self, self.march.passes.steps(self.march.size, step))
        return self.kets[name, step]

    def gaussian(self, letter: str, step: int) -> Array:
        """u_t as a combination of independent draws of the passes so far."""
        if self.base is not None:
            found = self.base.gaussian(letter, step)
            return found + self.moved[2] if self.moved and self.moved[:2] == (letter, step) else found
        if (letter, step) not in self.kets:
            so_far = range(step + 1)
            rows = np.array([[self.law(letter, max(i, j), min(i, j)) for j in so_far] for i in so_far])
            self.kets[letter, step] = (triangular_root(rows)[step] @ self.march.draws[letter][:step + 1])[None]
        return self.kets[letter, step]

    def law(self, letter: str, one: int, two: int) -> float:
        return float(self.march.laws[letter](self, self.march.passes.steps(self.march.size, one, two)))

    def number(self, key: tuple, found: Callable[[], float]) -> float:
        """A number by its key, of the unmoved layer."""
        if self.base is not None:
            return self.base.number(key, found)
        if key not in self.numbers:
            self.numbers[key] = found()
        return self.numbers[key]

    def answered(self, name: str, step: int, letter: str, at: int) -> float:
        """E[d |ket> / d u_s]: by a difference."""
        sides = (LayerSample(self.march, self.streams, base=self, moved=(letter, at, sign * SHIFT)).ket(name, step)
                 for sign in (1, -1))
        return float(np.mean(next(sides) - next(sides))) / (2 * SHIFT)


def triangular_root(covariance: np.ndarray) -> np.ndarray:
    """A triangular root; rows that others determine have no part of their own."""
    root = np.zeros_like(covariance)
    for j in range(len(covariance)):
        left = covariance[j:, j] - root[j:, :j] @ root[j, :j]
        if left[0] > 1e-12 * covariance[j, j]:
            root[j:, j] = left / np.sqrt(left[0])
    return root


class SampledReading(LeafReading):
    """Readings of right-hand sides as arrays over streams and draws."""

    def __init__(self, memory: dict[tuple, Any], passes: Passes) -> None:
        self.memory, self.passes, self.indices = memory, passes, passes.numbers

    @singledispatchmethod
    def _leaf(self, e: sp.Expr) -> Callable[[LayerSample, Steps], Array] | None:
        return None

    @_leaf.register(Ket)
    def _ket(self, e: Ket) -> Callable[[LayerSample, Steps], Array]:
        name, step = e.vector.name, pass_of_member(e.vector.indices)
        return lambda layer, steps: layer.ket(name, step(steps))

    @_leaf.register(LayerGaussian)
    def _gaussian(self, e: LayerGaussian) -> Callable[[LayerSample, Steps], Array]:
        letter, step = str(e.args[0]), pass_of(e.args[1])
        return lambda layer, steps: layer.gaussian(letter, step(steps))

    @_leaf.register(Bracket)
    def _bracket(self, e: Bracket) -> Callable[[LayerSample, Steps], Array]:
        (one, two), steps_of = [v.name for v in e.args], [pass_of_member(v.indices) for v in e.args]

        def value(layer: LayerSample, steps: Steps) -> float:
            i, j = (step(steps) for step in steps_of)
            return layer.number((f"<{one}|{two}>", i, j), lambda: float(np.mean(layer.ket(one, i) * layer.ket(two, j))))
        return value

    @_leaf.register(Expectation)
    def _mean(self, e: Expectation) -> Callable[[LayerSample, Steps], Array]:
        body, free = self.value(e.body), e.free_symbols
        of = [pass_of(label) for label in (self.passes.now, self.passes.other) if label.free_symbols & free]

        def value(layer: LayerSample, steps: Steps) -> float:
            return layer.number((str(e), *(one(steps) for one in of)), lambda: float(np.mean(body(layer, steps))))
        return value

    @_leaf.register(Response)
    def _answer(self, e: Response) -> Callable[[LayerSample, Steps], Array]:
        name, step = e.vector.name, pass_of_member(e.vector.indices)
        letter, at = str(e.base.args[0]), pass_of(e.base.args[1])

        def value(layer: LayerSample, steps: Steps) -> float:
            i, j = step(steps), at(steps)
            return layer.number((f"d{name}/d{letter}", i, j), lambda: layer.answered(name, i, letter, j))
        return value

    @_leaf.register(GivenStreams)
    def _given(self, e: GivenStreams) -> Callable[[LayerSample, Steps], Array]:
        body = self.value(e.args[0])
        return lambda layer, steps: np.mean(body(layer, steps), axis=1, keepdims=True)

    @_leaf.register(Scalar)
    def _scalar(self, e: Scalar) -> Callable[[LayerSample, Steps], Array]:
        name, indices = e.name, [index_of(i) for i in e.indices]
        return lambda layer, steps: self.memory[(name, *(i(steps) for i in indices))]

    @_leaf.register(sp.KroneckerDelta)
    def _delta(self, e: sp.KroneckerDelta) -> Callable[[LayerSample, Steps], Array]:
        return delta(e)

    @_leaf.register(sp.Sum)
    def _sum(self, e: sp.Sum) -> Callable[[LayerSample, Steps], Array]:
        return self.total(e)


class SampledMarch(StepwiseSolution):
    """One solution: streams at points of the initial vectors, means over these and over points of what layers draw."""

    def __init__(self, cells: int, points: int, seed: int, *given: Any) -> None:
        super().__init__(*given)
        kinked = [e for e in self.equations if isinstance(e.target, Ket) and e.value.has(*KINKED)]
        if kinked:
            raise NotCovered(f"{kinked[0]}: a function with kinks; expected smooth functions, where updates stand "
                             "inside of them")
        reading = SampledReading(self.memory, self.passes)
        self.h = 1 / cells
        self.inner = {e.target.vector.name: reading.value(e.value) for e in self.equations
                      if isinstance(e.target, Ket) and not e.boundary}
        self.laws = {str(sorted(e.target.atoms(LayerGaussian), key=str)[0].args[0]): reading.value(e.value)
                     for e in self.equations if isinstance(e.target, Expectation)}
        self.taken = [reading.value(sp.expand(self.moved(which).value / STEP)) for which in (0, 1)]
        self.points = _white(len(self.vectors), points // STREAM_SHARE, seed)
        several = _white(len(self.laws) * self.M, points, seed + SEEDS_APART) if self.laws else np.zeros((0, points))
        self.draws = dict(zip(self.laws, several.reshape(len(self.laws), self.M, points)))
        self.values = np.zeros((2, self.M, cells + 1, self.points.shape[1]))
        self.layers = [LayerSample(self) for _ in range(cells)]
        self.read_memory(reading, self.layers[0])

    def given(self, number: int) -> np.ndarray:
        return self.points[number]

    def begin(self, which: int, t: int, ket: np.ndarray) -> None:
        self.values[which, t, 0 if which == 0 else -1] = ket

    def boundary(self, which: int, t: int, last: bool) -> np.ndarray:
        return self.values[which, t, -1 if last else 0]

    def overlap(self, one: np.ndarray, two: np.ndarray) -> float:
        return float(np.mean(one * two))

    def sweep(self, which: int, t: int) -> None:
        order = range(len(self.layers)) if which == 0 else range(len(self.layers) - 1, -1, -1)
        steps, shape = self.passes.steps(self.size, t), (self.points.shape[1], 1)
        for k in order:
            before, after = (k, k + 1) if which == 0 else (k + 1, k)
            values, layer = self.values[which, t], self.layers[k]
            values[after] = values[before]
            for _ in range(ITERATIONS):
                layer.forget(t)
                layer.streams[self.names[which], t] = (values[k] + values[k + 1])[:, None] / 2
                moved = np.broadcast_to(self.taken[which](layer, steps), shape)[:, 0]
                values[after] = values[before] + self.h * moved
            if not np.all(np.isfinite(values[after])):
                step = t // self.size
                raise Divergence(f"the equations of the limit blow up at step {step}, layer time {k * self.h:.2g}",
                                 step=step)


def _white(rows: int, points: int, seed: int) -> np.ndarray:
    """Normal draws at scrambled Sobol points, with mean 0 and covariance 1 over the points."""
    from scipy.stats import norm, qmc  # takes a second to be imported

    uniform = qmc.Sobol(rows, scramble=True, rng=np.random.default_rng(seed)).random_base2(int(np.log2(points)))
    draws = norm.ppf(np.clip(uniform.T, 1e-12, 1 - 1e-12))
    draws -= draws.mean(axis=1, keepdims=True)
    return np.linalg.solve(np.linalg.cholesky(draws @ draws.T / points), draws)
