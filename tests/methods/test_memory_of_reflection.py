"""What reflection says that it needs is what it takes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import tpcalc as tp
from support.nightly import few
from tpcalc import _checks

STEPS, DEPTH = 20, 100


@pytest.mark.parametrize("opt", [tp.SGD(0.1), tp.Muon(0.1)], ids=lambda opt: type(opt).__name__)
@pytest.mark.parametrize("rows", few([1, 2], 2))
def test_memory_that_is_asked_for_is_used(opt: object, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what is small beside it, a tenth; rows: of a step, as many as a sample has outputs."""
    rng = np.random.default_rng(0)
    task = tp.Task(rng.standard_normal((STEPS, rows, rows)), 2 + rng.random((STEPS, rows, rows)))
    asked: list[float] = []
    monkeypatch.setattr(_checks, "memory", lambda size, *_: asked.append(size))

    def trained() -> None:
        tp.train(tp.ResNet(), task, opt, tp.DepthScaling(), DEPTH, method="reflection")

    trained()  # what is compiled takes memory once
    tracemalloc.start()
    trained()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.8 < peak / max(asked) < 1.2
