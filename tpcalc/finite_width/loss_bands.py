"""What real widths do to a curve: of most networks of a width it is between two others.

To leading order the outputs of networks of width n are Gaussian, with mean f + b / n and covariance Sigma / n; any
function of draws of them is what networks have, with a mean that is right to order 1/n. Where networks were drawn and
trained, theirs are taken.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SHARE = 0.95  # of all networks, between low and high
DRAWS = 2000  # of outputs


class LossesAtWidth(NamedTuple):
    """Losses of networks of one width, (steps,) each: their mean, and low and high, between which 95 of 100 are, at
    every step; warning: None, or a sentence on where they may be off. Of networks that were drawn low and high are
    quantiles of these."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    warning: str | None


def band_of(values: np.ndarray) -> np.ndarray:
    """(2, ...): of values by network the two between which ``SHARE`` of them are, as many below as above."""
    return np.asarray(np.quantile(values, ((1 - SHARE) / 2, (1 + SHARE) / 2), axis=0))


def gaussian_outputs(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Draws of outputs, (draws, *mean.shape), the same for the same law, in pairs as far above the mean as below;
    covariance: of mean's shape, twice."""
    variances, modes = np.linalg.eigh(covariance.reshape(mean.size, mean.size))
    half = np.random.default_rng(0).standard_normal((DRAWS // 2, mean.size)) @ (
        modes * np.sqrt(np.maximum(variances, 0.0))).T
    return np.asarray(mean + np.concatenate([half, -half]).reshape(-1, *mean.shape))
