"""The infinite-depth limit by collocation: reference vectors, rates, symmetries, refinement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.propagators import ByHand

from tpcalc.action.densities import Derivative
from tpcalc.errors import Divergence
from tpcalc.propagators import element
from tpcalc.propagators.laws.pair_laws import linear_block
from tpcalc.propagators.blocks import Pairs
from tpcalc.propagators.collocation import CollocationPropagator, TooCoarse, solve_limit
from tpcalc.propagators.covariances import at_times, backward_covariance, forward_covariance
from tpcalc.propagators.element import Element
from tpcalc.propagators.propagator import Rows
from tpcalc.propagators.mesh import Mesh
from tpcalc.propagators.reflection import ReflectionPropagator
from tpcalc.propagators.training import train_rows
from tpcalc.optimizers import SGD
from tpcalc.data import Task
from tpcalc.optimizers.sgd import rows_per_step, update_kernel

# f of the infinite-depth limit, one input a step, plain SGD with learning rate 1; from an independent solver of the
# same equations (one Chebyshev element, 24 nodes), and 1/L away from the exact recursion at every depth L tested
FIRST = Task((1, .8, -.6, 1.1), (1, -.7, .5, 1.2))
FIRST_OUTPUTS = (0, 2.1746254627672, -.0426026679071, -.0471461985879)
NORMALS = np.random.default_rng(0)
SECOND = Task(NORMALS.normal(size=5), NORMALS.normal(size=5))
SECOND_OUTPUTS = (0, -.0163258367572, -.2197067530344, .1298113144178, -.5194180781943)


class Decaying:
    """W_t = rho_t W_0 - g sum w_ts grad_s with a rho that is not 1, as decay makes it."""

    def __init__(self, rate: float, rho: float) -> None:
        self.rate, self.rho = rate, rho

    def memory(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        t = np.arange(steps)
        return self.rho**t, np.tril(self.rate * self.rho**np.abs(t[:, None] - t - 1), -1)


class SineBlock(ByHand):
    """G phi(W x) with phi(u) = sin(u + shift), centered: kernels in closed form."""

    has_diagonal = True
    is_linear = False

    def __init__(self, shift: float) -> None:
        self.shift = shift

    def _covariance(self, pairs: Pairs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        assert pairs.left is not None
        size = np.exp(-(pairs.left[..., :, None] + pairs.right[..., None, :]) / 2) / 2
        e, cosine = np.exp(pairs.c), np.cos(2 * self.shift)
        return size * (e - cosine / e - 2 * np.sin(self.shift)**2), size * (e + cosine / e), size * (e - cosine / e)

    def forward(self, pairs: Pairs) -> tuple[Any, Any, Any]:
        kappa, slope, _ = self._covariance(pairs)
        return kappa, slope, slope * pairs.c

    def backward(self, pairs: Pairs) -> tuple[Any, Any, Any]:
        _, slope, curvature = self._covariance(pairs)
        return slope, curvature, slope + curvature * pairs.c

    def diagonal(self, pairs: Pairs) -> tuple[Any, Any, Any]:
        kappa, slope, _ = self._covariance(pairs)
        return -kappa, -slope, -slope * pairs.c


def collocate(task: Task, optimizer: Any, mesh: Mesh, samples: str = "plain", noise: float = 1.0, drift: float = 1.0
              ) -> tuple[np.ndarray, CollocationPropagator]:
    rho, w = optimizer.memory(task.steps)
    b = rows_per_step(task, samples)
    propagator = CollocationPropagator(mesh, b, noise, drift, np.repeat(rho, b), update_kernel(w, task, samples))
    return train_rows(task, propagator, samples, lambda t: None).outputs, propagator


def reflect(task: Task, optimizer: Any, depth: int, alpha: float = 0.5) -> tuple[np.ndarray, ReflectionPropagator]:
    rho, w = optimizer.memory(task.steps)
    propagator = ReflectionPropagator(depth, task.batch, depth**-alpha, depth**(alpha - 1), np.repeat(rho, task.batch),
                                      update_kernel(w, task, "plain"))
    return train_rows(task, propagator, "plain", lambda t: None).outputs, propagator


@pytest.mark.parametrize("task, expected", [(FIRST, FIRST_OUTPUTS), (SECOND, SECOND_OUTPUTS)])
def test_reference_vectors(task: Task, expected: tuple[float, ...]) -> None:
    limit = solve_limit(task, SGD(1.0), 1.0, 1.0, "plain")
    np.testing.assert_allclose(limit.trace.outputs.ravel(), expected, rtol=0, atol=1e-12)
    assert limit.error <= 1e-12 * max(1, np.max(np.abs(expected)))
    assert limit.propagator.layer_times[0] == 0 and limit.propagator.layer_times[-1] == 1
    assert np.all(np.diff(limit.propagator.layer_times) > 0)


@pytest.mark.parametrize("task, expected, bounds", [
    (FIRST, FIRST_OUTPUTS, {12: 1e-6, 16: 4e-10, 20: 1e-12}),
    (SECOND, SECOND_OUTPUTS, {8: 3e-7, 12: 3e-11, 16: 1e-13})])
def test_convergence_is_geometric_in_the_nodes(task: Task, expected: Any, bounds: dict[int, float]) -> None:
    for nodes, bound in bounds.items():
        outputs, _ = collocate(task, SGD(1.0), Mesh.uniform(1, nodes))
        assert np.max(np.abs(outputs.ravel() - expected)) < bound


def test_error_falls_like_a_power_of_the_elements() -> None:
    """Half the length: 2^-nodes of the error, or nearly."""
    outputs = (collocate(FIRST, SGD(1.0), Mesh.uniform(e, 8))[0].ravel() for e in (2, 4))
    errors = [np.max(np.abs(f - FIRST_OUTPUTS)) for f in outputs]
    assert 1e-10 < errors[1] < errors[0] / 2**7


def test_any_mesh_gives_the_same() -> None:
    graded = Mesh((0.0, 0.02, 0.1, 0.45, 1.0), 18)
    outputs, propagator = collocate(FIRST, SGD(1.0), graded)
    other, reference = collocate(FIRST, SGD(1.0), Mesh.uniform(3, 20))
    np.testing.assert_allclose(outputs, other, rtol=0, atol=1e-13)
    times = np.linspace(0, 1, 11)
    for name in "PQSRAB":
        np.testing.assert_allclose(propagator.mesh.evaluate(getattr(propagator, name), times),
                                   reference.mesh.evaluate(getattr(reference, name), times), rtol=0, atol=1e-10)


@pytest.mark.parametrize("alpha, noise, slope", [(0.5, 1.0, 1.0), (0.75, 0.0, 0.5)])
def test_finite_depth_converges_at_the_declared_rate(alpha: float, noise: float, slope: float) -> None:
    """|f^L - f| ~ L^-min(1, 2 alpha - 1), and 1 / L at alpha = 1/2."""
    limit = solve_limit(SECOND, SGD(1.0), noise, 1.0, "plain").trace.outputs
    depths = np.array([2**k for k in (8, 10, 12)])
    errors = [np.max(np.abs(reflect(SECOND, SGD(1.0), int(n), alpha)[0] - limit)) for n in depths]
    measured = -np.polyfit(np.log(depths), np.log(errors), 1)[0]
    assert abs(measured - slope) < 0.05


def test_branch_constants_and_decay() -> None:
    """noise, drift and rho stand where they stand at finite depth: Richardson's extrapolation agrees."""
    task, optimizer, constant = Task((1, .8, -.6), (1, -.7, .5)), Decaying(0.6, 0.8), 0.7
    limit, _ = collocate(task, optimizer, Mesh.uniform(2, 16), noise=constant**2, drift=constant)
    rho, w = optimizer.memory(3)
    coarse, fine = (train_rows(task, ReflectionPropagator(n, 1, constant * n**-.5, n**-.5, rho, w), "plain",
                               lambda t: None).outputs for n in (2048, 4096))
    np.testing.assert_allclose(2 * fine - coarse, limit, rtol=0, atol=2e-6)


