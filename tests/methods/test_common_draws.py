"""The method of infinite depth for networks that do not close: what it says, refuses, reaches and adapts."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.methods import CommonDraws, common_draws
from tpcalc.propagators.depth_orders import DepthOrders, corrections, depth_orders
from tpcalc.propagators.extrapolation import Extrapolation, depth_weights
from tpcalc.studies.convergence import methods_at

TASK = tp.Task([1, 0.8], [1, -0.7])
PRE = tp.Problem(tp.ResNet("tanh", "pre_nonlin"), TASK, tp.SGD(1.0), tp.DepthScaling(), tp.oo)
BATCHES = tp.Task([[[0.5], [0.2]], [[0.4], [-0.3]]], [[[1.0], [0.3]], [[-0.7], [0.2]]], probes=[[0.7]])
QUICK = CommonDraws(tolerance=0.05, samples=256, coarsest=4)
R = sp.Rational


def test_the_run_says_how_sure_it_is() -> None:
    """The error estimate is its definition: Student's quantile for 16 batches is 2.1314."""
    run = tp.train(PRE, method=QUICK)
    assert (run.method, run.depth, run.width, run.exact) == ("common_draws", None, None, False)
    assert run.standard_error is not None and run.bias_bound is not None
    assert run.standard_error.shape == run.bias_bound.shape == run.outputs.shape == (2, 1, 1)
    assert np.isclose(run.error_estimate, np.max(2.13145 * run.standard_error + run.bias_bound), rtol=1e-5)
    assert run.error_estimate < 0.05 and "16 batches of 256 particles at depths 4, 8, 16 with" in run.notes[0]
    assert "powers 1, 2 of 1/L" in run.notes[0] and len(run.notes) == 1
    assert abs(run.outputs[1, 0, 0] - 0.4664) < 2 * run.error_estimate  # simulated elsewhere, to 3e-4


def test_seeds_decide_and_executors_do_not() -> None:
    one, again, other = (tp.train(PRE, method=replace(QUICK, seed=seed)) for seed in (3, 3, 4))
    with ThreadPoolExecutor(2) as executor:
        spread = tp.train(PRE, method=replace(QUICK, seed=3, executor=executor))
        assert pickle.loads(pickle.dumps(spread)).error_estimate == one.error_estimate
    assert np.array_equal(one.outputs, again.outputs) and np.array_equal(one.outputs, spread.outputs)
    assert not np.array_equal(one.outputs, other.outputs)
    assert np.max(np.abs(one.outputs - other.outputs)) < one.error_estimate + other.error_estimate


@given(st.integers(5, 30))
@settings(max_examples=2, deadline=None)
def test_two_seeds_agree_within_their_errors(seed: int) -> None:
    one, other = (tp.train(PRE, method=replace(QUICK, seed=s)) for s in (seed, seed + 100))
    assert np.max(np.abs(one.outputs - other.outputs)) < 1.5 * (one.error_estimate + other.error_estimate)


def test_auto_takes_it_after_the_exact_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common_draws, "BUDGET", 1.0)
    names = [row.name for row in tp.methods.table(PRE).rows]
    assert names[:7] == ["reflection", "collocation", "long_collocation", "loop_time", "extrapolated", "attention",
                         "common_draws"]
    assert tp.methods.table(PRE).chosen == "common_draws"
    closes = replace(PRE, net=tp.ResNet("tanh"))
    assert tp.methods.table(closes).chosen == "collocation" and CommonDraws().refuses(closes) is None
    run = tp.train(PRE, samples=256, batches=16, seed=1)
    assert run.method == "common_draws" and "mean of 16 batches of 256" in run.notes[0]


@pytest.mark.parametrize("net, task, truth", [
    (tp.ResNet(), TASK, "linear"), (tp.ResNet("tanh"), TASK, "tanh"),
    (tp.ResNet("tanh"), BATCHES, "batches and a probe")])
