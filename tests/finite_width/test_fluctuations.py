"""Fluctuations of runs: closed forms, reference values, errors, refusals, and what is said of a width."""

from __future__ import annotations

import math
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.closeness import assert_close
from support.references.depth_extrapolation import infinite_depth
from tpcalc.finite_width import fluctuations
from tpcalc.finite_width.fluctuations import SMALL, Fluctuations, next_order

NET, OPT = tp.ResNet("linear"), tp.SGD(0.3)
TASK = tp.Task((1, 0.8, -0.6, 1.1), (1, -0.7, 0.5, 1.2))
# upper triangle of Sigma, and b, printed to six decimals; at finite depth from whole matrices over all overlaps
REFERENCES = {
    (1, 0.5): ((2, 1.12, -.678720, 1.109933, .857600, -.389760, .533862, .230737, -.372984, .649359),
               (0, 0, .138240, -.234052)),
    (8, 0.5): ((2.565785, .880827, -.043743, -.008699, 2.052776, .489467, -1.116554, .149140, -.324458, .713123),
               (0, -.448117, .540398, -.023748)),
    (8, 0.75): ((1.413351, .738830, -.310799, .478445, .884979, -.129304, .029986, .070782, -.120178, .259586),
                (0, -.129514, .258241, -.181336)),
    (sp.oo, 0.5): ((2.718282, .844595, .241415, -.488972, 3.109077, 1.017379, -1.768611, .346300, -.595151, 1.027854),
                   (0, -.828165, .317399, .387182)),
    (sp.oo, 0.75): ((1, .596, -.308469, .500129, .585616, -.190775, .226310, .095362, -.152117, .272484),
                    (0, -.068400, .138259, -.118809)),
}


@pytest.mark.parametrize("depth, alpha", REFERENCES)
def test_reference_values(depth: int, alpha: float) -> None:
    covariance, bias = REFERENCES[depth, alpha]
    found = tp.train(NET, TASK, OPT, tp.DepthScaling(alpha, 1 - alpha), depth).fluctuations
    assert np.max(np.abs(found.covariance.reshape(4, 4)[np.triu_indices(4)] - covariance)) < 6e-7
    assert np.max(np.abs(found.bias.ravel() - bias)) < 6e-7


