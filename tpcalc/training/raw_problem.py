"""Problems as Depthwise Hyperparameter Transfer writes them, and the problems in units of the limit that they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from .. import _checks
from .._shown import Short
from .._types import Number
from ..errors import NotCovered
from ..scaling import DepthScaling, DepthwiseScaling, RawSizes
from ..data.losses import Loss, SquaredLoss, derivative, values
from ..models.networks import ResNet
from ..optimizers.sgd import SGD
from .problem import Problem
from ..data.task import Task


@dataclass(frozen=True)
class ScaledLoss:
    """A loss of outputs that are ``scale`` times as large."""

    loss: Loss
    scale: float

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return values(self.loss, self.scale * f, y)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.scale * derivative(self.loss, self.scale * f, y)


@dataclass(frozen=True, repr=False)
class RawProblem(Short):
    """A training in the source's parametrization, as a ``tp.Problem`` and the factor between their outputs.

    problem: what ``tp.train`` takes; output_scale: outputs of the source are this many times those of the run;
    scaling, task: what was given; sizes: multipliers, deviations and learning rate of the finite network, or None.

    >>> import tpcalc as tp
    >>> scaling = tp.theory.DepthwiseScaling(mu0=0.5)
    >>> raw = tp.theory.raw_problem(scaling, tp.ResNet(), tp.Task([1, 1], [1, 0]), depth=tp.oo)
    >>> raw.output_scale, (raw.output_scale * tp.train(raw.problem).outputs[1, 0]).round(4).tolist()
    (2.0, [2.7183])
    """

    problem: Problem
    output_scale: float
    scaling: DepthwiseScaling
    task: Task
    sizes: RawSizes | None


def raw_problem(scaling: DepthwiseScaling, net: ResNet, task: Task, depth: Number, width: Number = float("inf"),
                layers: int | None = None, schedule: Sequence[float] | None = None, momentum: float = 0.0,
                weight_decay: float = 0.0) -> RawProblem:
    """A residual network, its parametrization and its data as a problem in the units of the limit.

    Parameters
    ----------
    scaling:
        a ``tp.theory.DepthwiseScaling``.
    net:
        the block, usually "pre_nonlin", and whether ends are trained (by the learning rate of all others); the source's
        readouts act on an activation of the stream, ``readout=phi``.
    task:
        inputs enter divided by sqrt(D), D = d_in, in all parametrizations of the source.
    depth, width:
        how many residual blocks, and N; ``tp.oo`` too.
    layers:
        the L whose powers are taken, by default the depth, as in appendix D of the source; its (1) has L = depth + 1.
    schedule:
        numbers that eta0 is multiplied by, one a step.
    momentum:
        the beta of v_t = beta v_(t-1) - (1 - beta) gradient, v before the first step being 0 (appendix K.5).
    weight_decay:
        the lambda of W <- (1 - eta0 lambda) W beside the update (appendix L), of all trained weights.

    Raises ``ValueError`` for parts of other types, and ``NotCovered`` where embedding, blocks and readout
    would need learning rates of their own, and for infinite sizes at which the parametrization has no limit in which
    features are learned. Source: Depthwise Hyperparameter Transfer, (1) to (3), (133) and (138)
    [depthwise_transfer/parametrization].

    >>> import tpcalc as tp
    >>> net, task = tp.ResNet("tanh", "pre_nonlin"), tp.Task([1], [1])
    >>> raw = tp.theory.raw_problem(tp.theory.depthwise_recipe("SP"), net, task, 4, width=64)
    >>> raw.problem.scale.alpha, raw.problem.opt.lr, raw.output_scale
    (0, 64.0, 8.0)
    """
    for name, value, kind in (("scaling", scaling, DepthwiseScaling), ("net", net, ResNet), ("task", task, Task)):
        _checks.instance(name, value, kind)
    net.require_one_visit("the source's networks are known")
    if not net.is_usual:
        raise NotCovered(f"net: got {net!r}; the source's blocks act on the stream or its norm, and add to it; "
                         "expected norm_position='pre', norm_scale=1, gains=False, biases=False and skip=None")
    blocks = _checks.size("depth", depth)
    neurons = _checks.size("width", width)
    if layers is not None and blocks is None:
        raise ValueError(f"layers: got {_checks.short(layers)} at infinite depth; expected None")
    power = _checks.whole_number("layers", layers, 1) if layers is not None else blocks
    beta = _share("momentum", momentum)
    decay = _checks.nonnegative_number("weight_decay", weight_decay)
    if neurons is None and not (scaling.multipliers and scaling.output_power * 2 == 1):
        raise NotCovered(f"width: infinite, with output_power={scaling.output_power}, multipliers="
                         f"{scaling.multipliers}; features are learned at infinite width with 1/2 and True. "
                         "What is lazy is tp.kernel_fn's")
    sizes = scaling.sizes(neurons or 1, power or 1, task.d_in)
    n = float(neurons or 1)  # the sizes of muP's units do not depend on it
    scale = sizes.read_out * sizes.read_out_std * n / sizes.output_scale
    trained, factor = _scaled(task, scale)
    moves = [sizes.learning_rate * factor / (std**2 * n)
             for std in (sizes.read_in_std, sizes.branch_std, sizes.read_out_std)]
    depth_scaling, rate = _updates(scaling, net, moves, power, blocks)
    rates = rate if schedule is None else tuple(rate * _of_steps("schedule", schedule, task.steps))
    # a step takes eta0 weight_decay off the weights, whatever they are moved by
    opt = SGD(_times(rates, 1 - beta), momentum=beta, decoupled=bool(decay),
              weight_decay=decay * scaling.eta0 / (rate * (1 - beta)))
    inputs = trained.inputs / np.sqrt(task.d_in)
    probes = None if task.probes is None else task.probes / np.sqrt(task.d_in)
    mapped = Task(inputs, trained.targets, trained.loss, probes)
    problem = Problem(net, mapped, opt, depth_scaling, depth, width)
    return RawProblem(problem, scale, scaling, task, None if neurons is None or blocks is None else sizes)


def _updates(scaling: DepthwiseScaling, net: ResNet, moves: list[float], power: int | None, blocks: int | None
             ) -> tuple[DepthScaling, float]:
    """The depth scaling of the blocks and the learning rate of all; moves: n-free rates of embedding, blocks, readout.
    A block's weights, in units of standard deviations, move by its rate times its multiplier eps, ends by theirs."""
    found, ratio = scaling.depth_scaling(), 1.0 if power is None else (blocks or 1) / power
    size = abs(scaling.branch)
    if not net.train_embedding_readout:
        rate = moves[1] * size
        if power is not None:  # moves have L^rate in them, which the scaling has in gamma
            rate /= float(power) ** float(scaling.rate)  # type: ignore[arg-type]
        return DepthScaling(found.alpha, found.gamma, scaling.branch, ratio), rate
    if not np.allclose(moves, moves[0], rtol=1e-12):
        raise NotCovered("net: got trained embedding and readout, and one learning rate for all weights moves "
                         f"embedding, blocks and readout by {moves[0]:g}, {moves[1]:g}, {moves[2]:g}, in units of "
                         "tp.Problem, which has one for all; expected frozen embedding and readout")
    if scaling.rate != 0 and power is None:
        raise NotCovered(f"net: got trained embedding and readout at infinite depth with rate={scaling.rate}; the "
                         "learning rate of all weights grows with L, and that of these two must not; expected frozen "
                         "embedding and readout")
    if size == 1:
        return DepthScaling(found.alpha, found.alpha, scaling.branch, ratio), moves[0]
    if scaling.alpha == 0:
        raise NotCovered(f"branch: got {scaling.branch} with trained embedding and readout and alpha = 0; the blocks' "
                         "learning rate is that of these there; expected 1 and -1")
    base = ratio * size ** (1 / float(scaling.alpha))  # at which (L / base)^-alpha is the multiplier
    return DepthScaling(found.alpha, found.alpha, float(np.sign(scaling.branch)), base), moves[0]


def _scaled(task: Task, scale: float) -> tuple[Task, float]:
    """A task whose outputs are smaller by ``scale``, and what learning rates are multiplied by."""
    if scale == 1:
        return task, 1.0
    if isinstance(task.loss, SquaredLoss):
        return Task(task.inputs, task.targets / scale, task.loss, task.probes), scale**2
    return Task(task.inputs, task.targets, ScaledLoss(task.loss, scale), task.probes), 1.0


def _share(name: str, value: object) -> float:
    found = _checks.nonnegative_number(name, value)
    if found >= 1:
        raise ValueError(f"{name}: got {_checks.short(value)}; expected a number of at least 0 and below 1")
    return found


def _of_steps(name: str, value: object, steps: int) -> np.ndarray:
    found = _checks.finite_array(name, value)
    if found.shape != (steps,):
        raise ValueError(f"{name}: got {_checks.short(value)}; expected {steps} numbers, one a step")
    return found


def _times(rates: Any, factor: float) -> Any:
    return tuple(factor * rate for rate in rates) if isinstance(rates, tuple) else factor * rates