def test_limits_that_are_known(net: tp.ResNet, task: tp.Task, truth: str) -> None:
    asked = replace(PRE, net=net, task=task, opt=tp.SGD(0.5))
    exact, run = tp.train(asked), tp.train(asked, method=CommonDraws(tolerance=0.02, budget=2e6, samples=512))
    assert exact.method == "collocation" and np.max(np.abs(run.outputs - exact.outputs)) < 2 * run.error_estimate
    assert run.error_estimate < 0.03, truth
    if exact.probe_outputs is not None:
        assert run.probe_outputs is not None and run.probe_outputs.shape == exact.probe_outputs.shape
        assert np.max(np.abs(run.probe_outputs - exact.probe_outputs)) < 2 * run.error_estimate


def test_what_was_reached_at_the_budget_is_said() -> None:
    run = tp.train(PRE, method=CommonDraws(tolerance=1e-6, budget=1.0, samples=256, coarsest=2))
    assert run.error_estimate > 1e-6 and run.notes[1] == (
        "the tolerance 1e-06 is not reached with a budget of 1 particles times layers: the error is "
        f"{run.error_estimate:.2g}")


def test_batches_are_added_up_to_the_budget() -> None:
    few = tp.train(PRE, method=CommonDraws(tolerance=1e-5, budget=1.0, samples=256, coarsest=2, seed=1))
    more = tp.train(PRE, method=CommonDraws(tolerance=1e-5, budget=256 * 14 * 70, samples=256, coarsest=2, seed=1))
    assert "mean of 16 batches" in few.notes[0] and "mean of 16 batches" not in more.notes[0]
    assert more.error_estimate < few.error_estimate


def test_a_depth_is_added_where_the_coarsest_moves_the_limit() -> None:
    """Linear: framed draws are exact, so that what is left is bias, and depths are what helps."""
    asked = replace(PRE, net=tp.ResNet(), task=tp.Task([1, 0.8], [1, -0.7]))
    few = tp.train(asked, method=CommonDraws(tolerance=3e-3, coarsest=4, samples=1024))
    exact = tp.train(asked)
    assert few.standard_error is not None and np.max(few.standard_error) < 1e-3
    assert "depths 4, 8, 16, 32" in few.notes[0] and few.error_estimate < 3e-3
    assert np.max(np.abs(few.outputs - exact.outputs)) < few.error_estimate


def test_depths_that_do_not_settle_are_refused_with_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def grows(job: Any) -> np.ndarray:
        noise = np.random.default_rng(job.batch).normal(size=2) * 1e-3
        return np.array([noise + np.log2(8 * 2**level) ** 2 / 10 for level in job.levels])

    monkeypatch.setattr(common_draws, "_run", grows)
    with pytest.raises(tp.Divergence, match=r"^depth: got tp.oo; outputs at depths 8, 16, 32.* do not settle: from "
                                            r"each to the next they change by 7.00e-01, 9.00e-01") as caught:
        tp.train(PRE, method=CommonDraws(budget=1e7))
    assert caught.value.step is None


def test_a_sampled_network_that_blows_up_is_a_divergence_with_its_place() -> None:
    with pytest.raises(tp.Divergence, match="^training diverges at step") as caught:
        tp.train(replace(PRE, opt=tp.SGD(1e200), task=tp.Task([1, 1, 1, 1], [1e100, 1, 1, 1])), method=QUICK)
    assert caught.value.step is not None


@pytest.mark.parametrize("change, kind, said", [
    (dict(scale=tp.DepthScaling(0.25, 0.75)), tp.Divergence, "explodes at initialization"),
    (dict(scale=tp.DepthScaling(0.5, 0), opt=tp.SignSGD(0.5)), tp.Divergence, "a limit needs alpha >= 1/2"),
    (dict(scale=tp.DepthScaling(sp.sqrt(2) / 2, 1 - sp.sqrt(2) / 2)), ValueError,
     "depth: got tp.oo; no rule says whether there is a limit: block: got pre_nonlin"),
    (dict(depth=8), ValueError, "method: got 'common_draws' with depth 8"),
    (dict(width=64), ValueError, "method: got 'common_draws' with width 64")])
