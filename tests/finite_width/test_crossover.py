"""Updates of one size at finite width: against a law in closed form, real networks in plain NumPy, and drawn ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import erf

import tpcalc as tp
from support.nightly import few
from support.plain.many_trainings import ManyTrainings
from tpcalc.finite_width.crossover import of_rank_one
from tpcalc.finite_width.half_circle import arcs_of, gaussians, mean_over
from tpcalc.results import sampled_fluctuations
from tpcalc.results.sampled_fluctuations import SampledFluctuations

SCALE = tp.DepthScaling()
PAIR = np.array([[1.0], [0.8]]), np.array([[1.0], [-0.7]])
TWO = tp.Task(*(np.array([one, one]) for one in PAIR), probes=[0.3, 2.0])
TOKENS = np.array([[1, 0], [0.5, 0.8]])
SEQUENCES = tp.Sequences(*(np.broadcast_to(one, (2, 1, *one.shape)) for one in (TOKENS, PAIR[1])))
ATTENTION = tp.Transformer(positions=2, head_dim=2, mlp=None, causal=False)
FEW = tp.methods.Particles(samples=1024, batches=4)
# first position after one update by tp.NormalizedSGD(0.2): real networks of a programmer of his own, with their errors
MEASURED = {32: (.2306, .0028), 64: (.2948, .0034), 128: (.3382, .0041), 256: (.3798, .0045), 512: (.4014, .0059)}


def growth(depth: Any) -> float:
    """What a linear network of this depth multiplies the variance of an input by."""
    return float(np.e if depth is tp.oo else (1 + 1 / depth) ** depth)


@pytest.mark.parametrize("depth", few([1, 4, tp.oo], 1, 4))
def test_linear_networks_follow_the_law_of_a_sign(depth: Any) -> None:
    """Of numbers as inputs the update knows sum chi xi alone, whose sign is that of a Gaussian."""
    run = tp.train(tp.ResNet(), TWO, tp.Muon(0.3), SCALE, depth)
    xi, y = (one.ravel() for one in PAIR)
    seen, square = float(xi @ y), float(xi @ xi)
    assert run.crossover_width == pytest.approx([growth(depth) * square**2 / seen**2], rel=1e-3)
    for width in (10, 100, 1000):
        law = erf(abs(seen) * np.sqrt(width / (2 * growth(depth))) / square)
        at, held_out = run.at_width(width), run.at_width(width, probes=True)
        rest, of_probes = (0.0, 0.0) if depth is tp.oo else (run._first_update.rest(one)[0] for one in (False, True))
        np.testing.assert_allclose(at.mean[1], law * (run.outputs[1] + rest / width), rtol=0, atol=2e-4)
        np.testing.assert_allclose(held_out.mean[1], law * (run.probe_outputs[1] + of_probes / width), rtol=0,
                                   atol=4e-4)
        np.testing.assert_allclose(at.std[0].ravel(), np.sqrt(growth(depth) / width) * xi, rtol=1e-9)
        np.testing.assert_allclose(held_out.std[0], np.sqrt(growth(depth) / width) * TWO.probes, rtol=1e-9)
        assert np.isnan(at.std[1]).all() and not at.mean[0].any()
    assert "crossover width of the first update is" in run.at_width(200).warning
    assert "crossover" not in run.at_width(10 * int(np.ceil(run.crossover_width[0]))).warning


def test_a_loss_that_is_not_squared() -> None:
    """chi is a function of the outputs then, and Sigma is that of chi."""
    one = tp.Task([1.0, 0.8], [1, -1], "logistic")
    run = tp.train(tp.ResNet(), one, tp.Muon(0.3), SCALE, 4)
    assert run.crossover_width == pytest.approx([growth(4) / 4], rel=1e-3)  # chi = -1/2, its slope 1/4
    mean = run.outputs[1] + run._first_update.rest(False)[0] / 16  # its sign is certain
    np.testing.assert_allclose(run.at_width(16).mean[1], mean, rtol=1e-12)


def of_update(net: tp.ResNet, task: tp.Task, opt: Any, depth: int, draws: int, monkeypatch: pytest.MonkeyPatch
              ) -> tuple[np.ndarray, np.ndarray]:
    """n (mean - E F) by so many draws of as many coordinates, and its errors."""
    monkeypatch.setattr(sampled_fluctuations, "OF_UPDATE", draws)
    return SampledFluctuations(tp.Problem(net, task, opt, SCALE, depth)).bias_of_update(False)


@pytest.mark.parametrize("depth", [1, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_small_updates_have_the_bias_of_a_norm(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one sample and a linear network -v / 8 of the change, v the relative variance of the gradient's square."""
    one = tp.Task([1.0, 1.0], [1, 1])
    run = tp.train(tp.ResNet(), one, tp.Muon(1e-3), SCALE, depth)
    found, error = of_update(tp.ResNet(), one, tp.NormalizedSGD(1e-3), depth, 256, monkeypatch)
    v = 4 + (depth - 1) * (4 / depth + 2 / depth**2) / (1 + 1 / depth) ** 2
    assert abs(found + v / 8 * run.outputs[1]) < 3.5 * error < 0.4 * abs(found)


