"""One row a step in layer time, compiled: triangles that stay packed, and what calls ``kernels.collocation_row``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..kernels import collocation_row as kernel
from . import element
from .blocks import Linear
from .element import DirectionSolution, Solved
from .mesh import between, reference
from .packed import Triangles


@dataclass
class PackedDirectionSolution:
    """What one direction of the sweep has found at the nodes, as in ``DirectionSolution``, for one row a step of a
    linear block.

    P, A and r hold strict lower triangles by rows, (nodes, N (N - 1) / 2); S and C lower ones, (nodes, N (N + 1) / 2).
    The noise of rows a, b is ``noise`` rho_a rho_b C; there is no field for it. N in the shapes is the number of rows.
    """

    noise: float
    rho: np.ndarray
    P: np.ndarray
    S: np.ndarray
    A: np.ndarray
    C: np.ndarray
    r: np.ndarray

    @staticmethod
    def empty(nodes: int, noise: float, rho: np.ndarray) -> PackedDirectionSolution:
        n = len(rho)
        strict, lower = (nodes, n * (n - 1) // 2), (nodes, n * (n + 1) // 2)
        return PackedDirectionSolution(noise, rho,
                                       *(np.zeros(shape) for shape in (strict, lower, strict, lower, strict)))

    def on(self, nodes: slice, rows: int) -> PackedDirectionSolution:
        """A view of some nodes and of the first rows."""
        strict, lower = rows * (rows - 1) // 2, rows * (rows + 1) // 2
        return PackedDirectionSolution(self.noise, self.rho[:rows], self.P[nodes, :strict], self.S[nodes, :lower],
                                       self.A[nodes, :strict], self.C[nodes, :lower], self.r[nodes, :strict])

    def at(self, weights: np.ndarray) -> PackedDirectionSolution:
        """Interpolated: weights (new nodes, nodes)."""
        return PackedDirectionSolution(self.noise, self.rho,
                                       *(weights @ a for a in (self.P, self.S, self.A, self.C, self.r)))

    def forget(self) -> None:
        """All but P and S."""
        self.A = self.C = self.r = np.empty((0, 0))

    def whole(self) -> DirectionSolution:
        """As whole matrices."""
        n = len(self.rho)
        P, A, r = (Triangles(a, n, False)[:] for a in (self.P, self.A, self.r))
        S, C = (Triangles(a, n, True)[:] for a in (self.S, self.C))
        return DirectionSolution(P, S, A, self.noise * np.outer(self.rho, self.rho) * C, C, r)

    def store(self, nodes: slice, solved: Solved, m: int, wide: int) -> None:
        """Append a row that was solved with whole matrices."""
        strict, lower = slice(m * (m - 1) // 2, m * (m + 1) // 2), slice(m * (m + 1) // 2, (m + 1) * (m + 2) // 2)
        self.P[nodes, strict], self.r[nodes, strict] = solved.state[:, 0, :m], solved.r[:, 0]
        self.A[nodes, strict] = solved.rates.density[:, 0]
        self.S[nodes, lower] = solved.state[:, 0, m:]
        assert solved.own is not None
        self.C[nodes, lower] = np.concatenate([solved.c[:, 0], solved.own[:, 0]], axis=-1)


class Near(NamedTuple):
    """Rows of one direction on a mesh with the same elements, and fewer nodes, to start from."""

    side: PackedDirectionSolution
    nodes: int


NOTHING = np.zeros((0, 0))


def carry(forward: bool, lengths: np.ndarray, nodes: int, mine: PackedDirectionSolution, other: PackedDirectionSolution,
          linear: Linear | None, state: np.ndarray, near: Near | None, passed: int = 0) -> int:
    """Carry a row through the elements, of the given lengths, from where it has passed some of them; how many it has
    passed in the end: all, or the next one is too long for the iteration.

    mine, other: what the sweep's own direction has found, and the other; linear: ``Law.linear`` of the step, (m,), (m,)
    and a number; state: (2 m + 1,) or, of a passenger, (2 m,), overwritten.
    """
    points, coefficients, integral = reference(nodes)
    assert linear is not None
    on_r, on_c, on_own = linear
    rules = (element.ITERATIONS, element.UNCHECKED, element.SETTLED, element.STAGNANT, element.UNRESOLVED)
    known = ((NOTHING.reshape(nodes, 0), NOTHING, NOTHING) if near is None
             else (between(near.nodes, nodes), near.side.P, near.side.S))
    return int(kernel.sweep(forward, len(on_c), passed, lengths / 2, points, integral, coefficients[-2:], rules,
                            mine.noise, mine.rho, on_r, on_c, on_own, state,
                            mine.P, mine.S, mine.A, mine.C, mine.r, other.P, other.S, other.A, other.C, *known))


def spanned(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(weights, basis) with weights @ basis = rows, the basis orthonormal; rows that are not finite are left alone."""
    if not np.all(np.isfinite(rows)):
        return np.eye(len(rows)), rows
    weights, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    rank = max(1, int(np.sum(sizes > np.finfo(np.float64).eps * max(rows.shape) * sizes[0])))
    basis[:, ~np.any(rows, axis=0)] = 0.0  # exactly, as it was: what nothing drives stays 0
    return weights[:, :rank] * sizes[:rank], basis[:rank]
