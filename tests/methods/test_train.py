"""``train``: which reading it takes, what it returns, and what it refuses before any work."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.testing import DrawnProblem, problems

NET, OPT, SCALE = tp.ResNet("linear"), tp.SGD(0.5), tp.DepthScaling()
RNG = np.random.default_rng(0)
TASK = tp.Task(RNG.normal(size=(3, 2, 2)) / 2, RNG.normal(size=(3, 2, 1)), probes=RNG.normal(size=(4, 2)))
SCALARS = tp.Task((1, 0.8, -0.6), (1, -0.7, 0.5))

READINGS = {"reflection": (5, {}), "coefficients": (5, {"method": "coefficients"}), "dense": (5, {"width": 32}),
            "collocation": (tp.oo, {})}


@pytest.mark.parametrize("method", READINGS)
def test_a_run_has_the_shapes_it_declares(method: str) -> None:
    depth, settings = READINGS[method]
    run = tp.train(NET, TASK, OPT, SCALE, depth, keep_nodes=[0, 0.4, 1], **settings)
    assert run.method == method
    assert run.outputs.shape == (3, 2, 1) and run.losses.shape == (3,)
    assert run.probe_outputs is not None and run.probe_outputs.shape == (3, 4, 1)
    assert_close(run.layer_times, [0, 0.4, 1], 1e-15)
    assert run.forward_covariance.shape == run.backward_covariance.shape == (3, 6, 6)
    assert run.depth == (None if depth is tp.oo else 5) and run.width == settings.get("width")
    assert run.error_estimate > 0
    assert_close(run.losses, 0.5 * np.mean((run.outputs - TASK.targets)[..., 0] ** 2, axis=1), 1e-15)
    assert tp.train(NET, SCALARS, OPT, SCALE, depth, **settings).probe_outputs is None


@pytest.mark.parametrize("method", READINGS)
def test_keeping_nodes_changes_nothing_but_what_is_kept(method: str) -> None:
    """Covariances asked for later are those kept at once."""
    depth, settings = READINGS[method]
    lazy = tp.train(NET, TASK, OPT, SCALE, depth, **settings)
    kept = tp.train(NET, TASK, OPT, SCALE, depth, keep_nodes="all", **settings)
    assert_close(lazy.outputs, kept.outputs, 1e-11)
    if method == "collocation":  # the meshes of the two need not be the same
        some = tp.train(NET, TASK, OPT, SCALE, depth, keep_nodes=lazy.layer_times)
        assert_close(lazy.forward_covariance, some.forward_covariance, 1e-11)
    else:
        assert_close(lazy.layer_times, np.arange(6) / 5, 1e-15)
        assert_close(lazy.forward_covariance, kept.forward_covariance, 1e-13)
        assert_close(lazy.backward_covariance, kept.backward_covariance, 1e-13)


def test_kept_layer_times_are_those_of_the_nearest_nodes() -> None:
    every = tp.train(NET, TASK, OPT, SCALE, 5, keep_nodes="all")
    some = tp.train(NET, TASK, OPT, SCALE, 5, keep_nodes=[0.39, 0.99])
    assert_close(some.layer_times, [0.4, 1.0], 1e-15)
    assert_close(some.forward_covariance, every.forward_covariance[[2, 5]], 1e-14)
    assert_close(tp.train(NET, TASK, OPT, SCALE, 5, keep_nodes=0.6).layer_times, [0.6], 1e-15)


@given(problems(max_steps=2, max_depth=4))
def test_training_is_deterministic(problem: DrawnProblem) -> None:
    a, b = (tp.train(NET, *problem) for _ in range(2))
    assert np.array_equal(a.outputs, b.outputs)


def test_a_seed_is_a_network() -> None:
    a, b, c = (tp.train(NET, TASK, OPT, SCALE, 5, width=32, seed=seed).outputs for seed in (3, 3, 4))
    assert np.array_equal(a, b) and not np.array_equal(a, c)


@pytest.mark.parametrize("method", READINGS)
def test_progress_is_told_after_every_step(method: str) -> None:
    """The collocation solver may train several times; it ends with all steps done."""
    depth, settings = READINGS[method]
    told: list[tuple[int, int]] = []
    tp.train(NET, TASK, OPT, SCALE, depth, progress=lambda done, steps: told.append((done, steps)), **settings)
    assert told[:3] == [(1, 3), (2, 3), (3, 3)] and told[-1] == (3, 3)


def test_whole_numbers_of_numpy_and_sympy_will_do() -> None:
    plain = tp.train(NET, TASK, OPT, SCALE, 4).outputs
    for depth in (np.int64(4), sp.Integer(4)):
        assert np.array_equal(tp.train(NET, TASK, OPT, SCALE, depth).outputs, plain)
    assert tp.train(NET, TASK, OPT, SCALE, float("inf"), float("inf")).method == "collocation"


def refused(said: str, error: type[Exception] = ValueError, **changes: Any) -> None:
    """The message contains ``said``, and the check comes before the work."""
    arguments: dict[str, Any] = {"net": NET, "task": TASK, "opt": OPT, "scale": SCALE, "depth": 4} | changes
    worked = []
    start = time.perf_counter()
    with pytest.raises(error) as caught:
        tp.train(progress=lambda *_: worked.append(1), **arguments)
    assert said in str(caught.value)
    assert not worked and time.perf_counter() - start < 1


@pytest.mark.parametrize("value", [0, -1, 2.5, True, False, 4.0, "4", None, float("nan"), -float("inf"),
                                   sp.Rational(5, 2), sp.Symbol("L"), [4], np.array([4, 4])])
def test_depths_that_are_no_depths_are_refused(value: Any) -> None:
    refused(f"depth: got {value!r}; expected a whole number of at least 1, or tp.oo", depth=value)


@pytest.mark.parametrize("value", [0, -3, 2.5, True, "wide", float("nan")])
def test_widths_that_are_no_widths_are_refused(value: Any) -> None:
    refused(f"width: got {value!r}; expected a whole number of at least 1, or tp.oo", width=value)


@pytest.mark.parametrize("value", ["particle", "", None, 3, np.array(["auto", "dense"])])
def test_unknown_methods_are_refused(value: Any) -> None:
    refused(f"method: got {value!r}; expected 'auto', 'coefficients', 'extrapolated', 'loop_time', ",
            method=value)


@pytest.mark.parametrize("method, depth, width, said", [
    ("reflection", 4, 16, "method: got 'reflection' with width 16; expected 'dense' and 'conditioned'"),
    ("coefficients", 4, 16, "method: got 'coefficients' with width 16; expected 'dense' and 'conditioned'"),
    ("collocation", tp.oo, 16, "method: got 'collocation' with width 16; expected 'dense' and 'conditioned'"),
    ("dense", 4, tp.oo, "method: got 'dense' with width tp.oo; expected 'dense' and 'conditioned'"),
    ("collocation", 4, tp.oo, "'collocation' with depth 4; expected 'collocation', 'long_collocation', 'extrap"),
    ("reflection", tp.oo, tp.oo, "got 'reflection' with depth tp.oo; expected 'collocation', 'long_collocation', "),
    ("coefficients", tp.oo, tp.oo, "method: got 'coefficients' with depth tp.oo; expected 'collocation'"),
    ("dense", tp.oo, 16, "with depth tp.oo"),
    ("auto", tp.oo, 16, "with depth tp.oo"),
])
def test_methods_that_do_not_go_with_depth_and_width_are_refused(method: str, depth: Any, width: Any, said: str
                                                                 ) -> None:
    refused(said, method=method, depth=depth, width=width)


@pytest.mark.parametrize("value", [-0.1, 1.1, [0.5, 2], [], [[0.5]], "some"])
def test_layer_times_outside_of_the_network_are_refused(value: Any) -> None:
    refused("keep_nodes: ", keep_nodes=value)


@pytest.mark.parametrize("value", [float("nan"), [0, float("inf")]])
def test_layer_times_that_are_not_finite_are_refused(value: Any) -> None:
    refused("NaN or infinite", keep_nodes=value)


@pytest.mark.parametrize("name, kind", [("net", "ResNet"), ("task", "Task"), ("opt", "SGD"), ("scale", "DepthScaling")])
@pytest.mark.parametrize("value", [None, "linear", 0.5, tp])
def test_things_of_the_wrong_type_are_refused(name: str, kind: str, value: Any) -> None:
    refused(f"{name}: got {value!r}; expected a tp.{kind}", **{name: value})


def test_schedules_of_the_wrong_length_are_refused() -> None:
    for settings in ({}, {"width": 16}, {"depth": tp.oo}, {"method": "coefficients"}):
        refused("lr: got 2 learning rates for a task of 3 steps; expected one number, or one a step",
                opt=tp.SGD([0.1, 0.2]), **settings)


def test_symbols_are_refused_where_numbers_are_needed() -> None:
    scale = tp.DepthScaling(sp.Symbol("alpha", real=True))
    refused("alpha, gamma: got alpha, 1/2; expected numbers", scale=scale)


@pytest.mark.parametrize("settings, said", [
    ({"depth": 10**5}, "method='reflection' at depth 100000 needs "),
    ({"depth": 10**5}, "fewer steps, a smaller batch or a smaller depth fit"),
    ({"depth": 1000, "method": "coefficients"}, "use method='reflection', whose memory is linear in the depth"),
    ({"depth": 10, "width": 10**4}, "with 10 matrices of width 10000 needs 7.5 GiB, this machine has 0.0 GiB"),
])
def test_too_much_memory_is_refused_before_the_work(settings: dict, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of four megabytes."""
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1024}[name])
    refused(said, MemoryError, **settings)
    assert tp.train(NET, TASK, OPT, SCALE, 100).depth == 100


