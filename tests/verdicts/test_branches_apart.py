"""Attention and MLP with multipliers of their own: each does what it does where both have its alpha."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts.counted import BranchesApart, apart_of

HALF, ONE = sp.Rational(1, 2), sp.Integer(1)
NET = tp.Transformer(head_dim=2, positions=3, phi="relu")
OF = {"attention": ("Wq", "Wk", "Wv", "Wo"), "mlp": ("W1", "W2")}
SEQUENCES = tp.Sequences([[[[1.0, 0.3], [0.4, 0.9]]]] * 2, [[[1.0, -1.0]]] * 2)
SIZES = ("gamma", "name", "update", "effect", "output", "second_order", "partners")


def powers(alphas: dict[str, sp.Expr], gammas: dict[str, sp.Expr], signs: bool) -> tp.Parametrization:
    """What comes to these exponents: rates of signs are sizes of updates, of gradient descent these over gradients."""
    return tp.Parametrization(depth={
        **{kind: tp.Powers(multiplier={"L": -alpha}) for kind, alpha in alphas.items()},
        **{name: tp.Powers(lr={"L": -gammas[kind] + (0 if signs else alphas[kind])})
           for kind, names in OF.items() for name in names}})


@pytest.mark.parametrize("opt", [tp.SGD(), tp.Adam(), tp.SignSGD()], ids=lambda opt: type(opt).__name__)
@pytest.mark.parametrize("attention, mlp", [((ONE, 0), (HALF, HALF)), ((HALF, HALF), (ONE, 0)),
                                            ((ONE, HALF), (HALF, 1))], ids=str)
def test_each_kind_does_what_it_does_alone(attention: Any, mlp: Any, opt: Any) -> None:
    """Streams are of order one, so that what one matrix does alone depends on its own branch's powers alone."""
    points = {"attention": attention, "mlp": mlp}
    alphas, gammas = ({kind: sp.sympify(point[i]) for kind, point in points.items()} for i in (0, 1))
    found = tp.classify(powers(alphas, gammas, not isinstance(opt, tp.SGD)), NET, opt)
    for kind, names in OF.items():
        alike = tp.classify(alphas[kind], gammas[kind], NET)
        for name in names:
            one, other = found.matrices[name], alike.matrices[name]
            assert [getattr(one, size) for size in SIZES] == [getattr(other, size) for size in SIZES], name
    largest = max(one.effect for one in found.matrices.values())
    assert found.exponents["change of x"] == largest and found.nontrivial == (largest == 0)
    assert found.where.startswith(f"alpha of attention = {attention[0]}, alpha of mlp = {mlp[0]}, gamma of Wq = ")


def test_one_alpha_said_twice_is_that_of_both() -> None:
    for opt, signs in (("sgd", False), ("adam", True)):
        scale = powers(dict.fromkeys(OF, HALF), dict.fromkeys(OF, HALF), signs)
        assert tp.classify(scale, NET, opt) == tp.classify(HALF, HALF, NET, opt)
        assert tp.theory.with_exponents(scale, NET, opt).over(NET.trained_of_block) == tp.DepthScaling()


def test_smaller_last_matrices_of_one_kind_count_as_multipliers() -> None:
    """Wo like L^(-1/2) is a multiplier of attention, but for its own updates, which are that much larger beside it."""
    scale = tp.Parametrization(depth={"branch": tp.Powers(multiplier={"L": -HALF}), "*": tp.Powers(lr={"L": -HALF}),
                                      "Wo": tp.Powers(init={"L": -HALF}, lr={"L": -HALF})})
    found = tp.classify(scale, NET, "adam")
    assert "alpha of attention = 1, alpha of mlp = 1/2" in found.where
    assert [found.matrices[name].gamma for name in ("Wq", "Wo", "W2")] == [HALF, 0, HALF]


def test_what_takes_one_alpha_says_so() -> None:
    scale = powers({"attention": ONE, "mlp": HALF}, dict.fromkeys(OF, sp.Integer(0)), True)
    said = r"got attention L\^\(-1\), mlp L\^\(-1/2\), .* with alpha 1, 1/2; expected one alpha, of which tp.classify"
    for refused in (lambda: tp.theory.with_exponents(scale, NET, "adam"),
                    lambda: tp.train(NET, tp.Sequences(np.ones((1, 1, 3, 1)), np.ones((1, 1, 3))), tp.Adam(), scale,
                                     4)):
        with pytest.raises(tp.NotCovered, match=said):
            refused()
    with pytest.raises(ValueError, match="from_zero: got .* beside branches of different sizes"):
        tp.classify(scale, NET, "adam", from_zero=("Wq",))
    with pytest.raises(ValueError, match="attention is none of the network's"):
        tp.classify(tp.Parametrization(depth={"attention": tp.Powers(), "*": tp.Powers()}), tp.ResNet())
    with pytest.raises(ValueError, match="mlp: got .* expected a multiplier"):
        tp.classify(tp.Parametrization(depth={"mlp": tp.Powers(lr={"L": 1}), "*": tp.Powers()}), NET)


@pytest.mark.slow
@pytest.mark.parametrize("alphas, gammas", [((ONE, HALF), (0, HALF)), ((ONE, HALF), (HALF, ONE)),
                                            ((HALF, ONE), (ONE, HALF))], ids=str)
def test_real_transformers_have_the_slope(alphas: Any, gammas: Any) -> None:
    """What one small step of gradient descent changes of outputs, by the program with two multipliers."""
    net = tp.Transformer(positions=2, phi="relu")
    given = {kind: (sp.sympify(a), sp.sympify(g)) for kind, a, g in zip(OF, alphas, gammas)}
    found = tp.classify(powers(*({kind: pair[i] for kind, pair in given.items()} for i in (0, 1)), False), net)
    there = BranchesApart.of(net, alphas)
    apart = apart_of(there)
    scale = tp.Parametrization(depth={"alpha": min(alphas), **{
        name: given[kind][1] - apart[name] for kind, names in OF.items() for name in names}})
    moved = [np.mean([np.log(np.linalg.norm(np.diff(tp.train(
        there, SEQUENCES, tp.SGD(1e-4), scale, depth, width=64, seed=seed, method="dense").outputs[:2], axis=0)))
        for seed in range(16)]) for depth in (16, 64)]
    expected = max(one.output for one in found.matrices.values())
    assert abs((moved[1] - moved[0]) / np.log(4) - float(expected)) < .15


def test_powers_apart_are_by_branch() -> None:
    for alphas in product((HALF, ONE), repeat=2):
        there = BranchesApart.of(NET, alphas)
        assert set(apart_of(there)) == set(NET.trained_of_block) and min(there.apart) == 0
        assert apart_of(there)["Wo"] - apart_of(there)["W2"] == alphas[0] - alphas[1]
