"""Functions on the square of layer times (p, q) that jump at p = q, by collocation.

A function is an array that broadcasts to (2, nodes, nodes): axis 1 is p, axis 2 is q, axis 0 says which side of the
diagonal, 0 for p < q and 1 for p > q. Each side is a polynomial on the whole square, of which half is meant; an axis of
length one stands for a function that does not depend on it. Where coefficients jump at some layer times, both axes are
cut there, and functions are polynomials on every rectangle; a place of a jump is two nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._chebyshev import reference


@dataclass(frozen=True)
class LayerTimeSquare:
    """``resolution`` Chebyshev-Lobatto points on every piece of either axis; breaks: where pieces meet, in (0, 1)."""

    resolution: int
    breaks: tuple[float, ...] = ()

    @property
    def ends(self) -> tuple[float, ...]:
        """Where pieces begin and end, from 0 to 1."""
        return (0.0, *sorted(self.breaks), 1.0)

    @property
    def nodes(self) -> int:
        return self.resolution * (len(self.ends) - 1)

    @cached_property
    def times(self) -> np.ndarray:
        """(nodes,), increasing from 0 to 1."""
        piece = (reference(self.resolution)[0] + 1) / 2
        return np.concatenate([a + (b - a) * piece for a, b in zip(self.ends, self.ends[1:])])

    @cached_property
    def up(self) -> np.ndarray:
        """(nodes, nodes): nodal values -> integrals from 0 to every node."""
        piece = reference(self.resolution)[2] / 2
        found = np.zeros((self.nodes, self.nodes))
        for number, (a, b) in enumerate(zip(self.ends, self.ends[1:])):
            here = slice(number * self.resolution, (number + 1) * self.resolution)
            found[here, here] = (b - a) * piece
            found[here.stop:, here] = (b - a) * piece[-1]
        return found

    def within(self, first: float, last: float) -> np.ndarray:
        """(1, nodes, 1): is a node on a piece between these layer times?"""
        middles = np.repeat([(a + b) / 2 for a, b in zip(self.ends, self.ends[1:])], self.resolution)
        return ((first < middles) & (middles < last))[None, :, None]

    @cached_property
    def down(self) -> np.ndarray:
        """(nodes, nodes): nodal values -> integrals from every node to 1."""
        return self.up[-1] - self.up

    def along_p(self, function: np.ndarray, upward: bool) -> np.ndarray:
        """The integral over p' of a function of (p', q), from 0 to p or from p to 1."""
        jumps = function.shape[0] == 2
        shape = (2, self.nodes, self.nodes) if jumps else (1, self.nodes, function.shape[2])
        found = (self.up if upward else self.down) @ np.broadcast_to(function, shape)
        if not jumps:
            return found
        near, far = (0, 1) if upward else (1, 0)  # the integral starts on the near side, and crosses q to the far one
        crossing = np.einsum("jj->j", found[near] - found[far])
        found[far] += crossing
        return found

    def over_q(self, function: np.ndarray) -> np.ndarray:
        """(1, nodes, 1): the integral over q in [0, 1] of a function of (p, q)."""
        below, above = np.broadcast_to(function, (2, self.nodes, self.nodes))[::-1]  # q < p, q > p
        return (np.einsum("pq,pq->p", self.up, below) + np.einsum("pq,pq->p", self.down, above))[None, :, None]

    def indicator(self, sign: int) -> np.ndarray:
        """1 where p > q (sign 1) or p < q (sign -1)."""
        return np.array([sign < 0, sign > 0], dtype=np.float64)[:, None, None]

    def on_diagonal(self, function: np.ndarray, side: int) -> np.ndarray:
        """(1, nodes, 1): the values at p = q, from p < q (side -1) or p > q (side 1)."""
        square = np.broadcast_to(function, (2, self.nodes, self.nodes))[0 if side < 0 else 1]
        return np.diagonal(square)[None, :, None].copy()

    def at_end(self, function: np.ndarray, p: int) -> np.ndarray:
        """(1, 1, nodes or 1): the values at p = 0, where p < q, or at p = 1."""
        side, node = (-1, -1) if p else (0, 0)
        return np.broadcast_to(function, (function.shape[0], self.nodes, function.shape[2]))[side, node][None, None]
