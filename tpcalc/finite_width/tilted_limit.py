"""Fluctuations at infinite depth: covariances and biases, on a mesh of layer time refined until they are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, NamedTuple

import numpy as np

from ..errors import Divergence
from ..optimizers import SGD
from ..models import ResNet
from ..data import Task
from ..data.losses import Loss, derivative, values
from ..propagators.laws.pair_laws import kernels_of, linear_block
from ..propagators.blocks import BlockKernels
from ..propagators.collocation import COARSE, FINE, TooCoarse, solve_limit, train_on
from ..propagators.mesh import Mesh
from .tilted import TiltedNetwork, TiltedSolution, base_solution
from ..propagators.layer_time import TooLong
from .tilted_layer_time import LimitNetwork, TooMuchWork

KNOWN = 1e-6         # values that are not known to this, relatively, are not given
MOST_ELEMENTS = 512
TINY = float(np.finfo(np.float64).tiny)
Values = tuple[np.ndarray, ...]


class Known(NamedTuple):
    """Arrays and the absolute error of each. A relative error divides by the array's largest value, or by ``least``
    where that is larger; () for none."""

    values: Values
    errors: tuple[float, ...]
    least: tuple[float, ...] = ()


@dataclass(frozen=True)
class HeldOut:
    """A loss of the first ``learnt`` samples of a step alone."""

    loss: Loss
    learnt: int

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(f)) < self.learnt, values(self.loss, f, y), 0.0)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(f))[:, None] < self.learnt, derivative(self.loss, f, y), 0.0)


@dataclass(frozen=True)
class LimitTask:
    """A training at infinite depth; probes: (m, d_in) or None, inputs that every step has besides its batch."""

    task: Task
    optimizer: SGD
    noise: float
    drift: float
    train_embedding_readout: bool
    probes: np.ndarray | None
    net: ResNet | None = None  # where its blocks are not linear

    @property
    def block(self) -> BlockKernels:
        return linear_block() if self.net is None else kernels_of(self.net)

    def _arguments(self) -> tuple[Task, SGD, float, float, str]:
        task = self.task
        if self.probes is not None:
            m = len(self.probes)
            inputs = np.concatenate([task.inputs, np.broadcast_to(self.probes, (task.steps, *self.probes.shape))], 1)
            targets = np.concatenate([task.targets, np.repeat(task.targets[:, :1], m, axis=1)], axis=1)
            task = Task(inputs, targets, HeldOut(task.loss, task.batch))
        else:
            task = Task(task.inputs, task.targets, task.loss)
        return task, self.optimizer, self.noise, self.drift, "plain"

    def mesh(self) -> Mesh:
        """A mesh that resolves the training at infinite width."""
        return solve_limit(*self._arguments(), block=self.block, train_embedding_readout=self.train_embedding_readout,
                           learnt=self.task.batch).propagator.mesh

    def on(self, mesh: Mesh, network: TiltedNetwork) -> TiltedSolution:
        """The solution of order 0 in the tilt, on a mesh."""
        _, propagator = train_on(mesh, *self._arguments(), lambda t: None, self.block, self.train_embedding_readout,
                                 self.task.batch)
        return base_solution(LimitNetwork.on(propagator, network, self.net))


def infinite_depth(problem: LimitTask, network: TiltedNetwork, quantity: Callable[[TiltedSolution], Known],
                   tolerance: float) -> Known:
    """Quantities of the network's limit; noise and drift of ``network`` are those of unit layer time.

    Two resolutions of one mesh are compared: twice their difference, and the quantity's own error, is that of the
    finer. Elements are halved until every error is at most ``tolerance`` times the largest value of its array, or falls
    no more. Raises ``Divergence`` where ``KNOWN`` is not reached, and ``TooMuchWork``.
    """
    mesh, best, worst = problem.mesh(), None, np.inf
    while mesh.elements <= MOST_ELEMENTS:
        try:
            coarse = quantity(problem.on(mesh.with_nodes(COARSE), network))
            fine = quantity(problem.on(mesh.with_nodes(FINE), network))
        except TooLong as failure:
            alone = np.arange(mesh.elements) == failure.element
            mesh = mesh.bisect(alone if failure.elements is None else failure.elements)
            continue
        except TooCoarse as failure:
            mesh = mesh.cut(failure.cuts)
            continue
        except TooMuchWork:
            if worst <= KNOWN:
                break
            raise
        errors = tuple(2 * float(np.max(np.abs(a - b), initial=0.0)) + own
                       for a, b, own in zip(coarse.values, fine.values, fine.errors))
        least = fine.least or (TINY,) * len(errors)
        sizes = [max(float(np.max(np.abs(b), initial=0.0)), size) for b, size in zip(fine.values, least)]
        relative, before = max(error / size for error, size in zip(errors, sizes)), worst
        if relative < worst:
            best, worst = Known(fine.values, errors), relative
        if worst <= tolerance or worst <= KNOWN and relative > before / 2:
            break
        mesh = mesh.bisect(np.ones(mesh.elements, dtype=bool))
    if best is None or not worst <= KNOWN:
        found = "are not found" if best is None else f"are known to {worst:.1e} of their size only"
        raise Divergence(f"fluctuations at infinite depth {found} with at most {MOST_ELEMENTS} elements of layer "
                         "time; a smaller learning rate may help")
    return best
