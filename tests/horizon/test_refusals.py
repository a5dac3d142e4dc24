"""What long training in closed form does not take is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tpcalc as tp

STREAM = tp.Stream(np.eye(2), [1.0, 0.0], 0.5)
USUAL: dict[str, Any] = dict(net=tp.ResNet(), stream=STREAM, opt=tp.SGD(0.01), scale=tp.DepthScaling(1, 0))


@pytest.mark.parametrize("given, said", [
    (dict(net=tp.ResNet("tanh")), "phi='linear', one matrix a block"),
    (dict(net=tp.ResNet(train_embedding_readout=True)), "frozen embedding and readout"),
    (dict(opt=tp.SGD(0.1, momentum=0.9)), "stationary.decay. takes a decay; expected a tp.SGD without"),
    (dict(opt=tp.SGD(0.1, weight_decay=0.1)), "stationary.decay. takes a decay; expected a tp.SGD without"),
    (dict(opt=tp.Adam(0.1)), "closed for gradient descent alone; expected a tp.SGD without momentum and weight decay"),
    (dict(scale=tp.DepthScaling(1, 0.5)), "gamma = 1 - alpha"),
    (dict(scale=tp.DepthScaling(0.4, 0.6)), "alpha of at least 1/2")])
def test_networks_optimizers_and_scalings(given: dict[str, Any], said: str) -> None:
    with pytest.raises(tp.NotCovered, match=said):
        tp.long_horizon(**{**USUAL, **given})


@pytest.mark.parametrize("covariance, teacher, noise, said", [
    (np.eye(2), np.eye(2), 0.1, r"of shape \(2, 2\); expected \(d,\): outputs are numbers"),
    (np.eye(3), [1, 0], 0.1, r"with a teacher of 2 entries; expected shape \(2, 2\)"),
    ([[1.0, 0.5], [0.0, 1.0]], [1, 0], 0.1, "differs from its transpose by 0.5"),
    (np.diag([1.0, -1.0]), [1, 0], 0.1, "eigenvalues are -1 to 1"),
    (np.zeros((2, 2)), [1, 0], 0.1, "not all of them 0"),
    (np.eye(2), [1, 0], -0.1, "noise: got -0.1")])
def test_streams(covariance: Any, teacher: Any, noise: float, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.Stream(covariance, teacher, noise)


def test_rates_and_schedules() -> None:
    found = tp.long_horizon(**USUAL)
    with pytest.raises(tp.Divergence, match="takes all of the error away, and larger ones overshoot"):
        found.risk(0.5, 1, 10)
    with pytest.raises(tp.Divergence, match="squares of errors grow at every step of 1 samples"):
        found.risk(0.42, 1, 10**4)
    with pytest.raises(tp.NotCovered, match="may change the risk by more than itself"):
        found.risk(np.full(20, 0.15), 1, 20)
    with pytest.raises(tp.NotCovered, match="no rate is best among those whose risk is known to leading order"):
        found.best("inverse", 1, 512)
    with pytest.raises(ValueError, match="schedule: got 'cosine'; expected"):
        found.best("cosine", 1, 512)
    with pytest.raises(ValueError, match="got 3 learning rates for a task of 10 steps"):
        found.risk([0.1, 0.1, 0.1], 1, 10)
    with pytest.raises(ValueError, match="one after the other"):
        found.flow([1.0, 0.5])
    assert found.risk("linear", 4, 100) == found.risk(tp.schedule(0.01, 100, fall="linear"), 4, 100)


def test_noise_of_inputs_whose_directions_differ() -> None:
    found = tp.long_horizon(**{**USUAL, "stream": tp.Stream(np.diag([1.0, 2.0]), [1.0, 1.0], 0.5)})
    with pytest.raises(tp.NotCovered, match="no multiple of the identity"):
        found.best("linear", 1, 1000)
    assert found.flow([0.0, 1.0]).shape == (2, 2) and found.flow([0.0, 1.0])[0].tolist() == [0.0, 0.0]


def test_two_stationary_states() -> None:
    found = tp.long_horizon(**{**USUAL, "stream": tp.Stream([[1.0]], [26.0])})
    with pytest.raises(tp.NotCovered, match="3 states are stationary, and which of them training comes to"):
        found.stationary(50.0)
