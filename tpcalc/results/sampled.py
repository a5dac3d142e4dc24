"""What particles answer, as means over batches, and how far they may be off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit  # of Student's t; scipy.stats takes a second to be imported

from .details import DenseDetails, WithoutCoefficients

CONFIDENCE = 0.95  # of the error estimate of particles


@dataclass(frozen=True)
class SampledDetails(WithoutCoefficients):
    """Means over batches of particles, each of which answers like a real network."""

    batches: tuple[DenseDetails, ...]
    why = "sampled kets have no coefficients over base kets; expected an exact method, or the covariances of this run"

    def covariance(self, forward: bool, layer_times: np.ndarray) -> np.ndarray:
        return np.mean([batch.covariance(forward, layer_times) for batch in self.batches], axis=0)

    def cross_covariance(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        return float(np.mean([batch.cross_covariance(row_t, row_s, a, b, p, q) for batch in self.batches]))

    def difference(self, row: int, a: int, p: float, length: float) -> float:
        return float(np.sqrt(np.mean([batch.difference(row, a, p, length) ** 2 for batch in self.batches])))


def joint_error(errors: np.ndarray, batches: int) -> float:
    """What all means are within, with ``CONFIDENCE``: the largest standard error times a quantile of Student's.

    errors: standard errors, each from the spread of so few batches, which is what Student's distribution is for; the
    chance to be farther off is divided among the means that are random at all (Bonferroni).
    """
    random = max(1, int(np.count_nonzero(errors)))
    return float(np.max(errors) * stdtrit(batches - 1, 1 - (1 - CONFIDENCE) / (2 * random)))
