"""Biases of nonlinear blocks at a finite depth, by weights of coordinates: against the exact ones of linear networks,
and real networks in plain NumPy."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from support.plain.many_trainings import ManyTrainings
from tpcalc.interpreters.many_networks import ManyNetworks
from tpcalc.results import sampled_fluctuations
from tpcalc.results.sampled_fluctuations import SampledFluctuations

RNG = np.random.default_rng(5)
ONE = tp.Task(RNG.uniform(-1, 1, (3, 1, 2)), RNG.uniform(-1, 1, (3, 1, 1)))
TWO = tp.Task(RNG.uniform(-1, 1, (2, 2, 2)), RNG.choice([-1.0, 1.0], (2, 2, 2)), "logistic", probes=[[0.3, 0.4]])
SHARES = tp.Task(RNG.uniform(-1, 1, (3, 2, 1)), RNG.dirichlet(np.ones(2), (3, 2)), "softmax")
AGAIN = tp.Task([[[1], [0.8]]] * 3, [[[1], [-0.7]]] * 3)
NOUGHT = tp.Task(ONE.inputs, ONE.targets * np.array([0, 1, 1])[:, None, None])
MOVED = tp.SGD(0.4, momentum=0.5, weight_decay=0.2)
SCALE = tp.DepthScaling()


def sampled(run: tp.Run, draws: int, monkeypatch: pytest.MonkeyPatch) -> SampledFluctuations:
    monkeypatch.setattr(sampled_fluctuations, "DRAWS", draws)
    return SampledFluctuations(run.problem)


def z_scores(found: SampledFluctuations, exact: np.ndarray) -> np.ndarray:
    return ((found.bias - exact) / found.bias_errors).ravel()


@pytest.mark.parametrize("net, task, opt, scale, depth", [
    (tp.ResNet(), ONE, tp.SGD(0.3), SCALE, 4), (tp.ResNet(), TWO, MOVED, tp.DepthScaling(0.75, 0.25), 2),
    (tp.ResNet(train_embedding_readout=True), SHARES, tp.SGD(0.3), SCALE, 2),
    (tp.ResNet(), AGAIN, tp.SGD(0.5), SCALE, 2), (tp.ResNet(), NOUGHT, tp.SGD(0.5), SCALE, 2)],
    ids=["one", "two", "trained", "again", "nought"])
def test_linear_networks_have_their_exact_bias(net: tp.ResNet, task: tp.Task, opt: tp.SGD, scale: Any, depth: int,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    run = tp.train(net, task, opt, scale, depth)
    found, exact = sampled(run, 512, monkeypatch), run.fluctuations
    z = z_scores(found, exact.bias)
    assert np.abs(z).max() < 4 and np.sqrt(np.mean(z**2)) < 1.7
    assert np.abs(found.bias - exact.bias).max() < 1.4 * found.bias_error
    assert found.bias_error < 0.3 * np.sqrt(exact.cumulant(2).max())
    if task.probes is not None:
        assert np.abs(found.probe_bias - exact.probe_bias).max() < 2 * found.bias_error


@pytest.mark.parametrize("block, phi, depth, task", [
    ("mlp", "tanh", 2, ONE), ("post_nonlin", "tanh", 1, TWO), ("pre_nonlin", "relu", 2, TWO)], ids=str)
def test_they_are_real_networks(block: str, phi: str, depth: int, task: tp.Task) -> None:
    """Equal weights: mean and variance at width 8, where matrices meet almost as many vectors as they have
    dimensions."""
    opt, networks, n = tp.SGD(1.0), 4000, 8
    plain = ManyTrainings(task, opt, block, phi, SCALE.multiplier(depth), SCALE.update_size(depth), depth)
    net = tp.ResNet(phi, block=block)
    ours = SampledFluctuations(tp.Problem(net, task, opt, SCALE, depth=depth))
    found = ours._networks(n).reshape(-1, *ours.shape)[:, :, :task.batch].reshape(-1, task.targets.size)
    real = plain.outputs(n, networks, 1).reshape(networks, -1)
    z = []
    for power in (1, 2):
        (a, a_error), (b, b_error) = ((np.mean(one**power, axis=0), np.std(one**power, axis=0) / len(one)**0.5)
                                      for one in (found, real))
        z.append((a - b) / np.hypot(a_error, b_error))
    assert np.abs(z).max() < 4 and np.sqrt(np.mean(np.square(z))) < 1.6


def test_what_is_new_does_not_turn_where_it_passes_through_nought(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss derivative that vanishes at infinite width: with orthonormal vectors that turn as it does, outputs have
    kinks there, and second differences no bound."""
    run = tp.train(tp.ResNet(), NOUGHT, tp.SGD(0.5), SCALE, depth=2)
    errors = sampled(run, 256, monkeypatch).bias_errors

    plain = ManyNetworks.new_part

    def turned(self: ManyNetworks, rest: np.ndarray, vector: np.ndarray) -> Any:
        new = plain(self, rest, vector)
        if new is None:
            return None
        sign = np.sign(new[0].value) + (new[0].value == 0)
        return new[0] * type(new[0])(sign), new[1] * sign

    monkeypatch.setattr(ManyNetworks, "new_part", turned)
    assert SampledFluctuations(run.problem).bias_errors.max() > 10 * errors.max()


