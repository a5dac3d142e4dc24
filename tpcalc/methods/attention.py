"""Transformers at infinite width, depth and number of heads: equations in layer time, heads by quasi-random points."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Sequence

import numpy as np
import sympy as sp

from .. import _checks
from .._types import KeptNodes
from ..data import Sequences, Task
from ..data.losses import AnyLoss
from ..errors import NotCovered
from ..models import ResNet, Transformer
from ..optimizers import SGD
from ..propagators.blocks import GroupKernels
from ..propagators.laws.attention import attention_sublayers
from ..propagators.laws.group_sums import SummedKernels
from ..propagators.laws.pair_laws import kernels_of
from ..propagators.limit_cell import limit_cell
from ..propagators.sampled_limit import SampledLimit, solve_sampled
from ..propagators.training import require_known
from ..results.run import Run
from ..scaling import DepthScaling
from ..training.problem import Problem
from ..propagators.extrapolation import error_of_mean
from .method import Progress, outputs_alone, reason_of, refusal, require_outputs_alone

HALF = sp.Rational(1, 2)
FEWEST, MOST, SCRAMBLES = 256, 4096, 8   # points of a head
FREE = ("heads", "head_dim", "positions", "norm", "mlp", "mlp_ratio", "causal", "scale_power", "phi", "queries_per_key",
        "order", "zero_readout")  # what may be other than it is where nobody says it; others are refused by name


@dataclass(frozen=True)
class Attention:
    """A tp.Transformer at infinite width, depth and number of heads, by tp.SGD at alpha = gamma = 1/2: there kernels
    are all, and means over heads are taken by scrambled Sobol points.

    tolerance: wanted of ``run.error_estimate``, three of the largest standard errors over scrambles and what layer time
    is not resolved by; points, a power of 2, are doubled from 256 on until it is reached, or until they are 4096: then
    the run is what was reached, and its notes say so. scrambles: independent ones; seed: of the first.

    "auto" takes it for up to 16 rows (steps times batch times positions) and common draws for more, which is no matter
    of what it takes.

    Raises ``ValueError`` for anything else. Source: [tpcalc/action_principle].

    >>> import tpcalc as tp
    >>> task = tp.Sequences(inputs=[[[[1, 0], [0.5, 0.8]]]] * 2, targets=[[[1, -0.7]]] * 2)
    >>> problem = tp.Problem(tp.Transformer(head_dim=2, mlp=None), task, tp.SGD(0.5), tp.DepthScaling(), depth=tp.oo)
    >>> run = tp.train(problem, method=tp.methods.Attention(tolerance=0.01))
    >>> run.method, run.error_estimate < 0.01, run.outputs.shape
    ('attention', True, (2, 1, 2, 1))
    """

    name: ClassVar[str] = "attention"
    tolerance: float = 2e-3
    scrambles: int = SCRAMBLES
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", _checks.positive_number("tolerance", self.tolerance))
        for name, least in (("scrambles", 2), ("seed", 0)):
            object.__setattr__(self, name, _checks.whole_number(name, getattr(self, name), least))

    def refuses(self, problem: Problem) -> str | None:
        """What the table of methods refuses, other exponents, networks that are no tp.Transformer with a norm before
        softmax attention, and options that kernels of heads do not know."""
        return refusal(self.name, problem) or reason_of(lambda: _require(problem))

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train; ``run.standard_error`` is that over scrambles, ``run.bias_bound`` what layer time leaves.

        progress: called with (rounds done, rounds at most). Raises ``Divergence`` where the limit is not resolved, or
        where not one digit is known, ``NotCovered`` for ``keep_nodes``: outputs alone are known.
        """
        require_outputs_alone(self, problem, keep_nodes)
        task, net, opt = problem.task, problem.net, problem.opt
        assert isinstance(net, Transformer) and isinstance(opt, SGD) and isinstance(task, Sequences)
        rounds, points = int(math.log2(MOST // FEWEST)) + 1, FEWEST
        for number in range(rounds):
            bodies = [self._sublayers(net, points, scramble) for scramble in range(self.scrambles)]
            found = solve_sequences(task.inputs, task.targets, task.loss, opt, problem.depth_scaling, bodies)
            standard_error = error_of_mean(found.outputs)
            error = 3 * float(np.max(standard_error)) + found.error
            if progress is not None:
                progress(number + 1, rounds)
            if error <= self.tolerance or points == MOST:
                break
            points *= 2
        require_known(error, found.scale, "the limit of attention is lost in sampling", "other settings may help")
        notes = [f"mean of {self.scrambles} scrambles of {points} points of a head; three standard errors and what "
                 "layer time leaves are the error"]
        if error > self.tolerance:
            notes.append(f"the tolerance {self.tolerance:g} is not reached with {MOST} points: the error is "
                         f"{error:.2g}")
        run = outputs_alone(problem, self.name, found.outputs.mean(axis=0), error, None, tuple(notes))
        return replace(run, standard_error=standard_error, bias_bound=np.full(task.targets.shape, found.error))

    def _sublayers(self, net: Transformer, points: int, scramble: int) -> tuple[GroupKernels, ...]:
        return attention_sublayers(net.positions, net.head_dim, net.causal, float(net.scale_power), points,
                                   self.seed + scramble, None if net.mlp is None else _second(net))


def solve_sequences(inputs: np.ndarray, targets: np.ndarray, loss: AnyLoss, opt: SGD, scale: DepthScaling,
                    scrambles: Sequence[tuple[GroupKernels, ...]]) -> SampledLimit:
    """Outputs (scrambles, steps, batch, positions, d_out) of layers with such sublayers at infinite width and depth.

    inputs: (steps, batch, positions, d_in); targets: (steps, batch, positions, d_out). Raises as ``solve_sampled``.
    """
    x, y = (each.reshape(len(each), -1, each.shape[-1]) for each in (inputs, targets))
    cell = limit_cell(scale)
    # rows carry the mean over all of a step, and positions are summed
    found = solve_sampled(Task(x, y, loss), opt, cell.noise, cell.drift * inputs.shape[2],
                          [SummedKernels(one) for one in scrambles])
    return found._replace(outputs=found.outputs.reshape(len(scrambles), *targets.shape))


def _second(net: Transformer) -> ResNet:
    """The sublayer behind attention, as a network of one position. RMSNorm and LayerNorm have one limit."""
    assert isinstance(net.mlp, str)
    return ResNet(net.phi, net.mlp, "rms", mlp_ratio=net.mlp_ratio)


def _require(problem: Problem) -> None:
    """Raise ``NotCovered`` for what the equations do not have."""
    net, scale = problem.net, problem.depth_scaling
    said = f"net: got {_checks.short(net)}; method='attention' takes"
    if not isinstance(net, Transformer) or net.attention != "softmax":
        raise NotCovered(f"{said} a tp.Transformer with softmax attention; expected one, or 'common_draws'")
    other = [one.name for one in fields(net)
             if one.name not in FREE and getattr(net, one.name) != getattr(Transformer(), one.name)]
    if other or net.norm is None or net.positions < 2 or callable(net.mlp):
        raise NotCovered(f"{said} norms before sublayers, two positions or more, and no other options; it does not "
                         f"know {', '.join(other) or 'these sublayers'}; expected 'common_draws'")
    if (scale.alpha, scale.gamma) != (HALF, HALF):
        raise NotCovered(f"scale: got {_checks.short(scale)}; method='attention' takes alpha = gamma = 1/2, where what "
                         "attention becomes at infinite depth is checked against real networks; expected them, or "
                         "'common_draws'")
    if net.mlp is not None:
        kernels_of(_second(net))
    assert isinstance(problem.opt, SGD)
    if np.any(problem.opt.memory(problem.task.steps)[0] <= 0):
        raise NotCovered(f"opt: got {_checks.short(problem.opt)}; method='attention' takes weight decay that leaves a "
                         "positive part of the initial matrices at every step; expected less, or 'common_draws'")
