"""The exact methods against balls of 25 digits, which another program found: tests/references/reference_balls.py."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpcalc as tp

CASES = json.loads((Path(__file__).parents[1] / "references" / "reference_balls.json").read_text())


def problem(case: dict[str, Any], depth: Any) -> tp.Problem:
    opt = tp.SGD(case["rate"], momentum=case["momentum"], weight_decay=case["decay"])
    gamma = case.get("gamma", 1 - case["alpha"])
    return tp.Problem(tp.ResNet(), tp.Task(case["xi"], case["y"]), opt, tp.DepthScaling(case["alpha"], gamma), depth)


def error(found: np.ndarray, digits: list[str]) -> float:
    """Subtracted in the digits of the balls, not in those of a float."""
    pairs = zip(found.ravel(), digits, strict=True)
    return max(abs(float(Decimal(float(one)) - Decimal(exact))) for one, exact in pairs)


@pytest.mark.parametrize("method", ["reflection", "coefficients"])
def test_finite_depth(method: str) -> None:
    for case in CASES["finite"]:
        run = tp.train(problem(case, case["depth"]), method=method)
        largest = max(1.0, float(np.max(np.abs(run.outputs))))
        assert error(run.outputs, case["f"]) < 1e-14 * largest, case


def test_infinite_depth() -> None:
    """Right to 1e-12, and by no more wrong than it says."""
    for case in CASES["limit"]:
        run = tp.train(problem(case, tp.oo))
        wrong = error(run.outputs, case["f"])
        assert wrong <= run.error_estimate, case
        assert wrong < 1e-12 * max(1.0, float(np.max(np.abs(run.outputs)))), case


def test_kernels_of_untrained_networks() -> None:
    for case in CASES["kernels"]:
        one, two = np.array(case["x"])
        found = tp.kernel_fn(tp.ResNet(case["phi"], "pre_nonlin"), depth=case["depth"])(one[None], two[None])
        for name in ("nngp", "ntk"):
            assert error(getattr(found, name), [case[name]]) < 2e-14, case
