"""Powers of the depth and of the number of visits, where layers are visited several times."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.models.skips import visits_apart

HALF = Fraction(1, 2)
NETS = [dict(phi="linear"), dict(phi="tanh", block="mlp"), dict(phi="relu", block="mlp", norm="rms")]


@pytest.mark.parametrize("how", NETS, ids=lambda how: how["phi"])
@pytest.mark.parametrize("order", ["cycle", "block"])
def test_powers_of_the_depth_are_those_of_one_visit(how: dict, order: str) -> None:
    """With as many visits at every depth: sizes, flags and matrices are the same."""
    for point in ((HALF, HALF), (1, 0), (Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), HALF), (1, -HALF)):
        for opt in (None, tp.Adam()):
            loops, once = (tp.classify(*point, tp.ResNet(**how, **visited), opt)
                           for visited in (dict(visits=3, order=order), {}))
            assert loops.said == once.said and loops.exponents == once.exponents and loops.name == once.name
            assert str(loops.matrices) == str(once.matrices)


def test_powers_of_a_transformers_depth() -> None:
    for point in ((HALF, HALF), (Fraction(1, 4), HALF)):
        loops, once = (tp.classify(*point, tp.Transformer(visits=visits)) for visits in (2, 1))
        assert loops.exponents == once.exponents and str(loops.sizes) == str(once.sizes)
    assert any("two visits" in one for one in loops.assumptions)
    assert not any("visits" in one for one in once.assumptions)


def test_three_visits_are_counted_as_two() -> None:
    scale = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
    program = tp.program(tp.ResNet("tanh", "mlp", visits=3), tp.SGD(), scale)
    two, three = (tp.classify(HALF, HALF, visits_apart(program, visits)) for visits in (2, 3))
    assert two.exponents == three.exponents


@pytest.mark.parametrize("how", NETS, ids=lambda how: how["phi"])
@pytest.mark.parametrize("opt", ["sgd", "adam"])
def test_branches_over_the_number_of_visits(how: dict, opt: str) -> None:
    """Branches over N, and learning rates that do not depend on it; roots of N grow, rates over N learn nothing."""
    net = tp.ResNet(**how)
    right = tp.theory.classify_visits(1, 0, net, opt)
    assert right.nontrivial and right.stable and right.feature_learning and set(right.exponents.values()) == {0}
    for branch in (HALF, Fraction(1, 4)):
        wrong = tp.theory.classify_visits(branch, 0, net, opt)
        grows = wrong.exponents["x at initialization"]
        assert not wrong.stable_at_init and grows == (sp.oo if how["phi"] == "linear" else 1 - branch)
    assert tp.theory.classify_visits(1, 1, net, opt).exponents["change of f"] == -1
    assert tp.theory.classify_visits(1, 1, net, opt).nontrivial is False


def measured(net: tp.ResNet, opt: object, branch: Fraction, lr: Fraction, counts: tuple[int, ...], layers: int
             ) -> float:
    """The power of N by which the first update changes f, of particles."""
    changes = []
    for visits in counts:
        scale = tp.DepthScaling(branch=float(visits) ** float(1 - branch))
        g = float(visits) ** -float(lr + (branch - 1 if isinstance(opt, tp.SGD) else 0))
        net = tp.ResNet(net.phi, net.block, net.norm, visits=visits)
        run = tp.train(net, tp.Task([1.0, 1.0], [1.0, 1.0]), type(opt)(0.2 * g), scale, depth=layers,
                       method=tp.methods.Particles(samples=2048))
        changes.append(abs(run.outputs[1, 0, 0] - run.outputs[0, 0, 0]))
    return float(np.polyfit(np.log(counts), np.log(changes), 1)[0])


@pytest.mark.parametrize("how, opt, branch, lr", [
    (NETS[1], tp.SGD(), 1, 0), (NETS[2], tp.SignSGD(), 1, 0), (NETS[1], tp.SGD(), Fraction(3, 2), 0),
    (NETS[2], tp.SignSGD(), 1, HALF)], ids=["sgd", "signs", "smaller branches", "smaller rates"])
def test_slopes_of_particles(how: dict, opt: object, branch: Fraction, lr: Fraction) -> None:
    net = tp.ResNet(**how)
    said = tp.theory.classify_visits(branch, lr, net, opt).exponents["change of f"]
    assert abs(measured(net, opt, branch, lr, (4, 8, 16), 1) - float(said)) < 0.12


@pytest.mark.parametrize("given, said", [(("a", 0), "branch: got 'a'"), ((1, None), "lr: got None"),
                                         ((1, 0, 3), "net: got 3"), ((1, 0, None, 7), "opt: got 7")])
def test_wrong_values(given: tuple, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.theory.classify_visits(*given)


def test_what_is_not_counted_is_refused_by_name() -> None:
    for call, said in ((lambda: tp.theory.classify_visits(sp.sqrt(2), 0), "branch: got"),
                       (lambda: tp.theory.classify_visits(1, 0, tp.ResNet(visits=2, inject=1)), "inject: got 1"),
                       (lambda: tp.theory.classify_visits(1, 0, opt=tp.Clipped(tp.SGD(), 1.0)), "opt: got Clipped"),
                       (lambda: tp.theory.classify_visits(1, 0, tp.Transformer(tied=True)), "tied: got True"),
                       (lambda: tp.theory.classify_visits(1, 0, tp.ResNet(train_embedding_readout=True)), "net: got"),
                       (lambda: tp.theory.classify_visits(1, 0, tp.ResNet(norm="rms", gains=True), "muon"), "net: got"),
                       (lambda: tp.theory.classify_visits(0, 0, tp.ResNet("tanh", "mlp")), "branch: got 0; .*3/4")):
        with pytest.raises(tp.NotCovered, match=said):
            call()


def test_bounds_are_no_exponents() -> None:
    """Slopes of erf bound gradients, which do not explode: its stream grows like a power, and no more is said."""
    found = tp.theory.classify_visits(HALF, 0, tp.ResNet("erf", "mlp"), "adam")
    assert found.exponents == {"x at initialization": HALF} and not found.stable_at_init
    assert tp.theory.classify_visits(0, 0, tp.ResNet("relu", "mlp")).exponents["x at initialization"] is sp.oo


def test_what_is_assumed_is_said() -> None:
    assumed = tp.theory.classify_visits(1, 0, tp.Transformer(mlp_ratio=4), tp.Adam(eps=0.1)).assumptions
    assert any("positions" in one for one in assumed) and any("mlp_ratio" in one for one in assumed)
    assert any("eps" in one for one in assumed) and len(tp.theory.classify_visits(1, 0, opt="adam").assumptions) == 1
