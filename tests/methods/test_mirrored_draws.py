"""Updates that are odd in the entries of gradients: a second run, with the readout's other sign, takes chance away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import tpcalc as tp
from tpcalc.methods.common_draws import _Job, _Plan, _run

TASK = tp.Sequences(inputs=[[[[1, 0], [0.5, 0.8]]], [[[-0.6, 0.7], [1.1, -0.4]]]], targets=[[[1, -0.7]], [[0.5, 1.2]]])


def test_transformers_by_adam_are_mirrored_whatever_the_budget() -> None:
    """Without, errors are many times as large, which no smaller number of particles makes up for."""
    problem = tp.Problem(tp.Transformer(head_dim=2), TASK, tp.Adam(0.1, eps=1e-3), tp.DepthScaling(), tp.oo)
    plan = _Plan.of(tp.methods.CommonDraws(), problem)
    assert plan.mirror == ("nV",) and plan.samples == 512
    spread = {}
    for mirror in (plan.mirror, ()):
        jobs = [_Job(problem, replace(plan, samples=128, mirror=mirror), 2, 0, batch, (0,)) for batch in range(6)]
        spread[mirror] = np.std([_run(job) for job in jobs], axis=0).max()
    assert spread[()] > 4 * spread[plan.mirror]
