"""Verdicts on mixtures of experts: what stands for gates, exponents of routers, against slopes of particles."""

from __future__ import annotations

import time

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.nightly import few
from support.slopes_of_depth import Slope
from tpcalc.interpreters.vectors import run_program
from tpcalc.limits.inlining import with_moves
from tpcalc.models.gates import LINEAR
from tpcalc.verdicts.counted import DRIVEN, GROUPS, counted_program

HALF, QUARTER = sp.Rational(1, 2), sp.Rational(1, 4)
TASK = tp.Task([1, 0.8, 0.9, 0.7], [1, -0.7, 0.5, 0.9])
ROUTERS = ("R_1", "R_2")


def net(gate: str = "sigmoid", router: str = "normal", experts: int = 2) -> tp.ResNet:
    return tp.ResNet("tanh", tp.MoE(experts, gate=gate, router=router), norm="rms")


def scaling(alpha: sp.Expr, gamma: sp.Expr, of_routers: sp.Expr) -> tp.Parametrization:
    matrices = {name: gamma for name in net().matrices_of_block}
    return tp.Parametrization(depth={"alpha": alpha, **matrices, **dict.fromkeys(ROUTERS, of_routers)})


@pytest.mark.parametrize("gate", few(["softmax", "sigmoid"], "sigmoid"))
def test_experts_have_the_verdicts_of_a_block(gate: str) -> None:
    for point, name in ((1, 0), "ODE limit"), ((HALF, HALF), "Depth-muP"), ((1, HALF), "trivial"):
        found, alone = (tp.classify(*point, one) for one in (net(gate), tp.ResNet("tanh", "mlp", norm="rms")))
        assert found.name == alone.name == name and {LINEAR, DRIVEN} <= set(found.assumptions)
        own = {found.matrices[f"{matrix}_{e}"].name for matrix in ("W1", "W2") for e in (1, 2)}
        assert own == {alone.matrices["W1"].name} == {alone.matrices["W2"].name}
        assert {found.matrices[name].name for name in ROUTERS} == {"lazy"}  # by itself a router has no gradient
    assert not tp.classify(HALF, 0, net(gate)).stable_in_training


def test_transformers_have_them_too() -> None:
    one = tp.Transformer(phi="tanh", mlp=tp.MoE(2))
    assert tp.classify(1, 0, one).name == "ODE limit" and tp.classify(HALF, HALF, one).name == "Depth-muP"
    assert LINEAR in tp.classify(1, 0, one).assumptions


@pytest.mark.parametrize("alpha, gamma", [(sp.Integer(1), sp.Integer(0)), (HALF, HALF), (3 * QUARTER, QUARTER)])
def test_routers_may_be_as_fast_as_gradients_of_experts_are_slow(alpha: sp.Expr, gamma: sp.Expr) -> None:
    """c of an expert is its own L^-gamma, learned: routers that move by L^gamma of it move f by order one. Learning
    rates of gradient descent are then L^(alpha + gamma) of the raw gradient's."""
    assert tp.classify(scaling(alpha, gamma, -gamma), net(), updates=3).stable_in_training
    assert not tp.classify(scaling(alpha, gamma, -gamma - QUARTER), net(), updates=3).stable_in_training


def effect_of_routers(alpha: sp.Expr, gamma: sp.Expr, of_routers: sp.Expr, depth: int, router: str = "zero"
                      ) -> np.ndarray:
    """What routers that move bring to the last outputs, beside those that stay."""
    moving, still = (tp.train(net(router=router), TASK, tp.SGD(0.5), scaling(alpha, gamma, power), depth,
                              method=tp.methods.Particles(samples=2048, batches=4)).outputs.ravel()
                     for power in (of_routers, sp.Integer(60)))
    return moving[2:] - still[2:]


