"""Batches of outputs at doubling depths, extrapolated to infinite depth one by one, and how far the mean may be off."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95


def depth_weights(powers: np.ndarray) -> np.ndarray:
    """The weights w of depths L_0 2^j, j = 0 .. len(powers), with sum w = 1 and sum w_j 2^(-j p) = 0 for the powers.

    >>> import numpy as np
    >>> depth_weights(np.array([1.0, 2.0])).round(6).tolist()  # 1/3, -2, 8/3
    [0.333333, -2.0, 2.666667]
    """
    locations = np.arange(len(powers) + 1)
    conditions = np.vstack([np.ones(len(locations)), 2.0 ** (-np.outer(powers, locations))])
    return np.linalg.solve(conditions, np.eye(len(locations))[0])


@dataclass(frozen=True)
class Extrapolation:
    """values: shape (batches, depths, ...), batches independent and their depths coupled; powers: of the corrections,
    as many as there are depths; coarsest: the depth whose doublings the others are."""

    values: np.ndarray
    powers: np.ndarray
    coarsest: int

    @cached_property
    def _limits(self) -> np.ndarray:
        return np.tensordot(depth_weights(self.powers[:-1]), self.values, axes=(0, 1))

    @cached_property
    def _without_coarsest(self) -> np.ndarray:
        """What the coarsest depth changes in every batch's limit."""
        finer = np.tensordot(depth_weights(self.powers[:-2]), self.values[:, 1:], axes=(0, 1))
        return self._limits - finer

    @property
    def batches(self) -> int:
        return len(self.values)

    @property
    def limit(self) -> np.ndarray:
        return self._limits.mean(axis=0)

    @property
    def standard_error(self) -> np.ndarray:
        return error_of_mean(self._limits)

    @property
    def bias_bound(self) -> np.ndarray:
        """What the limit is changed by where the coarsest depth is left out, which vanishes by accident where two
        corrections cancel: at least what a first correction left out makes that is as large as the first taken off."""
        depths = self.coarsest * 2.0 ** np.arange(self.values.shape[1])
        left_out = abs(depth_weights(self.powers[:-1]) @ depths ** -self.powers[-1])
        change = self.values[:, -1] - self.values[:, -2]
        first = np.abs(change.mean(axis=0)) / abs(np.diff(depths[-2:] ** -self.powers[0])[0])
        return np.maximum(np.abs(self._without_coarsest.mean(axis=0)), left_out * first)

    @property
    def quantile(self) -> float:
        """A quantile of Student's distribution: how many standard errors hold a mean of so many batches."""
        return float(stdtrit(self.batches - 1, (1 + CONFIDENCE) / 2))

    @property
    def errors(self) -> np.ndarray:
        return self.quantile * self.standard_error + self.bias_bound

    @property
    def error(self) -> float:
        return float(np.max(self.errors))

    @property
    def is_biased(self) -> bool:
        """Is the bias bound, where the error is largest, more than chance, and more than half of the error?"""
        location = np.unravel_index(np.argmax(self.errors), self.errors.shape)
        bound = self.bias_bound[location]
        chance = self.quantile * error_of_mean(self._without_coarsest)[location]
        return bool(bound > chance and bound > self.errors[location] / 2)

    @property
    def changes(self) -> np.ndarray:
        """The largest change of a mean output from each depth to the next, shape (depths - 1,)."""
        return np.abs(np.diff(self.values, axis=1).mean(axis=0)).reshape(self.values.shape[1] - 1, -1).max(axis=1)

    def grows(self, tolerance: float) -> bool:
        """Is the last change larger than the one before, by more than chance, and than the tolerance?"""
        last = np.diff(self.values[:, -2:], axis=1)[:, 0]
        sure = np.abs(last.mean(axis=0)) - self.quantile * error_of_mean(last)
        return bool(np.max(sure) > max(tolerance, float(self.changes[-2])))


def error_of_mean(values: np.ndarray) -> np.ndarray:
    """The standard error of the mean over the first axis."""
    return np.asarray(np.std(values, axis=0, ddof=1) / np.sqrt(len(values)))
