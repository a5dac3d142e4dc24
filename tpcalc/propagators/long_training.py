"""Long training on one batch, at infinite width and depth: the loop over steps between kept rows, and its error.

A linear network's backward rows know nothing of its input: they come first in a step, and where they arrive they are
the gradient of the outputs in the input, f = delta^0 . xi. So a step is d_out backward rows and d_out forward ones,
those of the batch's inputs weighed by the loss derivative.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

import numpy as np

from ..errors import Divergence
from ..optimizers import SGD
from ..data import Task
from ..data.losses import derivative
from .mesh import Mesh
from .spanned import SpannedRow, SpannedPropagator, Unresolved
from .training import Trace, require_known

NODES = 18
MOST_ELEMENTS = 64
NEGLIGIBLE = 1e-3   # of the tolerance: updates that add up to no more are left out
EPS = np.finfo(np.float64).eps
SHARPEST = 1e-12    # relative size of the last Chebyshev coefficients that round-off leaves


class TooMany(ArithmeticError):
    """More rows would have to be kept than allowed. Attribute: step."""

    def __init__(self, step: int) -> None:
        super().__init__(f"step {step}")
        self.step = step


@dataclass
class LeftOut:
    """What rows that are not kept may cost. path: the size of all updates so far; lost: what was left out of them;
    forward, backward: the largest growth of a row's norm between its feature and any layer time."""

    tolerance: float
    path: float = 0.0
    lost: float = 0.0
    forward: float = 1.0
    backward: float = 1.0
    inputs: float = field(default=0.0)

    @property
    def error(self) -> float:
        """The bound of outputs, to first order: an error D of weights moves f by <delta| D |x> <= |delta| |x| |D|."""
        return self.lost * self.forward * self.backward * self.inputs


def train_spanned(task: Task, optimizer: SGD, noise: float, drift: float, tolerance: float, most: int,
                  after_step: Callable[[int], None]) -> tuple[Trace, float, int]:
    """Train on the batch of the task's first step at all steps: (trace, error of outputs, rows kept of a direction).

    tolerance: what may be left out of updates, relative to their size; most: rows kept of a direction. Elements of
    layer time are halved until they resolve all rows. Raises ``TooMany``, and ``Divergence`` where values are not
    finite or MOST_ELEMENTS elements do not resolve them, or where the error is more than a tenth of the scale of f.
    """
    elements = 1
    while True:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                found = _Training(task, optimizer, noise, drift, tolerance, most, elements).run(after_step)
            break
        except Unresolved as cause:
            elements *= 2
            if elements > MOST_ELEMENTS:
                raise Divergence(f"the infinite-depth limit is not resolved by {MOST_ELEMENTS} elements of layer time "
                                 f"({cause}); a smaller learning rate may help") from None
    trace, error, kept = found
    require_known(error, trace.scale, "long training", "a smaller tolerance or a smaller learning rate may help")
    return found


