"""Infinite width, finite depth, exactly and in time linear in the depth: the reflection form.

Source: [tpcalc/reflection_form].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import Divergence
from ..kernels import reflection as kernel
from ..kernels import reflection_row as row_kernel


@dataclass
class ReflectionMedium:
    """The body of a linear residual network of ``depth`` layers, rows of ``rho.size`` samples at most.

    Arrays over nodes 0..L have shape (L + 1, N, N), over layers 1..L (L, N, N); the notation is that of
    the reflection form: x = P delta + x_left, delta = Q x + delta_right, S and R the covariances of
    x_left and delta_right, C0 and C1 those of x^(l-1) and delta^l, A and B what a layer adds.
    """

    depth: int
    rows: int            # of one step
    eps: float
    g: float
    rho: np.ndarray      # (N,)
    w: np.ndarray        # (N, N)

    def __post_init__(self) -> None:
        n = len(self.rho)
        self.P, self.Q, self.S, self.R, self.G, self.GT = (np.zeros((self.depth + 1, n, n)) for _ in range(6))
        self.A, self.B, self.C0, self.C1 = (np.zeros((self.depth, n, n)) for _ in range(4))

    def probe(self, step: int, s: np.ndarray) -> np.ndarray:
        return self._sweep(True, step, s, np.zeros((len(s), len(s))), False)

    def forward(self, step: int, s: np.ndarray, own: np.ndarray) -> np.ndarray:
        return self._sweep(True, step, s, own, True)

    def backward(self, step: int, r: np.ndarray, own: np.ndarray) -> np.ndarray:
        return self._sweep(False, step, r, own, True)

    def _sweep(self, forward: bool, step: int, s: np.ndarray, own: np.ndarray, keep: bool) -> np.ndarray:
        m = step * self.rows
        p = np.zeros((len(s), m))
        mine = (self.P, self.S, self.G, self.A, self.C0)
        others = (self.Q, self.R, self.GT, self.B, self.C1)
        if not forward:
            mine, others = others, mine
        Q, R, _, B, D = others
        passed = kernel.sweep(forward, m, self.eps, self.g, self.rho, self.rho[m], self.w[m, :m].copy(), p, s.copy(),
                              own.copy(), keep, *mine, Q, R, B, D)
        raise_where_stopped(passed, forward, step, self.depth)
        return p


@dataclass
class PackedReflectionMedium:
    """The same medium for one row a step, with packed triangles: less memory, and less of it read in a step.

    P, Q, G, G' and A, B hold strict lower triangles by rows, (., N (N - 1) / 2); S, R, C0 and C1 lower
    triangles, (., N (N + 1) / 2), C0 and C1 with their weight eps^2 rho rho.
    """

    depth: int
    eps: float
    g: float
    rho: np.ndarray      # (N,)
    w: np.ndarray        # (N, N)

    def __post_init__(self) -> None:
        n = len(self.rho)
        triangle = n * (n - 1) // 2
        self.P, self.Q, self.G, self.GT = (np.zeros((self.depth + 1, triangle)) for _ in range(4))
        self.S, self.R = (np.zeros((self.depth + 1, triangle + n)) for _ in range(2))
        self.A, self.B = (np.zeros((self.depth, triangle)) for _ in range(2))
        self.C0, self.C1 = (np.zeros((self.depth, triangle + n)) for _ in range(2))

    def probe(self, step: int, s: np.ndarray) -> np.ndarray:
        ends = [self._sweep(True, step, row, 0.0, False) for row in s]
        return np.array(ends).reshape(len(s), step)

    def forward(self, step: int, s: np.ndarray, own: np.ndarray) -> np.ndarray:
        return self._sweep(True, step, s[0], own[0, 0], True)[None]

    def backward(self, step: int, r: np.ndarray, own: np.ndarray) -> np.ndarray:
        return self._sweep(False, step, r[0], own[0, 0], True)[None]

    def _sweep(self, forward: bool, step: int, s: np.ndarray, own: float, keep: bool) -> np.ndarray:
        p = np.zeros(step)
        mine = (self.P, self.S, self.G, self.A, self.C0)
        others = (self.Q, self.R, self.GT, self.B, self.C1)
        if not forward:
            mine, others = others, mine
        Q, R, _, B, D = others
        passed = row_kernel.sweep(forward, step, self.eps, self.g, self.rho, self.rho[step], self.w[step, :step].copy(),
                                  p, s.copy(), own, keep, *mine, Q, R, B, D)
        raise_where_stopped(passed, forward, step, self.depth)
        return p


def raise_where_stopped(passed: int, forward: bool, step: int, depth: int) -> None:
    """Divergence, where a sweep met a value that is not finite after ``passed`` layers."""
    if passed:
        layer = passed if forward else depth + 1 - passed
        raise Divergence(f"training diverges at step {step}, layer {layer} of {depth}, in the "
                         f"{'forward' if forward else 'backward'} pass; a smaller learning rate or branch multiplier "
                         "may help", step=step, layer=layer)
