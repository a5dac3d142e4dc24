"""The law of a trained linear network tilted by exp(n j . f): power series in j, exact and linear in the depth.

The network's outputs f at width n have cumulants of order n^(1 - k), whose leading terms are derivatives of f(j), the
output under the tilt. Every layer adds to the Gaussian law of its neighbors what ``density`` makes of its overlaps; a
trained embedding or readout is one more layer, whose overlaps are Gram matrices of inputs and of (F, chi).

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from .._types import Value
from .. import _checks
from ..errors import Divergence
from ..kernels import tilted as kernel
from ..optimizers import SGD
from ..data import Task
from .loss_series import LossSeries, loss_series

ROUND_OFF = 4 * np.finfo(np.float64).eps
UNKNOWN = 1e-8  # relative changes that sweeps may still make


@dataclass(frozen=True)
class TiltedNetwork:
    """A linear residual network and its training, as far as fluctuations need them.

    Rows a = (step, sample), N in all; the samples of a step are its batch and, where asked for, probes, from which
    nothing is learnt. depth: layers; noise, drift: (N, N), what one layer makes of overlaps: eps^2 rho rho and eps g
    w; noise_end, drift_end: (N, N), the same of embedding and readout, 1 and 0 where frozen; gram: (N, N), of the
    inputs; learnt: (N,), False for probes; loss: of the rows that are learnt from.
    """

    depth: int
    noise: np.ndarray
    drift: np.ndarray
    noise_end: np.ndarray
    drift_end: np.ndarray
    gram: np.ndarray
    learnt: np.ndarray
    loss: LossSeries
    d_out: int
    per_step: int

    where = property(lambda self: f"depth {self.depth}")

    @property
    def rows(self) -> int:
        return len(self.gram)

    def body(self, orders: int) -> Body:
        return TiltedLayers(self, orders)

    def base(self) -> TiltedSolution:
        """Order 0: the network as it is at infinite width."""
        return TiltedSolution(self, 1).solve()

    def memory_needed(self, orders: int) -> float:
        """Bytes of a solution with that many orders."""
        return 8.0 * (self.depth + 1) * (2 * self.rows) ** 2 * (12 * orders + 4)


def tilted_network(task: Task, optimizer: SGD, depth: int, noise: float, drift: float, train_embedding_readout: bool,
                   probes: np.ndarray | None = None) -> TiltedNetwork:
    """The tilted network of a task: noise, drift are eps^2 and eps g of one layer; probes: (m, d_in), inputs that
    every step has besides its batch.

    Raises ``ValueError`` for a loss whose derivatives are not known.
    """
    held_out = 0 if probes is None else len(probes)
    per_step = task.batch + held_out
    learnt = np.tile(np.arange(per_step) < task.batch, task.steps)
    rho, w = optimizer.memory(task.steps)
    rho = np.repeat(rho, per_step)
    w = np.kron(w, np.ones((per_step, per_step))) / task.batch * learnt
    inputs = task.inputs
    if probes is not None:
        inputs = np.concatenate([inputs, np.broadcast_to(probes, (task.steps, *probes.shape))], axis=1)
    inputs = inputs.reshape(-1, task.d_in)
    targets = np.zeros((len(inputs), task.d_out))
    targets[learnt] = task.targets.reshape(-1, task.d_out)
    rr = np.outer(rho, rho)
    return TiltedNetwork(depth, noise * rr, drift * w, rr if train_embedding_readout else np.ones_like(rr),
                         w if train_embedding_readout else np.zeros_like(w), inputs @ inputs.T, learnt,
                         loss_series(task.loss, targets), task.d_out, per_step)


def layer_density(overlaps: np.ndarray, noise: np.ndarray, drift: np.ndarray, after: bool) -> np.ndarray:
    """What a layer makes of the overlaps of fields before it, (x, dhat), as a weight on those after it, (xhat,
    delta), or the other way round: (2 N, 2 N). Source: [tpcalc/overlap_action]."""
    out = np.zeros_like(overlaps)
    kernel.added_density(overlaps, noise, drift, 0 if after else len(noise), out)
    return out


class Resolvent(NamedTuple):
    """F = (1 - A B)^-1 A at every layer: inverse (L, n, n) of order 0, product A B and F as series (orders, L, n,
    n)."""

    inverse: np.ndarray
    product: np.ndarray
    F: np.ndarray

    @staticmethod
    def empty(orders: int, layers: int, n: int) -> Resolvent:
        return Resolvent(np.zeros((layers, n, n)), *(np.zeros((orders, layers, n, n)) for _ in range(2)))

    def take(self, base: Resolvent) -> None:
        """Take order 0 from another that has it."""
        self.inverse[...] = base.inverse
        self.product[0], self.F[0] = base.product[0], base.F[0]

    def tangent(self) -> np.ndarray:
        """The derivative of the inverse, from order 1: (L, n, n)."""
        return self.inverse @ self.product[1] @ self.inverse


class Body(Protocol):
    """What lies between embedding and readout: layers, or layer time.

    ``round_off``: relative changes that settled sweeps may still make.
    """

    left: Value
    right: Value
    round_off: float

    def sweep(self, forward: bool, order: int) -> tuple[float, float]:
        """Carry coefficient ``order`` of the left side's law to the readout, or the right side's to the embedding;
        (largest change, largest value), nan where values are not finite."""

    def take(self, base: Value) -> None:
        """Take order 0 from a body of the same kind that has it."""


class TiltedDirection(NamedTuple):
    """One direction: law (orders, L + 1, n, n) at nodes, ``added`` (orders, L, n, n) by layers; the overlaps of what
    enters a layer are ``node.F``; ``through`` carries the law through the layer."""

    law: np.ndarray
    added: np.ndarray
    node: Resolvent
    through: Resolvent

    @staticmethod
    def empty(orders: int, layers: int, n: int) -> TiltedDirection:
        return TiltedDirection(np.zeros((orders, layers + 1, n, n)), np.zeros((orders, layers, n, n)),
                               Resolvent.empty(orders, layers, n), Resolvent.empty(orders, layers, n))


class TiltedLayers:
    """The body as a stack of ``depth`` layers."""

    round_off = float(ROUND_OFF)

    def __init__(self, network: TiltedNetwork, orders: int) -> None:
        self.network = network
        self.left, self.right = (TiltedDirection.empty(orders, network.depth, 2 * network.rows) for _ in range(2))

    def sweep(self, forward: bool, order: int) -> tuple[float, float]:
        own, other = (self.left, self.right) if forward else (self.right, self.left)
        return kernel.sweep_tilted(forward, order, self.network.noise, self.network.drift, own.law, other.law,
                                   own.node.F,
                                   own.added, other.added, own.node.inverse, own.node.product, own.through.inverse,
                                   own.through.product, own.through.F)

    def take(self, base: TiltedLayers) -> None:
        for mine, theirs in ((self.left, base.left), (self.right, base.right)):
            for array, known in ((mine.law, theirs.law), (mine.added, theirs.added)):
                array[0] = known[0]
            mine.node.take(theirs.node)
            mine.through.take(theirs.through)


class TiltedSolution:
    """Power series of everything along one direction of the tilt, one order after the other.

    direction: (N, d_out), the tilt j is this times the variable of the series, or None for order 0 alone; orders: how
    many coefficients there is room for. f, v, z, chi: (orders, N, d_out): outputs, what they answer to their response
    field, and z and chi, which enter the readout.

    A sweep through all layers and back makes one more step exact: in order 0 forward in training time; in higher orders
    response fields first, backward in training time, and then the rest. ``solve`` sweeps until nothing changes, or
    nothing but round-off.
    """

    def __init__(self, network: TiltedNetwork, orders: int, direction: np.ndarray | None = None,
                 base: TiltedSolution | None = None) -> None:
        n, shape = 2 * network.rows, (orders, network.rows, network.d_out)
        self.network, self.orders = network, orders
        self.body: Body = network.body(orders)
        self.left, self.right = self.body.left, self.body.right
        self.end = Resolvent.empty(orders, 1, n)
        self.f, self.v, self.z, self.chi, self.tilt = (np.zeros(shape) for _ in range(5))
        self.slope = np.zeros((*shape, network.d_out))
        self.read_out = np.zeros((orders, n, n))  # what the readout makes of the overlaps of the last node
        self.read_in = np.zeros((n, n))
        if direction is not None and orders > 1:
            self.tilt[1] = direction
        self.solved = 0
        overlaps = np.zeros((n, n))
        overlaps[:network.rows, :network.rows] = network.gram
        kernel.added_density(overlaps, network.noise_end, network.drift_end, 0, self.read_in)
        self.left.law[0, 0] = self.read_in
        self.reached = np.ones(network.rows, dtype=bool)
        if base is not None:
            self._continue(base)

    def _continue(self, base: TiltedSolution) -> None:
        """Take order 0 from a solution that has it."""
        names = "f", "v", "z", "chi", "slope", "read_out"
        for mine, known in ((getattr(self, name), getattr(base, name)) for name in names):
            mine[0] = known[0]
        self.body.take(base.body)
        self.end.take(base.end)
        self.solved = 1

    def closed(self) -> TiltedSolution:
        """Order 0, of which the body is known already: what is read out, which every time makes one more step right."""
        for _ in range(self.network.rows // self.network.per_step + 1):
            self._read_out(0)
        self.solved = 1
        return self

    def solve(self) -> TiltedSolution:
        """Find all orders. Raises ``Divergence`` where values are not finite."""
        for order in range(self.solved, self.orders):
            self._solve_order(order)
        self.solved = self.orders
        return self

    def _solve_order(self, order: int) -> None:
        network = self.network
        steps = network.rows // network.per_step
        with np.errstate(over="ignore", invalid="ignore"):
            for step in range(steps if order == 0 else 0):
                self._reach(step)
                self._pass(order)
            changed = np.inf
            for sweep in range(4 * steps + 8):
                before, (changed, size) = changed, self._pass(order)
                if changed <= self.body.round_off * max(size, 1e-300):
                    return
                if sweep > 2 * steps and before / 2 <= changed <= UNKNOWN * size:  # all are exact, and it falls no more
                    return
        if changed > UNKNOWN * size:
            raise Divergence(f"fluctuations of order {order} in the tilt are lost in round-off: values of size "
                             f"{size:.1e} still change by {changed:.1e}; a smaller learning rate may help")

    def _reach(self, step: int) -> None:
        """Take rows of the next step in; those of later ones are 0, lest they leave round-off where earlier ones
        are."""
        per_step = self.network.per_step
        self.reached = np.arange(self.network.rows) < (step + 1) * per_step
        twice = np.tile(self.reached, 2)
        self.left.law[0, 0] = self.read_in * np.outer(twice, twice)

    def _pass(self, order: int) -> tuple[float, float]:
        """Through all layers and back; (largest change, largest value)."""
        try:
            forward, size = self.body.sweep(True, order)
            at_end = self._read_out(order)
            backward, also = self.body.sweep(False, order)
            changed = float(np.max([forward, at_end, backward]))
        except np.linalg.LinAlgError:  # 1 - Pi R of values so large that the 1 is lost
            changed = size = also = np.nan
        if not np.isfinite(changed):
            step = None if order else (int(np.sum(self.reached)) - 1) // self.network.per_step
            raise Divergence(f"fluctuations: values of order {order} in the tilt are not finite at "
                             f"{self.network.where}{'' if step is None else f', step {step}'}; a smaller learning rate "
                             "may help", step)
        return changed, max(size, also)

    def _read_out(self, order: int) -> float:
        """Outputs, from the law at the last node, and what the readout sends back; the largest change of it."""
        network, n = self.network, 2 * self.network.rows
        last = self.left.law.shape[1] - 1
        kernel.resolvent_coefficient(order, 0, *self.end, self.left.law, last, self.right.law, last)
        kernel.added_density(self.end.F[order, 0], network.noise_end, network.drift_end, 0, self.read_out[order])
        entering = np.concatenate([self.z + self.tilt, self.chi], axis=1)  # (orders, 2 N, d_out)
        leaving = sum(self.read_out[k] @ entering[order - k] for k in range(order + 1))
        self.f[order], self.v[order] = leaving[:network.rows], leaving[network.rows:]
        self.chi[order], self.slope[order] = network.loss.coefficient(order, self.f, self.chi, self.slope)
        silent = ~(network.learnt & self.reached)
        self.chi[order, silent], self.slope[order, silent] = 0.0, 0.0
        self.z[order] = sum(np.einsum("akm,ak->am", self.slope[k], self.v[order - k]) for k in range(order + 1))
        entering = np.concatenate([self.z + self.tilt, self.chi], axis=1)
        overlaps = np.array(sum(entering[k] @ entering[order - k].T for k in range(order + 1)))
        sent = np.zeros((n, n))
        kernel.added_density(overlaps, network.noise_end, network.drift_end, network.rows, sent)
        changed = float(np.max(np.abs(sent - self.right.law[order, -1])))
        self.right.law[order, -1] = sent
        return changed if np.all(np.isfinite(sent)) else np.nan


def base_solution(network: TiltedNetwork) -> TiltedSolution:
    """Order 0: the network as it is at infinite width."""
    _checks.memory(5 * network.memory_needed(1), f"fluctuations at {network.where}",
                   "fewer steps, a smaller batch or a smaller depth fit")
    return network.base()


def series_in_tilt(base: TiltedSolution, row: int, output: int, orders: int) -> TiltedSolution:
    """The series in the tilt of one output."""
    direction: Value = np.zeros((base.network.rows, base.network.d_out))
    direction[row, output] = 1.0
    return TiltedSolution(base.network, orders, direction, base).solve()