@pytest.mark.parametrize("alpha, gamma, said", [
    (0.4, 0.6, "alpha = 2/5, gamma = 3/5 given with depth=tp.oo: the network explodes at initialization"),
    (0, 1, "alpha = 0, gamma = 1 given with depth=tp.oo: the network explodes at initialization"),
    (0.5, 0.4, "alpha = 1/2, gamma = 2/5 given with depth=tp.oo: the first update moves the output by L^(1/10)"),
    (0.75, 0, "alpha = 3/4, gamma = 0 given with depth=tp.oo: the first update moves the output by L^(1/4)"),
    (1, -0.5, "alpha = 1, gamma = -1/2 given with depth=tp.oo: the first update moves the output by L^(1/2)"),
])
def test_infinite_depth_without_a_limit_is_divergence_with_the_reason(alpha: float, gamma: float, said: str) -> None:
    refused(said, tp.Divergence, scale=tp.DepthScaling(alpha, gamma), depth=tp.oo)
    refused("a limit needs alpha >= 1/2 and alpha + gamma >= 1", tp.Divergence, scale=tp.DepthScaling(alpha, gamma),
            depth=tp.oo)


@pytest.mark.parametrize("alpha, gamma, said", [(0.5, 0.5, ""), (0.75, 0.25, ""), (1, 0, ""), (0.5, 1, "trivial limit"),
                                                (0.9, 0.5, "trivial limit"), (1.5, -0.5, "h = W x does not")])
