"""A linear network whose layers are visited infinitely often: layers times loops are one matrix in loop time.

Between times tau and tau + dtau the stream meets every layer equally often, so that it moves along the sum of all
matrices, one matrix W however many there are: dx = sqrt(noise) W x dtau. Its products have memory in loop time,

    W x_t(tau) = F_t(tau) + sum over s < t of the integral of delta_s R_ts(tau, .),  R_ts = d x_t(tau) / d B_s(sigma),

with F and B Gaussian, of the covariances of x and delta, and B_s = W^T delta_s's part that is new. There is no equation
in layer time. Source: [tpcalc/loops].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.losses import derivative
from ..data.task import Task
from ..errors import Divergence
from ..optimizers.sgd import SGD

AGREED, ROUNDS, SIZES = 1e-13, 400, (8, 12, 18, 27, 40, 60)


@dataclass(frozen=True)
class LoopNodes:
    """Nodes in [0, 1]; weights: of integrals over [0, 1]; below: (nodes, nodes), of integrals from 0 to each node."""

    weights: np.ndarray
    below: np.ndarray

    @classmethod
    def of(cls, count: int) -> LoopNodes:
        """Those of Gauss and Legendre, exact for polynomials of as many coefficients as there are nodes."""
        legendre = np.polynomial.legendre
        nodes, weights = legendre.leggauss(count)
        values = legendre.legvander(nodes, count - 1)
        integrals = np.stack([legendre.legval(nodes, legendre.legint(row, lbnd=-1)) for row in np.eye(count)], axis=1)
        return cls(weights / 2, integrals @ np.linalg.inv(values) / 2)

    @classmethod
    def even(cls, count: int) -> LoopNodes:
        """Both ends and as far apart, with straight lines between them: for functions with a kink at equal times."""
        below = np.tril(np.ones((count, count))) - np.eye(count) / 2
        below[:, 0] /= 2
        below[0] = 0.0
        below /= count - 1
        return cls(below[-1].copy(), below)


@dataclass(frozen=True)
class LoopSolution:
    """outputs, probe_outputs as in ``Run``; squares: <x|x> at the end, (steps, batch); error: what the last refinement
    changed; nodes: of loop time."""

    outputs: np.ndarray
    probe_outputs: np.ndarray | None
    squares: np.ndarray
    error: float
    nodes: int


def train_in_loop_time(task: Task, opt: SGD, noise: float, drift: float) -> LoopSolution:
    """Train at infinite width; noise: L eps^2 N^2, drift: L eps g N, of branches eps and updates g.

    Raises ``Divergence`` where the solution blows up, naming the step, or where 60 nodes do not resolve it.
    """
    before: np.ndarray | None = None
    for count in SIZES:
        with np.errstate(all="ignore"):  # what is not finite is found, and said
            outputs, probes, squares = _LoopTime(task, opt, noise, drift, LoopNodes.of(count)).train()
        every = outputs if probes is None else np.concatenate([outputs, probes], axis=1)
        if before is not None:
            error = float(np.max(np.abs(every - before)))
            if error <= AGREED * len(outputs) * max(1.0, float(np.max(np.abs(every)))):
                return LoopSolution(outputs, probes, squares, error, count)
        before = every
    raise Divergence(f"{SIZES[-1]} nodes of loop time do not resolve the solution: the last refinement moved the "
                     f"outputs by {error:.1e}")


class _LoopTime:
    """Vectors as coefficients over base kets: embeddings, readouts, then F and B of every row and node, in blocks."""

    def __init__(self, task: Task, opt: SGD, noise: float, drift: float, nodes: LoopNodes) -> None:
        self.task, self.noise, self.drift, self.nodes = task, noise, drift, nodes
        self.count, self.ends = len(nodes.weights), task.d_in + task.d_out
        self.probes = 0 if task.probes is None else len(task.probes)
        self.kept, self.weights = opt.memory(task.steps)
        rows = task.steps * task.batch
        self.size = self.ends + 2 * self.count * rows + self.count  # the last block is the row at work
        self.covariance = np.zeros((self.size, self.size))
        self.covariance[:self.ends, :self.ends] = np.eye(self.ends)
        self.x = np.zeros((rows, self.count, self.size))
        self.delta = np.zeros_like(self.x)

    def train(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        task, b = self.task, self.task.batch
        outputs, squares = np.zeros_like(task.targets), np.zeros((task.steps, b))
        probes = np.zeros((task.steps, self.probes, task.d_out)) if self.probes else None
        for t in range(task.steps):
            for i in range(b):
                start = np.concatenate([task.inputs[t, i], np.zeros(task.d_out)])
                end = self._row(True, t, t * b + i, start)
                outputs[t, i] = end[task.d_in:self.ends]
                squares[t, i] = end @ self.covariance @ end
            for i in range(self.probes):
                assert probes is not None and task.probes is not None
                start = np.concatenate([task.probes[i], np.zeros(task.d_out)])
                probes[t, i] = self._row(True, t, None, start)[task.d_in:self.ends]
            for i, signal in enumerate(derivative(task.loss, outputs[t], task.targets[t])):
                self._row(False, t, t * b + i, np.concatenate([np.zeros(task.d_in), signal]))
        return outputs, probes, squares

    def _block(self, row: int | None, forward: bool) -> slice:
        """The base kets F, or B, of a row; those of a row that is not kept stand last."""
        first = self.size - self.count if row is None else self.ends + (2 * row + (not forward)) * self.count
        return slice(first, first + self.count)

    def _row(self, forward: bool, t: int, row: int | None, start: np.ndarray) -> np.ndarray:
        """One row through loop time, by iteration: what it adds to itself falls off like 1 / k! in the k-th round.
        Returns its coefficients at the end; a row that is kept leaves them at all nodes, and its covariances."""
        past, weights = t * self.task.batch, self.nodes.weights
        along = self.nodes.below if forward else weights - self.nodes.below
        own, sources = self._block(row, forward), (self.delta if forward else self.x)[:past]
        others = (self.x if forward else self.delta)[:past]
        size = weights[:, None]
        first = np.zeros((self.count, self.size))
        first[:, :self.ends] = start
        found = first
        for _ in range(ROUNDS):
            change = np.zeros_like(found)
            change[:, own] = np.sqrt(self.noise) * self.kept[t] * np.eye(self.count)
            bra = found @ self.covariance
            for s in range(past):
                response = found[:, self._block(s, not forward)] / weights
                memory = (np.sqrt(self.noise) * self.kept[t] * response - self.drift / self.task.batch
                          * self.weights[t, s // self.task.batch] * bra @ others[s].T)
                change += memory @ (size * sources[s])
            new = first + along @ change
            shifted = self._correlate(new, own, forward, past)
            moved, found = max(float(np.max(np.abs(new - found))), shifted), new
            if not np.isfinite(moved):
                raise Divergence(f"training diverges at step {t}", step=t)
            sizes = float(np.max(np.abs(found))), float(np.max(np.abs(self.covariance[own])))
            if moved <= AGREED / 10 * max(1.0, *sizes):
                break
        else:
            raise Divergence(f"the iteration in loop time does not converge at step {t}", step=t)
        if row is not None:
            (self.x if forward else self.delta)[row] = found
        end: np.ndarray = first[0] + weights @ change
        return end

    def _correlate(self, vectors: np.ndarray, own: slice, forward: bool, past: int) -> float:
        """Set the covariances of a row's base kets with those of earlier rows, and with themselves, to those of what W
        acts on; returns by how much they were off."""
        known = self.covariance[own].copy()
        bra = vectors @ self.covariance
        before = self.x if forward else self.delta
        for s in range(past):
            block = self._block(s, forward)
            self.covariance[own, block] = bra @ before[s].T
            self.covariance[block, own] = self.covariance[own, block].T
        self.covariance[own, own] = bra @ vectors.T
        return float(np.max(np.abs(self.covariance[own] - known)))