@pytest.mark.parametrize("alpha", [0.5, 0.75, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_two_steps_at_infinite_depth_have_closed_forms(alpha: float, seed: int) -> None:
    """With z = eta xi_0^2 and w = eta xi_0 y_0; [tpcalc/two_steps_at_finite_width] derives the covariances."""
    rng = np.random.default_rng(seed)
    (xi, other), (y, _), eta = rng.uniform(0.3, 1.2, 2), rng.uniform(-1, 1, 2), rng.uniform(0.2, 0.9)
    z, w, e = eta * xi**2, eta * xi * y, math.e
    if alpha == 0.5:
        first, cross = e * xi**2, xi * other * (e * (1 - e * z) + 5 / 6 * e**2 * w**2)
        last = other**2 * (e * (1 - e * z) ** 2 + 5 / 3 * e**2 * w**2 * (1 - e * z) + 20 / 3 * e**2 * w**2
                           + 47 / 60 * e**3 * w**4)
        bias = other * e**2 * (-5 / 3 * z * w + 11 / 30 * w**3)
    else:
        q = 1 - z + w**2 / 2
        first, cross, last, bias = xi**2, xi * other * q, other**2 * (q**2 + 4 * w**2), other * (w**3 / 6 - z * w)
    run = tp.train(NET, tp.Task((xi, other), (y, 0.0)), tp.SGD(eta), tp.DepthScaling(alpha, 1 - alpha), tp.oo)
    expected = [[first, cross], [cross, last]]
    assert_close(run.fluctuations.covariance.reshape(2, 2), expected, 1e-10)
    assert_close(run.fluctuations.bias.ravel(), [0, bias], 1e-8, last)
    assert np.max(np.abs(run.fluctuations.covariance.reshape(2, 2) - expected)) <= (
        run.fluctuations.covariance_error + 1e-13 * last)
    # f itself by the same extrapolation, beside collocation
    assert_close(run.fluctuations.cumulant(1), run.outputs, 1e-10, 1.0)


def test_a_frozen_body_between_trained_ends_fluctuates_too() -> None:
    """Updates of the blocks add up to nothing at gamma = 1: read-in and read-out learn, as in a network of one layer
    with a branch of no effect; at alpha > 1/2 the body is the identity."""
    net, deep = tp.ResNet(train_embedding_readout=True), tp.DepthScaling(0.75, 1)
    limit = tp.train(net, TASK, OPT, deep, tp.oo).fluctuations
    shallow = tp.train(net, TASK, OPT, tp.DepthScaling(branch=1e-12), 1).fluctuations
    assert_close(limit.covariance, shallow.covariance, 1e-10)
    assert_close(limit.bias, shallow.bias, 1e-8, shallow.covariance)


@pytest.mark.parametrize("alpha, order", [(0.5, 1), (0.75, 0.5), (1, 1)])
def test_covariances_converge_in_depth_at_the_rate_of_f(alpha: float, order: float) -> None:
    """min(1, 2 alpha - 1), and 1 at alpha = 1/2."""
    scale = tp.DepthScaling(alpha, 1 - alpha)
    limit = tp.train(NET, TASK, OPT, scale, tp.oo).fluctuations.covariance
    errors = [np.max(np.abs(tp.train(NET, TASK, OPT, scale, depth).fluctuations.covariance - limit))
              for depth in (128, 512)]
    assert abs(math.log(errors[0] / errors[1], 4) - order) < 0.08


def test_limits_of_rational_functions_are_found_with_their_errors() -> None:
    found = infinite_depth(lambda depth: np.array([math.exp(1 / depth), 1 / (2 + 3 / depth)]), 1e-12)
    assert np.max(np.abs(found.value - [1, 0.5])) <= found.error < 1e-11


def test_a_limit_that_is_not_a_series_in_one_over_the_depth_is_refused() -> None:
    with pytest.raises(tp.Divergence, match="fluctuations at infinite depth"):
        infinite_depth(lambda depth: np.array([depth**0.5]), 1e-12)


def test_a_width_has_means_and_deviations() -> None:
    task = tp.Task((1, 0.8), (1, -0.7), probes=[[0.5], [2.0]])
    run = tp.train(NET, task, OPT, tp.DepthScaling(), 4)
    found, n = run.fluctuations, 400
    at = run.at_width(n)
    assert_close(at.mean, run.outputs + found.bias / n, 1e-14)
    assert_close(at.std.ravel(), np.sqrt(np.diagonal(found.covariance.reshape(2, 2)) / n), 1e-13)
    assert at.warning is None
    held_out = run.at_width(n, probes=True)
    assert_close(held_out.mean, run.probe_outputs + found.probe_bias / n, 1e-14)
    assert held_out.std.shape == run.probe_outputs.shape
    # probes that are inputs of the batch have their fluctuations
    same = tp.train(NET, tp.Task((1, 0.8), (1, -0.7), probes=[[1.0]]), OPT, tp.DepthScaling(), 4)
    assert_close(same.at_width(n, probes=True).mean[0], at.mean[0], 1e-13, 1.0)
    assert_close(same.at_width(n, probes=True).std[0], at.std[0], 1e-13)


def test_small_widths_are_warned_of() -> None:
    run = tp.train(NET, TASK, tp.SGD(1.0), tp.DepthScaling(), 8)
    assert "at width 64 the next order" in str(run.at_width(64).warning)
    second, third, fourth = (run.fluctuations.cumulant(k) for k in (2, 3, 4))
    enough = math.ceil(np.max(next_order(second, third, fourth)) / SMALL)
    assert run.at_width(enough).warning is None
    assert f"from width {enough} on" in str(run.at_width(enough - 1).warning)


@pytest.mark.parametrize("b, c", [(0.0, 0.05), (0.2, 0.0), (-0.1, 0.03)])
def test_the_next_order_is_exact_for_functions_of_one_gaussian(b: float, c: float) -> None:
    """g(z / n^(1/2)), g(x) = x + b x^2 + c x^3: n times the relative change of the variance, all by quadrature.

    The two parts are added by their sizes; the share of the third cumulant has the other sign.
    """
    n = 10**6
    z, weight = np.polynomial.hermite_e.hermegauss(30)
    x, weight = z / n**0.5, weight / np.sum(weight)
    g = x + b * x**2 + c * x**3
    g = g - np.sum(weight * g)
    variance, third, fourth = (float(np.sum(weight * g**k)) for k in (2, 3, 4))
    cumulants = np.array(third * n**2), np.array((fourth - 3 * variance**2) * n**3)
    one = np.array(1.0)
    alone = float(next_order(one, np.array(0.0), cumulants[1]))
    shared = float(next_order(one, *cumulants)) - alone
    assert abs((variance * n - 1) * n - 2 * (alone - shared)) < 1e-3 * (alone + shared)


def test_results_survive_pickling() -> None:
    found = tp.train(NET, TASK, OPT, tp.DepthScaling(), 3).fluctuations
    covariance = found.covariance
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.covariance, covariance) and np.array_equal(again.bias, found.bias)
    with pytest.raises(AttributeError):
        found.depth = 4


@pytest.mark.parametrize("depth", [5, tp.oo])
@pytest.mark.parametrize("kept", [True, False])
def test_covariance_and_bias_share_what_they_are_made_of(depth: int, kept: bool, monkeypatch: pytest.MonkeyPatch
                                                         ) -> None:
    """In either order, and where nothing is kept, the same numbers; kept, every answer to a tilt is found once."""
    calls: list[int] = []

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return along(*arguments)

    def asked() -> Fluctuations:
        calls.clear()
        return tp.train(NET, TASK, OPT, tp.DepthScaling(), depth).fluctuations

    along = fluctuations.series_in_tilt
    monkeypatch.setattr(fluctuations, "series_in_tilt", counted)
    monkeypatch.setattr(fluctuations, "KEPT", 2.0**29 if kept else 1.0)
    first = asked()
    bias, covariance = first.bias, first.covariance
    needed = len(calls)
    second = asked()
    assert_close(second.covariance, covariance, 1e-11)
    found = len(calls)
    assert_close(second.bias, bias, 1e-11, covariance)
    assert len(calls) == (needed if kept else needed + found)
    again = pickle.loads(pickle.dumps(second))
    assert "_responses" not in vars(again) and np.array_equal(again.bias, second.bias)
    assert len(pickle.dumps(second)) < 10**5


REFUSED = {
    "real networks": (NET, OPT, {"depth": 2, "width": 8}, "method='dense'"),
    "kinks": (tp.ResNet("relu", "mlp"), OPT, {"depth": tp.oo}, "functions with a kink have second derivatives"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_covered_is_refused(name: str) -> None:
    net, opt, options, words = REFUSED[name]
    run = tp.train(net, tp.Task((1, 0.8), (1, -0.7)), opt, tp.DepthScaling(), **options)
    with pytest.raises(ValueError, match=f"fluctuations: .*{words}"):
        run.fluctuations.bias


def test_bad_questions_are_refused() -> None:
    run = tp.train(NET, TASK, OPT, tp.DepthScaling(), 2)
    for ask in (lambda: run.at_width(0), lambda: run.at_width(1.5), lambda: run.fluctuations.cumulant(0)):
        with pytest.raises(ValueError, match="expected a whole number of at least 1"):
            ask()
    for ask in (lambda: run.at_width(8, probes=True), lambda: run.fluctuations.probe_bias):
        with pytest.raises(ValueError, match="probes: "):
            ask()


def test_what_does_not_fit_into_memory_is_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of twenty steps at a million layers Sigma; of a machine with half a GiB the bias at L = 1024, which needs six."""
    task = tp.Task(np.ones(20), np.ones(20))
    with pytest.raises(MemoryError, match="fluctuations at depth 1000000 needs .* GiB, .*; fewer steps"):
        Fluctuations(task, OPT, 10**6, 1e-6, 1e-6, False).covariance
    solved: list[Any] = []

    def small(needed: float, what: str, advice: str) -> None:
        if needed > 2.0**29 and "bias" in what:
            raise MemoryError(f"{what} needs {needed / 2**30:.1f} GiB")

    def base(network: Any) -> Any:
        return SimpleNamespace(network=network)

    monkeypatch.setattr("tpcalc._checks.memory", small)
    monkeypatch.setattr("tpcalc.finite_width.fluctuations.base_solution", base)
    monkeypatch.setattr("tpcalc.finite_width.tilted_determinant.LinearizedLayer", lambda *given: solved.append(given))
    with pytest.raises(MemoryError, match="bias of a finite width at depth 1024 needs 5.3 GiB"):
        Fluctuations(task, OPT, 1024, 1 / 1024, 1 / 1024, False).bias
    assert not solved


def test_a_training_that_blows_up_says_so() -> None:
    task = tp.Task((1e60, 1e60, 1e60), (1, 1, 1))
    run = tp.train(NET, tp.Task((1.0, 1.0), (1, 1)), OPT, tp.DepthScaling(), 2)
    huge = type(run.fluctuations)(task, OPT, 2, 0.5, 0.5, False)
    with pytest.raises(tp.Divergence, match="fluctuations"):
        huge.covariance


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("rate", [1e20, 1e40])
def test_rates_that_leave_nothing_but_round_off_in_layer_time_say_where(rate: float, trained: bool) -> None:
    """1 - Pi R has lost its 1, and is singular, in the second step, at a layer time."""
    batch = tp.Task([[[1], [0.8]]] * 2, [[[1], [0.2]]] * 2)
    run = tp.train(tp.ResNet(train_embedding_readout=trained), batch, tp.SGD(rate), tp.DepthScaling(), tp.oo)
    with pytest.raises(tp.Divergence, match="at step 1, layer time .* leave nothing but round-off") as blown:
        run.at_width(16)
    assert blown.value.step == 1 and 0 <= blown.value.layer <= 1


@pytest.mark.parametrize("rate, depth", [(1e35, 2), (1e59, 1), (1e38, 3)])
def test_biases_that_are_not_finite_are_none(rate: float, depth: int) -> None:
    """The determinant has powers of the rate that overflow where outputs and covariances do not."""
    run = tp.train(NET, tp.Task([1, 0.8], [1, 0.5], probes=[0.3]), tp.SGD(rate), tp.DepthScaling(), depth)
    with pytest.raises(tp.Divergence, match=f"at depth {depth}"):
        run.fluctuations.bias
    with pytest.raises(tp.Divergence, match=f"at depth {depth}"):
        run.at_width(16)


def test_the_next_order_of_huge_variances_is_a_number() -> None:
    """Of cumulants whose powers overflow, ratios do not."""
    cumulants = np.array([2.0]), np.array([0.3]), np.array([-7.0])
    huge = (one * 1e60**k for k, one in enumerate(cumulants, 2))
    assert next_order(*huge) == pytest.approx(next_order(*cumulants), rel=1e-12)
