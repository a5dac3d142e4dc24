"""Differences and covariances across layers of real networks: within standard errors of infinite width."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp

NET, OPT, WIDTH, SEEDS = tp.ResNet(), tp.SGD([0.6, 0.45, 0.3], momentum=0.5, weight_decay=0.1), 512, 40
RNG = np.random.default_rng(11)
TASK = tp.Task(RNG.normal(size=(3, 2, 3)) / np.sqrt(3), RNG.normal(size=(3, 2, 2)))
LOCATIONS, ROWS = (0.0, 1 / 3, 2 / 3, 1.0), [(t, i) for t in range(3) for i in range(2)]


def across(run: tp.Run) -> np.ndarray:
    """Squared differences (their means over networks are what infinite width says), and covariances."""
    values = []
    for k, p in enumerate(LOCATIONS):
        for q in LOCATIONS[k + 1:]:
            for row in ROWS:
                values += [run.feature_difference(row, p, q - p) ** 2, run.gradient_difference(row, p, q - p) ** 2]
            values += [run.cross_covariance((2, 0), (1, 1), a, b, p, q) for a in (0, 1) for b in (0, 1)]
    return np.array(values)


def z_scores(scale: tp.DepthScaling, first: int) -> tuple[np.ndarray, float]:
    """(z, typical relative standard error)."""
    exact = across(tp.train(NET, TASK, OPT, scale, 6))
    seen = np.array([across(tp.train(NET, TASK, OPT, scale, 6, width=WIDTH, seed=first + seed, keep_nodes="all"))
                     for seed in range(SEEDS)])
    error = seen.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    return (seen.mean(axis=0) - exact) / error, float(np.median(error) / np.median(np.abs(exact)))


@pytest.mark.nightly
@pytest.mark.parametrize("alpha, first", [(0.5, 0), (0.75, 1000), (1.0, 2000)])
def test_real_networks_agree_within_standard_errors(alpha: float, first: int) -> None:
    """Some 100 numbers that read a few independent averages: rms around 1; and they are known to a few per cent."""
    z, relative = z_scores(tp.DepthScaling(alpha, 1 - alpha), first)
    assert np.sqrt(np.mean(z**2)) < 1.7 and np.max(np.abs(z)) < 5
    assert relative < 0.03
