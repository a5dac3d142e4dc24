"""Exponents measured with the exact solver, to stand beside the derived ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np
import sympy as sp

from .._types import Number
from .. import _checks
from .._shown import Short
from ..errors import Divergence
from ..methods.train import train
from ..scaling import DepthScaling
from ..optimizers import SGD
from ..models import ResNet
from ..data import Task
from ..studies.convergence import Slope, fit_order
from .classify import classify


DEPTHS = tuple(int(depth) for depth in 2 ** np.arange(7, 14))


@dataclass(frozen=True, repr=False)
class Measured(Short):
    """A quantity that goes like L^derived; fitted: the slope found, as L^-order; values: (depths,)."""

    name: str
    derived: sp.Expr
    fitted: Slope
    depths: np.ndarray
    values: np.ndarray


def measure_exponents(alpha: Number, gamma: Number, depths: Sequence[int] = DEPTHS, net: ResNet | None = None,
                      progress: Callable[[int, int], None] | None = None) -> list[Measured]:
    """Train one step on one fixed input, exactly, at every depth, and fit powers of L over the deeper half.

    Where the network explodes at initialization, the logarithm of <x|x> is measured: it goes like the
    exponent in exp(L^v). progress: called with (depths done, depths). Raises ``Divergence`` where fewer than
    four of the depths stay within floating point.

    >>> import tpcalc as tp
    >>> found = tp.theory.measure_exponents(0.5, 0.5, depths=(8, 16, 32, 64, 128))
    >>> len(found) > 0
    True
    """
    _checks.progress(progress)
    depths = _checks.sizes("depths", depths, 4, growing=True)
    verdict = classify(DepthScaling(alpha, gamma), net)
    scale = DepthScaling(verdict.alpha, verdict.gamma)
    task = Task([1.0, 1.0], [-1.0, -1.0])
    rows = []
    measure = _changes if verdict.stable_at_init else _log_size
    for done, depth in enumerate(depths, start=1):
        try:
            rows.append(measure(net or ResNet(), task, scale, depth))
        except Divergence:
            break  # deeper networks overflow too
        if progress is not None:
            progress(done, len(depths))
    if len(rows) < 4:
        raise Divergence(f"alpha = {verdict.alpha}, gamma = {verdict.gamma}: only {len(rows)} of the depths "
                         f"{list(depths)} stay within floating point; at least 4 are needed, take smaller ones")
    lengths = np.array(depths[:len(rows)])
    found = []
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        half = len(values) // 2
        derived = verdict.exponents[name] if verdict.stable_at_init else scale.noise_exponent
        found.append(Measured(name, derived, fit_order(lengths[half:], values[half:]), lengths, values))
    return found


def _log_size(net: ResNet, task: Task, scale: DepthScaling, depth: int) -> dict[str, float]:
    """log <x|x> at the last layer, at initialization."""
    start = Task(task.inputs[:1], task.targets[:1])
    run = train(net, start, SGD(0.0), scale, depth, keep_nodes=[1.0])
    return {"log of x at initialization": float(np.log(run.forward_covariance[0, 0, 0]))}


def _changes(net: ResNet, task: Task, scale: DepthScaling, depth: int) -> dict[str, float]:
    """Root mean squares over coordinates, at the last layer, after one step on the same input."""
    run = train(net, task, SGD(1.0), scale, depth, keep_nodes=[(depth - 1) / depth, 1.0])
    before, after = run.forward_covariance
    x = [float(np.sqrt(max(c[1, 1] + c[0, 0] - 2 * c[0, 1], 0.0))) for c in (before, after)]
    # h_1 - h_0 = hat(W (x_1 - x_0)) + delta_0 (response - g <x_0|x_1>), and the step in x is eps h
    response = run.gamma(1, 0, 0, 1, (depth - 1) / depth, 1.0) / np.sqrt(depth)
    update = scale.update_size(depth) * before[0, 1]
    delta = float(np.sqrt(run.backward_covariance[1, 0, 0]))
    return {"change of f": float(abs(run.outputs[1, 0, 0])), "change of x": x[1],
            "change of h": float(np.hypot(x[0], delta * (response - update))), "update of h": float(delta * update)}
