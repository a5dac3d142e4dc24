"""Correlations of gradients between layers: by hand, against kernels' own quadrature, and what cannot be read."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.action.between_layers import VARIANCE as V, derive_gradient_correlation
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec

h = sp.Symbol("h", real=True)


def expressions(phi: object, block: str = "post_nonlin", **more: object) -> dict[str, sp.Expr]:
    return derive_gradient_correlation(tp.ResNet(phi, block=block, **more))  # type: ignore[arg-type]


def test_linear_blocks_learn_the_same() -> None:
    assert expressions("linear") == {"W": 1} == expressions("linear", norm="rms")


@pytest.mark.parametrize("phi", ["abs", sp.cos(h), h**2, sp.exp(-h * h)])
def test_even_functions_decorrelate(phi: object) -> None:
    assert expressions(phi) == {"W": 0}


def test_means_by_hand() -> None:
    """E phi' and E phi'^2: a half and a half; cos; a Gaussian integral; slopes 1 and 1/10."""
    assert expressions("relu") == {"W": sp.Rational(1, 2)}
    assert expressions(sp.sin(h))["W"].rewrite(sp.exp).equals(sp.exp(-V) / ((1 + sp.exp(-2 * V)) / 2))
    assert sp.simplify(expressions("erf")["W"] - 1 / (1 + 2 * V) * sp.sqrt(1 + 4 * V)) == 0
    leaky = sp.Rational(11, 20)**2 / (sp.Rational(101, 100) / 2)
    assert expressions(sp.Max(h, h / 10)) == {"W": leaky}
    shifted = expressions(sp.Max(h - 1, 0))["W"]  # phi' is 1 where h > 1
    assert abs(float(shifted.subs(V, 1)) - (1 - float(sp.erf(1 / sp.sqrt(2.0)))) / 2) < 1e-14


def test_acting_on_the_stream_first_shares_all() -> None:
    """Both the stream and its gradient are continuous in layer time."""
    for phi in ("relu", "abs", "tanh"):
        assert expressions(phi, "pre_nonlin") == {"W": 1}


def test_two_matrices() -> None:
    """The gradient of W1 has come back through W2, fresh in every layer; that of W2 is delta (x) phi(h)."""
    assert expressions("linear", "mlp") == {"W1": 0, "W2": 0} == expressions("tanh", "mlp")
    found = expressions("relu", "mlp")
    assert found["W1"] == 0 and sp.simplify(found["W2"] - (V / (2 * sp.pi)) / (V / 2)) == 0
    assert sp.simplify(expressions("abs", "mlp")["W2"] - 2 / sp.pi) == 0
    assert set(expressions("relu", "glu").values()) == {0}
    assert set(expressions("relu", "mlp", matrices=3)) == {"W1", "W2", "W3"}


def test_the_stream_itself_is_shared_and_its_products_are_not() -> None:
    """z = phi(x) + W1 x: of E z^2 the part of phi(x) stays between layers."""
    def block(branch: Branch) -> sp.Expr:
        u = branch.let("u", MatVec(branch.weights("W1"), branch.x))
        return MatVec(branch.weights("W2"), branch.let("z", sp.sin(branch.x) + u))

    found = derive_gradient_correlation(tp.ResNet(block=block))
    shared = (1 - sp.exp(-2 * V)) / 2
    assert found["W1"] == 0 and found["W2"].equals(shared / (shared + V))


@pytest.mark.parametrize("phi", [sp.tanh(h), sp.erf(h), h / (1 + sp.exp(-h)), h * (1 + sp.erf(h / sp.sqrt(2))) / 2])
@pytest.mark.parametrize("variance", [0.3, 1.0, 2.5])
def test_numbers_by_another_quadrature(phi: sp.Expr, variance: float) -> None:
    nodes, weights = np.polynomial.hermite_e.hermegauss(180)
    slope = sp.lambdify(h, phi.diff(h), ["scipy", "numpy"])(np.sqrt(variance) * nodes)
    weights = weights / weights.sum()
    found = tp.gradient_correlation(tp.ResNet(phi), variance)["W"]
    assert abs(found.value - (weights @ slope)**2 / (weights @ slope**2)) < 1e-7
    if phi.has(sp.erf):  # closed
        assert abs(float(found.expression.xreplace({V: sp.Float(variance)})) - found.value) < 1e-9


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="variance: got 0; expected a positive number"):
        tp.gradient_correlation(tp.ResNet("relu"), 0)
    with pytest.raises(ValueError, match="net: got 'relu'"):
        tp.gradient_correlation("relu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="smooth functions, and kinked"):
        tp.gradient_correlation(tp.ResNet(sp.Max(sp.sin(h), h / 2)))
    with pytest.raises(ValueError, match="mixes several products"):
        tp.gradient_correlation(tp.ResNet("tanh", block=of_a_sum))


def of_a_sum(branch: Branch) -> sp.Expr:
    """phi(W1 x + W2 x)"""
    one, two = (branch.let(name.lower(), MatVec(branch.weights(name), branch.x)) for name in ("A", "B"))
    return MatVec(branch.weights("C"), branch.let("z", branch.phi(one + two)))


def test_a_normalized_stream_is_the_same_one_in_the_next_layer() -> None:
    found, = tp.gradient_correlation(tp.ResNet("tanh", block="pre_nonlin", norm="rms")).values()
    assert found.expression == 1
