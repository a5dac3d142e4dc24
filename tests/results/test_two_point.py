"""Gamma and C of Tensor Programs VI: against the coefficient recursion, at its limit, and in its integral equations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from support.propagators import cross_covariance
from tpcalc.interpreters import read_coefficients
from tpcalc.propagators.collocation import CollocationPropagator, solve_limit
from tpcalc.propagators.covariances import at_times, backward_covariance, forward_covariance
from tpcalc.propagators.reflection import ReflectionPropagator
from tpcalc.propagators.training import train_rows
from tpcalc.scaling import DepthScaling
from tpcalc.optimizers import SGD
from tpcalc.data import Task
from tpcalc.optimizers.sgd import update_kernel
from tpcalc.results.two_point import TwoPoint, ceiling

TASK = Task((1, .8, -.6), (1, -.7, .5))


def two_point(task: Task, outputs: np.ndarray, propagator: object) -> TwoPoint:
    return TwoPoint(propagator, task.inputs.reshape(-1, task.d_in), (outputs - task.targets).reshape(-1, task.d_out))


def finite(task: Task, scale: DepthScaling, depth: int, rate: float = 1.0) -> tuple[TwoPoint, ReflectionPropagator]:
    rho, w = SGD(rate).memory(task.steps)
    propagator = ReflectionPropagator(depth, task.batch, scale.multiplier(depth), scale.update_size(depth),
                                      np.repeat(rho, task.batch), update_kernel(w, task, "plain"))
    return two_point(task, train_rows(task, propagator, "plain", lambda t: None).outputs, propagator), propagator


def infinite(task: Task, noise: float = 1.0) -> tuple[TwoPoint, CollocationPropagator]:
    limit = solve_limit(task, SGD(1.0), noise, 1.0, "plain")
    return two_point(task, limit.trace.outputs, limit.propagator), limit.propagator


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([("1/2", "1/2"), ("0.6", "0.3")]), st.sampled_from([(2, 2), (4, 1)]))
@example(0, ("0.6", "0.3"), (4, 1))  # P B P needs four steps
def test_finite_depth_equals_the_coefficient_recursion(seed: int, exponents: tuple[str, str],
                                                       shape: tuple[int, int]) -> None:
    """Every entry, batches included: Gamma, C and the covariances of the nodes."""
    draw = np.random.default_rng(seed)
    task, depth = Task(draw.normal(size=(*shape, 1)), draw.normal(size=(*shape, 1))), 4
    scale = DepthScaling(*exponents, branch=1.3, base_depth=2)
    known = read_coefficients(task, SGD(0.4), scale, depth)
    functions, propagator = finite(task, scale, depth, 0.4)
    size = 1 + np.max(np.abs(known.covariance))
    close = lambda x, y: abs(x - y) < 1e-12 * size
    for t in range(4):
        for s in range(-1, 4):
            for a, (hat, ends) in enumerate(((known.x, known.x_outputs), (known.delta, known.delta_inputs))):
                for b in (0, 1):
                    for l in range(depth + 1):
                        for m in range(1, depth + 1):
                            exact = math.sqrt(depth) * hat[t, l, b, m - 1, s] if s >= 0 else ends[t, l, b]
                            assert close(functions.gamma(t, s, a, b, l / depth, (m - 0.5) / depth), exact)
                for l in range(1, depth + 1):
                    exact = known.covariance[a, l - 1, t, s] if s >= 0 else 0.0
                    assert close(functions.c(t, s, a, (l - 0.3) / depth), exact)
    nodes = np.arange(depth + 1) / depth
    for forward in (True, False):
        np.testing.assert_allclose(at_times(propagator, forward, nodes), known.node_covariance(forward),
                                   atol=1e-12 * size)
    mixed = (np.einsum("aldmr,dmrs,bldms->lab", known.x, known.covariance, known.delta, optimize=True)
             + np.einsum("ale,ble->lab", known.x_outputs, known.delta_inputs))
    np.testing.assert_allclose(cross_covariance(propagator.P, propagator.Q, propagator.S, propagator.R), mixed,
                               atol=1e-12 * size)


def test_finite_depth_converges_like_one_over_the_depth() -> None:
    limit, _ = infinite(TASK)
    locations = [(1.0, 0.5), (0.5, 0.25), (0.25, 0.75), (0.0, 0.5)]
    wanted = [(2, s, a, b, p, q) for s in (-1, 0, 1, 2) for a in (0, 1) for b in (0, 1) for p, q in locations]
    exact = np.array([limit.gamma(*key) for key in wanted] + [limit.c(2, s, a, 0.5) for s in range(3) for a in (0, 1)])
    errors = []
    for depth in (1024, 4096):
        functions, _ = finite(TASK, DepthScaling(), depth)
        values = np.array([functions.gamma(*key) for key in wanted]
                          + [functions.c(2, s, a, 0.5) for s in range(3) for a in (0, 1)])
        errors.append(values - exact)
    assert np.max(np.abs(errors[1])) < 2e-3 * np.max(np.abs(exact))
    np.testing.assert_allclose(4 * errors[1], errors[0], rtol=0, atol=0.01 * np.max(np.abs(errors[0])))


def gauss(start: float, end: float) -> list[tuple[float, float]]:
    nodes, weights = np.polynomial.legendre.leggauss(14)
    return [((start + end) / 2 + (end - start) / 2 * x, (end - start) / 2 * w) for x, w in zip(nodes, weights)]


@pytest.mark.parametrize("noise", [pytest.param(1.0, marks=pytest.mark.nightly), 0.7])
def test_the_limit_solves_the_functional_integral_equations(noise: float) -> None:
    """Tensor Programs VI, Proposition C.4, all its three equations; Gamma jumps at p = q, where integrals are split.

    A density noise times the paper's scales Gamma(s >= 0) by its root: products of two such, and with the
    response, keep one form.
    """
    functions, _ = infinite(TASK, noise)
    G, C, root = functions.gamma, functions.c, math.sqrt(noise)

    def drive(t: int, s: int, a: int, p: float) -> float:
        return root * G(t, s, a, 1 - a, p, p) - C(t, s, a, p)

    q, t = 0.4, 2
    for p in (0.2, 0.8):
        for r in (-1, 0, 1, 2):
            for b in (0, 1):
                cuts = [0.0] + ([q] if q < p else []) + [p]
                integral = sum(weight * sum(G(s, r, 1, b, x, q) * drive(t, s, 0, x) for s in range(t))
                               for start, end in zip(cuts, cuts[1:]) for x, weight in gauss(start, end))
                own = root * float(t == r and b == 0 and p >= q)
                if r == -1 and b == 0:
                    own = float(TASK.inputs[t, 0, 0])
                assert abs(G(t, r, 0, b, p, q) - own - integral) < 1e-10
                cuts = [p] + ([q] if q > p else []) + [1.0]
                integral = sum(weight * sum(G(s, r, 0, b, x, q) * drive(t, s, 1, x) for s in range(t))
                               for start, end in zip(cuts, cuts[1:]) for x, weight in gauss(start, end))
                own = root * float(t == r and b == 1 and p <= q)
                if r == -1 and b == 1:
                    own = G(t, -1, 1, 1, 1.0, q)
                assert abs(G(t, r, 1, b, p, q) - own - integral) < 1e-10
        for a in (0, 1):
            total = sum(G(2, -1, a, b, p, 1.0) * C(-1, -1, b, p) * G(1, -1, a, b, p, 1.0) for b in (0, 1))
            for start, end in ((0.0, p), (p, 1.0)):
                for x, weight in gauss(start, end):
                    for b in (0, 1):
                        left = [G(2, r, a, b, p, x) for r in range(3)]
                        right = [G(1, s, a, b, p, x) for s in range(3)]
                        total += weight * sum(left[r] * C(r, s, b, x) * right[s] for r in range(3) for s in range(3))
            assert abs(total - C(2, 1, a, p)) < 1e-10


def test_the_read_out_is_the_loss_derivative() -> None:
    """delta_t at layer time 1 is chi_t nV, x_t at 0 is xi_t U, and f_t = Gamma_{t,-1,0,1}(1, .)."""
    functions, propagator = infinite(TASK)
    outputs = train_rows(TASK, CollocationPropagator(propagator.mesh, 1, 1.0, 1.0, propagator.rho, propagator.w),
                         "plain",
                         lambda t: None).outputs.ravel()
    for t in range(3):
        assert functions.gamma(t, -1, 1, 1, 1.0, 1.0) == pytest.approx(outputs[t] - TASK.targets[t, 0, 0], abs=1e-12)
        assert functions.gamma(t, -1, 0, 0, 0.0, 1.0) == pytest.approx(TASK.inputs[t, 0, 0], abs=1e-12)
        assert functions.gamma(t, -1, 0, 1, 1.0, 1.0) == pytest.approx(outputs[t], abs=1e-11)


def test_the_jump_belongs_to_the_side_of_the_indicator() -> None:
    functions, _ = infinite(TASK)
    for a in (0, 1):
        values = [functions.gamma(1, 1, a, a, p, 0.4) for p in (0.3, 0.4, 0.5)]
        assert values == pytest.approx([a, 1, 1 - a], abs=1e-12)  # p >= q forward, p <= q backward


def test_sources_vanish_above_one_half() -> None:
    functions, _ = infinite(TASK, noise=0.0)
    assert functions.gamma(2, 0, 0, 1, 0.7, 0.3) == 0 != functions.gamma(2, -1, 0, 1, 0.7, 0.3)


def test_covariances_of_the_limit() -> None:
    functions, propagator = infinite(TASK)
    reflections = propagator.P, propagator.Q, propagator.S, propagator.R
    assert functions.c(2, 1, 0, 1.0) == pytest.approx(forward_covariance(*reflections)[-1, 2, 1], rel=1e-12)
    assert functions.c(2, 1, 1, 1.0) == pytest.approx(backward_covariance(*reflections)[-1, 2, 1], rel=1e-12)
    assert (functions.c(-1, -1, 0, 0.5), functions.c(-1, 0, 1, 0.5), functions.c(1, -1, 0, 0.5)) == (1, 0, 0)
    cross = cross_covariance(*reflections)
    conserved = cross[:, range(3), range(3)]  # <x|delta> of one sample, from layer to layer
    np.testing.assert_allclose(conserved, conserved[:1].repeat(len(cross), 0), atol=1e-11)


def test_functions_and_errors() -> None:
    functions, propagator = infinite(TASK)
    inputs, signal = TASK.inputs.reshape(-1, 1), np.array([[functions.gamma(t, -1, 1, 1, 1.0, 1.0)] for t in range(3)])
    with pytest.raises(ValueError, match="outputs"):
        TwoPoint(propagator, inputs, np.zeros((3, 2)))
    with pytest.raises(ValueError, match="input dimension"):
        TwoPoint(propagator, np.zeros((3, 2)), signal).gamma(1, -1, 0, 0, 0.5, 0.5)
    assert [ceiling(l / 49, 49) for l in range(50)] == list(range(50)) and ceiling(0.501, 10) == 6
