"""The rules for Gaussian expectations: against each other, step by step, and what is refused."""

import doctest

import numpy as np
import pytest
import sympy as sp

from reference.given_past import GivenPast
from tpcalc.gaussian import expectations as gaussian
from tpcalc.gaussian import Expectation, Gaussians, Price, Stein, derive_expectation, expectation

from support.nightly import few
from support.gaussians import A, B, C, equal, node, PAIR, PAIRS, relu, RULES, S, SINGLES, U, V, W


@pytest.mark.parametrize("name", [*few(PAIRS, "relu relu", "step relu", "abs abs", "sign wave", "erf erf", "gelu relu",
                                       "poly waves", "max", "exp relu", "exp exp sin"), *SINGLES])
def test_every_step_is_what_its_rule_gives_and_keeps_the_value(name: str) -> None:
    value, derivation = derive_expectation({**PAIRS, **SINGLES}[name], PAIR)
    assert derivation.steps and all(step.check() for step in derivation.steps)
    last: dict[sp.Expr, sp.Expr] = {}
    for step in derivation.steps:
        assert step.before == last.get(step.left, step.left)
        last[step.left] = step.after
    assert not any(end.has(Expectation) for left, end in last.items() if left != derivation.steps[0].left)


def test_the_derivation_prints() -> None:
    _, derivation = derive_expectation(relu(U) * relu(V), PAIR)
    assert [step.rule for step in derivation.steps] == [
        "kinks as signs", "linearity", "parity", "moments", "Stein's lemma", "linearity",
        "conditioning on a delta function", "Stein's lemma", "linearity", "conditioning on a delta function",
        "means of waves and signs"]
    assert r"\mathbb{E}\left[\max\left(0, u\right) \max\left(0, v\right)\right] &=" in derivation.latex()
    assert str(node(sp.tanh(U))) == "E[tanh(u)]"


def test_rules_say_what_they_are() -> None:
    for rule in (*(kind() for kind in RULES), GivenPast((V,))):
        assert rule.name and rule.reason and rule.source
        assert rule.apply(A + C) == A + C


def test_stein_and_price_on_what_has_no_closed_form() -> None:
    tanh = sp.tanh(V)
    assert Stein(U).apply(node(U * tanh)) == C * node(1 - tanh**2)
    assert Stein(V).apply(node(U * tanh)) == node(U * tanh)
    smooth = node(sp.tanh(U) * tanh)
    price = Price().apply(sp.Derivative(smooth, C))
    assert price == smooth.diff(C) == node((1 - sp.tanh(U)**2) * (1 - tanh**2))
    values, step = {A: 1.1, B: 0.6, C: 0.3}, 1e-4
    for parameter in (A, B, C):
        up, down = (smooth.evaluate({**values, parameter: values[parameter] + h}) for h in (step, -step))
        derivative = sum(float(c) * e.evaluate(values) for e, c in
                         smooth.diff(parameter).as_coefficients_dict().items())
        assert derivative == pytest.approx((up - down) / (2 * step), rel=1e-6)
    inside = node(sp.tanh(S * U)).diff(S)  # a parameter of the body
    assert inside == node(U * (1 - sp.tanh(S * U)**2))


def test_conditioning_on_the_past() -> None:
    rng = np.random.default_rng(1)
    root = rng.integers(-3, 4, (4, 5))
    names = sp.symbols("x:4", real=True)
    gaussians = Gaussians.from_matrix(names, sp.Matrix(root @ root.T))
    law = gaussians.given(names[2], names[0])
    matrix = (root @ root.T).astype(float)
    past, future = [0, 2], [1, 3]
    weights = matrix[np.ix_(future, past)] @ np.linalg.inv(matrix[np.ix_(past, past)])
    for i, row in zip(future, weights):
        assert [float(law.mean[names[i]].coeff(names[j])) for j in past] == pytest.approx(row.tolist())
    residual = matrix[np.ix_(future, future)] - weights @ matrix[np.ix_(past, future)]
    assert np.allclose(np.array(law.residual.extract(future, future), dtype=float), residual)
    assert law.mean[names[0]] == names[0] and law.residual[:, 0].is_zero_matrix
    assert PAIR.given(V).mean[U] == C * V / B and PAIR.given(V).residual[0, 0] == (A * B - C**2) / B


def test_conditioning_on_a_past_that_repeats_itself() -> None:
    three = Gaussians({(U, U): A, (U, V): C, (V, V): B, (V, W): 2 * B, (W, W): 4 * B, (U, W): 2 * C})
    law = three.given(V, W)
    assert law.mean[U] == C * V / B and law.mean[W] == 2 * V
    with pytest.raises(ValueError, match="s: not among the Gaussians u, v"):
        PAIR.given(S)


@pytest.mark.parametrize("name", ["poly", "exp exp sin", "sin sin", "poly waves"])
def test_conditioning_keeps_the_value(name: str) -> None:
    conditioned = GivenPast((V,)).apply(node(PAIRS[name]))
    assert conditioned != node(PAIRS[name])
    gaussians = Gaussians.from_matrix(conditioned.variables, conditioned.matrix)
    body = conditioned.body.expand(func=True, trig=False)
    assert equal(expectation(body, gaussians), expectation(PAIRS[name], PAIR))


# bad input


@pytest.mark.parametrize("covariance, message", [
    ({(U, U): 1, (U, V): 0.5, (V, U): 0.4, (V, V): 1}, "covariance of u and v: not symmetric, 1/2 and 2/5"),
    ({(U, U): A, (U, V): C, (V, U): -C, (V, V): B}, "covariance of u and v: not symmetric"),
    ({(U, U): 1, (V, V): 1}, "covariance of u and v: missing"),
    ({(U, U): 1, (U, V): 0}, "covariance of v and v: missing"),
    ({(U, U): -1}, "variance of u: -1 is negative"),
    ({(U, U): -A}, "variance of u: -a is negative"),
    ({(U, U): 1, (U, V): 2, (V, V): 1}, "variance of v given the variables before it: -3"),
    ({(U, U): 0, (U, V): 1, (V, V): 1}, "covariance of u and v given the variables before them: 1.0"),
    ({(U, U): float("nan")}, "covariance of u and u: got nan"),
    ({(U, U): U}, "covariance of u and u: u depends on a Gaussian"),
    ({(sp.Symbol("z"), sp.Symbol("z")): 1}, "z: a Gaussian variable is a real symbol"),
])
def test_bad_covariances(covariance: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Gaussians(covariance)


def test_bad_matrix_and_parameter() -> None:
    with pytest.raises(ValueError, match="not symmetric"):
        Gaussians.from_matrix((U, V), [[1, 0], [C, 1]])
    with pytest.raises(ValueError, match="a matrix of shape"):
        Gaussians.from_matrix((U, V), [[1]])
    with pytest.raises(ValueError, match="z not known to be real"):
        expectation(sp.Abs(sp.Symbol("z") * U + V), PAIR)


def test_the_example_in_the_docs() -> None:
    assert doctest.testmod(gaussian).failed == 0
