"""Outputs of real networks of a width where no expansion in 1/n is known: networks of it, or of others, are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Sequence

import numpy as np

from .. import _checks
from .._spread import results_in_order
from ..errors import Divergence, NotCovered
from ..interpreters.lowered_conditioned import conditioned
from ..interpreters.training import Training, dense_run, placed
from ..optimizers.sgd import on_sphere
from ..optimizers.updates import kind_of_updates
from ..scaling import Parametrization
from ..training.problem import Problem
from .fluctuations import OutputsAtWidth

SEEDS = 32  # by default
PROJECTED = "; weights are on spheres, and the mean has the terms of their projections"


class DrawnAtWidth(OutputsAtWidth):
    """Mean and standard deviation over networks that were drawn: ``seeds`` of them; error: the standard error of the
    mean, of its shape; warning: how large it is at most; outputs: those of every network, the first axis that of
    seeds, where networks of this width were drawn."""

    seeds: int
    outputs: np.ndarray
    known_error: np.ndarray | None = None  # where networks of other widths were drawn

    @classmethod
    def of(cls, outputs: np.ndarray, width: int, also: str = "") -> DrawnAtWidth:
        """outputs: by seed; also: what the warning says besides."""
        seeds, std = len(outputs), np.std(outputs, axis=0, ddof=1)
        found = cls(np.mean(outputs, axis=0), std, f"drawn: the mean over {seeds} networks of width {width} has a "
                    f"standard error of at most {std.max() / np.sqrt(seeds):.2g}{also}")
        found.seeds, found.outputs = seeds, outputs
        return found

    @property
    def error(self) -> np.ndarray:
        return np.asarray(self.std / np.sqrt(self.seeds)) if self.known_error is None else self.known_error


@dataclass(frozen=True)
class NetworksOfWidth:
    """Real networks of a problem at a width, by seed: with whole matrices where their norms count, else by products."""

    training: Training
    width: int
    whole: bool

    def outputs(self, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
        """What a network gives for the batch and for the probes; raises ``Divergence`` naming seed, step and layer."""
        job = self.training
        try:
            run = dense_run(job, self.width, seed) if self.whole else placed(partial(
                conditioned, job.program(), job.sizes(), job.data(), self.width, seed, job.task.loss), job.depth)
        except Divergence as blown:
            raise Divergence(f"the network of width {self.width} and seed {seed}: {blown}; it has no finite part in a "
                             "mean over networks", blown.step, blown.layer) from None
        return job.outputs(run.series("f"))


ORDERS = 2  # of 1/n, where networks of as many widths are drawn


def extrapolated_to_width(problem: Problem, limit: np.ndarray, limit_error: float, width: int, widths: Sequence[int],
                          probes: bool, seeds: int | None, executor: Any, progress: Callable[[int, int], None] | None
                          ) -> DrawnAtWidth:
    """The mean and deviation at a width of networks drawn at ``widths``, in powers of 1/n from the limit on.

    Of every seed the coordinates of a narrower network are drawn as the first of a wider one, in first vectors and
    first products with a matrix (in later ones, too, would gain nothing: what widths do not share anyway is as large);
    the mean is linear in what they give, so that its error is that of a mean over seeds, and the limit's by its share.
    Raises ``NotCovered`` where no power is derived.
    """
    known = _sizes("widths", widths)
    refusal = refusal_of_powers(problem)
    if refusal is not None:
        raise NotCovered(f"widths: got {_checks.short(widths)}; {refusal}, and the way to the limit is no power of 1/n "
                         "that is derived; expected a tp.SGD, one update of a network with zero_readout=True, or seeds "
                         "alone")
    found = [drawn_outputs(problem, one, probes, seeds, executor, progress) for one in known]
    n, orders = np.array(known, dtype=float), min(ORDERS, len(known))
    weights = np.sqrt(n)[:, None]  # networks of width n differ by n^(-1/2)
    powers = n[:, None] ** -np.arange(1.0, orders + 1)
    at = (float(width) ** -np.arange(1.0, orders + 1)) @ np.linalg.pinv(weights * powers) * weights.ravel()
    means, share = limit + np.tensordot(at, np.array(found) - limit, 1), 1 - np.sum(at)
    variances = np.array([n_one * np.var(one, axis=0, ddof=1) for n_one, one in zip(n, found)])
    constant = n[:, None] ** -np.arange(float(orders))
    at = (float(width) ** -np.arange(float(orders))) @ np.linalg.pinv(constant)
    std = np.sqrt(np.maximum(np.tensordot(at, variances, 1), 0.0) / width)
    error = np.hypot(np.std(means, axis=0, ddof=1) / np.sqrt(len(means)), share * limit_error)
    series, sizes = "1/n" if orders == 1 else "1/n and 1/n^2", ", ".join(map(str, known))
    result = DrawnAtWidth(np.mean(means, axis=0), std, f"extrapolated from {len(means)} networks of each of the widths "
                          f"{sizes}, in {series}: {reason_of_powers(problem)}; the error of the mean is at most "
                          f"{error.max():.2g}")
    result.seeds, result.known_error = len(means), error
    return result


def _sizes(name: str, widths: Sequence[int]) -> list[int]:
    return [int(one) for one in _checks.sizes(name, widths) if one is not None]


def refusal_of_powers(problem: Problem) -> str | None:
    """Why the mean is no series in 1/n that is derived, or None where it is one."""
    linear = kind_of_updates(problem.opt) == "linear"
    if not linear and not (problem.net.zero_readout and problem.task.steps <= 2):
        return f"updates by {_checks.short(problem.opt)} see the fluctuation of outputs, and not their mean alone"
    if not problem.is_mup:
        return f"{_checks.short(problem.scale)} is not muP in width"
    return None


def reason_of_powers(problem: Problem) -> str:
    """Why the mean is a series in 1/n, and where it begins late."""
    attention = problem.net.chooses
    what = "outputs are functions of averages over n coordinates"
    return what if not attention else (f"{what}, and over n / {attention[0].head_dim} heads, whose tails are heavy, so "
                                       "that later powers count early")


def drawn_at_width(problem: Problem, width: int, probes: bool = False, seeds: int | None = None, executor: Any = None,
                   progress: Callable[[int, int], None] | None = None, also: str = "") -> DrawnAtWidth:
    """Train ``seeds`` networks (32 where None is said) of a width; also: what the warning says besides. Raises
    ``ValueError`` for fewer than 2, and at infinite depth."""
    found = drawn_outputs(problem, width, probes, seeds, executor, progress)
    return DrawnAtWidth.of(found, width, also + PROJECTED * on_sphere(problem.opt))


def drawn_outputs(problem: Problem, width: int, probes: bool, seeds: int | None, executor: Any,
                  progress: Callable[[int, int], None] | None) -> np.ndarray:
    """Outputs, or those of probes, by seed."""
    seeds = SEEDS if seeds is None else _checks.whole_number("seeds", seeds, 2)
    if problem.layers is None:
        raise NotCovered(f"at_width: got {_checks.short(problem.net)} by {_checks.short(problem.opt)} at depth=tp.oo; "
                         "networks are drawn and trained, and no real one has that depth; expected a finite one, or, "
                         "for exact runs by tp.SGD, no seeds, for the expansion in 1/n")
    scale = problem.scale
    if isinstance(scale, Parametrization) and not problem.is_mup:
        scale = scale.at_width(width)
    job = NetworksOfWidth(Training(problem.net, problem.task, problem.opt, scale, problem.layers), width,
                          on_sphere(problem.opt) or not problem.is_mup)
    found = list(results_in_order(executor, job.outputs, range(seeds), progress))
    return np.array([one[int(probes)] for one in found])
