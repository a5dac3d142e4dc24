"""Infinite width, infinite depth: the reflection form as differential equations in layer time, by collocation.

To the left of layer time tau x = P delta + x_left, to its right delta = Q x + delta_right; S and R are the
covariances of x_left and delta_right. With the densities A, B, N0, N1 that the block adds to them,

    P' = A + P B P,        S' = N0 + P N1 P^T + P B S + (P B S)^T,
    -Q' = B + Q A Q,       -R' = N1 + Q N0 Q^T + Q A R + (Q A R)^T.

The rows of one step are an initial-value problem, forward from 0 and then backward from 1, in which
everything of earlier steps is known. Reversing layer time swaps (P, S, A, N0, C0) and (Q, R, B, N1, C1):
one sweep serves both directions. It marches through the elements of a mesh; in each, nodal values of the
rows give densities, densities give right-hand sides, their integrals the next nodal values, to round-off.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, NamedTuple

import numpy as np

from .. import _checks
from ..errors import Divergence
from ..programs import SGD, Task
from .blocks import BackwardLaw, BlockKernels, ForwardLaw, Law, LinearBlock, Rates
from .medium import Rows
from .mesh import Mesh, reference
from .training import Trace, ends_memory, rows_per_step, train_rows, update_kernel

ROUND_OFF = 4 * np.finfo(np.float64).eps
TINY = np.finfo(np.float64).tiny
COARSE, FINE = 16, 20  # nodes of an element in the two resolutions that are compared
MOST_ELEMENTS = 1024
ITERATIONS = 40        # a contraction that needs more loses digits: its element is too long
UNCHECKED = 10         # iterations before the first look at the change: no element is so short
SETTLED = 2e-14        # a change this small: the next, a superlinear iteration's, would be round-off
STAGNANT = 2e-13       # changes that stop falling below this are round-off
UNRESOLVED = 1e-2      # last Chebyshev coefficients relative to the values: later steps would be nonsense


class NotContracting(ArithmeticError):
    """The rows of a step cannot be found on an element: it is too long. Attributes: element, step, layer (time)."""

    def __init__(self, element: int, step: int, layer: float) -> None:
        super().__init__(f"no contraction at step {step}, layer time {layer:.4g}")
        self.element, self.step, self.layer = element, step, layer


@dataclass
class Side:
    """What one direction has found at the nodes, each (nodes, N, N); letters are those of the forward direction.

    P, S: reflection and covariance; A, N: densities of response and noise; C: covariance of the signal
    itself, <x x>; r: its response to the opposite source, (I - P Q)^-1 P.
    """

    P: np.ndarray
    S: np.ndarray
    A: np.ndarray
    N: np.ndarray
    C: np.ndarray
    r: np.ndarray

    @staticmethod
    def empty(nodes: int, rows: int) -> Side:
        return Side(*(np.zeros((nodes, rows, rows)) for _ in range(6)))


@dataclass
class CollocationMedium:
    """The body of a residual network of infinite depth on a mesh of layer time; ``rho.size`` rows at most.

    noise: constant of everything the initial matrices add (L eps^2 at alpha = 1/2, else 0); drift: constant
    of the updates (L eps g at alpha + gamma = 1, 0 where updates die). The block enters through its kernels
    alone. Nodal arrays P, Q, S, R, A, B, C0, C1 have shape (nodes, N, N), at layer times ``mesh.times``.

    ``forward``, ``backward`` and ``probe`` raise ``NotContracting`` where the mesh is too coarse.

    Source: paper B, Proposition C.4 [tensor_programs_vi/proposition_c4], whose integral equations these solve.
    """

    mesh: Mesh
    rows: int            # of one step
    noise: float
    drift: float
    rho: np.ndarray      # (N,)
    w: np.ndarray        # (N, N)
    block: BlockKernels = field(default_factory=LinearBlock)
    guess: CollocationMedium | None = None  # the same on fewer nodes an element: where iterations start

    def __post_init__(self) -> None:
        self.left, self.right = (Side.empty(len(self.mesh.times), len(self.rho)) for _ in range(2))

    layer_times = property(lambda self: self.mesh.times)
    P = property(lambda self: self.left.P)
    S = property(lambda self: self.left.S)
    A = property(lambda self: self.left.A)
    C0 = property(lambda self: self.left.C)
    Q = property(lambda self: self.right.P)
    R = property(lambda self: self.right.S)
    B = property(lambda self: self.right.A)
    C1 = property(lambda self: self.right.C)

    def probe(self, step: int, start: Rows) -> Rows:
        return start if step == 0 else self._sweep(True, step, start)

    def forward(self, step: int, start: Rows) -> Rows:
        return self._sweep(True, step, start)

    def backward(self, step: int, start: Rows) -> Rows:
        return self._sweep(False, step, start)

    def _sweep(self, forward: bool, step: int, start: Rows) -> Rows:
        """Carry the rows of a step through all elements; without ``own`` they are passengers and leave no trace."""
        mine, other = (self.left, self.right) if forward else (self.right, self.left)
        own = start.own
        b, m = start.s.shape
        # where the block gives Q a diagonal, backward rows respond to the forward rows of their own step
        wide = m + b if self.block.has_diagonal and not forward else m
        state = np.zeros((b, wide + m + (0 if own is None else b)))
        state[:, :m] = start.p
        state[:, wide:wide + m] = start.s
        if own is not None:
            state[:, wide + m:] = own
        elements = range(self.mesh.elements)
        for e in elements if forward else reversed(elements):
            nodes = self.mesh.element(e)
            operator = _operator(mine, other, nodes, m, wide, own is not None)
            near = None
            if own is not None and self.guess is not None:
                near = self.guess._rows(forward, e, m, b, wide, self.mesh.nodes)
            rows = _iterate(state, near, operator, self._law(forward, nodes, m, b), self.mesh.integral(e, forward), m,
                            wide)
            if rows is None:
                raise NotContracting(e, step, self.mesh.ends[e if forward else e + 1])
            if own is not None:
                _store(mine, nodes, rows, m, wide)
            state = rows.state[-1 if forward else 0]
        return Rows(state[:, :m], state[:, wide:wide + m], None if own is None else state[:, wide + m:])

    def _rows(self, forward: bool, e: int, m: int, b: int, wide: int, nodes: int) -> np.ndarray:
        """The stored rows m..m+b on an element, as states [p | s | S_tt] at the points of ``nodes`` nodes."""
        side, here = self.left if forward else self.right, slice(m, m + b)
        known = np.concatenate([side.P[:, here, :wide], side.S[:, here, :m + b]], axis=-1)
        return self.mesh.refined(e, known, nodes)

    def _law(self, forward: bool, nodes: slice, m: int, b: int) -> Law:
        variances = np.diagonal(self.C0[nodes, :m, :m], axis1=1, axis2=2)
        law = ForwardLaw(self.block, self.noise, self.drift * self.w[m, :m], variances, self.rho[m] * self.rho[:m],
                         float(self.rho[m]**2))
        if forward:
            return law
        here = slice(m, m + b)
        return BackwardLaw(law, self.left.r[nodes, here, :m], self.C0[nodes, here, :m], self.C0[nodes, here, here])


def _operator(mine: Side, other: Side, nodes: slice, m: int, wide: int, keep: bool) -> np.ndarray:
    """What a row [p | s] is multiplied with at every node of an element, in one product.

    Columns: response r = p + g P, covariance c = <x_t x>, p B P, p (N1 P^T + B S) + s (P B)^T, and for
    kept rows the halves that (with p^T) give the covariance of the step and its rate. Two identities
    make it cheap: G' = (I - Q P)^-1 = I + (G' Q) P, and <delta x> = Q <x x> + R (G P)^T.
    """
    P, S, C, r = (a[nodes, :m, :m] for a in (mine.P, mine.S, mine.C, mine.r))
    Q, R, B, N, e = (a[nodes, :wide, :m] for a in (other.P, other.S, other.A, other.N, other.r))
    PT = P.transpose(0, 2, 1)
    operator = np.zeros((len(P), wide + m, 4 * m + (2 * wide if keep else 0)))
    on_p, on_s = operator[:, :wide], operator[:, wide:]
    on_p[:, :, :m] = np.eye(wide, m) + e @ P
    on_p[:, :, m:2 * m] = Q @ C + R @ r.transpose(0, 2, 1)
    on_s[:, :, m:2 * m] = np.eye(m) + (r @ Q[:, :m]).transpose(0, 2, 1)
    on_p[:, :, 2 * m:3 * m] = B @ P
    on_p[:, :, 3 * m:4 * m] = N @ PT + B @ S
    on_s[:, :, 3 * m:4 * m] = (P @ B[:, :m]).transpose(0, 2, 1)
    if keep:
        on_p[:, :, 4 * m:4 * m + wide] = other.C[nodes, :wide, :wide] / 2
        on_s[:, :, 4 * m:4 * m + wide] = e.transpose(0, 2, 1)
        on_p[:, :, 4 * m + wide:] = other.N[nodes, :wide, :wide] / 2
        on_s[:, :, 4 * m + wide:] = B.transpose(0, 2, 1)
    return operator


class _Rows(NamedTuple):
    """The rows of a step on an element, over its nodes: state [p | s | S_tt] and what it entails."""

    state: np.ndarray
    r: np.ndarray
    c: np.ndarray
    own: np.ndarray | None
    rates: Rates


def _iterate(start: np.ndarray, near: np.ndarray | None, operator: np.ndarray, law: Law, integral: np.ndarray,
             m: int, wide: int) -> _Rows | None:
    """The rows on an element from their values where they enter it; None where it is too long for that.
    near: nodal values to start from, or None.

    Picard's iteration, superlinear because the rows are an initial-value problem in layer time.
    """
    width, total = wide + m, start.shape[1]
    state = np.repeat(start[None], len(operator), axis=0) if near is None else near
    slope = np.zeros_like(state)
    parts = sorted({0, wide, width} - {total})
    own = None
    flat = len(operator), -1
    before = np.inf
    for iteration in range(ITERATIONS):
        p = state[..., :wide]
        y = state[..., :width] @ operator
        c = y[..., m:2 * m]
        r = y[..., :m] if wide == m else np.concatenate([y[..., :m], p[..., m:]], axis=-1)
        if total > width:
            own = state[..., width:] + _symmetric(y[..., 4 * m:4 * m + wide], p)
        rates = law(r, c, own)
        slope[..., :m] = y[..., 2 * m:3 * m] + rates.density
        slope[..., wide:width] = y[..., 3 * m:4 * m] + rates.noise
        if rates.diagonal is not None:
            b = np.arange(start.shape[0])
            slope[:, b, m + b] = rates.diagonal
        if total > width:
            slope[..., width:] = rates.own_noise + _symmetric(y[..., 4 * m + wide:], p)
        new = start + (integral @ slope.reshape(flat)).reshape(slope.shape)
        if iteration < (UNCHECKED if near is None else 1):
            state = new
            continue
        # reflection, covariance and own covariance have scales of their own
        largest = np.abs(np.concatenate([new, new - state], axis=1)).reshape(len(new), 2, -1, total).max(axis=(0, 2))
        size, change = np.maximum.reduceat(largest, parts, axis=1)
        now = float((change / (size + TINY)).max())
        state = new
        if not np.isfinite(now):
            return None
        if now <= SETTLED or (now <= STAGNANT and now > before / 2):
            tail = np.abs(np.tensordot(reference(len(state))[1][-2:], state, 1)).max(axis=(0, 1))
            resolved = np.all(np.maximum.reduceat(tail, parts) <= UNRESOLVED * size)
            return _Rows(state, r, c, own, rates) if resolved else None
        before = now
    return None


def _symmetric(half: np.ndarray, p: np.ndarray) -> np.ndarray:
    product = half @ p.transpose(0, 2, 1)
    return product + product.transpose(0, 2, 1)


def _store(side: Side, nodes: slice, rows: _Rows, m: int, wide: int) -> None:
    b = rows.state.shape[1]
    end = m + b
    side.P[nodes, m:end, :wide] = rows.state[..., :wide]
    side.r[nodes, m:end, :wide] = rows.r
    side.A[nodes, m:end, :m] = rows.rates.density
    if rows.rates.diagonal is not None:
        side.A[nodes, range(m, end), range(m, end)] = rows.rates.diagonal
    for array, row, own in ((side.S, rows.state[..., wide:wide + m], rows.state[..., wide + m:]),
                            (side.C, rows.c, rows.own), (side.N, rows.rates.noise, rows.rates.own_noise)):
        array[nodes, m:end, :m] = row
        array[nodes, :m, m:end] = row.transpose(0, 2, 1)
        array[nodes, m:end, m:end] = own


class Limit(NamedTuple):
    """A trained network of infinite depth; ``error`` bounds how far its outputs are off, absolutely."""

    trace: Trace
    medium: CollocationMedium
    error: float


def solve_limit(task: Task, optimizer: SGD, noise: float, drift: float, samples: str, tolerance: float = 1e-12,
                after_step: Callable[[int], None] = lambda t: None, block: BlockKernels = LinearBlock(),
                train_ends: bool = False) -> Limit:
    """Train at infinite width and depth until the outputs are known to ``tolerance`` times max(1, |f|).

    noise, drift: the constants of ``CollocationMedium``; samples: "plain" or "effective"; after_step is
    called after every training step of every attempt. Two resolutions of one mesh are compared; their
    difference, with the mismatch between outputs and backward sweep, is the error estimate of the finer; it
    exceeds the tolerance only where round-off forbids better.

    Raises ``MemoryError`` where a mesh cannot fit, and ``Divergence``, naming step and layer time, where values
    are not finite or MOST_ELEMENTS elements do not resolve the solution.
    """
    rho, w = optimizer.memory(task.steps)
    b = rows_per_step(task, samples)
    w, rho = update_kernel(w, task, samples), np.repeat(rho, b)

    def attempt(mesh: Mesh, guess: CollocationMedium | None) -> tuple[Trace, CollocationMedium]:
        _checks.memory(12.0 * 8 * len(mesh.times) * len(rho)**2, f"{mesh.elements} elements of layer time",
                       "fewer steps, a smaller batch or a smaller learning rate fit")
        medium = CollocationMedium(mesh, b, noise, drift, rho, w, block, guess)
        with np.errstate(over="ignore", invalid="ignore"):
            return train_rows(task, medium, samples, after_step, ends_memory(train_ends, rho, w)), medium

    mesh = Mesh.uniform(1, COARSE)
    step: int | None
    layer: float | None
    while True:
        try:
            coarse, guess = attempt(mesh, None)
            trace, medium = attempt(mesh.with_nodes(FINE), guess)
            medium.guess = None
        except NotContracting as long:
            cause, step, layer = str(long), long.step, long.layer
            relative = mesh.lengths / mesh.lengths[long.element]
            chosen = (relative > 0.99) & (relative < 1.99)  # its like would be next
        else:
            size, error = _compare(coarse, trace, conserved=not block.has_diagonal)
            tails = sum(medium.mesh.tails(a) for a in (medium.P, medium.Q, medium.S, medium.R))
            if error <= tolerance * size or np.max(tails) <= ROUND_OFF:
                return Limit(trace, medium, error)
            cause, step, layer = f"outputs known to {error:.1e} only", None, None
            chosen = tails >= 0.01 * np.max(tails)
        mesh = mesh.bisect(chosen)
        if mesh.elements > MOST_ELEMENTS:
            raise Divergence(f"the infinite-depth limit is not resolved by {MOST_ELEMENTS} elements of layer time "
                             f"({cause}); a smaller learning rate may help", step=step, layer=layer)


def _compare(coarse: Trace, fine: Trace, conserved: bool) -> tuple[float, float]:
    """(max(1, |f|), error of the finer outputs)."""
    pairs = [(coarse.outputs, fine.outputs)]
    if coarse.probe_outputs is not None and fine.probe_outputs is not None:
        pairs.append((coarse.probe_outputs, fine.probe_outputs))
    size = max(1.0, *(float(np.max(np.abs(b), initial=0.0)) for _, b in pairs))
    difference = max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in pairs)
    round_off = 16 * np.finfo(np.float64).eps * size * len(fine.outputs)
    return size, difference + (fine.mismatch if conserved else 0.0) + round_off
