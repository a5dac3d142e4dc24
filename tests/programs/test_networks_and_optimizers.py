"""Networks and optimizers: what they are made of, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tpcalc as tp

NAN, INF = float("nan"), float("inf")


ACTIVATIONS = "expected 'linear', 'relu', 'abs', 'tanh', 'erf', 'gelu', 'silu' or a sympy expression in one symbol"


@pytest.mark.parametrize("given, said", [
    ({"phi": "sine"}, f"phi: got 'sine'; {ACTIVATIONS}"),
    ({"phi": None}, f"phi: got None; {ACTIVATIONS}"),
    ({"block": "attention"}, "block: got 'attention'; expected 'post_nonlin', 'pre_nonlin', 'mlp', 'glu'"),
    ({"norm": "batch"}, "norm: got 'batch'; expected None and 'rms', 'layer'"),
    ({"train_embedding_readout": 1}, "train_embedding_readout: got 1; expected False and True"),
])
def test_unknown_networks_are_refused(given: dict, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.ResNet(**given)
    assert said in str(caught.value)


def test_an_activation_of_a_type_that_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="phi: got .*; expected 'linear'"):
        tp.ResNet(np.array([1, 2]))


@pytest.mark.parametrize("lr, said", [
    (NAN, "which is NaN or infinite"),
    (INF, "which is NaN or infinite"),
    ([0.1, NAN], "lr: 1 values are NaN or infinite (the first at index (1,))"),
    ([[0.1]], "lr: got an array of shape (1, 1); expected a number or one number a step"),
    ("fast", "lr: got 'fast'"),
])
def test_learning_rates_that_are_not_finite_numbers_are_refused(lr: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.SGD(lr)
    assert said in str(caught.value)


@pytest.mark.parametrize("given, said", [
    ({"momentum": -0.1}, "momentum: got -0.1; expected a finite number of at least 0"),
    ({"weight_decay": NAN}, "weight_decay: got nan; expected a finite number of at least 0"),
    ({"dampening": INF}, "dampening: got inf; expected a finite number"),
    ({"nesterov": True}, "nesterov: got True with momentum 0.0 and dampening 0.0; expected a momentum and no "
                         "dampening"),
    ({"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "expected a momentum and no dampening"),
])
def test_optimizers_that_make_no_sense_are_refused(given: dict, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.SGD(1.0, **given)
    assert said in str(caught.value)


@given(st.floats(0, 0.95), st.sampled_from(["damped", "nesterov", "plain"]), st.floats(0, 0.5), st.booleans(),
       st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_memory_is_that_of_pytorch(momentum: float, form: str, decay: float, decoupled: bool, steps: int,
                                   seed: int) -> None:
    """rho_t W_0 - sum w_ts grad_s equals what PyTorch's SGD (decay in the gradient, or AdamW's way) does to numbers."""
    dampening = 0.3 if form == "damped" else 0.0
    nesterov = form == "nesterov" and momentum > 0
    rng = np.random.default_rng(seed)
    rates, gradients, start = rng.uniform(0, 1, steps), rng.normal(size=steps), rng.normal()
    opt = tp.SGD(rates, momentum=momentum, dampening=dampening, nesterov=nesterov, weight_decay=decay,
                 decoupled=decoupled)
    rho, w = opt.memory(steps)
    weight, buffer = start, None
    for t in range(steps):
        np.testing.assert_allclose(rho[t] * start - w[t] @ gradients, weight, rtol=1e-12, atol=1e-12)
        assert np.all(w[t, t:] == 0)
        d = gradients[t]
        if decoupled:
            weight *= 1 - rates[t] * decay
        else:
            d = d + decay * weight
        if momentum != 0:
            buffer = d if buffer is None else momentum * buffer + (1 - dampening) * d
            d = d + momentum * buffer if nesterov else buffer
        weight -= rates[t] * d


@pytest.mark.parametrize("rates", [[0.1], [0.1, 0.2, 0.3, 0.4], []])
def test_schedules_of_the_wrong_length_are_refused(rates: list) -> None:
    with pytest.raises(ValueError) as caught:
        tp.SGD(rates).schedule(3)
    said = f"lr: got {len(rates)} learning rates for a task of 3 steps; expected one number, or one a step"
    assert said in str(caught.value)


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=6))
def test_memory_of_sgd_is_the_sum_of_its_updates(rates: list[float]) -> None:
    """W_t = W_0 - sum_(s < t) eta_s grad_s, by running the optimizer on formal gradients."""
    steps = len(rates)
    rho, w = tp.SGD(rates).memory(steps)
    weights, expected = np.zeros(steps), np.zeros((steps, steps))
    for t in range(steps):
        expected[t] = -weights
        weights -= rates[t] * np.eye(steps)[t]
    assert np.array_equal(rho, np.ones(steps))
    assert np.array_equal(w, expected)


def test_optimizers_are_values() -> None:
    assert tp.SGD(0.5) == tp.SGD(0.5) and tp.SGD([0.1, 0.2]) == tp.SGD((0.1, 0.2))
    assert hash(tp.SGD([0.1, 0.2])) == hash(tp.SGD(np.array([0.1, 0.2])))