def test_no_limit_is_an_answer_and_no_rule_a_refusal(change: dict, kind: type, said: str) -> None:
    asked = replace(PRE, **change)
    with pytest.raises(kind) as caught:
        tp.train(asked, method=QUICK)
    assert said in str(caught.value)
    assert (QUICK.refuses(asked) is None) == (kind is tp.Divergence)


def test_layers_are_not_known() -> None:
    with pytest.raises(ValueError, match="^keep_nodes: got 'all'; method='common_draws' knows outputs alone"):
        tp.train(PRE, method=QUICK, keep_nodes="all")
    with pytest.raises(ValueError, match="got a run by method='common_draws'"):
        tp.train(PRE, method=QUICK).forward_covariance


@pytest.mark.parametrize("option", [dict(tolerance=0), dict(tolerance=-1.0), dict(budget=0), dict(samples=0),
                                    dict(batches=15), dict(coarsest=0), dict(seed=-1), dict(executor=3)])
def test_options_that_mean_nothing_are_refused(option: dict) -> None:
    name, = option
    with pytest.raises(ValueError, match=f"^{name}: got .*; expected"):
        CommonDraws(**option)


def test_weights_remove_the_powers() -> None:
    assert np.allclose(depth_weights(np.array([1.0, 2.0, 3.0])), np.array([-1, 14, -56, 64]) / 21)
    powers = np.array([0.2, 0.4, 0.8])
    weights, depths = depth_weights(powers), 3.0 * 2 ** np.arange(4)
    assert np.isclose(weights.sum(), 1) and np.max(np.abs(weights @ depths[:, None] ** -powers)) < 1e-9


def test_corrections_are_taken_off_and_bounded() -> None:
    """2 - 3 / L + 5 / L^2 at L = 8, 16, 32 gives 2; what the coarsest depth changes is 5 (1/16)(1/32)."""
    depths = np.array([8.0, 16, 32])
    noise = np.random.default_rng(0).normal(size=(20, 1, 1)) * 1e-3
    values = (2 - 3 / depths + 5 / depths**2)[None, :, None] + noise
    found = Extrapolation(values, np.array([1.0, 2.0, 3.0]), 8)
    assert np.allclose(found.limit, 2 + noise.mean()) and np.isclose(found.bias_bound[0], 5 / 512)
    assert np.isclose(found.standard_error[0], noise.std(ddof=1) / np.sqrt(20)) and found.is_biased
    back = Extrapolation(values[:, ::-1], np.array([1.0, 2.0, 3.0]), 8)
    assert not found.grows(1e-9) and back.grows(1e-3) and not back.grows(1.0)


def test_a_bias_that_is_the_smaller_part_of_the_error_asks_for_no_depth() -> None:
    """More than chance, but less than half of the error: batches are what helps."""
    depths, normal = np.array([8.0, 16, 32]), np.random.default_rng(0).normal(size=(400, 1, 1))
    shares = {}
    for noise in np.geomspace(1e-3, 1, 40):
        found = Extrapolation((2 - 3 / depths + 5 / depths**2)[None, :, None] + noise * normal,
                              np.array([1.0, 2.0, 3.0]), 8)
        shares[float(found.bias_bound[0] / found.error)] = found.is_biased
    assert any(1 / 3 < share < 1 / 2 for share in shares)
    assert all(biased == (share > 1 / 2) for share, biased in shares.items())


def test_corrections_that_cancel_do_not_make_the_bound_vanish() -> None:
    """2 - 3 / L - 2 / L^2 + c / L^3 with c such that no depth left out changes the limit: it is off all the same."""
    depths, powers = np.array([8.0, 16, 32]), np.array([1.0, 2.0, 3.0])
    change = depth_weights(powers[:2]) - np.append(0, depth_weights(powers[:1]))
    c = 2 * (change @ depths**-2) / (change @ depths**-3)
    values = 2 - 3 / depths - 2 / depths**2 + c / depths**3
    found = Extrapolation(np.tile(values[None, :, None], (16, 1, 1)), powers, 8)
    error = abs(found.limit[0] - 2)
    assert abs(change @ found.values[0, :, 0]) < 1e-12 and error > 1e-3 and found.bias_bound[0] > error / 4


