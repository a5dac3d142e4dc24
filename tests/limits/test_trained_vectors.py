"""Trained vectors written out as sums over steps: the same training, and powers of L that real networks have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.calculus import kets
from tpcalc.interpreters.dense import run_dense
from tpcalc.limits.slow_streams import normal_form
from tpcalc.limits.inlining import trained_vector_rates, trained_vectors, vector_of, with_moves
from tpcalc.methods.sampled import training
from tpcalc.orders.quantities import additive_terms
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec
from tpcalc.programs.program import Assign, mapped
from tpcalc.models.skips import Junction

L = sp.Symbol("L", integer=True, positive=True)
GAINS, LEARNED = {"norm": "rms", "gains": True}, {"skip": tp.Skip(learned=True)}
NETS = {"pre": tp.ResNet("tanh", "mlp", **GAINS), "sandwich": tp.ResNet("tanh", norm_position="sandwich", **GAINS),
        "post": tp.ResNet("tanh", norm_position="post", **GAINS), "learned": tp.ResNet(**LEARNED),
        "positions": tp.Transformer(head_dim=2, positions=2, **GAINS)}


def biased(branch: Branch) -> sp.Expr:
    """W x + v, with a trained vector alone in its term."""
    return MatVec(branch.weights(), branch.x) + branch.trained("v")


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_written_out_it_is_the_same_training(net: tp.ResNet | tp.Transformer) -> None:
    inputs, targets = np.array([1, 0.8, -0.5]), np.array([1, -0.7, 0.3])
    task = tp.Sequences(np.multiply.outer(inputs, [[[1], [0.5]]]), np.multiply.outer(targets, [[1, -1]])) if isinstance(
        net, tp.Transformer) else tp.Task(inputs, targets)
    job = training(tp.Problem(net, task, tp.SGD(0.5), tp.DepthScaling(), 3, 12))
    one = job.program()
    other = with_moves(one)
    assert trained_vectors(one) and not trained_vectors(other) and with_moves(other) is other
    f, g, frozen = (run_dense(p, job.sizes(), {**job.data()}, 12, seed=3).series("f")
                    for p in (one, other, without(one)))
    assert np.allclose(f, g, rtol=1e-12, atol=1e-13) and np.abs(f - frozen).max() > 1e-3


def without(program: tp.Program) -> tp.Program:
    """The program whose trained vectors are left as they are."""
    names, t = trained_vectors(program), program.clock().index
    return replace(program, body=mapped(program.body, lambda s: [
        Assign(s.target, s.target.subs(t, t - 1)) if s.target.name in names and s.target.has(t) else s]))


def test_updates_of_a_vector_are_told_from_those_of_matrices() -> None:
    program = tp.program(tp.ResNet("tanh", block=biased, **GAINS), tp.SGD(), tp.DepthScaling(1, sp.Rational(1, 4)))
    assert trained_vector_rates(program) == {"gn": -L**-sp.Rational(1, 4), "v": -L**-sp.Rational(1, 4)}
    terms = [term for e in kets(normal_form(program).program).equations for term in additive_terms(e.value)]
    assert {vector_of(term) for term in terms} == {None, "gn", "v"}
    matrices = [term for term in terms if isinstance(term, sp.Sum) and vector_of(term) is None]
    assert matrices and not any("move_of" in str(term) for term in matrices)


@pytest.mark.parametrize("opt", [tp.SGD(momentum=0.9), tp.SGD(weight_decay=0.1)], ids=str)
def test_memory_and_decay_of_vectors_are_refused(opt: tp.SGD) -> None:
    for net in (NETS["pre"], NETS["learned"]):
        with pytest.raises(ValueError, match="is trained, and no rule counts"):
            tp.classify(0.5, 0.5, net, opt)


def squared(branch: Branch) -> sp.Expr:
    v = branch.trained("v")
    return v**2 * branch.let("h", MatVec(branch.weights(), branch.x))


def bent(branch: Branch) -> sp.Expr:
    return sp.tanh(branch.trained("v") * branch.let("h", MatVec(branch.weights(), branch.x)))


@pytest.mark.parametrize("block", [squared, bent])
def test_vectors_that_are_no_single_factors_are_refused(block: Any) -> None:
    with pytest.raises(ValueError, match="the vector v.* is trained, and no rule counts"):
        tp.classify(0.5, 0.5, tp.ResNet("linear", block))


@pytest.mark.parametrize("net, alpha, gamma", [
    pytest.param(net, *point, marks=() if point in quick else pytest.mark.slow, id=f"{name}-{point[0]}-{point[1]}")
    for name, net, quick in (("gains", NETS["pre"], [(1, 0)]),
                             ("learned", tp.ResNet("tanh", **LEARNED), [(1, 0.5)]))
    for point in ((0.5, 0.5), (1, 0), (1, 0.5), (0.75, 0.5))])
def test_what_vectors_alone_do_is_what_is_counted(net: tp.ResNet, alpha: float, gamma: float) -> None:
    """Real networks whose matrices hardly move: the slope of the change of f against the depth."""
    name, = net.vectors_of_block
    scale = tp.Parametrization(depth={"alpha": alpha, name: gamma, **dict.fromkeys(net.matrices_of_block, 9)})
    each = tp.classify(scale, net).matrices
    verdict = each[name]
    assert all(each[matrix].output <= -8 + 1 - sp.nsimplify(alpha) for matrix in net.matrices_of_block)
    assert verdict.output == verdict.effect == 1 - sp.nsimplify(alpha) - sp.nsimplify(gamma)
    assert verdict.update == -sp.nsimplify(gamma) and verdict.name == {0: "drifts" if gamma else "learns"}.get(
        verdict.effect, "lazy")
    task, depths = tp.Task([1.0, 1.0], [1.0, 1.0]), (8, 16, 32, 64)
    sizes = [np.mean([np.ptp(tp.train(net, task, tp.SGD(1e-2), scale, depth, 48, seed=seed, method="dense").outputs)
                      for seed in range(4)]) for depth in depths]
    slope = np.polyfit(np.log(depths), np.log(sizes), 1)[0]
    assert abs(slope - float(verdict.output)) < 0.12


@pytest.mark.parametrize("net", [pytest.param(NETS["pre"], marks=pytest.mark.slow, id="gains"),
                                 pytest.param(tp.ResNet("tanh", **LEARNED), id="learned")])
def test_rates_of_signs_are_those_of_gradients_of_order_one(net: tp.ResNet) -> None:
    """A learned skip moves by eps g times a sign, gains by g: what is counted knows which."""
    name, = net.vectors_of_block
    by_signs, by_gradients = (tp.classify(1, 0.5, net, opt).matrices[name] for opt in (tp.SignSGD(), tp.SGD()))
    assert (by_signs.gamma, by_signs.update, by_signs.output) == (
        by_gradients.gamma, by_gradients.update, by_gradients.output)


def in_two_terms(junction: Junction) -> tuple[sp.Expr, ...]:
    x, = junction.streams
    return (junction.trained("a") * x + junction.trained("a") * junction.branch(x, named=True),)


def over_the_depth(junction: Junction) -> tuple[sp.Expr, ...]:
    x, = junction.streams
    return (x + junction.trained("a") * x / L + junction.branch(x),)


@pytest.mark.parametrize("opt", [tp.SignSGD(1e-2), tp.Adam(1e-2), tp.Lion(1e-2)], ids=lambda opt: type(opt).__name__)
@pytest.mark.parametrize("skip, power", [
    pytest.param(in_two_terms, -sp.Rational(1, 2), marks=pytest.mark.slow), (over_the_depth, -sp.Rational(3, 2))])
def test_powers_of_the_depth_of_a_gradient_are_none_of_a_sign(skip: Any, power: sp.Expr, opt: Any) -> None:
    net = tp.ResNet("tanh", skip=skip)
    scale = tp.Parametrization(depth={"alpha": 1, "W": 9, "a": 0.5})
    assert tp.classify(scale, net, opt).matrices["a"].output == power
    task, depths = tp.Task([1.0, 1.0], [1.0, 1.0]), (8, 32, 128)
    sizes = [np.mean([np.ptp(tp.train(net, task, opt, scale, depth, 48, seed=seed, method="dense").outputs)
                      for seed in range(4)]) for depth in depths]
    assert abs(np.polyfit(np.log(depths), np.log(sizes), 1)[0] - float(power)) < 0.12


def test_a_layer_is_curved_in_what_gains_multiply() -> None:
    """W tanh(g n) is linear in W, and without gains linearized exactly."""
    plain, gained = (tp.classify(1, 0,
                                 tp.ResNet("tanh", "pre_nonlin", norm="rms", gains=gains)) for gains in (False, True))
    said = "linearization error of a layer"
    assert plain.exponents[said] == -sp.oo and gained.exponents[said] == -1
    assert gained.matrices["gn"].partners == ("W", "gn") and plain.matrices["W"].partners == ()


def behind(branch: Branch) -> sp.Expr:
    return branch.trained("v") * branch.let("z", sp.tanh(branch.let("h", MatVec(branch.weights(), branch.x))))


def ahead(branch: Branch) -> sp.Expr:
    gained = branch.let("m", branch.trained("v") * branch.x)
    return branch.let("z", sp.tanh(branch.let("h", MatVec(branch.weights(), gained))))


@pytest.mark.parametrize("block", [behind, pytest.param(ahead, marks=pytest.mark.slow)])
def test_odd_networks_are_odd_with_vectors_whose_moves_are_even(block: Any) -> None:
    """tanh(h) has no mean, and layers add up like random ones, though a gradient times it, which moves v, has one."""
    net = tp.ResNet("tanh", block)
    verdict = tp.classify(0.5, 0.5, net)
    assert (verdict.name, verdict.exponents["change of f"], verdict.bounds) == ("Depth-muP", 0, frozenset())
    assert [one.name for one in verdict.matrices.values()] == ["drifts", "drifts"]
    task, depths = tp.Task([1.0, 1.0], [1.0, 1.0]), (8, 32, 128)
    sizes = [np.mean([np.ptp(tp.train(net, task, tp.SGD(1e-2), tp.DepthScaling(), depth, 48, seed=seed,
                                      method="dense").outputs) for seed in range(4)]) for depth in depths]
    assert abs(np.polyfit(np.log(depths), np.log(sizes), 1)[0]) < 0.12


def test_a_vector_that_is_added_has_a_mean() -> None:
    assert tp.classify(0.5, 0.5, tp.ResNet("tanh", biased)).name == "grows at initialization"


@pytest.mark.parametrize("opt", [tp.Muon(), tp.NormalizedSGD(), "muon"], ids=str)
@pytest.mark.parametrize("name", ["pre", "learned", "positions"])
def test_there_is_no_verdict_on_what_an_optimizer_does_not_train(name: str, opt: Any) -> None:
    with pytest.raises(ValueError, match="with trained vectors .*, which moves matrices, takes networks without gains"):
        tp.classify(1, 0.5, NETS[name], opt)
