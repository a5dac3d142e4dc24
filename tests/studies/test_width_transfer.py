"""How the best learning rate moves with the width: against minima of expected losses, and sweeps of plain networks."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import tpcalc as tp
from support.plain.many_trainings import ManyTrainings
from support.plain.rate_sweeps import SHIFTS, least, least_of
from tpcalc.results import limit_biases, sampled_fluctuations
from tpcalc.studies.width_transfer import WidthTransfer

RATES = np.geomspace(0.01, 3, 24)
ONE = (np.array([[1, 0.8]] * 2), np.array([[1, 0.2]] * 2))
TWO = (np.array([[1, 0.8], [-0.6, 0.5], [1, 0.8]]), np.array([[1, 0.2], [0.3, -0.4], [1, 0.2]]))


def task_of(data: tuple[np.ndarray, np.ndarray]) -> tp.Task:
    return tp.Task(*(one[..., None] for one in data))


@pytest.mark.parametrize("data, net, scale, depth", [
    (ONE, tp.ResNet(), tp.DepthScaling(), 4),
    pytest.param(TWO, tp.ResNet(), tp.DepthScaling(), tp.oo, marks=pytest.mark.nightly),
    (TWO, tp.ResNet(train_embedding_readout=True), tp.DepthScaling(0.75, 0.25), 4)], ids=["one", "oo", "trained"])
def test_minima_of_expected_losses(data: Any, net: tp.ResNet, scale: tp.DepthScaling, depth: Any) -> None:
    """What ``at_width`` says of outputs is a loss, whose minimum at a large width is found by itself."""
    task, width = task_of(data), 10**4
    found = tp.transfer(net, task, tp.SGD(1.0), scale, [depth], RATES, widths=[64, width])

    def expected(log_rate: float) -> float:
        at = tp.train(net, task, tp.SGD(float(np.exp(log_rate))), scale, depth).at_width(width)
        return float(np.mean((at.mean[-1] - task.targets[-1]) ** 2 + at.std[-1] ** 2) / 2)

    start = np.log(found.optimum[0, 1])
    best = minimize_scalar(expected, bounds=(start - 0.02, start + 0.02), method="bounded", options={"xatol": 1e-8})
    assert np.exp(best.x) / found.learning_rate[0] - 1 == pytest.approx(found.drift[0] / width, rel=0.02)
    assert best.fun == pytest.approx(found.loss[0] + found.excess[0] / width, rel=1e-4)
    others = expected(start + 0.01) + expected(start - 0.01) - 2 * expected(start)
    assert others / 1e-4 == pytest.approx(found.curvature[0], rel=0.01)
    assert found.cost[0, 1, 0] == pytest.approx(
        found.curvature[0] / 2 * (found.drift[0] * (1 / 64 - 1 / width)) ** 2, rel=1e-12)
    assert found.cost[0, 0, 0] == 0 and len(found.rows) == 2 and "optimum" in found.table()


def test_other_losses_take_their_second_derivative() -> None:
    """Logistic: against a mean over Gaussian outputs of the mean and deviation at a width."""
    task = tp.Task([1, -0.8, 1, 0.7], [1, -1, -1, 1], "logistic")
    found = tp.transfer(tp.ResNet(), task, tp.SGD(1.0), tp.DepthScaling(), [3], np.geomspace(0.1, 10, 12), widths=[500])
    run = tp.train(tp.ResNet(), task, tp.SGD(float(found.learning_rate[0])), tp.DepthScaling(), 3)
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    at = run.at_width(10**5)
    f = at.mean[-1, 0, 0] + nodes * at.std[-1, 0, 0]
    mean = weights @ np.logaddexp(0, -task.targets[-1, 0, 0] * f) / weights.sum()
    assert 10**5 * (mean - found.loss[0]) == pytest.approx(found.excess[0], rel=1e-3)


def test_of_linear_networks_samples_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within their error, by which nearby rates share their draws."""
    given: Any = (tp.ResNet(), task_of(ONE), tp.SGD(1.0), tp.DepthScaling(), [2], [0.2, 0.8, 3.0])
    exact = tp.transfer(*given, widths=[64])
    monkeypatch.setattr(sampled_fluctuations, "DRAWS", 512)
    monkeypatch.setattr(sampled_fluctuations, "COORDINATES", 256)
    monkeypatch.setattr(tp.Run, "_samples_fluctuations", True)
    found = tp.transfer(*given, widths=[64])
    assert found.learning_rate == pytest.approx(exact.learning_rate, rel=1e-6) and exact.drift_error[0] == 0
    assert abs(found.drift[0] - exact.drift[0]) < found.drift_error[0] < abs(exact.drift[0])
    assert found.excess[0] == pytest.approx(exact.excess[0], abs=0.3)
    assert found.resolved[0] and "+-" in found.table()


