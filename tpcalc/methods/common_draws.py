"""Infinite width and depth by sampling: particles at doubling depths with common draws, extrapolated batch by batch."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import ClassVar, Iterable, Sequence

import numpy as np

from .._types import Fields, KeptNodes
from .. import _checks
from .._spread import results_in_order, require_executor
from ..errors import Divergence
from ..interpreters.common_draws import Refinement
from ..interpreters.lowered_particles import PAIRED_SAMPLES, averages_over_pairs, least_samples
from ..interpreters.given import whole_heads
from ..interpreters.refined import at_depths
from ..interpreters.training import placed
from ..optimizers import SGD
from ..training.problem import Problem
from ..results.run import Run
from ..propagators.depth_orders import DepthOrders, depth_orders
from ..propagators.extrapolation import CONFIDENCE, Extrapolation
from .fluctuations import are_told, fewest_part
from .method import Progress, outputs_alone, reason_of, refusal, require_known_directions, require_outputs_alone
from .particles import Particles
from .sampled import training

BATCHES, DEPTHS, SAMPLES = 16, 3, 2048  # at least
BUDGET, PAIRED_BUDGET = 3e7, 4e6  # a minute or two of four steps; products that average over pairs take longer
FEWEST = 512  # particles, where every one costs much
GROWTH = 4  # times as many batches at once, at most
BIAS = 0.4  # of particles, times 1 / samples


@dataclass(frozen=True)
class CommonDraws:
    """Any network and optimizer at infinite width and depth that has a limit: particles of the unchanged program at
    depths L_0, 2 L_0, 4 L_0 ... with common draws, extrapolated batch by batch.

    tolerance: wanted of ``run.error_estimate``, the largest over outputs of a 95% quantile of Student's distribution
    times ``run.standard_error``, plus ``run.bias_bound``. Batches and depths are added until it is reached, or until
    the budget is spent: then the run is what was reached, and its notes say so.

    budget: particles times layers, of all batches and depths together, times the matrices of a layer of a
    tp.Transformer; None stands for 3e7, or 4e6 for updates that average over pairs of particles (tp.Adam, tp.Lion,
    and tp.SignSGD on batches). The first batches at three depths are run whatever it is; those of a tp.Transformer with
    such updates, where they are more than that, with the fewest particles that its products take. samples: particles of
    a batch; None stands for 2048, or 1024 with pairs, or more where the tolerance or the number of products asks for
    it; a bias of about 0.4 / samples stays. batches: those of the first round, at least 16. coarsest: L_0. seed: of all
    that is drawn. executor: any ``concurrent.futures`` executor, for the batches; it decides nothing.

    Raises ``ValueError`` for anything else.

    >>> import tpcalc as tp
    >>> task = tp.Task(inputs=[1, 0.8], targets=[1, -0.7])
    >>> problem = tp.Problem(tp.ResNet("tanh", "pre_nonlin"), task, tp.SGD(1.0), tp.DepthScaling(), depth=tp.oo)
    >>> run = tp.train(problem, method=tp.methods.CommonDraws(tolerance=0.01))
    >>> run.method, run.error_estimate < 0.01, bool(abs(run.outputs[1, 0, 0] - 0.4664) < run.error_estimate)
    ('common_draws', True, True)
    """

    name: ClassVar[str] = "common_draws"
    tolerance: float = 2e-3
    budget: float | None = None
    samples: int | None = None
    batches: int = BATCHES
    coarsest: int = 8
    seed: int = 0
    executor: Executor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", _checks.positive_number("tolerance", self.tolerance))
        if self.budget is not None:
            object.__setattr__(self, "budget", _checks.positive_number("budget", self.budget))
        for name, least in (("samples", 1), ("batches", BATCHES), ("coarsest", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None or name != "samples":
                object.__setattr__(self, name, _checks.whole_number(name, value, least))
        require_executor(self.executor)

    def __getstate__(self) -> Fields:
        return {**vars(self), "executor": None}

    def refuses(self, problem: Problem) -> str | None:
        """Finite depth or width, activations that are not finite, and networks of which no rule says whether there is
        a limit."""
        reason = refusal(self.name, problem) or reason_of(problem.net.require_finite)
        if reason is not None:
            return reason
        try:
            return reason_of(lambda: depth_orders(problem.net, problem.scale))
        except Divergence:  # solve raises it
            return None

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train; ``run.standard_error`` and ``run.bias_bound`` have the shape of outputs.

        progress: called with (batches done, batches) at every round of them. Raises ``Divergence`` where there is no
        limit, or where outputs change more with the last doubling of the depth than with the one before, ``ValueError``
        for ``keep_nodes``: outputs alone are extrapolated.
        """
        require_outputs_alone(self, problem, keep_nodes)
        orders = depth_orders(problem.net, problem.scale)
        plan = _Plan.of(self, problem)
        if are_told(problem):  # refuses what vanishes, at the first depth, beside the budget
            Particles(plan.samples, seed=self.seed).solve(replace(problem, depth=self.coarsest))
        found = _Sampled(self, problem, plan, orders, progress)
        while found.estimate.error > self.tolerance and found.improve():
            pass
        estimate = found.estimate
        if estimate.grows(self.tolerance):
            seen = ", ".join(f"{change:.2e}" for change in estimate.changes)
            raise Divergence(f"depth: got tp.oo; outputs at depths {', '.join(map(str, found.depths))} do not "
                             f"settle: from each to the next they change by {seen} at most")
        job = training(replace(problem, depth=self.coarsest))
        outputs, standard_error, bias_bound = (
            job.outputs(values) for values in (estimate.limit, estimate.standard_error, estimate.bias_bound))
        require_known_directions(problem, outputs[0], standard_error[0])
        run = outputs_alone(problem, self.name, outputs[0], estimate.error, outputs[1], (*found.said, *orders.notes))
        return replace(run, standard_error=standard_error[0], bias_bound=bias_bound[0])


