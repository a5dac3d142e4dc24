"""Transformers at infinite width and depth: what digits cost, by equations and by draws."""

from __future__ import annotations

import time
from typing import Callable

import numpy as np
import pytest

import tpcalc as tp

Record = Callable[[str, str, str], None]
TASK = tp.Sequences(inputs=[[[[1, 0], [0.5, 0.8]]], [[[-0.6, 0.7], [1.1, -0.4]]]], targets=[[[1, -0.7]], [[0.5, 1.2]]])
NET = tp.Transformer(heads=16, head_dim=2, positions=2)
CASES = {"SGD, equations": (tp.SGD(0.5), tp.methods.Attention()),
         "SGD, draws": (tp.SGD(0.5), tp.methods.CommonDraws(budget=3e7)),
         "Muon, draws": (tp.Muon(0.2), tp.methods.CommonDraws(tolerance=0.005)),
         "Adam, draws": (tp.Adam(0.1, eps=1e-3), tp.methods.CommonDraws(tolerance=0.0014, budget=2.5e7))}


@pytest.mark.parametrize("name", CASES)
def test_what_digits_cost(name: str, record: Record) -> None:
    opt, method = CASES[name]
    start = time.process_time()
    run = tp.train(NET, TASK, opt, tp.DepthScaling(0.5, 0.5), tp.oo, method=method)
    seconds, largest = time.process_time() - start, float(np.abs(run.outputs).max())
    record(f"transformer at infinite depth, {name}", f"error {run.error_estimate / largest:.2%} of the largest output",
           f"{seconds:.0f} CPU seconds")
    assert run.error_estimate < largest
