"""The infinite-depth limit to 30 digits, without layer time: finite depths in 70 digits, extrapolated to 1/L = 0.

At alpha = gamma = 1/2 the reflection form is rational in 1/L at every depth and its outputs are analytic in 1/L. The
recursion is written out here once more, in whole matrices and for one scalar input a step.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from tpcalc.optimizers import SGD
from tpcalc.data import Task

DIGITS = 70
Locations = list[tuple[np.ndarray, ...]]  # per number of layers passed: P, S, and A and noise of the last layer


def decimals(array: Any) -> np.ndarray:
    """The same numbers, exactly."""
    return np.vectorize(Decimal, otypes=[object])(np.asarray(array, dtype=np.float64))


def inverse(nilpotent: np.ndarray) -> np.ndarray:
    """(I - X)^-1 of a strictly lower triangular X."""
    power = total = decimals(np.eye(len(nilpotent)))
    for _ in range(len(nilpotent) - 1):
        power = power @ nilpotent
        total = total + power
    return total


def through(depth: int, p: np.ndarray, s: np.ndarray, rr: np.ndarray, w: np.ndarray, other: Locations) -> Locations:
    """One direction, from P and S where it starts; what the other direction found ends in the opposite order."""
    unit, lower = Decimal(1) / depth, decimals(np.tri(len(p), k=-1))
    locations: Locations = [(p, s, 0 * p, 0 * p)]
    for passed in range(depth):
        q, r, b, n = (np.pad(a, (0, len(p) - len(a)), constant_values=Decimal(0)) for a in other[depth - passed])
        g, h = inverse(p @ q), inverse(p @ b)
        c = g @ (s + p @ r @ p.T) @ g.T
        a, noise = unit * lower * (rr * (g @ p) - w * c), unit * rr * c
        p, s = a + h @ p, noise + h @ (p @ n @ p.T + s) @ h.T
        locations.append((p, s, a, noise))
    return locations


def finite_outputs(task: Task, optimizer: SGD, depth: int, train_embedding_readout: bool) -> list[Decimal]:
    """f of squared loss; (steps,)."""
    rho, w = (decimals(a) for a in optimizer.memory(task.steps))
    xi, y = decimals(task.inputs.ravel()), decimals(task.targets.ravel())
    nothing = decimals(np.zeros((0, 0)))
    chi, outputs = decimals(np.zeros(0)), []
    backward: Locations = [(nothing,) * 4] * (depth + 1)
    for t in range(task.steps):
        known = slice(0, t + 1)
        rr, w_t = np.outer(rho[known], rho[known]), w[known, known]
        ends_rho, ends_w = (rho[known], w_t) if train_embedding_readout else (0 * rho[known] + 1, 0 * w_t)
        ends_rr, gram = np.outer(ends_rho, ends_rho), np.outer(xi[known], xi[known])
        forward = through(depth, -ends_w * gram, ends_rr * gram, rr, w_t, backward)
        p, s = forward[-1][:2]
        chi = np.append(chi, Decimal(0))
        q, r = -ends_w * np.outer(chi, chi), ends_rr * np.outer(chi, chi)
        g = inverse(p @ q)
        c = g @ (s + p @ r @ p.T) @ g.T
        outputs.append(ends_rho[t] * ((g @ p)[t] @ (ends_rho * chi)) - (ends_w[t] * c[t]) @ chi)
        chi[t] = outputs[t] - y[t]
        q, r = -ends_w * np.outer(chi, chi), ends_rr * np.outer(chi, chi)
        backward = through(depth, q, r, rr, w_t, forward)
    return outputs


def limit_outputs(task: Task, optimizer: SGD, train_embedding_readout: bool = False, unit: int = 4, levels: int = 24
                  ) -> tuple[np.ndarray, float]:
    """(outputs (steps,), their error): polynomial extrapolation from L = unit, 2 unit, ..., and its last change."""
    with localcontext() as context:
        context.prec = DIGITS
        depths = [unit * (k + 1) for k in range(levels)]
        column = [np.array(finite_outputs(task, optimizer, depth, train_embedding_readout)) for depth in depths]
        for order in range(1, levels):  # Neville's scheme at 1/L = 0
            before = column[-1]
            column = [fine + (fine - coarse) * depths[k] / (depths[k + order] - depths[k])
                      for k, (coarse, fine) in enumerate(zip(column, column[1:]))]
        return column[0].astype(np.float64), float(max(abs(column[0] - before)))