class _Training:
    """One attempt, on elements of one length."""

    def __init__(self, task: Task, optimizer: SGD, noise: float, drift: float, tolerance: float, most: int,
                 elements: int) -> None:
        self.task, self.optimizer, self.most = task, optimizer, most
        self.propagator = SpannedPropagator(Mesh.uniform(elements, NODES), noise, drift, task.d_in, task.d_out)
        every = [task.inputs[0]] + ([] if task.probes is None else [task.probes])
        self.left_out = LeftOut(tolerance, inputs=max(float(np.max(np.linalg.norm(x, axis=1))) for x in every))
        self.rates = np.abs(optimizer.schedule(task.steps)) * drift
        if optimizer.momentum:  # a gradient enters all later updates
            self.rates = np.full(task.steps, np.max(self.rates) / max(1.0 - optimizer.momentum, 1e-3))
        self.norms = 1.0, 1.0  # of a forward and a backward row, over those of their features, in the last step
        self.buffer = np.zeros((0, 0))
        self.tail = max(SHARPEST, 0.1 * tolerance**2)
        self.mismatch = 0.0

    def run(self, after_step: Callable[[int], None]) -> tuple[Trace, float, int]:
        """Train: (trace, error, rows kept)."""
        task, propagator = self.task, self.propagator
        xi, y, read_out = task.inputs[0], task.targets[0], np.eye(task.d_out)
        outputs = np.zeros_like(task.targets)
        probes = None if task.probes is None else np.zeros((task.steps, len(task.probes), task.d_out))
        for t in range(task.steps):
            returned = [propagator.sweep(False, k, feature) for k, feature in enumerate(read_out)]
            gradient = np.stack([row.y[0, :len(propagator.forward)] @ propagator.forward.features for row in returned])
            outputs[t] = xi @ gradient.T
            if probes is not None and task.probes is not None:
                probes[t] = task.probes @ gradient.T
            chi = derivative(task.loss, outputs[t], y)
            if not np.all(np.isfinite(chi)):
                raise Divergence(f"training step {t}: the loss derivative is not finite", step=t)
            features = chi.T @ xi / task.batch
            if self._rest_is_negligible(t, features):
                outputs[t:] = outputs[t]
                if probes is not None:
                    probes[t:] = probes[t]
                for later in range(t, task.steps):
                    after_step(later)
                break
            self._update(t, returned, features, gradient)
            after_step(t)
        found = [outputs] if probes is None else [outputs, probes]
        scale = max(1e-300, *(float(np.max(np.abs(f))) for f in found))
        unit = float(np.max(self.rates)) * self.left_out.inputs**2
        scale = max(scale, min(1.0, unit * float(np.max(np.abs(y)))))
        kept = max(len(propagator.forward), len(propagator.backward))
        return Trace(outputs, probes, self.mismatch, scale), self.left_out.error + self._round_off(scale), kept

    def _round_off(self, scale: float) -> float:
        """What elements of layer time leave of outputs, and sums of weights that nearly cancel."""
        propagator, left_out = self.propagator, self.left_out
        if not left_out.path:
            return 2 * self.mismatch
        forward, backward = (np.sqrt(np.diagonal(kept.gram)) for kept in (propagator.forward, propagator.backward))
        cancelled = float(backward @ np.abs(propagator.M) @ forward) * propagator.drift
        return (2 * self.mismatch + self.tail * scale * (1 + left_out.path)
                + 16 * EPS * cancelled * left_out.forward * left_out.backward * left_out.inputs)

    def _rest_is_negligible(self, t: int, features: np.ndarray) -> bool:
        """Would all updates that are left, were they as large as this one, be nothing?"""
        if self.optimizer.momentum:
            return False
        rest = float(np.sum(self.rates[t:])) * float(np.sum(np.linalg.norm(features, axis=1)))
        rest *= self.left_out.forward * self.left_out.backward
        if rest > NEGLIGIBLE * self.left_out.tolerance * self.left_out.path:
            return False
        self.left_out.lost += rest
        return True

    def _update(self, t: int, returned: list[SpannedRow], features: np.ndarray, gradient: np.ndarray) -> None:
        """The update of step t: its rows as coordinates in kept ones, with what these leave out counted."""
        propagator, left_out, rate = self.propagator, self.left_out, self.rates[t]
        sizes = np.linalg.norm(features, axis=1)
        if rate == 0.0:
            return
        # no more than the tolerance's part of this update, or of an average one
        moved = float(np.sum(sizes)) * rate * self.norms[0] * self.norms[1]
        budget = left_out.tolerance * max(moved, left_out.path / (t + 1)) / (2 * len(features))
        pairs, stale = [], False
        for k, (row, size) in enumerate(zip(returned, sizes)):
            if size == 0.0:
                continue
            if stale:
                row = propagator.sweep(False, k, row.feature)
            psi, left, norm, stale_now = self._coordinates(False, row, budget / (rate * size * self.norms[0]), t)
            stale = stale or stale_now
            x = propagator.sweep(True, k, features[k])
            arrived = x.y[-1, :len(propagator.backward)] @ propagator.backward.features
            self.mismatch = max(self.mismatch, float(np.max(np.abs(arrived - gradient @ features[k]))) / size
                                * left_out.inputs)
            phi, gone, own, stale_now = self._coordinates(True, x, budget / (rate * norm), t)
            stale = stale or stale_now
            left_out.path += rate * own * norm
            left_out.lost += rate * (left * own + gone * norm)
            self.norms = own / size, norm
            pairs.append((psi, phi))
        step = np.zeros_like(propagator.M)
        for psi, phi in pairs:
            step[:len(psi), :len(phi)] += np.outer(psi, phi)
        grown = [(0, new - old) for new, old in zip(step.shape, self.buffer.shape)]
        moved_to, self.buffer = self.optimizer.step(min(t, 1), self.optimizer.schedule(self.task.steps)[t],
                                                    -propagator.M, step, np.pad(self.buffer, grown))
        propagator.M = -moved_to

    def _coordinates(self, forward: bool, row: SpannedRow, allowed: float,
                     t: int) -> tuple[np.ndarray, float, float, bool]:
        """(coordinates, residual, norm, whether the row is kept now): kept where others leave more than ``allowed``."""
        propagator, left_out = self.propagator, self.left_out
        mine = propagator.forward if forward else propagator.backward
        own_s, own_c = propagator.own(forward, row)
        norm = float(np.sqrt(max(propagator.mesh.weights @ own_c, 0.0)))
        if not np.isfinite(norm):
            raise Unresolved("values that are not finite")
        growth = float(np.sqrt(np.max(np.abs(own_c)))) / float(np.linalg.norm(row.feature))
        if forward:
            left_out.forward = max(left_out.forward, growth)
        else:
            left_out.backward = max(left_out.backward, growth)
        coordinates, residual = propagator.coordinates(forward, row, norm)
        if residual <= allowed:
            return coordinates, residual, norm, False
        if len(mine) == self.most:
            raise TooMany(t)
        self._require_resolved(row)
        propagator.keep(forward, row, own_s, own_c)
        return np.append(np.zeros(len(mine) - 1), 1.0), 0.0, norm, True

    def _require_resolved(self, row: SpannedRow) -> None:
        """Raise ``Unresolved`` where the last Chebyshev coefficients of a row are larger than the tolerance allows."""
        mesh = self.propagator.mesh
        for e in np.flatnonzero(mesh.tails(row.y) > self.tail):
            raise Unresolved(f"layer time {mesh.ends[e]:.3g} to {mesh.ends[e + 1]:.3g}")
