"""Decay that is independent of the rate, and schedules: every optimizer, every reading, against plain arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp

TASK, SCALE = tp.Task([1.0, 0.8, -0.6, 0.9], [1.0, -0.7, 0.5, 0.4]), tp.DepthScaling()
RATES = (0.2, 0.5, 0.1, 0.3)
DECAYED: list[Any] = [
    tp.SGD(RATES, weight_decay=0.2, decoupled=True), tp.SGD(RATES, momentum=0.5, weight_decay=0.2, decoupled=True),
    tp.Muon(RATES, weight_decay=0.2), tp.Adam(RATES, eps=0.1, weight_decay=0.2), tp.Lion(RATES, weight_decay=0.2)]


@pytest.mark.parametrize("opt", DECAYED, ids=lambda opt: type(opt).__name__)
def test_independent_decay_of_real_networks(opt: Any) -> None:
    """The decay w at a rate that changes is that of rate times w / rate, step by step: one optimizer a step."""
    options: dict[str, Any] = dict(depth=3, width=8, method="dense")
    net = tp.ResNet("tanh", "pre_nonlin")
    runs = {independent: tp.train(net, TASK, replace(opt, independent=independent), SCALE, **options).outputs.ravel()
            for independent in (False, True)}
    assert np.abs(runs[True] - runs[False]).max() > 1e-3
    even = replace(opt, lr=0.4, weight_decay=0.1)
    same = tp.train(net, TASK, replace(even, weight_decay=0.25), SCALE, **options).outputs
    np.testing.assert_allclose(tp.train(net, TASK, replace(even, independent=True), SCALE, **options).outputs, same,
                               rtol=1e-12)


def test_independent_decay_by_hand() -> None:
    """One matrix, written out: W <- (1 - decay) W - rate g."""
    width, decay, depth = 8, 0.2, 1
    opt = tp.SGD(RATES, weight_decay=decay, decoupled=True, independent=True)
    rng = np.random.default_rng(0)
    U, nV = rng.standard_normal((2, width))
    W = rng.standard_normal((depth, width, width)) / np.sqrt(width)
    method = tp.methods.Dense(weights={"U": U, "nV": nV, "W": W})
    found = tp.train(tp.ResNet(), TASK, opt, SCALE, depth=depth, width=width, method=method).outputs.ravel()
    weights, expected = W[0].copy(), []
    for rate, xi, y in zip(RATES, TASK.inputs.ravel(), TASK.targets.ravel()):
        x = xi * U
        f = nV @ (x + weights @ x) / width
        expected.append(f)
        weights = (1 - decay) * weights - rate * (f - y) * np.outer(nV, x) / width
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("opt", DECAYED[:3], ids=("SGD", "momentum", "Muon"))
def test_independent_decay_by_all_exact_methods(opt: Any) -> None:
    opt = replace(opt, independent=True)
    task = tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5])
    opt = replace(opt, lr=RATES[:3])
    rho, w = opt.memory(3)
    assert rho.tolist() == pytest.approx([1, 0.8, 0.64]) and w[2, 0] == pytest.approx(
        0.8 * w[1, 0] + getattr(opt, "momentum", 0) * RATES[1] * isinstance(opt, tp.SGD))
    finite = tp.train(tp.ResNet(), task, opt, SCALE, depth=64).outputs
    limit = tp.train(tp.ResNet(), task, opt, SCALE, depth=tp.oo).outputs
    halved = tp.train(tp.ResNet(), task, opt, SCALE, depth=128).outputs
    assert np.abs(halved - limit).max() < 0.6 * np.abs(finite - limit).max() < 0.05
    if isinstance(opt, tp.SGD):
        exact = tp.train(tp.ResNet(), task, opt, SCALE, depth=8, method="coefficients").outputs
        np.testing.assert_allclose(exact, tp.train(tp.ResNet(), task, opt, SCALE, depth=8).outputs, atol=1e-12)


def test_independent_needs_a_decay_beside_the_gradient() -> None:
    with pytest.raises(ValueError, match="independent: got True with decoupled=False"):
        tp.SGD(0.5, weight_decay=0.1, independent=True)
    with pytest.raises(ValueError, match="independent"):
        tp.Adam(independent="yes")


@settings(max_examples=50, deadline=None)
@given(st.floats(0.01, 10), st.integers(1, 60), st.data())
def test_schedules(peak: float, steps: int, data: st.DataObject) -> None:
    """They rise to the peak, never exceed it, and fall to no less than the floor, as PyTorch's do between them."""
    warmup, fall = data.draw(st.integers(0, steps)), data.draw(st.sampled_from(("constant", "linear", "cosine")))
    floor = data.draw(st.floats(0, peak))
    rates = np.array(tp.schedule(peak, steps, warmup, fall, floor))
    assert len(rates) == steps and rates.max() <= peak * (1 + 1e-12) and np.all(rates > 0)
    assert np.allclose(np.diff(rates[:warmup]), peak / max(warmup, 1)) and np.all(rates[warmup:] >= floor * (1 - 1e-12))
    if warmup < steps:
        assert rates[warmup] == pytest.approx(peak)
        assert np.all(np.diff(rates[warmup:]) <= 1e-12 * peak)
    if fall == "constant":
        assert np.all(rates[warmup:] == peak)
    if fall == "linear":
        assert np.allclose(np.diff(rates[warmup:]), (floor - peak) / max(steps - warmup, 1))


def test_a_cosine_is_half_way_down_in_the_middle_and_slow_at_the_top() -> None:
    rates = tp.schedule(1.0, 8, fall="cosine", floor=0.2)
    assert rates[4] == pytest.approx(0.6) and 1 - rates[1] < 0.05 and rates[7] < 0.25


def test_bad_schedules_are_named() -> None:
    for kwargs, words in ((dict(floor=2.0), "floor: got 2.0"), (dict(warmup=9), "warmup: got 9"),
                          (dict(fall="log"), "fall: got 'log'")):
        with pytest.raises(ValueError, match=words):
            tp.schedule(1.0, 8, **kwargs)  # type: ignore[arg-type]