def test_no_updates_no_outputs() -> None:
    assert not np.any(solve_limit(FIRST, SGD(1.0), 1.0, 0.0, "plain").trace.outputs)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 2), st.sampled_from([0.0, 1.0]))
def test_symmetry_positivity_and_the_two_indexings(seed: int, batch: int, d_out: int, noise: float) -> None:
    draw = np.random.default_rng(seed)
    task = Task(draw.normal(size=(3, batch, 2)) / 2, draw.normal(size=(3, batch, d_out)),
                probes=draw.normal(size=(2, 2)))
    effective = solve_limit(task, SGD(0.5), noise, 1.0, "effective")
    if d_out == 1:
        plain = solve_limit(task, SGD(0.5), noise, 1.0, "plain")
        np.testing.assert_allclose(plain.trace.outputs, effective.trace.outputs, rtol=0, atol=1e-11)
        np.testing.assert_allclose(plain.trace.probe_outputs, effective.trace.probe_outputs, rtol=0, atol=1e-11)
    propagator = effective.propagator
    reflections = propagator.P, propagator.Q, propagator.S, propagator.R
    for stored, composed in ((propagator.C0, forward_covariance(*reflections)),
                             (propagator.C1, backward_covariance(*reflections))):
        np.testing.assert_allclose(stored, stored.transpose(0, 2, 1), rtol=0, atol=1e-12 * np.max(np.abs(stored)))
        np.testing.assert_allclose(stored, composed, rtol=0, atol=1e-12 * np.max(np.abs(stored)))
        assert np.min(np.linalg.eigvalsh(composed)) > -1e-12 * np.max(np.abs(composed))
    for reflection in (propagator.P, propagator.Q):
        assert not np.any(np.triu(reflection))
    assert effective.trace.mismatch <= effective.error <= 1e-12 * max(1, np.max(np.abs(effective.trace.outputs)),
                                                                      np.max(np.abs(effective.trace.probe_outputs)))


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6))
def test_the_equations_hold(seed: int) -> None:
    """The differential equations and their mirror, integrated at the nodes, on random tasks."""
    draw = np.random.default_rng(seed)
    task = Task(draw.normal(size=(3, 2, 3)) / 2, draw.normal(size=(3, 2, 1)))
    _, propagator = collocate(task, Decaying(0.4, 0.9), Mesh.uniform(2, 18), noise=0.8, drift=1.2)
    t = lambda a: a.transpose(0, 2, 1)
    rr, w, earlier = 0.8 * np.outer(propagator.rho,
                                    propagator.rho), 1.2 * propagator.w, np.kron(np.tri(3, k=-1), np.ones((2, 2)))
    for forward, P, Q, S, R in ((True, propagator.P, propagator.Q, propagator.S, propagator.R),
                                (False, propagator.Q, propagator.P, propagator.R, propagator.S)):
        C0, C1 = forward_covariance(P, Q, S, R), backward_covariance(P, Q, S, R)
        A = (rr * (np.linalg.inv(np.eye(6) - P @ Q) @ P) - w * C0) * earlier
        B = (rr * (np.linalg.inv(np.eye(6) - Q @ P) @ Q) - w * C1) * earlier
        PBS = P @ B @ S
        for value, rate in ((P, A + P @ B @ P), (S, rr * C0 + P @ (rr * C1) @ t(P) + PBS + t(PBS))):
            start = value[0 if forward else -1]
            np.testing.assert_allclose(value - start, propagator.mesh.cumulative(rate, forward), rtol=0,
                                       atol=1e-10 * (1 + np.max(np.abs(value))))


