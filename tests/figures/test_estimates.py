"""What numbers with errors say of a claim, on numbers whose answers are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpcalc.figures.curve import Curve
from tpcalc.figures.estimates import (Estimate, all_of, best_loss, best_octaves, jackknife, negation, over_seeds, shift,
                                      slope)

RATES = 2.0 ** np.arange(-4, 5)


def parabolas(lows: np.ndarray) -> np.ndarray:
    """Losses (rates, seeds) whose minima are at powers of 2."""
    return 1 + (np.log2(RATES)[:, None] - lows) ** 2


def test_a_claim_is_true_false_or_open() -> None:
    sure, wide = Estimate(0.5, 0.01, 4), Estimate(0.5, 1.0, 4)
    assert sure.within(0, 1) is True and sure.within(1, 2) is False and sure.within(-1, 0) is False
    assert wide.within(0, 1) is None and wide.above(0) is None
    assert sure.above(0) is True and sure.above(1) is False and sure.below(1) is True and sure.below(0) is False
    assert (-sure).value == -0.5 and (sure - wide).value == 0
    assert (sure - wide).error == pytest.approx(math.hypot(0.01, 1))


def test_no_difference_says_nothing() -> None:
    assert Estimate(0.0, 0.0, 4).above(0) is None and Estimate(0.0, 0.0, 4).below(0) is None


def test_a_blow_up_beside_the_best_value_leaves_half_a_step() -> None:
    """There is no parabola: what is best may be anywhere within the grid's step."""
    losses = parabolas(np.zeros(2))
    blown = np.where(RATES[:, None] > 1, np.inf, losses)
    found = shift(RATES, losses, blown)
    assert found.value == 0 and found.grid == 0.5 and found.margin == 0.5 and not found.open
    assert "and 0.5 of the grid" in str(found) and found.within(-0.4, 1) is None and found.within(-0.6, 1) is True
    blown[:, 1] = losses[:, 1]
    assert shift(RATES, blown, losses).grid == 0.25 and (found - found).grid == 1


def test_all_values_that_blow_up_are_above_the_best() -> None:
    octaves, ends = best_octaves(RATES, np.full((9, 2), np.inf))
    assert ends and octaves.tolist() == [-4, -4]


def test_the_deepest_is_compared_with_others() -> None:
    """Not with itself where it is the best."""
    losses = np.array([[[1.0, 1.1]], [[0.5, 0.7]], [[0.4, 0.5]]])
    curve = Curve((2, 4, 8), np.ones(1), losses)
    assert curve.degrades.value == pytest.approx(-0.15) and curve.degrades.error > 0
    assert curve.worsens("x").agrees is None and curve.gain.value == pytest.approx(0.6)


def test_what_ends_a_grid_lies_further_out() -> None:
    """It is outside for sure where it is outside, and not known to be inside."""
    assert Estimate(-3, 0.1, 4, True).within(-1, 1) is False and Estimate(0, 0.1, 4, True).within(-1, 1) is None
    assert "where the grid ends" in str(Estimate(-3, 0.1, 4, True))
    assert Estimate(math.nan, 1.0, 4).within(-1, 1) is None and str(Estimate(math.inf, 1, 4)) == "not finite"


def test_margins_cover_as_often_as_they_say() -> None:
    drawn = np.random.default_rng(0).normal(1.0, 2.0, (4000, 3))
    held = [abs(one.value - 1.0) <= one.margin for one in map(over_seeds, drawn)]
    assert abs(np.mean(held) - 0.95) < 0.015


@given(st.lists(st.floats(-2, 2), min_size=3, max_size=3), st.floats(-1, 1))
def test_a_shift_is_found(lows: list[float], moved: float) -> None:
    before = np.array(lows)
    found = shift(RATES, parabolas(before), parabolas(before + moved))
    assert found.value == pytest.approx(moved, abs=1e-6) and found.error < 1e-6 and not found.open


def test_an_optimum_at_the_end_of_a_grid_is_open() -> None:
    octaves, ends = best_octaves(RATES, parabolas(np.array([0.0, 6.0])))
    assert ends and octaves == pytest.approx([0, 4])
    assert shift(RATES, parabolas(np.zeros(2)), parabolas(np.full(2, 6.0))).within(-1, 1) is False


def test_powers_are_fitted() -> None:
    x = np.array([2.0, 4.0, 8.0])
    found = slope(x, np.stack([3 * x**-0.5, 5 * x**-0.7], axis=1))
    assert found.value == pytest.approx(-0.6) and found.error == pytest.approx(0.1)


def test_the_error_of_a_mean_by_leaving_out() -> None:
    drawn = np.random.default_rng(1).normal(size=12)
    assert jackknife(lambda v: float(v.mean()), drawn).error == pytest.approx(over_seeds(drawn).error)


def test_least_losses_are_those_of_each_seed() -> None:
    assert best_loss(np.array([[[1.0, 5.0], [2.0, 4.0]], [[3.0, 6.0], [0.5, 7.0]]])).tolist() == [0.5, 4.0]


def test_answers_are_put_together() -> None:
    assert [negation(one) for one in (True, False, None)] == [False, True, None]
    assert all_of([True, None]) is None and all_of([True, None, False]) is False and all_of([True, True]) is True
