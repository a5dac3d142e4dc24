"""The oracle: every ket of a linear residual network expanded over its base kets, any finite depth.

Exact at infinite width. Time O(T^3 L^2) and memory O(T^2 L^2) in the number T of samples: for small tasks.
Source: Tensor Programs VI, Lemma D.1 [tensor_programs_vi/lemma_d1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np

from .. import _checks
from ..errors import Divergence
from ..kernels import coefficients as kernel
from ..scaling import DepthScaling
from ..optimizers import SGD
from ..data import Task
from ..data.losses import derivative


@dataclass(frozen=True)
class KetCoefficients:
    """The trained network's kets.

    outputs: (steps, batch, d_out); probe_outputs: (steps, m, d_out) or None.
    x, delta: (N, L + 1, 2, L, N) coefficients of |x_a^l>, |delta_a^l> over F_b^m ([..., 0, m - 1, b]) and
    B_b^m ([..., 1, m - 1, b]); x_outputs, delta_inputs: (N, L + 1, d_in + d_out) over U and nV; N = steps * batch.
    covariance: (2, L, N, N), of F^m and of B^m.
    """

    outputs: np.ndarray
    probe_outputs: np.ndarray | None
    x: np.ndarray
    x_outputs: np.ndarray
    delta: np.ndarray
    delta_inputs: np.ndarray
    covariance: np.ndarray

    def node_covariance(self, forward: bool) -> np.ndarray:
        """<x^l | x^l> (or delta) at every node, shape (L + 1, N, N)."""
        hat, ends = (self.x, self.x_outputs) if forward else (self.delta, self.delta_inputs)
        return (np.einsum("aldmr,dmrs,bldms->lab", hat, self.covariance, hat, optimize=True)
                + np.einsum("ale,ble->lab", ends, ends))


def read_coefficients(task: Task, optimizer: SGD, scale: DepthScaling, depth: int,
                      progress: Callable[[int, int], None] | None = None,
                      train_embedding_readout: bool = False) -> KetCoefficients:
    """Train at infinite width by the coefficient recursion; train_embedding_readout: embedding and readout too.

    Raises ``MemoryError`` before the work where the coefficients cannot fit, ``Divergence`` naming step
    and layer where the solution blows up.
    """
    batch, samples = task.batch, task.steps * task.batch
    probes = 0 if task.probes is None else len(task.probes)
    rows = samples + probes
    _checks.memory(2.0 * rows * (depth + 1) * 2 * depth * rows * 8, f"method='coefficients' at depth {depth}",
                   "use method='reflection', whose memory is linear in the depth")
    rho_t, w_t = optimizer.memory(task.steps)
    last = np.full(probes, task.steps - 1)
    eps, g = scale.multiplier(depth), scale.update_factor(depth)

    x, delta = (np.zeros((rows, depth + 1, 2, depth, rows)) for _ in range(2))
    x_outputs, delta_inputs = (np.zeros((rows, depth + 1, task.d_in + task.d_out)) for _ in range(2))
    covariance, response = (np.zeros((2, depth, rows, rows)) for _ in range(2))
    work = np.zeros((2, depth, rows))
    outputs, signal = np.zeros_like(task.targets), np.zeros_like(task.targets)
    probe_outputs = np.zeros((task.steps, probes, task.d_out)) if probes else None

    def enter(t: int, first: int, features: np.ndarray, forward: bool) -> None:
        """Rows from ``first`` on, at the end where they start: features times U_t, or times nV_t."""
        mine, mine_ends, theirs, theirs_ends = x, x_outputs, delta, delta_inputs
        node, base, known = 0, slice(0, task.d_in), task.inputs
        if not forward:
            mine, mine_ends, theirs, theirs_ends = theirs, theirs_ends, mine, mine_ends
            node, base, known = -1, slice(task.d_in, None), signal
        here = slice(first, first + len(features))
        mine[here, node], mine_ends[here, node] = 0, 0
        mine_ends[here, node, base] = features * (rho_t[t] if train_embedding_readout else 1)
        for s in range(t if train_embedding_readout else 0):
            weights = -w_t[t, s] / batch * features @ known[s].T
            rows_s = slice(s * batch, (s + 1) * batch)
            mine[here, node] += np.tensordot(weights, theirs[rows_s, node], 1)
            mine_ends[here, node] += np.tensordot(weights, theirs_ends[rows_s, node], 1)

    def read(t: int, first: int, stop: int) -> np.ndarray:
        """<x^L | nV_t>."""
        here = slice(first, stop)
        f = x_outputs[here, -1, task.d_in:]
        if train_embedding_readout and t:
            past = slice(0, t * batch)
            overlap = (np.einsum("admr,dmrs,bdms->ab", x[here, -1], covariance, x[past, -1], optimize=True)
                       + x_outputs[here, -1] @ x_outputs[past, -1].T)
            f = rho_t[t] * f - overlap @ (np.repeat(w_t[t, :t], batch)[:, None] / batch
                                          * signal[:t].reshape(-1, task.d_out))
        return f

    def sweep(forward: bool, t: int, first: int, stop: int) -> None:
        step_of = np.concatenate([np.repeat(np.arange(task.steps), batch), last])
        step_of[first:stop] = t
        w = w_t[step_of][:, step_of] / batch
        own, own_ends, other, other_ends = x, x_outputs, delta, delta_inputs
        if not forward:
            own, own_ends, other, other_ends = other, other_ends, own, own_ends
        passed = kernel.sweep_coefficients(forward, t * batch, first, stop, eps, g, rho_t[step_of], w, own, own_ends,
                                           other, other_ends, covariance, response, work)
        if passed:
            layer = passed if forward else depth + 1 - passed
            raise Divergence(f"training diverges at step {t}, layer {layer} of {depth}, in the "
                             f"{'forward' if forward else 'backward'} pass", step=t, layer=layer)

    for t in range(task.steps):
        rows_t = slice(t * batch, (t + 1) * batch)
        enter(t, rows_t.start, task.inputs[t], True)
        sweep(True, t, rows_t.start, rows_t.stop)
        outputs[t] = read(t, rows_t.start, rows_t.stop)
        if task.probes is not None and probe_outputs is not None:
            x[samples:], covariance[:, :, samples:], covariance[:, :, :, samples:] = 0, 0, 0
            enter(t, samples, task.probes, True)
            sweep(True, t, samples, rows)
            probe_outputs[t] = read(t, samples, rows)
            covariance[:, :, samples:], covariance[:, :, :, samples:] = 0, 0
        signal[t] = derivative(task.loss, outputs[t], task.targets[t])
        enter(t, rows_t.start, signal[t], False)
        sweep(False, t, rows_t.start, rows_t.stop)
        if progress is not None:
            progress(t + 1, task.steps)
    return KetCoefficients(outputs, probe_outputs, x[:samples, ..., :samples], x_outputs[:samples],
                           delta[:samples, ..., :samples], delta_inputs[:samples], covariance[..., :samples, :samples])
