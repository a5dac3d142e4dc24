"""How the best learning rate moves with the depth: against minima of exact trainings, and sweeps of plain networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import minimize_scalar

import tpcalc as tp
from support.plain.rate_sweeps import least
from .test_width_transfer import ONE, TWO, task_of

RATES = np.geomspace(0.01, 3, 24)
OPT = tp.SGD(1.0, momentum=0.2, weight_decay=0.1)
CASES = {
    "depth-mup": (tp.ResNet(), TWO, tp.DepthScaling()),
    "depth-mup, trained": (tp.ResNet(train_embedding_readout=True), ONE, tp.DepthScaling(branch=-0.7, base_depth=1.5)),
    "noise dies slowly": (tp.ResNet(), ONE, tp.DepthScaling(0.75, 0.25, branch=-0.9, base_depth=1.4)),
    "noise and steps": (tp.ResNet(), TWO, tp.DepthScaling(1, 0)),
    "steps alone": (tp.ResNet(), TWO, tp.DepthScaling(1.25, -0.25))}


def loss(net: tp.ResNet, data: Any, scale: tp.DepthScaling, depth: int, log_rate: float) -> float:
    opt = tp.SGD(float(np.exp(log_rate)), momentum=0.2, weight_decay=0.1)
    return float(tp.train(net, task_of(data), opt, scale, depth).losses[-1])


@pytest.mark.parametrize("net, data, scale", CASES.values(), ids=CASES)
def test_minima_of_exact_trainings(net: tp.ResNet, data: Any, scale: tp.DepthScaling) -> None:
    """They leave the computed line by the next order: half of it, or of its root, at twice the depth. Rates of other
    depths cost what is computed."""
    depths = [128, 256, 512]
    found = tp.transfer(net, task_of(data), OPT, scale, depths, RATES, from_limit=True)
    power = float(found.powers[0])
    assert power == pytest.approx(min(1, 2 * float(scale.alpha) - 1) if scale.alpha > 0.5 else 1)

    def minimum(k: int) -> float:
        start = np.log(found.optimum[0, k])
        return float(minimize_scalar(lambda x: loss(net, data, scale, depths[k], x), bounds=(start - 0.1, start + 0.1),
                                     method="bounded", options={"xatol": 1e-9}).x)

    best = [minimum(k) for k in range(3)]
    measured = (np.exp(best) / found.learning_rate[0] - 1) * np.array(depths) ** power
    left = measured - found.drift[0]
    assert abs(left[2]) < 0.1 * max(abs(found.drift[0]), 0.5)
    next_order = min(p for k in range(1, 4) for p in (k, k * power, 2 * float(scale.alpha) - 1)
                     if p > power + 1e-9) - power
    assert left[1] / left[0] == pytest.approx(2**-next_order, abs=0.1)
    assert found.drift_error[0] < 1e-4
    apart = np.log(found.optimum[0, 0] / found.optimum[0, 2])
    wrong = loss(net, data, scale, depths[2], best[2] + apart) - loss(net, data, scale, depths[2], best[2])
    assert found.cost[0, 2, 0] == pytest.approx(wrong, rel=0.1)
    away = [loss(net, data, scale, depth, np.log(found.learning_rate[0])) - found.loss[0]
            - found.excess[0] * depth**-power for depth in depths]
    assert away[1] / away[0] == pytest.approx(2 ** -(power + next_order), abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("net, scale, tolerance", [
    (tp.ResNet(), tp.DepthScaling(), 0.005), (tp.ResNet(train_embedding_readout=True), tp.DepthScaling(), 0.005)],
    ids=["frozen", "trained"])
def test_sweeps_of_plain_networks(net: tp.ResNet, scale: tp.DepthScaling, tolerance: float) -> None:
    """Their best rate at two depths is the computed one, moved by the depth and by the width, and not that of infinite
    depth; tolerance: of the next order in 1/L at the smaller depth."""
    width, depths = 96, [8, 12]
    found = tp.transfer(net, task_of(ONE), tp.SGD(1.0), scale, depths, RATES, from_limit=True)
    wide = tp.transfer(net, task_of(ONE), tp.SGD(1.0), scale, depths, RATES, widths=[width])
    for k, depth in enumerate(depths):
        rate = found.optimum[0, k] * (1 + wide.drift[k] / width)
        shift, error = least(ONE, scale, depth, width, rate, 1000, net.train_embedding_readout)
        away = np.log(found.optimum[0, k] / found.learning_rate[0])
        print(f"depth {depth}: {shift:.4f} +- {error:.4f} from the computed rate, {away + shift:.4f} from the limit's")
        assert abs(shift) < 3 * error + tolerance
        assert abs(away + shift) > 5 * error


def test_infinitely_many_layers_need_no_finite_depth() -> None:
    """Of two scalings at once, and the loss may be another."""
    task = tp.Task([1, -0.8, 1, 0.7], [1, -1, -1, 1], "logistic")
    found = tp.transfer(tp.ResNet(), task, tp.SGD(1.0), [tp.DepthScaling(), tp.DepthScaling(0.75, 0.25)], [8, 32],
                        np.geomspace(0.1, 10, 12), from_limit=True)
    assert found.powers == (1, sp.Rational(1, 2)) and found.optimum.shape == (2, 2) and len(found.rows) == 4
    assert "optimum" in found.table()


@pytest.mark.parametrize("change, message", [
    ({"opt": tp.Muon(0.3)}, "from_limit: got some with Muon"),
    ({"net": tp.ResNet("tanh")}, "the drift of the best rate with the depth takes"),
    ({"net": tp.ResNet(zero_readout=True)}, "zero_readout: got True"),
    ({"scalings": tp.DepthScaling(1, 0.5)}, "whose updates add up to nothing"),
    ({"scalings": tp.DepthScaling(0.5, 0)}, "a limit needs alpha >= 1/2"),
    ({"scalings": tp.Parametrization("muP")}, "scalings: got .* expected a tp.DepthScaling"),
    ({"learning_rates": [0.01, 0.02, 0.04]}, "at an end of them"), ({"depths": [tp.oo]}, "depths: got"),
    ({"method": "particles"}, "method: got 'particles' beside from_limit"),
    ({"widths": [64]}, "from_limit: got True beside widths"), ({"from_limit": 3}, "from_limit: got 3"),
    ({"progress": print}, "progress: got .* beside from_limit")], ids=str)
def test_refused(change: dict[str, Any], message: str) -> None:
    given = {"net": tp.ResNet(), "task": task_of(ONE), "opt": tp.SGD(1.0), "scalings": tp.DepthScaling(), "depths": [4],
             "learning_rates": RATES, "from_limit": True, **change}
    with pytest.raises((ValueError, tp.Divergence), match=message):
        tp.transfer(**given)
