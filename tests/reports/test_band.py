"""What a report says of how far real networks are expected to be from infinite width."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.reports.stages import band_or_reason, measure_band, part_of
from tpcalc.reports.pages.figures import networks_figure
from tpcalc.reports.options import Setup
from tpcalc.reports.stages import Networks

from .conftest import Written


def test_small_tasks_are_taken_whole_and_of_others_the_first_input_and_output() -> None:
    small = tp.Task(np.ones((4, 3)).reshape(4, 1, 3), np.ones((4, 1, 3)))
    assert part_of(small)[0] is small
    large = tp.tasks.digits(steps=6, batch=5)
    part, words = part_of(large)
    assert np.array_equal(part.inputs, large.inputs[:4, :1]) and np.array_equal(part.targets, large.targets[:4, :1, :1])
    assert words == "the first input and the first output of 4 steps of this report's task"


def test_networks_differ_as_predicted() -> None:
    """Root mean squares over 60 networks, and the share of them between the ends of the range."""
    band = measure_band(Setup(lr=(0.3,), steps=3, batch=4), 4, (64, 256), range(60))
    for row, errors in zip(band.rows, band.errors):
        assert abs(row["measured"] / row["predicted"] - 1) < 0.25
        assert row["measured"] == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-14)
        assert row["low"] < row["predicted"] < row["high"] and row["inside"] > 0.85
    first, last = band.rows
    assert first["predicted"] == pytest.approx(2 * last["predicted"], rel=1e-12)
    assert band.warning == ""


def test_large_rates_are_warned_of_and_what_blows_up_is_said() -> None:
    fast = measure_band(Setup(lr=(4.0,), steps=3, batch=1), 4, (16,), range(2))
    assert "at width 16 the next order" in fast.warning
    band, reason = band_or_reason(Setup(lr=(1e40,), steps=4, batch=1), 4, (16,), range(2), lambda: None)
    assert band is None and "not finite" in reason


def test_a_report_has_the_band(written: Written) -> None:
    found = Networks(**json.loads((written.folder / "stages" / "networks.json").read_text())["fields"]["result"])
    assert found.band is not None and found.no_band == ""
    task = part_of(tp.tasks.digits(steps=2, batch=3))[0]
    run = tp.train(tp.ResNet(), task, tp.SGD(1.0), tp.DepthScaling(), 4)
    expected = np.sqrt(np.trace(run.fluctuations.covariance.reshape(2, 2)) / 2)
    for row in found.band["rows"]:
        assert row["predicted"] * row["width"] ** 0.5 == pytest.approx(expected, rel=1e-12)
    page = (written.folder / "index.html").read_text()
    assert "range in which theory expects 95 of 100" in page and "the first input and the first output" in page
    assert len(networks_figure(found).axes) == 2
