"""One verdict says one thing: exponents, sizes, matrices, bounds and sentences are of one count."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product

import pytest
import sympy as sp

import tpcalc as tp
from references.measured_slopes import drawn
from support.drawn_trees import LAGS, REFUSED, asked
from tpcalc.verdicts import Verdict
from tpcalc.verdicts.network_sizes import CHANGE, IN_LAYER, START, NetworkSize
from tpcalc.verdicts.verdict import in_words

HALF = sp.Rational(1, 2)
POINTS = ((HALF, HALF), (1, 0), (HALF, 0), (HALF / 2, 3 * HALF / 2), (1, -HALF))
SAME = {"x at initialization": ("x", START), "change of x": ("x", CHANGE), "change of f": ("f", CHANGE),
        "score at initialization": ("score", START), "change of score": ("score", CHANGE)}
NETS = (tp.ResNet(), tp.ResNet("tanh"), tp.ResNet("relu", "mlp"), tp.ResNet("tanh", "pre_nonlin"),
        tp.ResNet("linear", "mlp"), tp.ResNet("tanh", "mlp", norm="rms"), tp.ResNet("tanh", norm="rms", gains=True),
        *(tp.ResNet("tanh", skip=skip) for skip in LAGS.values()))
UNTOLD = frozenset({39, 51})  # the gradients of two matrices are added up before a norm's: what each does is not told
SMALL = tp.Transformer(mlp=None)
CASES = [*product(NETS, POINTS[:3], ("sgd",)), *product(NETS[1:6], POINTS[3:], ("sgd",)),
         *product(NETS[5:], POINTS[1:2], ("adam",)), *product([SMALL], POINTS[:3], ("sgd", "adam"))]
QUICK = [CASES[number] for number in (5, 13, 18, 29)]


def contradictions(v: Verdict) -> list[str]:
    """What a verdict says twice, and not the same."""
    sizes, found = v.sizes, []
    for name, (row, column) in SAME.items():
        if name in v.exponents and row in sizes and column in sizes[row]:
            size = sizes[row][column]
            if (size.L, size.at_most) != (v.exponents[name], name in v.bounds and v.exponents[name] != -sp.oo):
                found.append(f"{name}: {v.exponents[name]}, in sizes {size}")
    changes = [one[CHANGE].L for name, one in sizes.items() if CHANGE in one and name not in ("x", "f")]
    alone = [one.update for one in v.matrices.values()] if changes and v.stable_at_init else []
    if alone and v.exponents["change of h"] < max(alone):
        found.append(f"change of h: {v.exponents['change of h']}, of matrices {alone}")
    if alone and v.exponents["update of h"] != sp.oo and v.exponents["update of h"] < max(alone):
        found.append(f"update of h: {v.exponents['update of h']}, of matrices {alone}")
    for name, one in v.matrices.items() if alone else ():
        size = sizes[name][IN_LAYER]
        if size != NetworkSize(sp.Integer(0), one.update, one.name == "undecided"):
            found.append(f"{name}: {one.update}, in sizes {size}")
    said = str(v)
    for name, start in (("change of x", "changes x "), ("change of h", "the change of h is ")):
        power = in_words(v.exponents[name]) if name in v.exponents else None
        if power and start in said and not said.split(start)[1].startswith("at most " * (name in v.bounds) + power):
            found.append(f"{name}: {power}, in words {said.split(start)[1][:30]}")
    if v.nontrivial and v.exponents["change of f"] < 0 or v.feature_learning and v.exponents["change of h"] < 0:
        found.append("flags")
    return found


def judged(net: object, point: tuple[sp.Expr, sp.Expr], opt: object) -> list[str]:
    return contradictions(tp.classify(tp.DepthScaling(*point), net, opt))


@pytest.mark.parametrize("net, point, opt", QUICK)
def test_all_parts_of_a_verdict_agree(net: object, point: tuple[sp.Expr, sp.Expr], opt: object) -> None:
    assert not judged(net, point, opt)


@pytest.mark.slow
@pytest.mark.parametrize("net, point, opt", CASES)
def test_all_parts_of_many_verdicts_agree(net: object, point: tuple[sp.Expr, sp.Expr], opt: object) -> None:
    assert not judged(net, point, opt)


@pytest.mark.slow
@pytest.mark.parametrize("seed", sorted({*range(60)} - REFUSED))
def test_all_parts_of_verdicts_on_drawn_networks_agree(seed: int) -> None:
    scale, net, opt = asked(asdict(drawn(seed)))
    if seed in UNTOLD:
        with pytest.raises(tp.NotCovered, match="is an update of one of the matrices .* which one is not known"):
            judged(net, (scale.alpha, scale.gamma), opt)
    else:
        assert not judged(net, (scale.alpha, scale.gamma), opt)


def test_what_is_not_trained_has_no_size_in_training() -> None:
    """A bounded function was said to change by more than it can."""
    v = tp.classify(HALF / 2, 3 * HALF / 2, tp.ResNet("tanh", norm="rms"))
    assert "not counted" in v.reasons[1] and "in training, which is not counted" in v.reasons[3]
    assert "L^(3/4)" not in str(v) and set(v.exponents) == {"x at initialization", "h at initialization"}


def test_updates_of_a_matrix_are_its_own_in_layers_that_take_turns() -> None:
    """Streams that alternate give every second layer's matrix a name of its own, and it stays the same matrix."""
    v = tp.classify(1, 0, tp.ResNet(skip=LAGS["leap"]))
    assert v.feature_learning and v.matrices["W"].name == "learns"
