"""Order parameters of the DMFT: closed forms, exact solutions against samples, and a network's own matrices."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.programs.language import MatVec
from tpcalc.results.sampled_order_parameters import responses

TASK = tp.Task([1.0, 0.8, -0.6, 1.1], [1.0, -0.7, 0.5, 1.2])
RNG = np.random.default_rng(3)


def raw(task: tp.Task = TASK, phi: str = "linear", depth: object = tp.oo, width: object = tp.oo, mu0: float = 0.7,
        eta0: float = 0.8, block: object = "pre_nonlin", **options: Any) -> tp.theory.RawProblem:
    return tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=mu0, eta0=eta0),
                                 tp.ResNet(phi, block, **options), task, depth, width)


def test_one_step_on_one_sample_in_its_own_units() -> None:
    """Closed forms of appendix G.2.2, corrected: c = eta0 mu0 y; f = e eta0 y; the response of (94)."""
    mu0, eta0, y, times = 0.6, 0.9, 0.8, np.array([0.0, 0.25, 0.5, 1.0])
    found = tp.theory.dmft(raw(tp.Task([1.0, 1.0], [y, y]), mu0=mu0, eta0=eta0), layer_times=times)
    change = (eta0 * mu0 * y)**2 * np.exp(1 + times) * (times**2 + 2 / 3 * times**3)
    back = (eta0 * mu0 * y)**2 * np.exp(2 - times) * ((1 - times)**2 + 2 / 3 * (1 - times)**3)
    for value, expected in ((found.H[:, 0, 0, 0, 0], np.exp(times)), (found.G[:, 0, 0, 0, 0], np.exp(1 - times)),
                            (found.H[:, 1, 0, 1, 0] - np.exp(times), change),
                            (found.A[:, 1, 0, 0, 0], y * times * np.exp(times)),
                            (found.G[:, 1, 0, 1, 0] - np.exp(1 - times), back),
                            (found.B[:, 1, 0, 0, 0], y * (1 - times) * np.exp(1 - times))):
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-9)
    assert found.f[1, 0] == pytest.approx(math.e * eta0 * y, abs=1e-10)
    assert found.K[0, 0, 0, 0] == pytest.approx(math.e, abs=1e-10)
    np.testing.assert_allclose(found.Delta[:, 0], y - found.f[:, 0], rtol=0, atol=1e-14)


def test_outputs_are_the_responses_at_the_last_layer() -> None:
    """(131) with frozen ends, without the factor sqrt(L): f = eta0 sum of A at layer time 1, at every step."""
    found = tp.theory.dmft(raw(tp.Task(RNG.normal(size=(4, 2, 3)), RNG.normal(size=(4, 2, 1)))))
    np.testing.assert_allclose(0.8 * found.A[-1].sum(axis=(2, 3)), found.f, rtol=0, atol=1e-9)


def products(found: tp.theory.OrderParameters) -> tuple[np.ndarray, np.ndarray]:
    """A G and B Phi of every block, (L, N, N)."""
    n = found.f.size
    A, B, Phi, G = (kernel.reshape(-1, n, n) for kernel in (found.A, found.B, found.Phi, found.G))
    return A @ G[1:], B @ Phi[:-1]


def test_particles_are_the_exact_solution() -> None:
    problem = raw(depth=6)
    exact = tp.theory.dmft(problem)
    sampled = tp.theory.dmft(problem, tp.methods.Particles(samples=4096, batches=4, seed=1))
    for name in ("f", "Delta", "H", "Phi", "G", "K"):
        error = np.maximum(sampled.standard_errors[name], 2e-3)
        assert np.max(np.abs(getattr(sampled, name) - getattr(exact, name)) / error) < 7, name  # 3 degrees
    for ours, theirs in zip(products(sampled), products(exact)):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=0.08)
        assert np.max(np.abs(theirs)) > 1


@pytest.mark.parametrize("net", [("linear", False), ("tanh", True)])
def test_fields_of_a_real_network_are_products_with_its_own_matrices(net: tuple[str, bool]) -> None:
    phi, ends = net
    task = tp.Task(RNG.normal(size=(3, 2, 2)), RNG.normal(size=(3, 2, 1)))
    problem = raw(task, phi, 3, 24, train_embedding_readout=ends)
    found = tp.theory.dmft(problem, "dense")
    weights = found.run.initial_weights()["W"]
    fields, function = found.fields, {"linear": lambda h: h, "tanh": np.tanh}[phi]
    assert fields is not None and fields.xi is not None and fields.r is not None
    for block, matrix in enumerate(weights):
        np.testing.assert_allclose(fields.chi[block], function(fields.h[block]) @ matrix.T, rtol=0, atol=1e-9)
        np.testing.assert_allclose(fields.xi[block], fields.g[block + 1] @ matrix, rtol=0, atol=1e-9)
    n, N = 24, 6
    g, phis = (a.reshape(len(a), N, n) for a in (fields.g, function(fields.h)))
    c = 0.8 * 0.7 / math.sqrt(3)
    sides = ((fields.u, fields.chi, found.A, g[1:]), (fields.r, fields.xi, found.B, phis[:-1]))
    for part, whole, response, of in sides:
        rest = whole.reshape(3, N, n) - c * response.reshape(3, N, N) @ of
        np.testing.assert_allclose(part.reshape(3, N, n), rest, rtol=0, atol=1e-9)


@pytest.mark.parametrize("batch", [1, 2])
def test_responses_are_parted_exactly(batch: int) -> None:
    n = 6
    Phi, G = (m @ m.T for m in RNG.normal(size=(2, n, n)))
    step = np.arange(n) // batch
    A, B = RNG.normal(size=(2, n, n)) * np.array([step[:, None] > step, step[:, None] >= step])
    found = responses(A @ G + Phi @ B.T, Phi, G, batch)
    np.testing.assert_allclose(found.A, A, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.B, B, rtol=0, atol=1e-8)


def test_inputs_of_norm_0_and_repeated_ones() -> None:
    """They add nothing to the others, exactly and in samples, and their own rows are finite."""
    inputs = np.array([[[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]], [[0.3, 0.5], [1.0, 0.0]]])
    task = tp.Task(inputs, [[[1.0], [0.5]], [[-0.7], [0.2]], [[0.5], [1.0]]])
    exact = tp.theory.dmft(raw(task, depth=4))
    sampled = tp.theory.dmft(raw(task, depth=4), tp.methods.Particles(samples=4096, batches=4))
    for name in ("f", "H", "Phi", "G", "K"):
        np.testing.assert_allclose(getattr(sampled, name), getattr(exact, name), rtol=0, atol=0.1, err_msg=name)
    assert np.all(exact.H[:, 0, 1] == 0) and np.all(np.isfinite(sampled.A)) and np.all(np.isfinite(sampled.B))
    for ours, theirs in zip(products(sampled), products(exact)):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=0.12)


def test_the_tangent_kernel_with_trained_ends_is_what_outputs_move_by() -> None:
    """(128) with the read-out's term: the first small step moves f by eta0 K Delta."""
    task, rate = tp.Task([[[1.0], [0.5]]] * 2, [[[1.0], [-0.6]]] * 2), 1e-5
    for phi in ("linear", "tanh"):
        samples = () if phi == "linear" else (tp.methods.Particles(samples=2048, batches=2),)
        found = tp.theory.dmft(raw(task, phi, 5, mu0=1.0, eta0=rate, train_embedding_readout=True), *samples)
        moved = rate * np.einsum("isj,sj->i", found.K[0, :, :1], found.Delta[:1]) / 2
        np.testing.assert_allclose(found.f[1] - found.f[0], moved, rtol=2e-2 if samples else 1e-4)