def test_muon_is_a_normalized_update_where_gradients_are_of_rank_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw by draw; of inputs in a plane, too, where there is one output."""
    plane = tp.Task([[[1, 0.2], [0.3, -0.9]]] * 2, [[[1], [-0.7]]] * 2)
    two = tp.Task([[[1]]] * 2, [[[1, -0.7]]] * 2)
    for task in (plane, two):
        muon, normalized = (of_update(tp.ResNet(), task, one, 2, 32, monkeypatch) for one in (
            tp.Muon(0.7), tp.NormalizedSGD(0.7)))
        np.testing.assert_allclose(muon, normalized, rtol=1e-9)
        replaced = of_rank_one(tp.Problem(tp.ResNet(), task, tp.Muon(0.7, sphere=True), SCALE, 2))
        assert replaced.opt == tp.NormalizedSGD(0.7)


@pytest.mark.parametrize("net, opt, n, networks", [
    (tp.ResNet(), tp.Muon(1.5), 16, 15000), (tp.ResNet(), tp.Muon(1.5, sphere=True), 16, 0),
    pytest.param(tp.ResNet("tanh"), tp.NormalizedSGD(1.0), 16, 30000, marks=pytest.mark.slow),
    pytest.param(tp.ResNet("tanh", "mlp"), tp.NormalizedSGD(0.5), 16, 30000, marks=pytest.mark.slow),
    pytest.param(tp.ResNet(), tp.Muon(1.5), 32, 40000, marks=pytest.mark.slow)], ids=str)
def test_the_term_of_order_one_over_n(net: tp.ResNet, opt: Any, n: int, networks: int) -> None:
    """Against real networks, whose first outputs are taken out of the others by regression; it is far from nothing,
    and where updates are large first outputs and what an update does to the others fluctuate together."""
    task = tp.Task([[[1, 0.2], [0.3, -0.9]]] * 2, [[[1], [-0.7]]] * 2)
    run = tp.train(net, task, opt, SCALE, 2)
    at, rest = run.at_width(n), run._first_update.rest(False)[0].ravel()
    assert "with the term of order 1/n, to" in at.warning
    if not networks:
        free = tp.train(net, task, replace(opt, sphere=False), SCALE, 2)
        np.testing.assert_allclose(rest, free._first_update.rest(False)[0].ravel(), rtol=1e-12)
        return
    plain = ManyTrainings(task, tp.NormalizedSGD(opt.lr), net.block, net.phi, SCALE.multiplier(2),
                          SCALE.update_size(2), 2)
    first, second = plain.outputs(n, networks, 3, 256).reshape(networks, 2, -1).transpose(1, 0, 2)
    known = np.column_stack([np.ones(networks), first])
    fit = np.linalg.lstsq(known, second, rcond=None)[0]
    error = np.hypot(np.std(second - known @ fit, axis=0) / networks**0.5, at.error[1].ravel())
    away = fit[0] - at.mean[1].ravel()
    assert np.all(np.abs(away) < 3 * error + 0.2 * np.abs(rest) / n)  # and 1/n^2
    assert np.max(np.abs(away + rest / n) / error) > 4


def test_gradient_descent_has_none() -> None:
    run = tp.train(tp.ResNet(), TWO, tp.SGD(0.3), SCALE, 4)
    assert run.crossover_width.tolist() == [0.0] and run.at_width(100).warning is None
    assert "crossover" not in run.at_width(8, seeds=2).warning


@pytest.mark.parametrize("opt, seeds", [pytest.param(tp.SignSGD(0.3), 1500, marks=pytest.mark.nightly),
                                        pytest.param(tp.NormalizedSGD(0.3), 1500, marks=pytest.mark.nightly)], ids=str)
def test_nonlinear_networks_are_met(opt: Any, seeds: int) -> None:
    """Far below the limit, which is six standard errors away."""
    run = tp.train(tp.ResNet("tanh"), TWO, opt, SCALE, 4, method=FEW)
    assert 20 < run.crossover_width[0] < 40
    expected, drawn = run.at_width(40), run.at_width(40, seeds=seeds)
    away = np.abs(drawn.mean[1] - run.outputs[1])
    assert np.all(np.abs(drawn.mean[1] - expected.mean[1]) < 0.25 * away + 3 * drawn.error[1])
    assert np.all(away > 6 * drawn.error[1])
    np.testing.assert_allclose(drawn.std[0], expected.std[0], rtol=0.1)


def attention_alone(width: int, seed: int, rate: float) -> np.ndarray:
    """(2, 2): outputs at two positions, before and after an update over the Frobenius norms, of two layers."""
    rng, eps, d = np.random.default_rng([seed, width]), np.sqrt(0.5), 2
    start, v = TOKENS @ rng.standard_normal((2, width)), rng.standard_normal(width)
    weights = [[rng.standard_normal((width, width)) / np.sqrt(width) for _ in range(4)] for _ in range(2)]

    def forward(layers: list) -> tuple[np.ndarray, list]:
        x, kept = start, []
        for query, key, value, mix in layers:
            r = np.sqrt(np.mean(x**2, axis=1, keepdims=True))
            q, k, w = ((x / r @ one.T).reshape(2, -1, d) for one in (query, key, value))
            a = np.exp(np.einsum("ihd,jhd->hij", q, k) / np.sqrt(d))
            a /= a.sum(axis=2, keepdims=True)
            o = np.einsum("hij,jhd->ihd", a, w).reshape(2, width)
            kept.append((x / r, r, q, k, w, a, o))
            x = x + eps * o @ mix.T
        return x @ v / width, kept

    outputs, kept = forward(weights)
    back, moved = np.outer(outputs - PAIR[1].ravel(), v), []
    for (query, key, value, mix), (z, r, q, k, w, a, o) in zip(weights[::-1], kept[::-1]):
        to_o = (back @ mix).reshape(2, -1, d)
        to_a = np.einsum("ihd,jhd->hij", to_o, w)
        to_s = a * (to_a - np.sum(a * to_a, axis=2, keepdims=True)) / np.sqrt(d)
        ways = [np.einsum("hij,jhd->ihd", to_s, k), np.einsum("hij,ihd->jhd", to_s, q),
                np.einsum("hij,ihd->jhd", a, to_o)]
        gradients = [one.reshape(2, width).T @ z for one in ways] + [back.T @ o]
        moved.append([m - rate * eps * g / np.linalg.norm(g) for m, g in zip((query, key, value, mix), gradients)])
        to_z = sum(one.reshape(2, width) @ m for one, m in zip(ways, (query, key, value)))
        back = back + eps * (to_z - z * np.mean(to_z * z, axis=1, keepdims=True)) / r
    return np.array([outputs, forward(moved[::-1])[0]])


@pytest.mark.nightly
def test_attention_at_width_by_other_means() -> None:
    """Few particles, and few plain networks, whose means over seeds are known to 0.02."""
    run = tp.train(ATTENTION, SEQUENCES, tp.NormalizedSGD(0.2), SCALE, 2, method=FEW)
    assert run.crossover_width == pytest.approx([68], rel=0.05)
    real = np.array([attention_alone(64, seed, 0.2) for seed in range(300)])
    found, error = run.at_width(64), real.std(axis=0, ddof=1) / np.sqrt(300)
    assert np.all(np.abs(real[:, 1].mean(axis=0) - found.mean[1, 0, :, 0]) < 3 * error[1] + 0.01)
    np.testing.assert_allclose(real[:, 0].std(axis=0, ddof=1), found.std[0, 0, :, 0], rtol=0.12)
    assert abs(run.outputs[1, 0, 0, 0] - real[:, 1, 0].mean()) > 5 * error[1, 0]


@pytest.mark.slow
def test_attention_at_all_widths() -> None:
    """Plain networks of six widths: from 256 on terms of order 1/n are below the errors, at 32 they are 0.01."""
    run = tp.train(ATTENTION, SEQUENCES, tp.NormalizedSGD(0.2), SCALE, 2)
    assert run.outputs[1].ravel() == pytest.approx([.4158, .3390], abs=2e-3)
    for width, (mean, error) in MEASURED.items():
        found = run.at_width(width).mean[1, 0, :, 0]
        assert abs(found[0] - mean) < 3 * error
        real = np.array([attention_alone(width, seed, 0.2) for seed in range(1500)])[:, 1]
        own = real.std(axis=0, ddof=1) / np.sqrt(len(real))
        assert np.all(np.abs(real.mean(axis=0) - found) < 2.5 * own + 0.4 / width), width


@pytest.mark.slow
def test_later_updates_are_estimated_within_a_factor() -> None:
    """By the covariance of first outputs, of which an update takes a part away and to which it adds another: between a
    fifth and five times what drawn networks say."""
    three = tp.Sequences(*(np.broadcast_to(one, (3, 1, *one.shape)) for one in (TOKENS, PAIR[1])))
    for net, task, opt, width in ((ATTENTION, three, tp.NormalizedSGD(0.2), 1024),
                                  (tp.ResNet(), tp.Task(*(np.array([one] * 3) for one in PAIR)), tp.Muon(0.1), 1024)):
        run = tp.train(net, task, opt, SCALE, 2)
        update = run._first_update
        v = update.leading_mode(1, np.ones_like(task.targets[1]))
        drawn = np.array([tp.train(replace(run.problem, width=width), seed=seed).outputs[1] for seed in range(100)])
        spread = width * np.var(drawn.reshape(100, -1) @ v.ravel(), ddof=1)
        true = spread / float(np.sum(v * (run.outputs[1] - task.targets[1]))) ** 2
        assert 1 / 5 < run.crossover_width[1] / true < 5


def test_dense_networks_ask_overlaps_of_the_last_layer() -> None:
    """Of a limit that keeps vectors at all layers, by a network of its own width."""
    task = tp.Task([1, 0.8], [1, -0.7])
    dense, limit = (tp.train(tp.ResNet("linear", "mlp"), task, tp.Muon(), SCALE, 2, **more) for more in (
        dict(method="dense", width=8), {}))
    np.testing.assert_allclose(dense.at_width(8).mean, limit.at_width(8).mean, atol=2e-3)


def test_real_networks_ask_the_limit() -> None:
    limit = tp.train(tp.ResNet(), TWO, tp.Muon(0.3), SCALE, 4)
    real = tp.train(tp.ResNet(), TWO, tp.Muon(0.3), SCALE, 4, width=32)
    assert real.crossover_width == pytest.approx(limit.crossover_width, rel=1e-12)
    np.testing.assert_allclose(real.at_width(50).mean, limit.at_width(50).mean, rtol=0, atol=1e-12)


def test_several_outputs_are_drawn() -> None:
    """Their loss derivatives lie in no plane; a crossover they have."""
    task = tp.Task([np.eye(3)[:2]] * 2, [[[1, -2], [0.5, 1]]] * 2)
    run = tp.train(tp.ResNet(), task, tp.Muon(0.3), SCALE, 2)
    assert run.at_width(16).seeds == 32 and 0 < run.crossover_width[0] < np.inf
    with pytest.raises(tp.NotCovered, match="lie in a plane"):
        tp.train(tp.ResNet(), task, tp.Muon(0.3), SCALE, tp.oo).at_width(16)


@pytest.mark.parametrize("opt, message", [
    (tp.Clipped(tp.SGD(0.3), 0.1), "a clipped update follows the size"),
    (tp.Shampoo(0.3), "in a way that is not known"),
    (tp.Adam(0.3, eps=0.01), "follow the size of gradients in part")], ids=str)
def test_refused_optimizers(opt: Any, message: str) -> None:
    run = tp.train(tp.ResNet("tanh"), tp.Task([1, 0.8], [1, -0.7]), opt, SCALE, 2, method=FEW)
    with pytest.raises(tp.NotCovered, match=message):
        run.crossover_width
    assert run.at_width(8).seeds == 32


def test_one_step_has_deviations_alone() -> None:
    run = tp.train(tp.ResNet(), tp.Task([1.0], [1.0]), tp.Muon(0.3), SCALE, 2)
    at = run.at_width(100)
    assert run.crossover_width.shape == (0,) and at.mean.tolist() == [[[0.0]]]
    assert at.std.ravel() == pytest.approx([np.sqrt(growth(2) / 100)])


def test_schedules_take_their_first_rate() -> None:
    tasks = [tp.Task(*(np.array([one] * steps) for one in PAIR)) for steps in (2, 3)]
    plain, scheduled = (tp.train(tp.ResNet(), task, tp.Muon(rate), SCALE, 2) for task, rate in zip(
        tasks, (0.3, (0.3, 0.1, 0.2))))
    assert scheduled.crossover_width[0] == pytest.approx(plain.crossover_width[0], rel=1e-9)
    assert "crossover width" in scheduled.at_width(16, seeds=2).warning


def test_the_way_to_the_limit_is_told() -> None:
    """1/n and why, or that none is derived."""
    linear = tp.train(tp.ResNet("tanh"), TWO, tp.SGD(0.3), SCALE, 2, method=FEW).at_width(8, seeds=2)
    assert "it meets the limit like 1/n: outputs are functions of averages over n coordinates" in linear.warning
    part = tp.train(tp.ResNet("tanh"), TWO, tp.Adam(0.3, eps=0.5), SCALE, 2, method=FEW).at_width(8, seeds=2)
    assert "no power of 1/n is derived: updates by Adam" in part.warning
    muon = tp.train(tp.ResNet(), TWO, tp.Muon(0.3), SCALE, 2)
    assert "no power of 1/n is derived" in muon.at_width(400, seeds=2).warning
    assert "the limit says little below" in muon.at_width(40, seeds=2).warning


def test_refused(tmp_path: Any) -> None:
    run = tp.train(tp.ResNet(), TWO, tp.Muon(0.3), SCALE, 2)
    run.save(tmp_path / "run.npz")
    with pytest.raises(tp.NotCovered, match="expected tp.train"):
        tp.Run.load(tmp_path / "run.npz").crossover_width
    deep = tp.train(tp.ResNet("tanh"), TWO, tp.NormalizedSGD(0.3), SCALE, tp.oo,
                    method=tp.methods.CommonDraws(tolerance=1.0, samples=512))
    with pytest.raises(tp.NotCovered, match="at depth=tp.oo, which samples several depths"):
        deep.crossover_width
    tied = tp.train(tp.Transformer(tied=True), tp.Sequences([[[[1], [-0.5]]]] * 2, [[[1, 2]]] * 2), tp.SignSGD(0.1),
                    SCALE, 1, method=FEW)
    with pytest.raises(tp.NotCovered, match="no fluctuation"):
        tied.crossover_width


def test_the_mean_of_an_odd_function_on_half_a_circle() -> None:
    """Of a smooth one against the law of the angle, and of a sign against its own."""
    center, spread = np.array([0.6, -0.3]), 0.4

    def smooth(direction: np.ndarray) -> np.ndarray:
        x, y = direction / np.linalg.norm(direction)
        return np.array([x**3 - y, x / (2 + x * y)])

    def around(gaussian: np.ndarray) -> np.ndarray:
        return center + spread * gaussian

    angles = np.arange(4096) * 2 * np.pi / 4096
    u = (center @ [np.cos(angles), np.sin(angles)]) / spread  # of the radius: its mean along an angle
    off = np.exp(-(center @ center / spread**2 - u**2) / 2) / (2 * np.pi)
    density = off * (np.exp(-u**2 / 2) + u * np.sqrt(np.pi / 2) * (1 + erf(u / np.sqrt(2))))
    values = np.array([smooth(np.array([np.cos(one), np.sin(one)])) for one in angles])
    assert density.mean() * 2 * np.pi == pytest.approx(1)
    expected = density @ values * 2 * np.pi / 4096
    np.testing.assert_allclose(mean_over(arcs_of(smooth, center, 1e-6), around, 2), expected, rtol=0, atol=2e-4)
    sign = mean_over(arcs_of(lambda one: np.sign(one[:1]), center, 1e-6), around, 2)
    np.testing.assert_allclose(sign, erf(0.6 / spread / np.sqrt(2)), rtol=0, atol=3e-4)
    np.testing.assert_allclose(np.cov(gaussians(2).T), np.eye(2), atol=2e-3)