@dataclass(frozen=True)
class _Plan:
    """What all batches of a problem share. mirror: initial vectors that a second run takes with the other sign, where
    updates are odd functions of the gradient's entries; matrices: of a layer, where they count in what it costs."""

    samples: int
    budget: float
    mirror: tuple[str, ...]
    matrices: int = 1

    @classmethod
    def of(cls, method: CommonDraws, problem: Problem) -> "_Plan":
        job = training(replace(problem, depth=method.coarsest))
        what = job.program(), job.sizes(), job.data(), job.task.loss
        pairs = averages_over_pairs(what[0])
        least, samples = fewest_part(problem) * least_samples(*what), method.samples
        if samples is None:
            wanted = max(PAIRED_SAMPLES if pairs else SAMPLES, 10 * BIAS / method.tolerance, least)
            samples = whole_heads(what[0], 2 ** int(np.ceil(np.log2(wanted))))
        matrices = len(problem.net.families_of_matrices) if problem.net.positions else 1
        plan = cls(samples, method.budget or (PAIRED_BUDGET if pairs else BUDGET),
                   () if isinstance(problem.opt, SGD) or problem.net.ties_embedding_readout else ("nV",), matrices)
        first = method.batches * plan.cost(method.coarsest * 2**level for level in range(DEPTHS))
        if pairs and matrices > 1 and method.samples is None and first > plan.budget:
            return replace(plan, samples=whole_heads(what[0], max(least, FEWEST)))
        return plan

    def cost(self, depths: Iterable[int]) -> float:
        """A batch at these depths, in particles times layers, of one matrix each."""
        return float(self.samples * sum(depths) * self.matrices * (2 if self.mirror else 1))


class _Sampled:
    """What was run so far: values of shape (batches, depths, ...), and what it cost, in particles times layers."""

    def __init__(self, method: CommonDraws, problem: Problem, plan: _Plan, orders: DepthOrders,
                 progress: Progress | None) -> None:
        self.method, self.problem, self.plan, self.orders, self.progress = method, problem, plan, orders, progress
        self.spent = 0.0
        self.values = self._run(range(method.batches), range(DEPTHS))

    @property
    def depths(self) -> list[int]:
        return [self.method.coarsest * 2**level for level in range(self.values.shape[1])]

    @property
    def estimate(self) -> Extrapolation:
        return Extrapolation(self.values, np.array(self.orders.first(self.values.shape[1])), self.method.coarsest)

    def improve(self) -> bool:
        """Add a depth, or batches; False where the budget does not reach."""
        estimate, (batches, levels, *_) = self.estimate, self.values.shape
        left = self.plan.budget - self.spent
        deeper = batches * self._cost([levels])
        if estimate.is_biased and deeper <= left:
            self.values = np.concatenate([self.values, self._run(range(batches), [levels])], axis=1)
            return True
        affordable = int(min(left / self._cost(range(levels)), (GROWTH - 1) * batches))
        aim = (estimate.error / self.method.tolerance) ** 2
        more = min(affordable, max(1, int(np.ceil(batches * (min(aim, GROWTH) - 1)))))
        if estimate.is_biased or more < 1:
            return False
        new = self._run(range(batches, batches + more), range(levels))
        self.values = np.concatenate([self.values, new])
        return True

    @property
    def said(self) -> tuple[str, ...]:
        """What was done, and whether it was enough, in words."""
        powers = ", ".join(f"{power:.3g}" for power in self.orders.first(len(self.depths) - 1))
        done = (f"mean of {len(self.values)} batches of {self.plan.samples} particles at depths "
                f"{', '.join(map(str, self.depths))} with common draws, extrapolated in the powers {powers} of 1/L; "
                f"the error holds an output with {CONFIDENCE:.0%} confidence")
        missed = (f"the tolerance {self.method.tolerance:g} is not reached with a budget of {self.plan.budget:.2g} "
                  f"particles times layers: the error is {self.estimate.error:.2g}")
        return (done,) if self.estimate.error <= self.method.tolerance else (done, missed)

    def _cost(self, levels: Sequence[int]) -> float:
        return self.plan.cost(self.method.coarsest * 2**level for level in levels)

    def _run(self, batches: Sequence[int], levels: Sequence[int]) -> np.ndarray:
        """Outputs, shape (batches, levels, ...)."""
        method = self.method
        jobs = [_Job(self.problem, self.plan, method.coarsest, method.seed, batch, tuple(levels)) for batch in batches]
        found = list(results_in_order(method.executor, _run, jobs, self.progress))
        self.spent += len(jobs) * self._cost(levels)
        return np.array(found)


@dataclass(frozen=True)
class _Job:
    """One batch at some depths."""

    problem: Problem
    plan: _Plan
    coarsest: int
    seed: int
    batch: int
    levels: tuple[int, ...]


def _run(job: _Job) -> np.ndarray:
    refinements = [Refinement(job.coarsest, level) for level in job.levels]
    jobs = [training(replace(job.problem, depth=one.depth)) for one in refinements]
    found: list[np.ndarray] = placed(lambda: at_depths(
        [(one.program(), one.sizes()) for one in jobs], jobs[0].data(), job.problem.task.loss, job.plan.samples,
        job.seed, job.batch, refinements, job.plan.mirror, "f"))
    return np.array(found)
