"""The limit of infinite depth from finite depths: its error estimate holds, or nothing is said."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.methods import Extrapolated

TASK = tp.Task([1.2, -0.9], [1.5, -0.7])


@pytest.mark.parametrize("visits", [2, 3])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-6])
def test_no_digit_is_given_where_none_is_known(visits: int, tolerance: float) -> None:
    """Training is trivial there, f_1 falls like L^(-1/4), and its limit is 0; changes between limits are small by
    accident."""
    problem = tp.Problem(tp.ResNet(visits=visits, order="block"), TASK, tp.SGD(1.0), tp.DepthScaling(0.5, 0.75),
                         depth=tp.oo)
    with pytest.raises(tp.Divergence, match="outputs of size .* are known to"):
        tp.train(problem, method=Extrapolated(tolerance=tolerance))


@pytest.mark.parametrize("scale", [(0.75, 0.25), (0.5, 0.5)])
@pytest.mark.parametrize("order", ["cycle", "block"])
def test_estimates_cover_what_finer_depths_find(scale: tuple[float, float], order: str) -> None:
    problem = tp.Problem(tp.ResNet(visits=2, order=order), TASK, tp.SGD(1.0), tp.DepthScaling(*scale), depth=tp.oo)
    fine = tp.train(problem, method=Extrapolated(tolerance=1e-9))
    for tolerance in (1e-2, 1e-3):
        run = tp.train(problem, method=Extrapolated(tolerance=tolerance))
        assert np.max(np.abs(run.outputs - fine.outputs)) <= run.error_estimate + fine.error_estimate
