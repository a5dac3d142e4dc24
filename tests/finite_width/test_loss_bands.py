"""Bands of losses and outputs at a width, against real networks in plain NumPy and the expansion itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from support.plain.many_networks import outputs
from tpcalc.finite_width.loss_bands import gaussian_outputs
from tpcalc.studies.width_transfer import _excess

NET, TASK = tp.ResNet(), tp.Task([[[1], [0.8]], [[1], [0.8]]], [[[1], [0.2]], [[1], [0.2]]])


def run(rate: float = 0.5) -> tp.Run:
    return tp.train(NET, TASK, tp.SGD(rate), tp.DepthScaling(), depth=4)


@pytest.mark.nightly
def test_real_networks_are_between_the_two_curves() -> None:
    width, networks, scale = 256, 4000, tp.DepthScaling()
    at = run().losses_at_width(width)
    real = outputs(TASK, tp.SGD(0.5), scale.multiplier(4), scale.update_size(4), 4, width, networks, 1, False)
    losses = np.array([TASK.losses(one.reshape(2, 2, 1)) for one in real])
    inside = np.mean((losses > at.low) & (losses < at.high), axis=0)
    assert np.all(np.abs(inside - 0.95) < 0.02), inside
    assert np.all(np.abs(np.mean(losses < at.low, axis=0) - 0.025) < 0.015)
    error = np.std(losses, axis=0) / networks**0.5
    assert np.all(np.abs(at.mean - losses.mean(axis=0)) < 3 * error + 2 * np.std(losses, axis=0) / 2000**0.5)
    assert at.warning is None


def test_the_mean_loss_is_that_of_the_expansion() -> None:
    found, width = run(), 4096
    at = found.losses_at_width(width)
    expected, _ = found.fluctuations.told(_excess(found, found))
    assert width * (at.mean - found.losses)[-1] == pytest.approx(expected, rel=0.1)


def test_draws_have_the_law_they_are_drawn_from() -> None:
    root = np.random.default_rng(3).standard_normal((4, 4))
    mean, covariance = np.arange(4.0).reshape(2, 2, 1), (root @ root.T).reshape(2, 2, 1, 2, 2, 1)
    drawn = gaussian_outputs(mean, covariance)
    assert drawn.mean(axis=0) == pytest.approx(mean, abs=1e-12)
    size = np.abs(root @ root.T).max()
    assert np.abs(np.cov(drawn.reshape(-1, 4).T) - root @ root.T).max() < 0.1 * size
    assert np.array_equal(drawn, gaussian_outputs(mean, covariance))


@pytest.mark.parametrize("net, opt", [(tp.ResNet("relu"), tp.SGD(0.5)), (NET, tp.Muon(0.3))])
def test_networks_are_drawn_where_no_deviation_is_known(net: tp.ResNet, opt: Any) -> None:
    found = tp.train(net, TASK, opt, tp.DepthScaling(), depth=2)
    at, drawn = found.losses_at_width(32), found.at_width(32, seeds=32)
    losses = np.array([TASK.losses(one) for one in drawn.outputs])
    assert at.mean == pytest.approx(losses.mean(axis=0)) and np.all(at.low < at.mean) and np.all(at.mean < at.high)
    assert at.warning == drawn.warning


def test_a_plot_draws_the_band() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    found = run()
    at, ax = found.losses_at_width(256), found.plot(width=256)
    points = ax.collections[0].get_paths()[0].vertices
    assert (points[:, 1].min(), points[:, 1].max()) == (min(at.low), max(at.high))
    assert np.array_equal(ax.lines[0].get_ydata(), found.losses) and np.array_equal(ax.lines[1].get_ydata(), at.mean)
    assert "95 % of width 256" in ax.get_legend_handles_labels()[1]
    ax, at = found.plot(width=256, outputs=True), found.at_width(256)
    assert np.array_equal(ax.lines[0].get_ydata(), found.outputs[:, 0, 0])
    low, high = (ax.collections[0].get_paths()[0].vertices[:, 1]).min(), at.mean[0, 0, 0] - 1.96 * at.std[0, 0, 0]
    assert low == pytest.approx(high, rel=0.1)
    assert run(2.0).plot(width=16).get_title().startswith("at width 16 the next order")


def test_seeds_without_a_width_are_refused() -> None:
    with pytest.raises(ValueError, match="^seeds: got 3 without a width"):
        run().plot(seeds=3)