def test_a_run_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled_fluctuations, "DRAWS", 256)
    run = tp.train(tp.ResNet("tanh", norm="rms", block="pre_nonlin"), TWO, MOVED, SCALE, depth=2)
    found = run.fluctuations
    assert found.bias.shape == run.outputs.shape and found.probe_bias.shape == run.probe_outputs.shape
    assert np.array_equal(pickle.loads(pickle.dumps(found)).bias, found.bias)
    for probes, outputs, bias in ((False, run.outputs, found.bias), (True, run.probe_outputs, found.probe_bias)):
        at = run.at_width(4096, probes)
        assert np.array_equal(at.mean, outputs + bias / 4096) and at.warning is None
    assert run.at_width(4096).std ** 2 * 4096 == pytest.approx(found.cumulant(2))
    with pytest.raises(ValueError, match="executor: got .* for an expansion in 1/n"):
        run.at_width(64, executor=object())


def test_a_width_at_which_the_next_order_counts_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """By networks of that width."""
    monkeypatch.setattr(sampled_fluctuations, "DRAWS", 256)
    run = tp.train(tp.ResNet("tanh"), AGAIN, tp.SGD(1.5), SCALE, depth=1)
    said = run.at_width(6).warning
    assert said is not None and said.startswith("at width 6 the next order in 1/n changes the mean or the standard")
    assert "it is below 10 % from about width" in said
    assert run.at_width(2000).warning is None

    def blown(self: SampledFluctuations, width: int) -> np.ndarray:
        raise tp.Divergence("training diverges at step 1")

    monkeypatch.setattr(SampledFluctuations, "_networks", blown)
    assert "some networks of width 6 blow up, training diverges at step 1" in str(run.at_width(6).warning)


@pytest.mark.parametrize("opt, phi", [(tp.SGD(0.5), "tanh"), (tp.NormalizedSGD(0.3), "tanh"),
                                      (tp.Muon(0.3), "linear")], ids=str)
