"""The feature diversity exponent: measured in the limit against derived, and what finite depth shows of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.testing import rationals

CELLS = [(0.5, 0.5), (0.75, 0.25), (1, 0)]
H = sp.Rational(1, 2)
ALPHAS = st.one_of(st.just(H), rationals(H, 1))


@pytest.mark.parametrize("alpha, gamma", [*CELLS, (1.5, -0.5), (0.5, 1)])
@pytest.mark.parametrize("t", [1, 2])
def test_measured_is_derived(alpha: float, gamma: float, t: int) -> None:
    found = tp.theory.measure_diversity(alpha, gamma, t=t, depths=[])
    assert found.derived is not None and found.exponent == pytest.approx(float(found.derived), abs=0.03)
    assert found.limit.uncertainty < 0.01 and found.limit.depth is None and found.depths == ()


@settings(max_examples=25)
@given(alpha=ALPHAS, seed=st.integers(0, 2**32 - 1), p=st.floats(0, 0.75), batch=st.integers(1, 2),
       t=st.integers(1, 2))
def test_measured_is_derived_whatever_is_learnt(alpha: sp.Rational, seed: int, p: float, batch: int, t: int) -> None:
    """Claims 5.4 and 5.5, at every step after the first: 1/2 at alpha = 1/2, else 0."""
    rng = np.random.default_rng(seed)
    task = tp.Task(rng.normal(size=(3, batch, 2)), rng.normal(size=(3, batch, 2)))
    found = tp.theory.measure_diversity(alpha, 1 - alpha, task, tp.SGD(0.4), (t, 0), p, depths=[])
    assert found.derived == (H if alpha == H else 0)
    assert found.exponent == pytest.approx(float(found.derived), abs=0.03)


@pytest.mark.parametrize("alpha, gamma", CELLS)
def test_at_the_first_step_nothing_differs_above_one_half(alpha: float, gamma: float) -> None:
    found = tp.theory.measure_diversity(alpha, gamma, t=0, depths=[])
    if alpha == 0.5:
        assert found.exponent == pytest.approx(0.5, abs=0.03)
    else:
        assert found.exponent is None and not np.any(found.limit.values)


def test_where_updates_and_noise_die_it_is_undefined() -> None:
    found = tp.theory.measure_diversity(0.75, 1, depths=[2**10])
    assert found.exponent is None and found.derived is None
    assert found.depths[0].exponent == pytest.approx(0.5, abs=0.01)  # what is left of the noise
    assert "oo          -         -  derived: None" in found.table()


@pytest.mark.parametrize("alpha, gamma", CELLS)
def test_finite_depth_approaches_the_limit(alpha: float, gamma: float) -> None:
    """The fitted exponents fall or rise to the limit's; the crossover is L^(1 - 2 alpha)."""
    found = tp.theory.measure_diversity(alpha, gamma, depths=[2**11, 2**13, 2**15])
    assert found.exponent is not None
    errors = [abs(one.exponent - found.exponent) for one in found.depths if one.exponent is not None]
    assert len(errors) == 3 and errors[0] > errors[1] > errors[2]
    for one in found.depths:
        assert one.depth is not None and one.crossover == pytest.approx(one.depth ** (1 - 2 * alpha))
        assert one.eps[0] * one.depth == 1 and one.eps[-1] == 0.25 and np.all(np.diff(one.values) > 0)


def test_differences_at_finite_depth_are_those_of_the_run() -> None:
    """At the layer time and the step asked for, of the task and the learning rate given."""
    task, opt = tp.Task([1, -0.5, 0.7, 0.2], [0.5, 1, -1, 0.1]), tp.SGD(0.5)
    one = tp.theory.measure_diversity(0.75, 0.25, task, opt, 2, 0.3, [50]).depths[0]
    run = tp.train(tp.ResNet(), task, opt, tp.DepthScaling(0.75, 0.25), 50)
    assert one.eps * 50 == pytest.approx([1, 2, 4, 8]) and one.depth == 50
    assert one.values == pytest.approx(run.feature_difference(2, 0.3, one.eps), rel=1e-12)


@pytest.mark.parametrize("alpha, gamma, smallest", [(0.5, 0.5, 4 / 1024), (0.75, 0.25, 4 / 32), (1.5, -0.5, 4 / 1024)])
def test_only_pieces_well_above_one_layer_and_the_crossover_are_fitted(alpha: float, gamma: float, smallest: float
                                                                       ) -> None:
    one = tp.theory.measure_diversity(alpha, gamma, depths=[1024]).depths[0]
    fitted = one.eps >= smallest
    power = np.polyfit(np.log(one.eps[fitted]), np.log(one.values[fitted]), 1)[0]
    assert one.exponent == pytest.approx(1 - power, abs=1e-9)


def test_depths_that_are_too_small_to_tell_say_so() -> None:
    """alpha = 0.55: eps* is 0.38 at 2^14, and what is seen below it is noise."""
    found = tp.theory.measure_diversity(0.55, 0.45, depths=[2**14])
    one = found.depths[0]
    assert one.exponent is None and found.exponent == pytest.approx(0, abs=0.03)
    local = np.diff(np.log(one.values)) / np.diff(np.log(one.eps))
    assert np.all(np.abs(local[one.eps[:-1] < 2**-8] - 0.5) < 0.05)
    assert tp.theory.measure_diversity(1, 0, depths=[1, 2, 3, 7]).depths[0].exponent is None
    assert "16384    3.8e-01         -" in found.table()


def test_progress_and_bad_input() -> None:
    told: list[Any] = []
    tp.theory.measure_diversity(1, 0, depths=[8, 16], progress=lambda *done: told.append(done))
    assert told == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(ValueError, match="p: got 0.8; expected a layer time in"):
        tp.theory.measure_diversity(1, 0, p=0.8)
    with pytest.raises(ValueError, match="t: got 3"):
        tp.theory.measure_diversity(1, 0, t=3, depths=[])
    with pytest.raises(ValueError, match="depths: got 0"):
        tp.theory.measure_diversity(1, 0, depths=[0])
    with pytest.raises(tp.Divergence, match="explodes"):
        tp.theory.measure_diversity(0.25, 0.75)