@pytest.mark.parametrize("net, alpha, gamma, powers", [
    (tp.ResNet(), R(1, 2), R(1, 2), [1, 2, 3]), (tp.ResNet(), R(3, 4), R(1, 4), [R(1, 2), 1, R(3, 2)]),
    (tp.ResNet("tanh", "pre_nonlin"), R(1, 2), R(1, 2), [1, 2, 3]),
    (tp.ResNet("tanh", "pre_nonlin"), R(3, 4), R(1, 4), [R(1, 2), 1, R(3, 2)]),
    (tp.ResNet("tanh"), R(9, 10), R(1, 10), [R(1, 5), R(2, 5), R(3, 5)]),  # cubes of the arguments' change, L^-2 gamma
    pytest.param(tp.ResNet("tanh", "pre_nonlin"), 1, 0, [1, 2, 3], marks=pytest.mark.slow),
    pytest.param(tp.ResNet("tanh", "pre_nonlin", train_embedding_readout=True), R(1, 2), R(3, 4),
                 [R(1, 4), R(1, 2), R(3, 4)],
                 marks=pytest.mark.slow)])
def test_powers_of_the_depth_are_derived(net: tp.ResNet, alpha: Any, gamma: Any, powers: list) -> None:
    found = depth_orders(net, tp.DepthScaling(alpha, gamma))
    assert np.allclose(found.first(3), [float(p) for p in powers])


def test_blocks_that_are_too_large_to_count_have_the_powers_of_one_matrix() -> None:
    one = corrections(tp.ResNet("tanh"), R(9, 10), R(1, 10))
    assert corrections(tp.ResNet("erf", "mlp", matrices=6), R(9, 10), R(1, 10)) == one


def test_sums_of_powers_come_in_order() -> None:
    assert DepthOrders((Fraction(4, 5), Fraction(1)), ()).first(5) == [0.8, 1.0, 1.6, 1.8, 2.0]


def test_a_trivial_limit_is_said() -> None:
    asked = replace(PRE, scale=tp.DepthScaling(0.5, 1.5))
    run = tp.train(asked, method=QUICK)
    assert "trivial limit" in run.notes[-1] and np.max(np.abs(run.outputs)) < run.error_estimate < 0.05


def test_convergence_finds_limits_that_do_not_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distances from the limit halve; draws that depths share leave changes of 1/L in spite of few particles."""
    monkeypatch.setattr(common_draws, "BUDGET", 1.0)
    found = tp.convergence(PRE.net, TASK, PRE.opt, PRE.scale, [2, 4, 8])
    assert found.limit is not None and found.limit.method == "common_draws" and found.distance is not None
    assert 0.6 < found.cauchy_order.order < 1.4 and found.distance[2] < found.distance[0] / 2


def test_a_stream_that_explodes_where_no_power_of_the_depth_shows_it_does_not_settle() -> None:
    """d C / d tau = E x^4 = 3 C^2: infinite at layer time 1/3, which powers of L do not see."""
    asked = replace(PRE, net=tp.ResNet(sp.Symbol("h", real=True) ** 2, "pre_nonlin"))
    with pytest.raises(tp.Divergence, match="do not settle|training diverges"):
        tp.train(asked, method=CommonDraws(budget=1.0, samples=256))


def test_convergence_shares_draws_where_it_can() -> None:
    problems = [replace(PRE, depth=depth) for depth in (2, 4, 8)]
    assert [one.coarsest for one in methods_at(problems, "auto")] == [2, 2, 2]  # type: ignore[attr-defined]
    given_one = tp.methods.Particles(samples=256)
    assert methods_at(problems, given_one) == [given_one] * 3
    assert methods_at([replace(PRE, depth=depth) for depth in (2, 3)], "particles") == [tp.methods.Particles()] * 2
    real = [replace(problem, width=16) for problem in problems]
    assert [one.coarsest for one in methods_at(real, "conditioned")] == [2, 2, 2]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="^depth: got 12 with coarsest=8"):
        tp.train(replace(PRE, depth=12), method=tp.methods.Particles(coarsest=8))