def test_every_cell_with_a_limit_says_what_it_is(alpha: float, gamma: float, said: str) -> None:
    run = tp.train(NET, TASK, OPT, tp.DepthScaling(alpha, gamma), tp.oo)
    assert (said in " ".join(run.notes)) if said else not run.notes
    if said == "trivial limit":
        assert np.all(run.outputs == 0)


def test_all_alpha_above_one_half_have_one_limit() -> None:
    """On the line alpha + gamma = 1, that is; alpha = 1/2 has another."""
    limits = [tp.train(NET, TASK, OPT, tp.DepthScaling(a, 1 - a), tp.oo).outputs for a in (0.5, 0.6, 0.75, 1, 1.5)]
    for other in limits[2:]:
        assert np.array_equal(limits[1], other)
    assert np.max(np.abs(limits[1] - limits[0])) > 1e-2


@pytest.mark.parametrize("call, said", [
    (lambda run: run.gamma(3, 0, 0, 0, 1, 1), "t: got 3; expected steps 0..2, inputs 0..0"),
    (lambda run: run.gamma(1, -2, 0, 0, 1, 1), "s: got -2; expected steps 0..2"),
    (lambda run: run.gamma(1, 0, 2, 0, 1, 1), "a: got 2; expected 0 (forward) and 1 (backward)"),
    (lambda run: run.gamma(1, 0, 0, -1, 1, 1), "b: got -1; expected 0 (forward) and 1 (backward)"),
    (lambda run: run.gamma(1, 0, 0, 0, 1.5, 1), "p: got 1.5; expected a layer time in [0, 1]"),
    (lambda run: run.c(1, 0, 0, float("nan")), "p: got nan; expected a layer time in [0, 1]"),
    (lambda run: run.c((1, 1), 0, 0, 1), "t: got (1, 1); expected steps 0..2, inputs 0..0"),
])
def test_gamma_and_c_refuse_what_is_outside(call: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        call(tp.train(NET, SCALARS, OPT, SCALE, 4))
    assert said in str(caught.value)


@pytest.mark.parametrize("task, settings, said", [
    (TASK, {}, "expected, with 2 inputs a step, (step, input)"),
    (SCALARS, {"width": 16}, "got a network of width 16; coefficients exist at infinite width"),
    (tp.Task(np.ones((2, 1, 1)), np.ones((2, 1, 2))), {}, "defined for scalar outputs; this task has d_out = 2"),
])
def test_gamma_and_c_refuse_where_they_have_no_meaning(task: tp.Task, settings: dict, said: str) -> None:
    run = tp.train(NET, task, OPT, SCALE, 4, **settings)
    for call in (lambda: run.gamma(1, 0, 0, 0, 1, 1), lambda: run.c(1, 0, 0, 1)):
        with pytest.raises(ValueError) as caught:
            call()
        assert said in str(caught.value)