def test_updates_without_first_outputs(opt: Any, phi: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 1/n term of norms, and Sigma, against real networks of widths 16 and 32."""
    monkeypatch.setattr(sampled_fluctuations, "DRAWS", 256)
    task = tp.Task(TWO.inputs, [[[0.5, -0.7], [1, 0.3]]] * 2)
    method: Any = tp.methods.Particles(samples=4096) if phi == "tanh" else "auto"
    run = tp.train(tp.ResNet(phi, zero_readout=True), task, opt, SCALE, 2, method=method)
    found = run.fluctuations
    assert isinstance(found, SampledFluctuations) and np.abs(found.bias[0]).max() < 1e-9
    theirs, errors = plain_bias(run, 16, 3000)
    z = (found.bias.ravel() - theirs)[4:] / np.hypot(errors, found.bias_errors.ravel())[4:]
    assert np.abs(z).max() < 4 and np.abs(found.bias).max() > 3 * found.bias_error
    plain = ManyTrainings(task, opt, "post_nonlin", phi, SCALE.multiplier(2), SCALE.update_size(2), 2, True)
    np.testing.assert_allclose(found.cumulant(2)[1].ravel(), 64 * plain.outputs(64, 1000, 1)[:, 1].var(axis=0).ravel(),
                               rtol=0.35)
    assert "drawn:" not in str(run.at_width(64).warning)


def plain_bias(run: tp.Run, n: int, networks: int, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """n times what the mean of real networks of two widths, n and 2 n, is off by, without the next order, and its
    error."""
    net, scale, depth = run.problem.net, run.problem.scale, run.depth
    plain = ManyTrainings(run.task, run.problem.opt, net.block, net.phi, scale.multiplier(depth),
                          scale.update_size(depth), depth, net.zero_readout)
    f, limit = run.outputs.ravel(), run.error_estimate / 3
    away, errors = [], []
    for width in (n, 2 * n):
        found = plain.outputs(width, networks, seed).reshape(networks, -1)
        away.append(width * (found.mean(axis=0) - f))
        errors.append(width * found.std(axis=0) / networks**0.5)
    return 2 * away[1] - away[0], np.sqrt(4 * errors[1]**2 + errors[0]**2 + (3 * n * limit)**2)


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["linear", "tanh"])
def test_every_z_score_of_drawn_networks(phi: str) -> None:
    """22 draws, none left out, of linear networks against their exact bias, and of others against real networks of
    widths 16 and 32, where 1/n^2 is below the errors: three directions of outputs after the first update. Draws share
    the coordinates that are drawn, so that their z-scores are not quite independent."""
    rng, scores = np.random.default_rng(47), []
    for k in range(22):
        steps, batch, d_in, d_out = rng.integers(2, 4), rng.integers(1, 3), rng.integers(1, 3), rng.integers(1, 3)
        loss = ["mse", "logistic"][rng.integers(2)]
        targets = rng.uniform(-1, 1, (steps, batch, d_out))
        task = tp.Task(rng.uniform(-1, 1, (steps, batch, d_in)), targets if loss == "mse" else np.sign(targets), loss)
        opt = tp.SGD(float(rng.uniform(0.2, 0.8)), momentum=float(rng.choice([0, 0.5])))
        alpha, depth = float(rng.choice([0.5, 0.75, 1])), int(rng.integers(1, 4))
        net = tp.ResNet(phi, block="post_nonlin" if phi == "linear" else str(rng.choice(
            ["post_nonlin", "pre_nonlin", "mlp"])))
        method: Any = "auto" if phi == "linear" else tp.methods.Particles(samples=8192, batches=16)
        run = tp.train(net, task, opt, tp.DepthScaling(alpha, 1 - alpha), depth, method=method)
        found = SampledFluctuations(run.problem)
        along = rng.standard_normal((task.targets.size, min(3, (steps - 1) * batch * d_out)))
        along[:batch * d_out] = 0
        along = np.linalg.qr(along)[0]
        own = np.std(found._drawn_biases.reshape(-1, *found.shape)[:, :, :batch].reshape(-1, len(along)) @ along,
                     axis=0, ddof=1) / len(found._drawn_biases)**0.5
        truth, error = ((run.fluctuations.bias.ravel(), np.zeros(len(along))) if phi == "linear"
                        else plain_bias(run, 16, 6000, k))
        z = (found.bias.ravel() - truth) @ along / np.sqrt(own**2 + error**2 @ along**2)
        scores.append(z)
        print(f"{k}: {net.block}, {opt}, {task}, L {depth}, alpha {alpha}: {z.round(2).tolist()}", flush=True)
    z = np.concatenate(scores)
    rms, inside = np.sqrt(np.mean(z**2)), np.mean(np.abs(z) < 1.96)
    print(f"{phi}: {len(z)} z-scores of {len(scores)} draws, rms {rms:.3f}, largest {np.abs(z).max():.2f}, "
          f"{100 * inside:.0f} % within 1.96")
    assert 0.75 < rms < 1.25 and inside > 0.88 and np.abs(z).max() < 4.5
