"""Error estimates hold what they say: particles with 95% confidence, exact readings relative to the scale of f."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from support.closeness import assert_close
from support.nightly import few, few_of
from tpcalc.propagators.training import require_known
from tpcalc.results.sampled import CONFIDENCE, joint_error

NET = tp.ResNet()
INPUTS, TARGETS = np.array([1.0, 0.8, -0.6]), np.array([1.0, -0.7, 0.5])


@pytest.mark.parametrize("batches", [2, 3, 8])
@pytest.mark.parametrize("outputs", [1, 6])
def test_means_of_few_batches_are_held_with_the_confidence_that_is_said(batches: int, outputs: int) -> None:
    """Independent normal outputs of one variance: exactly so for one, and at least for several."""
    tries = 8000
    values = np.random.default_rng(batches).normal(size=(tries, batches, outputs))
    errors = values.std(axis=1, ddof=1) / np.sqrt(batches)
    held = np.mean([np.abs(mean).max() <= joint_error(error, batches)
                    for mean, error in zip(values.mean(axis=1), errors)])
    spread = 4 * np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / tries)
    assert held > CONFIDENCE - spread
    if outputs == 1:
        assert held < CONFIDENCE + spread
        one_standard_error = np.mean(np.abs(values.mean(axis=1)) <= errors)
        assert one_standard_error < 0.7


def test_outputs_that_are_not_random_take_no_part() -> None:
    assert joint_error(np.array([0.0, 0.0, 2.0]), 8) == joint_error(np.array([2.0]), 8)
    assert joint_error(np.zeros(3), 8) == 0


def test_particles_are_within_their_error_of_the_exact_outputs() -> None:
    """Eighty tasks and seeds: fewer than 4 misses are expected; one standard error misses dozens."""
    held, standard = [], []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        task = tp.Task(rng.normal(size=2), rng.normal(size=2))
        exact = tp.train(NET, task, tp.SGD(0.5), tp.DepthScaling(), 1).outputs
        run = tp.train(NET, task, tp.SGD(0.5), tp.DepthScaling(), 1, method="particles", samples=512, seed=seed)
        missed = np.abs(run.outputs - exact).max()
        held.append(missed <= run.error_estimate)
        standard.append(missed <= run.error_estimate / joint_error(np.ones(run.outputs.size), 8))
    assert np.mean(held) >= 0.9 and np.mean(standard) < 0.9


def test_the_note_says_what_the_error_is() -> None:
    run = tp.train(tp.ResNet("tanh"), tp.Task([1.0], [1.0]), tp.SGD(), tp.DepthScaling(), 1, samples=100, batches=3)
    assert run.notes == ("mean of 3 batches of 100 particles; the error holds all outputs with 95% confidence",)


@pytest.mark.parametrize("factor", [1e-6, 1e-2, 1e3, 1e6])
def test_outputs_of_any_scale_are_known_relative_to_it(factor: float) -> None:
    """Inputs and targets times a factor, learning rates over its square: outputs times it, and their error."""
    def run(scale: float) -> tp.Run:
        return tp.train(NET, tp.Task(scale * INPUTS, scale * TARGETS), tp.SGD(1 / scale**2), tp.DepthScaling(), tp.oo)

    one, other = run(1.0), run(factor)
    assert_close(other.outputs / factor, one.outputs, 1e-11)
    assert other.error_estimate < 1e-11 * factor


@pytest.mark.parametrize("factor, size", few_of([(30, 1e3), (300, 1e5)], (30, 1e3)))
def test_large_inputs_are_answered_where_their_digits_are_known(factor: int, size: float) -> None:
    """|f| of 2e3 and 2e5, known to 1e-11 of it: the digits of the largest output are there; the last one is 0 to within
    them."""
    task = tp.Task(factor * INPUTS, TARGETS)
    run = tp.train(NET, task, tp.SGD(), tp.DepthScaling(), tp.oo)
    assert np.abs(run.outputs).max() > size and run.error_estimate < 1e-10 * np.abs(run.outputs).max()
    short = tp.train(NET, tp.Task(task.inputs[:2], task.targets[:2]), tp.SGD(), tp.DepthScaling(), tp.oo)
    assert_close(run.outputs[:2], short.outputs, 1e-10)


@pytest.mark.parametrize("factor", few([1e4, 1e6], 1e4))
def test_targets_and_inputs_are_under_one_rule(factor: float) -> None:
    """An output that is 0 but for rounding, beside one of twice the factor: its error is that of the scale of f."""
    run = tp.train(NET, tp.Task([1.0, 0.8, 0.0], factor * TARGETS), tp.SGD(), tp.DepthScaling(), tp.oo)
    assert abs(run.outputs[2, 0, 0]) <= run.error_estimate < 1e-12 * np.abs(run.outputs).max()


def test_the_rule_is_in_the_message() -> None:
    require_known(0.1, 1.0, "", "")
    for error, scale in ((0.11, 1.0), (2e4, 1e5), (1e-7, 1e-7), (float("nan"), 1.0), (1.0, 0.0)):
        with pytest.raises(tp.Divergence, match="what: outputs of size .* are known to .* only, which is more than 0.1 "
                                                "of the scale of f; advice"):
            require_known(error, scale, "what", "advice")
