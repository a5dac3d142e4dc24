"""Which terms of ket equations survive infinite depth."""

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.calculus.kets import Bracket, Hat, Response

H, Q = sp.Rational(1, 2), sp.Rational(1, 4)


def sizes(net: tp.ResNet, alpha: sp.Rational, gamma: sp.Rational, target: str, kind: type) -> set:
    """Sizes of the terms of one equation that have a factor of this kind in front of a sum over steps, or a hat-ket."""
    return {i.exponent for i in tp.theory.interactions(alpha, gamma, net)
            if str(i.target) == target and i.term.has(kind) and isinstance(i.term, sp.Sum) == (kind is not Hat)}


def test_noise_response_and_update_at_one_half_and_the_update_alone_above() -> None:
    """Tensor Programs VI, appendix H.3: what the ODEs of alpha > 1/2 leave out."""
    net = tp.ResNet()
    for target in ("|x[t, l]>", "|dx[t, l - 1]>"):
        for kind in (Hat, Response, Bracket):
            assert sizes(net, H, H, target, kind) == {0}
        assert sizes(net, 3 * Q, Q, target, Hat) == {-Q}
        assert sizes(net, 3 * Q, Q, target, Response) == {-H}
        assert sizes(net, 3 * Q, Q, target, Bracket) == {0}
        assert sizes(net, H, 1, target, Bracket) == {-H}


@pytest.mark.parametrize("phi", [pytest.param("tanh", marks=pytest.mark.slow), "relu"])
def test_for_nonlinear_activations_the_backward_response_survives_above_one_half(phi: str) -> None:
    """The slip of Tensor Programs VI's appendix G.1: d|dh> / d hat|W x> does not vanish; linear nets do not show it."""
    assert sizes(tp.ResNet(phi), 3 * Q, Q, "|dx[t, l - 1]>", Response) == {0}
    assert sizes(tp.ResNet(phi), 3 * Q, Q, "|h[t, l]>", Response) == {-3 * Q}


@pytest.mark.slow
def test_in_blocks_of_two_matrices_both_updates_and_both_responses_survive() -> None:
    """Tensor Programs VI, appendix K, and MATH of the two-matrix block: W2's response carries W1's update."""
    for net in (tp.ResNet("tanh", "mlp"), tp.ResNet("linear", "mlp")):
        assert sizes(net, H, H, "|x[t, l]>", Response) == sizes(net, H, H, "|x[t, l]>", Bracket) == {0}
        assert sizes(net, H, H, "|dx[t, l - 1]>", Response) == {0}
        assert sizes(net, 3 * Q, Q, "|x[t, l]>", Response) == {0}


def test_terms_print() -> None:
    first = tp.theory.interactions(H, H)[1]
    assert first.survives and str(first).endswith("~ L^(0), independent layers") and r"\sim L^{0}" in first.latex()


def test_bad_input_is_named() -> None:
    with pytest.raises(tp.Divergence, match="tp.classify says why"):
        tp.theory.interactions(H, 0)
    with pytest.raises(ValueError, match="alpha.*rational"):
        tp.theory.interactions(sp.sqrt(2), 0)