@pytest.mark.slow
def test_infinite_depth_of_tanh() -> None:
    """The reference task of common draws; kernels against a large depth."""
    problem = raw(phi="tanh", mu0=1.0, eta0=1.0)
    found = tp.theory.dmft(problem, tp.methods.Particles(samples=4096, batches=8), layer_times=[0, 0.5, 1])
    error = found.standard_errors["f"][1:, 0] + 1e-3
    assert np.all(np.abs(found.f[1:, 0] - [0.4664, -0.0086, -0.1387]) < 4 * error)
    deep = tp.theory.dmft(raw(phi="tanh", depth=128, mu0=1.0, eta0=1.0), tp.methods.Particles(samples=4096, batches=4))
    for name in ("Phi", "G"):
        np.testing.assert_allclose(getattr(found, name), getattr(deep, name)[[0, 64, 128]], rtol=0, atol=0.06)


def test_what_is_refused() -> None:
    run = tp.train(raw(tp.Task([1.0, 1.0], [0.0, 1.0])).problem)
    with pytest.raises(ValueError, match="the loss derivative of step 0 vanishes"):
        tp.theory.order_parameters(run)
    with pytest.raises(ValueError, match="raw: got the problem of another run"):
        tp.theory.order_parameters(run, raw())
    two = tp.theory.dmft(raw(tp.Task([1.0], [1.0]), "tanh", 2, 8, block="mlp"), "dense")
    for what in ("A", "B", "fields.chi"):
        with pytest.raises(ValueError, match=rf"{what}: blocks have the matrices W1, W2.* expected .*matrices\['W1'\]"):
            attrgetter(what)(two)

    def twice(branch: tp.Branch) -> Any:
        return MatVec(branch.weights(), branch.let("h", MatVec(branch.weights(), branch.x)))

    for options, said in (({"block": twice}, "that make one product a block"),
                          ({"block": "mlp", "mlp_ratio": 2}, "that make one product a block"),
                          ({"norm": "rms", "gains": True}, "expected gains=False")):
        problem = tp.Problem(tp.ResNet("tanh", **options), TASK, tp.SGD(), tp.DepthScaling(), 2, 8)
        with pytest.raises(tp.NotCovered, match=said):
            tp.theory.order_parameters(tp.train(problem, method="dense"))
    with pytest.raises(ValueError, match="expected linear networks of one matrix a block"):
        tp.theory.order_parameters(tp.train(raw(phi="tanh", block="mlp").problem, method="collocation"))
    with pytest.raises(ValueError, match="at depth 4, where all nodes are"):
        tp.theory.dmft(raw(depth=4), layer_times=[0.5])
    with pytest.raises(ValueError, match="expected multiples of 1 / 8"):
        tp.theory.dmft(raw(phi="tanh"), layer_times=[0.3])
    with pytest.raises(ValueError, match="expected 'auto' and tp.methods.Particles"):
        tp.theory.dmft(raw(phi="tanh"), "common_draws")