@pytest.mark.slow
def test_of_linear_networks_samples_at_infinite_depth_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    given: Any = (tp.ResNet(), task_of(ONE), tp.SGD(1.0), tp.DepthScaling(), [tp.oo], [0.1, 0.5, 3.0])
    exact = tp.transfer(*given, widths=[64])
    for name, value in (("DRAWS", 128), ("COARSEST", 4), ("COORDINATES", 64)):
        monkeypatch.setattr(limit_biases, name, value)
    known = vars(tp.Run)["fluctuations"].func
    sampled = cached_property(lambda run: limit_biases.BlockFluctuations(**vars(known(run)), problem=run.problem))
    sampled.__set_name__(tp.Run, "fluctuations")
    monkeypatch.setattr(tp.Run, "fluctuations", sampled)
    found = tp.transfer(*given, widths=[64])
    assert abs(found.drift[0] - exact.drift[0]) < found.drift_error[0] < abs(exact.drift[0])
    assert found.learning_rate_error[0] == 0 and found.learning_rate == pytest.approx(exact.learning_rate, rel=1e-6)


def test_a_drift_that_is_not_resolved_is_said() -> None:
    one = np.ones(1)
    table = WidthTransfer(one, one, one, one, one, (4,), np.array([64]), 2 * one, one).table()
    assert "not resolved: within 2 of 1" in table


@pytest.mark.slow
@pytest.mark.parametrize("phi, block, depth, width, networks", [
    ("tanh", "post_nonlin", 4, 32, 12000), ("tanh", "pre_nonlin", 2, 32, 8000)], ids=str)
def test_sweeps_of_plain_nonlinear_networks(phi: str, block: str, depth: int, width: int, networks: int) -> None:
    """The same of what is sampled, beside its error."""
    task, scale = task_of(ONE), tp.DepthScaling()
    found = tp.transfer(tp.ResNet(phi, block=block), task, tp.SGD(1.0), scale, [depth], np.geomspace(0.2, 10, 8),
                        widths=[width])
    rate, of_limit = found.optimum[0, 0], found.learning_rate_error[0] / found.learning_rate[0]
    error = np.hypot(found.drift_error[0] / width, of_limit)
    outputs = [ManyTrainings(task, tp.SGD(float(rate * np.exp(shift))), block, phi, scale.multiplier(depth),
                             scale.update_size(depth), depth).outputs(width, networks, 3)[:, -1] for shift in SHIFTS]
    losses = np.array([np.mean((one - task.targets[-1]) ** 2, axis=(1, 2)) / 2 for one in outputs]).T
    shift, chance = least_of(losses)
    limit = np.log(found.learning_rate[0] / rate)
    print(f"{phi} {block}, depth {depth}: c {found.drift[0]:.2f} +- {found.drift_error[0]:.2f}; networks of width "
          f"{width} are best at {rate * np.exp(shift):.4f} +- {rate * chance:.4f}, computed {rate:.4f} +- "
          f"{found.learning_rate[0] * error:.4f}, infinite width {found.learning_rate[0]:.4f} +- "
          f"{found.learning_rate_error[0]:.4f}; the excess of their loss "
          f"{width * (losses.mean(axis=0)[2] - found.loss[0]):.3f}, computed {found.excess[0]:.3f}")
    assert abs(shift) < np.hypot(3 * chance, error) + found.drift[0] ** 2 / width ** 2
    assert abs(shift - limit) > 3 * np.hypot(chance, of_limit / 2) and found.resolved[0]


@pytest.mark.slow
@pytest.mark.parametrize("net, scale, width, seeds", [
    (tp.ResNet(), tp.DepthScaling(), 64, 3000),
    (tp.ResNet(train_embedding_readout=True), tp.DepthScaling(0.75, 0.25), 48, 3000)], ids=["frozen", "trained"])
def test_sweeps_of_plain_networks(net: tp.ResNet, scale: tp.DepthScaling, width: int, seeds: int) -> None:
    """The rate at which their mean loss is least is the computed one, and not that of infinite width."""
    found = tp.transfer(net, task_of(ONE), tp.SGD(1.0), scale, [4], RATES, widths=[width])
    shift, error = least(ONE, scale, 4, width, found.optimum[0, 0], seeds, net.train_embedding_readout)
    assert abs(shift) < 3 * error
    assert abs(shift - np.log(found.learning_rate[0] / found.optimum[0, 0])) > 3.5 * error


@pytest.mark.parametrize("change, message", [
    ({"opt": tp.Muon(0.3)}, "widths: got some with Muon"),
    ({"net": tp.ResNet("relu")}, "widths: got some with .*'relu'.* takes the expansion in 1/n: fluctuations: got"),
    ({"net": tp.ResNet(zero_readout=True)}, "zero_readout"),
    ({"learning_rates": [0.01, 0.02, 0.04]}, "at an end of them"),
    ({"method": "particles"}, "method: got 'particles' beside widths"), ({"width": 64}, "width: got 64 beside widths"),
    ({"scalings": [tp.DepthScaling(), tp.DepthScaling(1, 0)]}, "scalings: got .* expected one scaling"),
    ({"widths": [0]}, "widths"), ({"progress": print}, "progress: got .* beside widths")], ids=str)
def test_refused(change: dict[str, Any], message: str) -> None:
    given = {"net": tp.ResNet(), "task": task_of(ONE), "opt": tp.SGD(1.0), "scalings": tp.DepthScaling(), "depths": [4],
             "learning_rates": RATES, "widths": [64], **change}
    with pytest.raises(ValueError, match=message):
        tp.transfer(**given)
