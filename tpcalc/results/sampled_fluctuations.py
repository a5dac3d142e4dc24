"""Covariances and biases of networks that are sampled at infinite width: nonlinear blocks at a finite depth.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Callable, Mapping

import numpy as np

from .. import _checks
from .._shown import Short
from .._types import ProgramData, Sizes, Value
from ..data.losses import Loss
from ..errors import Divergence, NotCovered
from ..finite_width.fluctuations import SMALL, OutputsAtWidth
from ..interpreters.influences import influence_covariance
from ..interpreters.many_networks import SIGNS, networks_at_once, sampled_bias, sampled_bias_of_update
from ..interpreters.lowered_particles import least_samples
from ..interpreters.training import Training, placed
from ..optimizers.spectral import Spectral
from ..programs.language import Scalar
from ..programs.program import Program
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
        batch = np.arange(len(self._found[0])).reshape(self._shape)[:, :self.problem.task.batch].ravel()
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
        return np.asarray(np.std(self._drawn_biases, axis=0, ddof=1).reshape(self._shape)[:, :self.problem.task.batch]
                          / DRAWS**0.5)

    @property
    def probe_bias(self) -> np.ndarray:
        """The bias of the probes' outputs, shape (T, m, d_out); ``ValueError`` without any."""
        self._require_probes()
        return self._biases(True)

    def _require_probes(self) -> None:
        if self.problem.task.probes is None:
            raise ValueError("probes: got none with the task; expected tp.Task(probes=...), for held-out outputs")

    def at_width(self, outputs: np.ndarray, width: int, probes: bool) -> OutputsAtWidth:
        """Mean and deviation at a width, from the outputs of infinite width; warning: where ``DRAWS`` networks of this
        width, or of ``COORDINATES``, say that the next order in 1/n is not small."""
        def expansion(n: int) -> tuple[np.ndarray, np.ndarray]:
            return outputs + self._biases(probes) / n, np.sqrt(np.maximum(self._variances(probes), 0.0) / n)

        seen = min(width, COORDINATES)
        mean, std = expansion(seen)
        try:
            real = self._networks(seen).reshape(-1, *self._shape)[:, :, self._of(probes)]
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
    def _shape(self) -> tuple[int, ...]:
        task = self.problem.task
        return task.steps, task.batch + (0 if task.probes is None else len(task.probes)), task.d_out

    def _of(self, probes: bool) -> slice:
        """Which samples: those of the batch, or the probes after them."""
        batch = self.problem.task.batch
        return slice(batch, None) if probes else slice(batch)

    def _between(self, probes: bool) -> np.ndarray:
        which, found = self._of(probes), np.mean(self._found, axis=0).reshape(*self._shape, *self._shape)
        return np.asarray(found[:, which, :, :, which])

    def _biases(self, probes: bool) -> np.ndarray:
        return np.asarray(np.mean(self._drawn_biases, axis=0).reshape(self._shape)[:, self._of(probes)])

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
        coordinates = self._at_least(COORDINATES)
        return self._every(lambda draws, seed: sampled_bias(*self._written, coordinates, draws, seed, _outputs),
                           coordinates * (1 + 2 * len(SIGNS)), DRAWS)

    def _at_least(self, coordinates: int) -> int:
        """Coordinates of networks by weights: so many, or more where matrices meet more vectors."""
        coordinates = max(coordinates, least_samples(*self._written))
        return coordinates - coordinates % -SIGNS.shape[1]

    def bias_of_update(self, probes: bool) -> tuple[np.ndarray, np.ndarray]:
        """The limit of n (mean - E F) after the first update, where it is of one size and E F is the mean over the
        fluctuation of first outputs; and its standard errors, (B, d_out) each, or (m, d_out) of the probes."""
        found = self._drawn_biases_of_update[:, self._of(probes)]
        return np.mean(found, axis=0), np.asarray(np.std(found, axis=0, ddof=1) / len(found)**0.5)

    @cached_property
    def _drawn_biases_of_update(self) -> np.ndarray:
        """(draws, samples, d_out), the batch's and the probes'."""
        coordinates = self._at_least(OF_UPDATE)
        found = self._every(lambda draws, seed: sampled_bias_of_update(*self._written, coordinates, draws, seed,
                                                                       _outputs), coordinates * 4 * len(SIGNS),
                            OF_UPDATE).reshape(-1, *self._shape)
        return np.asarray(found[:, 1] - found[:, 0])

    def _networks(self, width: int) -> np.ndarray:
        """Outputs of ``DRAWS`` real networks, (draws, outputs)."""
        return self._every(lambda draws, seed: networks_at_once(*self._written, np.ones((1, width)), draws, seed,
                                                                _outputs)[0], width, DRAWS)

    def _every(self, drawn: Callable[[int, int], np.ndarray], numbers: int, draws: int) -> np.ndarray:
        """So many draws, some at a time, given how many and a seed; numbers: in a vector of a draw."""
        each = 8.0 * FORWARD * numbers
        self._require_memory(each)
        together = 2 ** int(math.log2(min(max(HELD / (each * self._statements()), 1.0), TOGETHER)))
        return np.concatenate([placed(lambda: drawn(together, seed), self.problem.layers)
                               for seed in range(draws // together)])


def _outputs(scalars: Mapping[Scalar, Any]) -> list[Value]:
    """All outputs, step by step."""
    found = {tuple(map(int, member.indices)): value for member, value in scalars.items() if member.name == "f"}
    return [found[at] for at in sorted(found)]