@pytest.mark.parametrize("shift, noise, expected", [(0.5, 1.0, (.59861, .00160, .01138)),
                                                    (-np.pi / 2, 0.0, (None, .0629, .2145))])
def test_a_nonlinear_block_enters_through_its_kernels(shift: float, noise: float, expected: tuple[Any, ...]) -> None:
    """phi = sin(x + 1/2) at alpha = 1/2, -cos at alpha = 3/4: the closure's independent numbers, as printed."""
    limit = solve_limit(FIRST, SGD(1.0), noise, 1.0, "plain", block=SineBlock(shift))
    for value, printed in zip(limit.trace.outputs.ravel()[1:], expected):
        if printed is not None:
            assert abs(value - printed) < (6e-6 if noise else 6e-5)


def test_large_learning_rates_need_elements() -> None:
    """They say where; uniform ones short enough agree."""
    with pytest.raises(TooCoarse) as caught:
        collocate(FIRST, SGD(4.0), Mesh.uniform(1, 16))
    assert caught.value.step == 2 and all(0 < cut < 1 for cut in caught.value.cuts)
    steps: list[int] = []
    limit = solve_limit(FIRST, SGD(4.0), 1.0, 1.0, "plain", after_step=steps.append)
    assert 8 < limit.propagator.mesh.elements < 20 and steps[-4:] == [0, 1, 2, 3]
    other, _ = collocate(FIRST, SGD(4.0), Mesh.uniform(60, 18))
    difference = np.max(np.abs(limit.trace.outputs - other))
    assert difference < limit.error < 1e-11 and np.max(np.abs(other)) > 8
    coarse, fine = (reflect(FIRST, SGD(4.0), n)[0] for n in (4096, 8192))
    np.testing.assert_allclose(2 * fine - coarse, limit.trace.outputs, rtol=0, atol=1e-3)


