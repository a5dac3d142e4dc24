"""One thread: models here are small, and machines are shared."""

from __future__ import annotations

from typing import Any

import pytest

try:
    import torch
except ImportError:  # every file here is skipped then
    pass
else:
    torch.set_num_threads(1)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every training that is really made."""
    runs = pytest.importorskip("tpcalc.torch.training_runs")
    made: list[Any] = []
    result = runs.TrainingRun.result

    def counted(run: Any) -> Any:
        made.append(run)
        return result(run)

    monkeypatch.setattr(runs.TrainingRun, "result", counted)
    return made
