"""Differences and covariances across layers approach those of infinite depth at the declared rates."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.studies.convergence import fit_order

NET, OPT = tp.ResNet(), tp.SGD(0.6, momentum=0.3)
TASK = tp.Task((1, 0.8, -0.6, 1.1), (1, -0.7, 0.5, 1.2))
QUARTERS = [(p, eps) for p in (0.0, 0.25, 0.5, 0.75) for eps in (0.25, 0.5) if p + eps <= 1]


def across(run: tp.Run) -> np.ndarray:
    """(quantities, pairs of places), at steps 3, and 3 and 1; differences squared, whose errors are a power series
    from shorter depths on than those of their roots."""
    p, eps = np.array(QUARTERS).T
    rows = [run.feature_difference(3, p, eps) ** 2, run.gradient_difference(3, p, eps) ** 2]
    rows += [np.array([run.cross_covariance(3, 1, a, b, q, q + step) for q, step in QUARTERS])
             for a in (0, 1) for b in (0, 1)]
    return np.array(rows)


@pytest.mark.parametrize("alpha, powers, order, within", [
    (0.5, range(7, 13), 1.0, 0.04), (0.75, range(11, 16), 0.5, 0.05), (1.0, range(7, 13), 1.0, 0.04)])
def test_order(alpha: float, powers: range, order: float, within: float) -> None:
    scale, depths = tp.DepthScaling(alpha, 1 - alpha), np.array([2**k for k in powers])
    limit = across(tp.train(NET, TASK, OPT, scale, tp.oo))
    errors = np.array([np.abs(across(tp.train(NET, TASK, OPT, scale, int(depth))) - limit).max(axis=1)
                       for depth in depths])
    for quantity in errors.T:
        assert fit_order(depths, quantity).order == pytest.approx(order, abs=within)
