"""Gamma, C and covariances of a run, each reading in its own way."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Callable, ClassVar

import numpy as np

from .._types import Fields
from .. import _checks
from ..errors import NotCovered
from ..interpreters import KetCoefficients, DenseRecord
from ..propagators import covariances
from ..propagators.propagator import Propagator
from ..propagators.packed import PackedSolution
from . import two_point
from .scatterers import Signals
from .segments import segments


def or_all_layers(layer_times: np.ndarray | None, depth: int) -> np.ndarray:
    """The given layer times, or those of all nodes; raises ``MemoryError`` for more than fit."""
    if layer_times is None:
        _checks.memory(16.0 * (depth + 1), f"depth {depth}", "a smaller depth fits")
    return np.arange(depth + 1) / depth if layer_times is None else layer_times


def nearest_nodes(layer_times: np.ndarray, depth: int) -> np.ndarray:
    """The nodes l = 0..L closest to the given layer times."""
    return np.rint(np.asarray(layer_times) * depth).astype(int)


@dataclass(frozen=True)
class CoefficientDetails:
    """Read off the coefficients themselves."""

    solution: KetCoefficients

    @property
    def depth(self) -> int:
        return self.solution.covariance.shape[1]

    def covariance(self, forward: bool, layer_times: np.ndarray) -> np.ndarray:
        return self.solution.node_covariance(forward)[nearest_nodes(layer_times, self.depth)]

    def gamma(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        known = self.solution
        hat, ends = (known.x, known.x_outputs) if a == 0 else (known.delta, known.delta_inputs)
        node, layer = two_point.ceiling(p, self.depth), max(two_point.ceiling(q, self.depth), 1)
        if row_s >= 0:
            return math.sqrt(self.depth) * float(hat[row_t, node, b, layer - 1, row_s])
        if b == 0 and ends.shape[-1] > 2:
            raise NotCovered(f"gamma: s = -1, b = 0 is the derivative in U, a number for one input dimension; this "
                             f"task has {ends.shape[-1] - 1}")
        return float(ends[row_t, node, b])

    def c(self, row_t: int, row_s: int, a: int, p: float) -> float:
        if row_t < 0 or row_s < 0:
            return float(row_t == row_s)
        layer = max(two_point.ceiling(p, self.depth), 1)
        return float(self.solution.covariance[a, layer - 1, row_t, row_s])

    def cross_covariance(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        return self._overlap(self._ket(a, row_t, p), self._ket(b, row_s, q))

    def difference(self, row: int, a: int, p: float, length: float) -> float:
        change = [end - start for start, end in zip(self._ket(a, row, p), self._ket(a, row, p + length))]
        return math.sqrt(max(self._overlap(change, change), 0.0))

    def _ket(self, a: int, row: int, p: float) -> list[np.ndarray]:
        """Coefficients (2, L, N) over the hats and (d_in + d_out,) over U and nV."""
        known, node = self.solution, two_point.ceiling(p, self.depth)
        return [known.x[row, node], known.x_outputs[row, node]] if a == 0 else [known.delta[row, node],
                                                                                known.delta_inputs[row, node]]

    def _overlap(self, one: list[np.ndarray], two: list[np.ndarray]) -> float:
        return float(np.einsum("dmr,dmrs,dms->", one[0], self.solution.covariance, two[0]) + one[1] @ two[1])


@dataclass(frozen=True)
class PropagatorDetails:
    """From reflections and two-point functions, at finite or infinite depth."""

    propagator: Propagator | PackedSolution
    inputs: np.ndarray   # (N, d_in)
    signal: np.ndarray   # (N, d_out), delta^L = signal . nV_t
    train_embedding_readout: bool = False
    sign: int = 1        # of the branch multiplier

    def covariance(self, forward: bool, layer_times: np.ndarray) -> np.ndarray:
        return covariances.at_times(self.propagator, forward, layer_times)

    def __getstate__(self) -> Fields:
        """The fields alone: what is found from them is found again."""
        return {known.name: getattr(self, known.name) for known in fields(self)}

    @cached_property
    def _pairs(self) -> two_point.TwoPoint:
        return two_point.TwoPoint(self.propagator, self.inputs, self.signal, self.train_embedding_readout, self.sign)

    def gamma(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        return self._pairs.gamma(row_t, row_s, a, b, p, q)

    def c(self, row_t: int, row_s: int, a: int, p: float) -> float:
        return self._pairs.c(row_t, row_s, a, p)

    @cached_property
    def _ends(self) -> Callable[[float, float], Signals]:
        """The signals of the piece from p to p + length; the last few are kept, for their other rows."""
        return lru_cache(maxsize=16)(segments(self.propagator).ends)

    def cross_covariance(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        ends, n = self._ends(min(p, q), abs(q - p)), len(self.inputs)
        at_p, at_q = (ends.start, ends.end) if p <= q else (ends.end, ends.start)
        return float(at_p[a * n + row_t] @ ends.sources @ at_q[b * n + row_s])

    def difference(self, row: int, a: int, p: float, length: float) -> float:
        ends = self._ends(p, length)
        change = ends.change[a * len(self.inputs) + row]
        return math.sqrt(max(float(change @ ends.sources @ change), 0.0))


class WithoutCoefficients:
    """Details of what is not expanded over base kets: gamma and c are refused; why: the reason."""

    why: ClassVar[str]

    def gamma(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        raise NotCovered(f"gamma: {self.why}")

    def c(self, row_t: int, row_s: int, a: int, p: float) -> float:
        raise NotCovered(f"c: {self.why}")


@dataclass(frozen=True)
class BlockDetails(WithoutCoefficients, PropagatorDetails):
    """The details of a network whose blocks enter through kernels: its kets have no finite list of coefficients."""

    why = "this network's kets have no coefficients; expected linear ones, one matrix a block"


@dataclass(frozen=True)
class DenseDetails(WithoutCoefficients):
    """Averages over the coordinates of one real network, kept at ``nodes``: l = 0..L, as the run's layer times."""

    solution: DenseRecord
    nodes: np.ndarray
    depth: int
    why = "a real network has no coefficients; use width=tp.oo"

    def covariance(self, forward: bool, layer_times: np.ndarray) -> np.ndarray:
        vectors = self.solution.x if forward else self.solution.delta
        assert vectors is not None
        there = vectors[[self._kept(float(p)) for p in layer_times]]
        return there @ there.transpose(0, 2, 1) / vectors.shape[-1]

    def cross_covariance(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        return float(np.mean(self._vector(a, row_t, p) * self._vector(b, row_s, q)))

    def difference(self, row: int, a: int, p: float, length: float) -> float:
        change = self._vector(a, row, p + length) - self._vector(a, row, p)
        return math.sqrt(float(np.mean(change**2)))

    def _vector(self, a: int, row: int, p: float) -> np.ndarray:
        vectors = self.solution.x if a == 0 else self.solution.delta
        assert vectors is not None
        return vectors[self._kept(p), row]

    def _kept(self, p: float) -> int:
        """Where the layer at a layer time stands among those that were kept."""
        node = two_point.ceiling(p, self.depth)
        where = np.flatnonzero(self.nodes == node)
        if not len(where):
            raise ValueError(f"layer time {p}: layer {node} of {self.depth} was not kept; expected those of "
                             "keep_nodes, or any with keep_nodes='all'")
        return int(where[0])
