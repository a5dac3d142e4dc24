"""Learning rates by step are data of a program: all schedules have one program, and each its own training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.interpreters.training import Training

TASK = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5])


@pytest.mark.parametrize("opt", [tp.SGD, lambda lr: tp.AdamW(lr, weight_decay=0.1, eps=1e-8),
                                 lambda lr: tp.SGD(lr, momentum=0.5, weight_decay=0.1), tp.Muon],
                         ids=["SGD", "AdamW", "momentum", "Muon"])
def test_schedules_share_their_program(opt: object) -> None:
    def run(*rates: float) -> np.ndarray:
        return tp.train(tp.ResNet("relu"), TASK, opt(rates), tp.DepthScaling(), 4, 16,  # type: ignore[operator]
                        method=tp.methods.Dense(seed=1)).outputs

    one, other = (Training(tp.ResNet("relu"), TASK, opt(rates), tp.DepthScaling(), 4)  # type: ignore[operator]
                  for rates in ((0.1, 0.2, 0.3), (0.5, 0.25, 0.125)))
    assert one.program() is other.program()
    assert np.array_equal(run(0.1, 0.2, 0.3), run(0.1, 0.2, 0.3))
    assert not np.allclose(run(0.1, 0.2, 0.3)[1:], run(0.5, 0.25, 0.125)[1:])
    constant = tp.train(tp.ResNet("relu"), TASK, opt(0.5), tp.DepthScaling(), 4, 16,  # type: ignore[operator]
                        method=tp.methods.Dense(seed=1)).outputs
    assert np.allclose(run(0.5, 0.5, 0.5), constant, rtol=1e-9)


def test_a_clipped_optimizer_keeps_its_schedule() -> None:
    """What is never clipped trains as without."""
    runs = [tp.train(tp.ResNet("relu"), TASK, opt, tp.DepthScaling(), 4, 16, method=tp.methods.Dense(seed=1)).outputs
            for opt in (tp.SGD((0.1, 0.2, 0.3)), tp.Clipped(tp.SGD((0.1, 0.2, 0.3)), 1e6))]
    assert np.allclose(*runs, rtol=1e-9)


@dataclass(frozen=True)
class FirstRate(tp.SignSGD):
    """An optimizer of one's own, whose direction reads the rates."""

    def direction(self, *given: Any, **more: Any) -> Any:
        return self.lr[0] * super().direction(*given, **more)


def test_an_optimizer_of_ones_own_reads_its_rates() -> None:
    one, other = (tp.train(tp.ResNet(), TASK, opt, tp.DepthScaling(), 4, 16, method=tp.methods.Dense(seed=1)).outputs
                  for opt in (FirstRate((0.5, 0.5, 0.5)), tp.SignSGD((0.25, 0.25, 0.25))))
    assert np.allclose(one, other, rtol=1e-9)
