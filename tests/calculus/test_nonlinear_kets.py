"""Ket equations of nonlinear networks: derived by the same rules."""

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.calculus.kets import Bracket, Ket, limit_of_average, ket
from tpcalc.gaussian import Expectation
from tpcalc.programs.language import Family, Mean, Vector

SCALE = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
NETS = [dict(phi="tanh"), dict(phi="relu", block="pre_nonlin"), dict(phi="tanh", block="mlp", norm="rms"),
        dict(phi="gelu", block="glu"), dict(phi="abs"), dict(phi=sp.sin(sp.Symbol("u") + 1))]


def equation(equations: tp.theory.KetEquations, target: str) -> sp.Expr:
    return next(e.value for e in equations.equations if str(e.target) == target)


@pytest.mark.parametrize("net", NETS, ids=str)
def test_every_block_has_ket_equations_whose_steps_check(net: dict) -> None:
    equations = tp.kets(tp.program(tp.ResNet(**net), tp.SGD(), SCALE))
    assert all(step.check() for step in equations.derivation.steps)
    body = equations.latex()
    assert body.count("{") == body.count("}") and "+ \\sum_{s=0}^{t - 1} -" not in body


def test_a_nonlinear_backward_ket_knows_its_own_forward_noise() -> None:
    """Tensor Programs VI, appendix G.1 drops d|dh_t> / d hat(W x_t): it vanishes for linear phi only."""
    nonlinear = equation(tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), SCALE)), "|dx[t, l - 1]>")
    linear = equation(tp.kets(tp.program(tp.ResNet(), tp.SGD(), SCALE)), "|dx[t, l - 1]>")
    t = sp.Symbol("t", integer=True, nonnegative=True)
    assert {total.limits[0][2] for total in nonlinear.atoms(sp.Sum)} == {t, t - 1}
    assert {total.limits[0][2] for total in linear.atoms(sp.Sum)} == {t - 1}


def test_a_forward_ket_never_knows_its_own_backward_noise() -> None:
    offsets = tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), SCALE)).support.offsets
    forward = {a: offset for (a, b), offset in offsets.items() if b == 1 and a in (0, 1, 2)}
    assert forward == {0: -1, 1: -1, 2: -1}


def test_means_become_brackets_where_they_are_bilinear() -> None:
    u, v = Family(Vector, "u")(), Family(Vector, "v")()
    assert ket(Mean(3 * u * v)) == 3 * Bracket(u, v)
    assert limit_of_average(u * v + sp.tanh(u)) == Bracket(u, v) + Expectation(sp.tanh(Ket(u)))
    assert Mean(sp.Integer(2)) == 2 and ket(u - Mean(u)) == Ket(u) - Expectation(Ket(u))


def test_a_nonlinear_program_has_no_recursion_and_says_why() -> None:
    with pytest.raises(ValueError, match="not linear in kets"):
        tp.recursion(tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), SCALE)))


def test_numbers_refuse_what_they_do_not_cover() -> None:
    for net in (tp.ResNet("tanh"), tp.ResNet(block="mlp")):
        with pytest.raises(ValueError, match="method='reflection' takes phi='linear'"):
            tp.train(net, tp.Task([1.0], [1.0]), tp.SGD(), tp.DepthScaling(), 4, method="reflection")
    for judged in (tp.classify, tp.theory.interactions):
        with pytest.raises(ValueError, match="expected a net with frozen embedding and readout"):
            judged(0.5, 0.5, tp.ResNet(train_embedding_readout=True))


def test_unknown_activations_are_named() -> None:
    for phi in ("tahn", sp.Integer(3), sp.Symbol("a") * sp.Symbol("b"), 7, None):
        with pytest.raises(ValueError, match="phi: got .*; expected"):
            tp.ResNet(phi)
