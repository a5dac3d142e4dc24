"""Infinite width, finite depth, exactly and in time linear in the depth: the reflection form.

Source: [tpcalc/reflection_form].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import Divergence
from ..kernels import reflection as kernel, reflection_block as block_kernel, reflection_row as row_kernel
from .propagator import Propagator, Rows, UpdateKernels
from .packed import PackedSolution, Triangles

LARGE = 256  # rows in all, from where on products with large matrices outweigh calls from Python


@dataclass
class ReflectionPropagator(Propagator):
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
    updates: UpdateKernels | None = None  # where updates mix rows, as Muon's; None for those that w weighs

    def __post_init__(self) -> None:
        n = len(self.rho)
        self.P, self.Q, self.S, self.R, self.G, self.GT = (np.zeros((self.depth + 1, n, n)) for _ in range(6))
        self.A, self.B, self.C0, self.C1 = (np.zeros((self.depth, n, n)) for _ in range(4))

    def probe(self, step: int, start: Rows) -> Rows:
        return self._sweep(True, step, start._replace(own=None))

    def _sweep(self, forward: bool, step: int, start: Rows) -> Rows:
        m, keep = step * self.rows, start.own is not None
        p, s = start.p.copy(), start.s.copy()
        own = np.zeros((len(s), len(s))) if start.own is None else start.own.copy()
        mine = (self.P, self.S, self.G, self.A, self.C0)
        others = (self.Q, self.R, self.GT, self.B, self.C1)
        if not forward:
            mine, others = others, mine
        Q, R, _, B, D = others
        sweep = block_kernel.sweep if len(self.rho) >= LARGE or self.updates is not None else kernel.sweep
        w = self.w[m, :m].copy() if self.updates is None else self.updates.weights(self, step)
        passed = sweep(forward, m, self.eps, self.g, self.rho, self.rho[m], w, p, s, own, keep, *mine, Q, R, B, D)
        raise_where_stopped(passed, forward, step, self.depth)
        return Rows(p, s, own if keep else None)


@dataclass
class PackedReflectionPropagator(Propagator):
    """The propagator for one row a step, with packed triangles: less memory, and less of it read in a step.

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

    def probe(self, step: int, start: Rows) -> Rows:
        ended = [self._sweep(True, step, Rows(p[None], s[None])) for p, s in zip(start.p, start.s)]
        return Rows(np.concatenate([rows.p for rows in ended]), np.concatenate([rows.s for rows in ended]))

    def _sweep(self, forward: bool, step: int, start: Rows) -> Rows:
        p, s = start.p[0].copy(), start.s[0].copy()
        own, keep = (0.0, False) if start.own is None else (float(start.own[0, 0]), True)
        mine = (self.P, self.S, self.G, self.A, self.C0)
        others = (self.Q, self.R, self.GT, self.B, self.C1)
        if not forward:
            mine, others = others, mine
        Q, R, _, B, D = others
        passed = row_kernel.sweep(forward, step, self.eps, self.g, self.rho, self.rho[step], self.w[step, :step].copy(),
                                  p, s, own, keep, *mine, Q, R, B, D)
        raise_where_stopped(passed, forward, step, self.depth)
        last = self.depth if forward else 0
        end = mine[1][last, (step + 1) * (step + 2) // 2 - 1]
        return Rows(p[None], s[None], np.array([[end]]) if keep else None)

    def solution(self) -> PackedSolution:
        """What is asked for after training, without what only training needs."""
        n = len(self.rho)
        P, Q, A, B = (Triangles(a, n, False) for a in (self.P, self.Q, self.A, self.B))
        S, R = (Triangles(a, n, True) for a in (self.S, self.R))
        return PackedSolution(self.depth, self.eps, self.rho, P, Q, S, R, A, B)


def raise_where_stopped(passed: int, forward: bool, step: int, depth: int) -> None:
    """Divergence, where a sweep met a value that is not finite after ``passed`` layers."""
    if passed:
        layer = passed if forward else depth + 1 - passed
        raise Divergence(f"training diverges at step {step}, layer {layer} of {depth}, in the "
                         f"{'forward' if forward else 'backward'} pass; a smaller learning rate or branch multiplier "
                         "may help", step=step, layer=layer)
