"""Entrywise optimizers: their directions on numbers, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, strategies as st

import tpcalc as tp

t = sp.Symbol("t", integer=True, nonnegative=True)
g = sp.IndexedBase("g", real=True)
betas = st.integers(0, 9).map(lambda i: sp.Rational(i, 10))


def directions(opt: Any, gradients: np.ndarray) -> list[float]:
    """What the weights move along at every step."""
    direction = opt.direction(lambda k: g[k], t)
    values = {g[k]: sp.Rational(str(v)) for k, v in enumerate(gradients)}
    return [float(direction.subs(t, step).doit().xreplace(values)) for step in range(len(gradients))]


def adam(opt: tp.Adam, gradients: np.ndarray) -> list[float]:
    """torch.optim.Adam's documentation, line by line."""
    m = v = 0.0
    b1, b2, found = float(opt.beta1), float(opt.beta2), []
    for step, gradient in enumerate(gradients, start=1):
        m = b1 * m + (1 - b1) * gradient
        v = b2 * v + (1 - b2) * gradient**2
        found.append(m / (1 - b1**step) / (np.sqrt(v / (1 - b2**step)) + float(opt.eps)))
    return found


gradients = st.lists(st.integers(-40, 40).filter(bool).map(lambda i: i / 8), min_size=1, max_size=5).map(np.array)


@given(betas, betas, st.sampled_from([0.0, 1e-8, 0.5]), gradients)
def test_adam_is_pytorchs(beta1: sp.Rational, beta2: sp.Rational, eps: float, gradients: np.ndarray) -> None:
    opt = tp.Adam(1.0, beta1, beta2, eps)
    np.testing.assert_allclose(directions(opt, gradients), adam(opt, gradients), rtol=1e-13)


@given(gradients)
def test_adam_without_memory_is_the_sign(gradients: np.ndarray) -> None:
    assert directions(tp.Adam(1.0, 0, 0), gradients) == directions(tp.SignSGD(), gradients) == list(np.sign(gradients))


@given(betas, betas, gradients)
def test_the_first_step_of_adam_is_the_sign(beta1: sp.Rational, beta2: sp.Rational, gradients: np.ndarray) -> None:
    """Tensor Programs VI, footnote 3: whatever the averages, and because of the bias correction."""
    assert directions(tp.Adam(1.0, beta1, beta2), gradients[:1]) == [np.sign(gradients[0])]


@given(betas, betas, gradients)
def test_lion_is_its_algorithm(beta1: sp.Rational, beta2: sp.Rational, gradients: np.ndarray) -> None:
    """The sign is taken of one mean, the average kept is another; arXiv:2302.06675, algorithm 2, line by line."""
    average, found = sp.Integer(0), []
    for gradient in (sp.Rational(str(value)) for value in gradients):
        found.append(float(sp.sign(beta1 * average + (1 - beta1) * gradient)))
        average = beta2 * average + (1 - beta2) * gradient
    assert directions(tp.Lion(1.0, beta1, beta2), gradients) == found


def test_lion_without_the_first_average_is_the_sign() -> None:
    assert directions(tp.Lion(1.0, 0, 0.5), np.array([1.0, -0.75])) == [1.0, -1.0]


@pytest.mark.parametrize("given, said", [
    ({"lr": float("nan")}, "which is NaN or infinite"),
    ({"lr": [[0.1]]}, "lr: got an array of shape (1, 1); expected a number or one number a step"),
    ({"beta1": 1.0}, "beta1: got 1.0; expected a number of at least 0 and less than 1"),
    ({"beta2": -0.1}, "beta2: got -0.1; expected a number of at least 0 and less than 1"),
    ({"eps": -1}, "eps: got -1; expected a number of at least 0"),
    ({"weight_decay": -1}, "weight_decay: got -1; expected a number of at least 0"),
    ({"eps": None}, "eps: got None; expected a real number or a sympy expression"),
])
def test_numbers_out_of_range_are_refused(given: dict, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.Adam(**given)
    assert said in str(caught.value)


def test_entrywise_optimizers_are_values() -> None:
    assert tp.Adam(0.5) == tp.Adam(0.5) and hash(tp.Adam([0.1, 0.2])) == hash(tp.Adam(np.array([0.1, 0.2])))
    assert tp.SignSGD([0.1, 0.2]) == tp.SignSGD((0.1, 0.2)) != tp.SignSGD()


POSITIVE = sp.Symbol("s", positive=True)


@pytest.mark.parametrize("opt, name, value", [
    (tp.Adam, "eps", -POSITIVE), (tp.Shampoo, "eps", -POSITIVE), (tp.SOAP, "beta1", -POSITIVE),
    (tp.Adam, "beta1", 1 + POSITIVE), (tp.Lion, "beta2", sp.Symbol("b", real=True)**2 + 1),
    (tp.Shampoo, "beta2", 1 + POSITIVE), (tp.AdamW, "weight_decay", -POSITIVE)])
def test_symbols_that_are_out_of_range_whatever_they_are(opt: Any, name: str, value: sp.Expr) -> None:
    with pytest.raises(ValueError, match=rf"{name}: got .*expected a number of at least 0"):
        opt(**{name: value})


def test_symbols_that_may_be_in_range() -> None:
    assert tp.Adam(eps=POSITIVE, beta1=POSITIVE).beta1 == POSITIVE == tp.SOAP(eps=POSITIVE).eps
    assert tp.Shampoo(beta2=sp.Integer(1)).beta2 == 1
