"""Covariances and biases of networks that are sampled at infinite width: nonlinear blocks at a finite depth.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from .. import _checks
from .._shown import Short
from .._types import ProgramData, Sizes, Value
from ..data.losses import Loss
from ..errors import Divergence, NotCovered
from ..finite_width.fluctuations import SMALL, OutputsAtWidth, of_curvature
from ..gaussian.scalar_functions import KINKED
from ..interpreters.common_draws import Refinement
from ..interpreters.influences import influence_covariance
from ..interpreters.many_networks import SIGNS, networks_at_once, sampled_bias, sampled_bias_of_update
from ..interpreters.lowered_particles import least_samples
from ..interpreters.training import Training, placed
from ..models.networks import Network
from ..optimizers.spectral import Spectral
from ..programs.language import Scalar
from ..programs.program import Program
from ..propagators.extrapolation import error_of_mean
from ..training.problem import Problem
from .sampled import joint_error

SAMPLES, BATCHES = 8192, 8  # coordinates of a network, and how many of these
NONE = 1e-9                 # of a deviation, which is rounding where another is so much larger
BACKWARD, FORWARD = 15, 4   # vectors of a statement: that the way back reads or makes, that are kept
COORDINATES, DRAWS = 512, 1024  # of networks by weights, for biases
OF_UPDATE = 128                 # of both, for the bias of an update of one size, which is one term of several
TOGETHER, HELD = 32, 2.0**29    # draws at a time, fewer where they take more bytes


@dataclass(frozen=True, repr=False)
class SampledFluctuations(Short):
    """Differences between networks of width n and their limit at a finite depth, to leading order in 1/n, sampled.

    problem: a training at infinite width, by a tp.SGD, or by a tp.NormalizedSGD or tp.Muon of a network with
    ``zero_readout``. The influence that each of ``SAMPLES`` coordinates has on the outputs is found by one pass back
    through the program; their covariance is Sigma, a mean over ``BATCHES``; by a tp.Muon it is that of ``DRAWS`` real
    networks of ``COORDINATES``. The bias is a second difference of networks whose coordinates have other weights, a
    mean over ``DRAWS``. Higher cumulants raise ``NotCovered``.

    >>> import tpcalc as tp
    >>> run = tp.train(tp.ResNet("tanh"), tp.Task([1, 0.8], [1, -0.7]), tp.SGD(0.5), tp.DepthScaling(), depth=2)
    >>> found = run.fluctuations
    >>> found.covariance.shape, bool(found.covariance_error < 0.1 * found.covariance.max())
    ((2, 1, 1, 2, 1, 1), True)
    >>> found.bias.shape, bool(found.bias_error < 0.1)
    ((2, 1, 1), True)
    """

    problem: Problem

    @property
    def covariance(self) -> np.ndarray:
        """Sigma, the limit of n Cov of the outputs over initializations, shape (T, B, d_out, T, B, d_out)."""
        return self._between(False)

    @property
    def covariance_error(self) -> float:
        """How far ``covariance`` may be off with 95% confidence, absolutely, by Student's distribution of the means of
        batches; a bias of order 1/samples is not in it."""
        batch = np.arange(len(self._found[0])).reshape(self.shape)[:, :self.problem.task.batch].ravel()
        errors = np.std(self._found[:, batch[:, None], batch], axis=0, ddof=1) / BATCHES**0.5
        return joint_error(errors, BATCHES)

    @property
    def probe_covariance(self) -> np.ndarray:
        """The covariance of the probes' outputs, shape (T, m, d_out, T, m, d_out); ``ValueError`` without any."""
        self._require_probes()
        return self._between(True)

    def cumulant(self, k: int) -> np.ndarray:
        """n times the variance of each output for k = 2, shape (T, B, d_out); raises ``NotCovered`` for others."""
        if _checks.positive_integer("k", k) != 2:
            raise NotCovered(f"fluctuations: the cumulant of order {k} of {_checks.short(self.problem.net)} at depth "
                             f"{self.problem.depth} asked for; there covariances and biases are known")
        return self._variances(False)

    def _variances(self, probes: bool) -> np.ndarray:
        found = self._between(probes)
        size = int(np.prod(found.shape[:3]))
        return np.diagonal(found.reshape(size, size)).reshape(found.shape[:3])

    @property
    def bias(self) -> np.ndarray:
        """b, the limit of n (mean - f), shape (T, B, d_out)."""
        return self._biases(False)

    @property
    def bias_error(self) -> float:
        """How far ``bias`` may be off with 95% confidence, absolutely; what is of order 1/``COORDINATES`` beside b is
        not in it."""
        return joint_error(self.bias_errors.ravel(), DRAWS)

    @property
    def bias_errors(self) -> np.ndarray:
        """The standard error of each bias, of its shape."""
        return np.asarray(np.std(self._drawn_biases, axis=0, ddof=1).reshape(self.shape)[:, :self.problem.task.batch]
                          / DRAWS**0.5)

    @property
    def probe_bias(self) -> np.ndarray:
        """The bias of the probes' outputs, shape (T, m, d_out); ``ValueError`` without any."""
        self._require_probes()
        return self._biases(True)

    def _require_probes(self) -> None:
        if self.problem.task.probes is None:
            raise ValueError("probes: got none with the task; expected tp.Task(probes=...), for held-out outputs")

    def excess(self, slopes: np.ndarray, curvatures: np.ndarray) -> tuple[np.ndarray, ...]:
        """What draws of the bias, and batches of the covariance, add to n times the mean loss of the last step; slopes:
        (B, d_out) of the loss in outputs, curvatures: (B, d_out, d_out)."""
        biases = self._drawn_biases.reshape(-1, *self.shape)[:, -1, self.rows(False)]
        rows = self.rows(False)
        covariances = self._found.reshape(-1, *self.shape, *self.shape)[:, :, rows][..., rows, :]
        return (np.einsum("nik,ik->n", biases, slopes), np.array([of_curvature(one, curvatures)
                                                                  for one in covariances]))

    def told(self, parts: Sequence[np.ndarray]) -> tuple[float, float]:
        """The sum of the means over draws of what is linear in parts of ``excess``, and how far it may be off by
        chance, with 95% confidence."""
        errors = [joint_error(np.array([error_of_mean(part)]), len(part)) for part in parts]
        return float(sum(np.mean(part) for part in parts)), math.hypot(*errors)

    def at_width(self, outputs: np.ndarray, width: int, probes: bool) -> OutputsAtWidth:
        """Mean and deviation at a width, from the outputs of infinite width; warning: where ``DRAWS`` networks of this
        width, or of ``COORDINATES``, say that the next order in 1/n is not small."""
        def expansion(n: int) -> tuple[np.ndarray, np.ndarray]:
            return outputs + self._biases(probes) / n, np.sqrt(np.maximum(self._variances(probes), 0.0) / n)

        seen = min(width, COORDINATES)
        mean, std = expansion(seen)
        try:
            real = self._networks(seen).reshape(-1, *self.shape)[:, :, self.rows(probes)]
        except Divergence as blown:
            return OutputsAtWidth(*expansion(width), f"at width {width} the next order in 1/n is not small: some "
                                  f"networks of width {seen} blow up, {blown}")
        size = np.where(std > NONE * std.max(), std, np.inf)
        away = np.maximum(np.abs(real.std(axis=0) - std), np.abs(real.mean(axis=0) - mean)) / size
        change, warning = float(np.max(away)) * seen / width, None
        if change > SMALL:
            warning = (f"at width {width} the next order in 1/n changes the mean or the standard deviation of an "
                       f"output by {100 * change:.0f} % of the deviation, as networks say that were drawn; it is below "
                       f"{100 * SMALL:.0f} % from about width {math.ceil(width * change / SMALL)} on")
        return OutputsAtWidth(*expansion(width), warning)

    @property
    def shape(self) -> tuple[int, ...]:
        """Steps, samples with the probes after them, and outputs."""
        task = self.problem.task
        return task.steps, task.batch + (0 if task.probes is None else len(task.probes)), task.d_out

    def rows(self, probes: bool) -> slice:
        """Which samples: those of the batch, or the probes after them."""
        batch = self.problem.task.batch
        return slice(batch, None) if probes else slice(batch)

    def _between(self, probes: bool) -> np.ndarray:
        which, found = self.rows(probes), np.mean(self._found, axis=0).reshape(*self.shape, *self.shape)
        return np.asarray(found[:, which, :, :, which])

    def _biases(self, probes: bool) -> np.ndarray:
        return np.asarray(np.mean(self._drawn_biases, axis=0).reshape(self.shape)[:, self.rows(probes)])

    @cached_property
    def _written(self) -> tuple[Program, Sizes, ProgramData, Loss]:
        """The program of the training, with what it is run on."""
        assert self.problem.layers is not None
        job = Training(self.problem.net, self.problem.task, self.problem.opt, self.problem.scale, self.problem.layers)
        return job.program(), job.sizes(), job.data(), self.problem.task.loss

    def _statements(self) -> int:
        program, sizes, *_ = self._written
        return program.count(program.numeric_sizes(sizes))

    def _require_memory(self, bytes_of_statement: float) -> None:
        _checks.memory(bytes_of_statement * self._statements(), f"fluctuations at depth {self.problem.depth}",
                       "fewer steps, or a smaller batch or depth, fit")

    @cached_property
    def _found(self) -> np.ndarray:
        """(batches, outputs, outputs), the batch's and the probes'; of real networks where updates are functions of
        whole matrices, whose adjoints are not known."""
        program = self._written[0]
        if any(one.statement.value.has(Spectral) for one in program.locations()):
            drawn = self._networks(COORDINATES)
            return COORDINATES * np.array([np.cov(part.T) for part in np.split(drawn, BATCHES)]).reshape(
                BATCHES, drawn.shape[1], -1)
        self._require_memory(8.0 * SAMPLES * BACKWARD)
        return np.array([placed(lambda: influence_covariance(*self._written, SAMPLES, seed, _outputs),
                                self.problem.layers) for seed in range(BATCHES)])

    @cached_property
    def _drawn_biases(self) -> np.ndarray:
        """(draws, outputs), the batch's and the probes'."""
        return self.biases_of_draws(COORDINATES, DRAWS, self.draws_at_once(COORDINATES))

    def biases_of_draws(self, coordinates: int, draws: int, together: int, refinement: Refinement | None = None
                        ) -> np.ndarray:
        """What every draw of at least so many coordinates says of the biases, (draws, outputs), so many at a time.

        refinement: the depth as doublings of another, with which draws are shared.
        """
        enough = self._enough(coordinates)
        return self._every(lambda seed: sampled_bias(*self._written, enough, together, seed, _outputs, refinement),
                           draws // together)

    def bias_of_update(self, probes: bool) -> tuple[np.ndarray, np.ndarray]:
        """The limit of n (mean - E F) after the first update, where it is of one size and E F is the mean over the
        fluctuation of first outputs; and its standard errors, (B, d_out) each, or (m, d_out) of the probes."""
        found = self._drawn_biases_of_update[:, self.rows(probes)]
        return np.mean(found, axis=0), np.asarray(np.std(found, axis=0, ddof=1) / len(found)**0.5)

    @cached_property
    def _drawn_biases_of_update(self) -> np.ndarray:
        """(draws, samples, d_out), the batch's and the probes'."""
        enough = self._enough(OF_UPDATE)
        together = self._at_once(enough * 4 * len(SIGNS))
        found = self._every(lambda seed: sampled_bias_of_update(*self._written, enough, together, seed, _outputs),
                            OF_UPDATE // together).reshape(-1, *self.shape)
        return np.asarray(found[:, 1] - found[:, 0])

    def draws_at_once(self, coordinates: int) -> int:
        """A power of 2; ``MemoryError`` where not one has room."""
        return self._at_once(self._enough(coordinates) * (1 + 2 * len(SIGNS)))

    def _enough(self, coordinates: int) -> int:
        """At least what the products of a matrix take, and a multiple of the signs."""
        enough = max(coordinates, least_samples(*self._written))
        return enough - enough % -SIGNS.shape[1]

    def _networks(self, width: int) -> np.ndarray:
        """Outputs of ``DRAWS`` real networks, (draws, outputs)."""
        together = self._at_once(width)
        return self._every(lambda seed: networks_at_once(*self._written, np.ones((1, width)), together, seed,
                                                         _outputs)[0], DRAWS // together)

    def _at_once(self, numbers: int) -> int:
        """How many draws of so many numbers in a vector."""
        each = 8.0 * FORWARD * numbers
        self._require_memory(each)
        return 2 ** int(math.log2(min(max(HELD / (each * self._statements()), 1.0), TOGETHER)))

    def _every(self, drawn: Callable[[int], np.ndarray], seeds: int) -> np.ndarray:
        return np.concatenate([placed(lambda: drawn(seed), self.problem.layers) for seed in range(seeds)])


def is_smooth(net: Network) -> bool:
    """Backward passes through kinks jump."""
    return not any(one.value.has(*KINKED) for one in net.statements)


def _outputs(scalars: Mapping[Scalar, Any]) -> list[Value]:
    """All outputs, step by step."""
    found = {tuple(map(int, member.indices)): value for member, value in scalars.items() if member.name == "f"}
    return [found[at] for at in sorted(found)]