@pytest.mark.parametrize("rate, elements", [(32.0, 60), pytest.param(460.0, 300, marks=pytest.mark.slow)])
def test_outputs_of_a_thousand(rate: float, elements: int) -> None:
    """Rates of 10^4 and more in layer time, of which only the ends of the network show anything: graded elements.

    f_1 = eta e <xi_1 xi_0> y_0 is known; later outputs do not depend on the mesh.
    """
    limit = solve_limit(FIRST, SGD(rate), 1.0, 1.0, "plain")
    f = limit.trace.outputs.ravel()
    mesh = limit.propagator.mesh
    assert abs(f[1] - rate * np.e * 0.8) <= limit.error < 1e-6 * f[1]
    assert mesh.elements < elements and np.min(mesh.lengths[[0, -1]]) < 1e-3 * np.max(mesh.lengths)
    halved, _ = collocate(FIRST, SGD(rate), mesh.bisect(np.ones(mesh.elements, dtype=bool)))
    assert np.max(np.abs(halved.ravel() - f)) <= limit.error


@pytest.mark.parametrize("samples", ["plain", "effective"])
@pytest.mark.parametrize("constants", [("ITERATIONS",), ("ITERATIONS", "LARGEST"), ("COMPOSED",),
                                       ("COMPOSED", "ITERATIONS")])
def test_rows_are_the_same_however_they_are_solved(constants: tuple[str, ...], samples: str,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """Picard's iteration, one factorization, a Krylov space, operators never composed."""
    draw = np.random.default_rng(3)
    task = Task(draw.normal(size=(3, 2, 2)) / 2, draw.normal(size=(3, 2, 1)), probes=draw.normal(size=(2, 2)))
    opt, mesh = SGD(0.5, momentum=0.4, weight_decay=0.3), Mesh.uniform(2, 16)
    expected, before = collocate(task, opt, mesh, samples, noise=0.8)
    for constant in constants:
        monkeypatch.setattr(element, constant, 0)
    outputs, propagator = collocate(task, opt, mesh, samples, noise=0.8)
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-13)
    for name in ("P", "Q", "S", "R", "A", "B", "C0", "C1"):
        one, two = getattr(propagator, name), getattr(before, name)
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-12 * np.max(np.abs(two)))


def test_a_krylov_space_where_picard_does_not_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """It solves the equations that a factorization solves, and these are the right ones."""
    limit = solve_limit(FIRST, SGD(4.0), 1.0, 1.0, "plain")
    factorized, _ = collocate(FIRST, SGD(4.0), limit.propagator.mesh)
    monkeypatch.setattr(element, "LARGEST", 0)
    found: list[np.ndarray | None] = []
    solve = Element._in_krylov_space

    def watched(*given: Any) -> np.ndarray | None:
        found.append(solve(*given))
        return found[-1]

    monkeypatch.setattr(Element, "_in_krylov_space", watched)
    outputs, _ = collocate(FIRST, SGD(4.0), limit.propagator.mesh)
    assert any(y is not None for y in found)
    np.testing.assert_allclose(outputs, factorized, rtol=0, atol=1e-13)
    np.testing.assert_allclose(outputs, limit.trace.outputs, rtol=0, atol=1e-11)  # composed operators lose two digits