@pytest.mark.slow
@pytest.mark.parametrize("alpha, gamma, of_routers, power", [
    (HALF, HALF, HALF, -1), (HALF, HALF, 0, -0.5), (HALF, HALF, -HALF, 0), (1, 0, 0, 0),
    (3 * QUARTER, QUARTER, -QUARTER, 0)])
def test_what_routers_bring_has_the_power_that_is_counted(alpha: sp.Expr, gamma: sp.Expr, of_routers: sp.Expr,
                                                          power: float) -> None:
    coarse, fine = (effect_of_routers(*map(sp.sympify, (alpha, gamma, of_routers)), depth) for depth in (8, 16))
    np.testing.assert_allclose(np.log2(np.abs(fine / coarse)), power, rtol=0, atol=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("alpha, gamma", [(HALF, HALF), (sp.Integer(1), sp.Integer(0)), (3 * QUARTER, HALF)])
def test_slopes_of_real_networks_beside_attention_and_a_shared_expert(alpha: sp.Expr, gamma: sp.Expr) -> None:
    """Of what a step changes in outputs of transformers, which are held against plain arrays elsewhere."""
    one = tp.Transformer(head_dim=4, positions=3, phi="tanh", mlp=tp.MoE(2, gate="sigmoid", shared=1))
    draw, depths = np.random.default_rng(5), (16, 64, 256)  # small depths have other slopes, by a third of a power
    xs, ys = draw.standard_normal((1, 1, 3, 2)), draw.standard_normal((1, 1, 3))
    task = tp.Sequences(np.repeat(xs, 2, 0), np.repeat(ys, 2, 0))
    changes = []
    for seed in range(12):
        runs = [tp.train(one, task, tp.SGD(0.01), tp.DepthScaling(alpha, gamma), depth, 64,
                         method=tp.methods.Dense(seed=seed)).outputs for depth in depths]
        changes.append([float(np.sqrt(np.mean((run[1] - run[0])**2))) for run in runs])
    slope, said = Slope.of(depths, changes), tp.classify(alpha, gamma, one).exponents["change of f"]
    print(f"L^-({alpha}), L^-({gamma}): L^{slope.value:.3f}({slope.error:.3f}), said {said}")
    slope.off(float(said))


@pytest.mark.slow
@pytest.mark.parametrize("alpha, gamma", [(HALF, HALF), (sp.Integer(1), sp.Integer(0))])
def test_how_routers_start_is_not_seen_at_infinite_width(alpha: sp.Expr, gamma: sp.Expr) -> None:
    drawn, zero = (effect_of_routers(alpha, gamma, -gamma, 8, router) for router in ("normal", "zero"))
    np.testing.assert_allclose(drawn, zero, rtol=0.08)


def test_averages_with_trained_vectors_are_written_out() -> None:
    """The program that is counted, and that in which routers are sums over steps, compute the same."""
    program = counted_program(net("softmax"), tp.SGD(0.5), tp.DepthScaling())
    sizes, data = {"T": 4, "L": 2}, {"xi": [1, 0.8, -0.6, 0.5], "y": [1, -0.7, 0.5, 0.2]}
    known, found = (run_program(one, sizes, data, width=16, seed=1) for one in (program, with_moves(program)))
    np.testing.assert_allclose(found.series("f"), known.series("f"), rtol=0, atol=1e-12)
    assert any("move(R_1)" in str(p.statement) for p in with_moves(program).locations())
    assert not any(str(p.statement.target).startswith("R_") for p in with_moves(program).locations())


@pytest.mark.parametrize("gate, order", [("softmax", 2), ("sigmoid", 3)])
@pytest.mark.parametrize("init", ["A", "B"])
def test_linear_gates_are_gates_to_the_first_power(gate: str, order: int, init: str) -> None:
    """Of the order of the square of logits, or the cube, that routers have learned when they move half as fast."""
    of = tp.ResNet("tanh", tp.MoE(3, gate=gate, router="zero", init=init), norm="rms")
    errors = []
    for slow in (0, 1):
        scale = tp.Parametrization(depth={"alpha": HALF, **{
            name: HALF + slow * (name[0] == "R") for name in of.trained_of_block}})
        whole, linear = (run_program(one, {"T": 3, "L": 4}, {"xi": [1, 0.8, 0.9], "y": [1, -0.7, 0.5]}, 16, seed=2)
                         for one in (tp.program(of, tp.SGD(0.2), scale), counted_program(of, tp.SGD(0.2), scale)))
        errors.append(float(np.max(np.abs(whole.series("f") - linear.series("f")))))
    assert np.log(errors[0] / errors[1]) / np.log(4) == pytest.approx(order, abs=0.4)


@pytest.mark.parametrize("opt", ["adam", "signsgd", "lion", tp.Adam(eps=0.1)])
def test_directions_of_gradients_that_vanish_are_refused(opt: object) -> None:
    with pytest.raises(tp.NotCovered, match="the gradient of R_1 vanishes at the first step"):
        tp.classify(1, 0, net(), opt)


@pytest.mark.parametrize("opt", ["adam", "signsgd", "lion", tp.Adam(eps=0.1)])
def test_so_they_are_in_powers_of_visits(opt: object) -> None:
    """With descent the verdict is that of a block, and says what is assumed of gates."""
    with pytest.raises(tp.NotCovered, match="opt: got .* for R_1, R_2, which read numbers off vectors"):
        tp.theory.classify_visits(1, 0, net(), opt)
    found = tp.theory.classify_visits(1, 0, net())
    assert found.exponents == tp.theory.classify_visits(1, 0, tp.ResNet("tanh", "mlp", norm="rms")).exponents
    assert LINEAR in found.assumptions


@pytest.mark.nightly
def test_gates_of_a_growing_number_are_counted_as_they_are() -> None:
    """Their logits are Gaussian, and do not begin at 0; their routers, rows of a matrix, have directions."""
    growing = tp.ResNet("tanh", tp.MoE(expert_dim=1), norm="rms")
    alone = tp.classify(HALF, HALF, growing)
    assert not {LINEAR, GROUPS} & set(alone.assumptions)
    block = tp.MoE(expert_dim=4)
    for one in (tp.ResNet("tanh", block, norm="rms"), tp.Transformer(phi="tanh", mlp=block)):
        found = tp.classify(HALF, HALF, one)
        assert GROUPS in found.assumptions and LINEAR not in found.assumptions
        assert {name: found.matrices[name].name for name in alone.matrices} == {
            name: of.name for name, of in alone.matrices.items()}
    assert GROUPS in tp.solve(net=tp.ResNet("tanh", block, norm="rms")).assumed
    assert tp.theory.classify_visits(1, 0, growing, "adam").name == "does not depend on the number of visits"


def test_choices_and_many_experts_are_refused() -> None:
    with pytest.raises(tp.NotCovered, match="experts: got MoE.* has a choice in it"):
        tp.classify(1, 0, tp.ResNet("tanh", tp.MoE(4, active=2), norm="rms"))
    with pytest.raises(tp.NotCovered, match="24 matrices and transposes given that multiply vectors; expected at most "
                                            "22"):
        tp.classify(1, 0, net(experts=6))


def test_powers_are_not_solved_for_where_logits_grow() -> None:
    """The search goes there; gates are counted as if they were linear. Before training there are none."""
    start = time.monotonic()
    for want in (("stable",), ("stable", "nontrivial", "every matrix learns")):
        with pytest.raises(tp.NotCovered, match="net: got ResNet.* logits of routers grow beyond order one, too"):
            tp.solve(net=net(), want=want)
    first, = tp.solve(net=net(), want=("stable at initialization",)).exponents
    assert first.contains([HALF, *[0] * 6]) and not first.contains([QUARTER, *[0] * 6])
    assert time.monotonic() - start < 10
