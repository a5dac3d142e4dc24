"""The signals at any two places of a trained network: from the scatterer of the piece between them.

At finite depth layers are composed in pairs, pairs in fours and so on, once; any piece then is a product of at most
2 log2(L) of these. At infinite depth a piece grows like its layers do: with W = (P, I + V) stacked and
Y = (I + U, P) side by side, a thin layer at its right end adds

    d response = [0, A; 0, 0] + W B Y,     d noise = N0 (in x) + W N1 W^T + W B (noise of x) + transpose,

an initial-value problem that starts from 0, solved by collocation in each element of layer time.
"""

from __future__ import annotations

from functools import cached_property, reduce
from typing import Callable

import numpy as np

from .. import _checks
from ..propagators.collocation import CollocationPropagator
from ..propagators.layer_time import integrated, settled
from ..propagators.propagator import Propagator
from ..propagators.mesh import reference
from ..propagators.packed import PackedSolution
from ..propagators.reflection import ReflectionPropagator
from .scatterers import Signals, Scatterer, close, layer, nothing, star
from .two_point import ceiling

IN_CACHE = 2**13  # numbers of one block of a stack


class LayerSegments:
    """Finite depth; layer time p means node ceil(L p), as for Gamma.

    The first question costs O(L N^3) time and O(L N^2) memory, N rows, of the order of the training itself; every
    further one O(log(L) N^3).
    """

    def __init__(self, propagator: ReflectionPropagator | PackedSolution) -> None:
        self.propagator = propagator

    def ends(self, p: float, length: float) -> Signals:
        """``Signals`` of the piece from layer time p to p + length: x and delta at both ends, and their change."""
        propagator = self.propagator
        m, l = ceiling(p, propagator.depth), ceiling(p + length, propagator.depth)
        return close(self._piece(m, l), propagator.P[m], propagator.S[m], propagator.Q[l], propagator.R[l])

    def _layers(self, index: slice) -> Scatterer:
        propagator = self.propagator
        strength = propagator.eps**2 * np.outer(propagator.rho, propagator.rho)
        return layer(propagator.A[index], propagator.B[index], strength * propagator.C0[index],
                     strength * propagator.C1[index])

    @cached_property
    def _doubled(self) -> list[Scatterer]:
        """Stacks of the aligned pieces of 2, 4, 8, ... layers."""
        depth, rows = self.propagator.depth, len(self.propagator.rho)
        _checks.memory(8.0 * 12 * depth * rows**2, f"covariances across {depth} layers",
                       "fewer steps, a smaller batch or a smaller depth fit")
        stacks = [self._paired(self._layers, depth)]
        while len(stacks[-1].response) > 1:
            stacks.append(self._paired(stacks[-1].__getitem__, len(stacks[-1].response)))
        return stacks

    def _paired(self, pieces: Callable[[slice], Scatterer], count: int) -> Scatterer:
        """Pieces 0 and 1, 2 and 3, ... composed, as many at a time as stay in the processor's cache."""
        even, some = count - count % 2, 2 * max(1, IN_CACHE // len(self.propagator.rho) ** 2)
        parts = [star(pieces(slice(first, min(first + some, even), 2)),
                      pieces(slice(first + 1, min(first + some, even), 2))) for first in range(0, even, some)]
        return Scatterer(np.concatenate([part.response for part in parts]),
                         np.concatenate([part.noise for part in parts]))

    def _piece(self, m: int, l: int) -> Scatterer:
        """Layers m + 1..l, by the largest aligned pieces from left to right."""
        piece = nothing(len(self.propagator.rho))
        while m < l:
            doublings = 0
            while m % 2 ** (doublings + 1) == 0 and m + 2 ** (doublings + 1) <= l:
                doublings += 1
            block = self._doubled[doublings - 1][m >> doublings] if doublings else self._layers(slice(m, m + 1))[0]
            piece = star(piece, block)
            m += 2**doublings
        return piece


class TimeSegments:
    """Infinite depth. A question costs as much as the elements of layer time that its piece ends in."""

    def __init__(self, propagator: CollocationPropagator) -> None:
        self.propagator = propagator

    def ends(self, p: float, length: float) -> Signals:
        """``Signals`` of the piece from layer time p to p + length: x and delta at both ends, and their change."""
        propagator, q = self.propagator, min(p + length, 1.0)
        at = propagator.mesh.evaluate
        return close(self._piece(p, length), at(propagator.P, p), at(propagator.S, p), at(propagator.Q, q),
                     at(propagator.R, q))

    def _piece(self, p: float, length: float) -> Scatterer:
        ends = np.asarray(self.propagator.mesh.ends)
        cuts = np.flatnonzero((ends > p) & (ends < p + length))
        if not len(cuts):
            return self._grow(p, length)
        first, last = cuts[0], cuts[-1]
        return reduce(star, [self._grow(p, ends[first] - p), *self._elements[first:last],
                             self._grow(ends[last], length - (ends[last] - p))])

    @cached_property
    def _elements(self) -> list[Scatterer]:
        mesh = self.propagator.mesh
        return [self._grow(start, length) for start, length in zip(mesh.ends, mesh.lengths)]

    def _grow(self, start: float, length: float) -> Scatterer:
        """The piece from ``start`` on, within one element."""
        propagator, mesh, n = self.propagator, self.propagator.mesh, len(self.propagator.rho)
        points, _, integral = reference(mesh.nodes)
        times = np.clip(start + length * (points + 1) / 2, 0.0, 1.0)
        a, b, n0, n1 = (mesh.evaluate(x, times) for x in (propagator.A, propagator.B, propagator.left.N,
                                                          propagator.right.N))
        first, second = np.eye(n, 2 * n), np.eye(2 * n, n, -n)
        zero = np.zeros((len(times), 2 * n, 2 * n))

        def respond(response: np.ndarray) -> np.ndarray:
            slope = (response[:, :, n:] + second) @ b @ (response[:, :n] + first)
            slope[:, :n, n:] += a
            return length / 2 * integrated(integral, slope)

        response = settled(respond, zero)
        if response is None:
            return self._halves(start, length)
        w = response[:, :, n:] + second
        born, passed = w @ n1 @ w.transpose(0, 2, 1), w @ b
        born[:, :n, :n] += n0

        def spread(noise: np.ndarray) -> np.ndarray:
            half = passed @ noise[:, :n]
            return length / 2 * integrated(integral, born + half + half.transpose(0, 2, 1))

        noise = settled(spread, zero)
        return self._halves(start, length) if noise is None else Scatterer(response[-1], noise[-1])

    def _halves(self, start: float, length: float) -> Scatterer:
        """A piece that is too long for the iteration."""
        return star(self._grow(start, length / 2), self._grow(start + length / 2, length / 2))


def segments(propagator: Propagator | PackedSolution) -> LayerSegments | TimeSegments:
    """The segments of a trained propagator with plain rows (step, input)."""
    if isinstance(propagator, CollocationPropagator):
        return TimeSegments(propagator)
    assert isinstance(propagator, (ReflectionPropagator, PackedSolution))
    return LayerSegments(propagator)