def test_error_estimate_bounds_the_error() -> None:
    for tolerance in (1e-3, 1e-6, 1e-9):
        limit = solve_limit(FIRST, SGD(1.0), 1.0, 1.0, "plain", tolerance)
        assert np.max(np.abs(limit.trace.outputs.ravel() - FIRST_OUTPUTS)) < limit.error < 3 * tolerance


def test_a_blow_up_is_an_answer() -> None:
    with pytest.raises(Divergence) as caught:
        solve_limit(FIRST, SGD(1e80), 1.0, 1.0, "plain")
    assert caught.value.step is not None


def test_passengers_leave_no_trace_and_equal_rows() -> None:
    outputs, propagator = collocate(FIRST, SGD(1.0), Mesh.uniform(2, 14))
    fresh = CollocationPropagator(propagator.mesh, 1, 1.0, 1.0, propagator.rho, propagator.w)
    rows = FIRST.inputs.reshape(-1, 1)
    chi = outputs.reshape(-1, 1) - FIRST.targets.reshape(-1, 1)
    for t in range(3):
        still, own = np.zeros((1, t)), rows[t:t + 1]**2
        ride = fresh.probe(t, Rows(still, rows[t:t + 1] @ rows[:t].T))
        kept = fresh.forward(t, Rows(still, rows[t:t + 1] @ rows[:t].T, own))
        np.testing.assert_allclose(ride.p, kept.p, atol=1e-13)
        np.testing.assert_allclose(ride.s, kept.s, atol=1e-13)
        assert ride.own is None
        fresh.backward(t, Rows(still, chi[t:t + 1] @ chi[:t].T, chi[t:t + 1]**2))
    np.testing.assert_array_equal(fresh.P[:, :3, :3], propagator.P[:, :3, :3])


def test_covariances_at_layer_times() -> None:
    limit = solve_limit(SECOND, SGD(1.0), 1.0, 1.0, "plain").propagator
    _, finite = reflect(SECOND, SGD(1.0), 1024)
    times = np.array([0.0, 0.25, 0.5, 1.0])
    for forward in (True, False):
        np.testing.assert_allclose(at_times(finite, forward, times), at_times(limit, forward, times), atol=2e-2)
    xi = SECOND.inputs.ravel()
    np.testing.assert_allclose(at_times(limit, True, np.array([0.0]))[0], np.outer(xi, xi), atol=1e-12)


def test_mesh() -> None:
    mesh = Mesh((0.0, 0.3, 1.0), 6)
    power = mesh.times[:, None]**np.arange(6)
    k = np.arange(1, 7)
    np.testing.assert_allclose(mesh.cumulative(power), mesh.times[:, None]**k / k, atol=1e-15)
    np.testing.assert_allclose(mesh.cumulative(power, False), (1 - mesh.times[:, None]**k) / k, atol=1e-15)
    asked = np.array([[0.0, 0.1], [0.3, 1.0]])
    np.testing.assert_allclose(mesh.evaluate(power, asked), asked[..., None]**np.arange(6), atol=1e-14)
    assert mesh.bisect(np.array([True, False])).ends == (0.0, 0.15, 0.3, 1.0)
    assert np.argmax(mesh.tails(np.exp(9 * mesh.times))) == 1
    for wrong in (lambda: Mesh((0.0, 0.5), 6), lambda: Mesh((0.0, 1.0), 1), lambda: mesh.evaluate(power, 1.5)):
        with pytest.raises(ValueError):
            wrong()


def test_linear_block_is_the_identity_on_kernels() -> None:
    pairs = Pairs(np.array([[0.3]]), None, np.array([1.0]), 0.5)
    asked = [Derivative(kernel, order) for kernel in ("kappa", "theta") for order in range(3)]
    assert linear_block().derivatives(pairs, tuple(asked)) == (0.15, 0.5, 0.0, 0.3, 1.0, 0.0)
