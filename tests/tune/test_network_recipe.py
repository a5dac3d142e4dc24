"""What is set for every matrix of a network, over n, m, E, k and L: against the table of a perceptron of all experts
that act, typed here, against plans, and against slopes of networks in plain NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.plain.wide_experts import WideExperts
from support.slopes_of_depth import Slope
from tpcalc.groups.names import LayerCount
from tpcalc.groups.plan import plan_of_roles
from tpcalc.groups.roles import Roles
from tpcalc.theory import MatVec
from tpcalc.training.fans import fans_of
from tpcalc.tune.parameters import FREE, SHARES, Parameter, ParameterGrowth

HALF = sp.Rational(1, 2)
NET = tp.ResNet("tanh", tp.MoE(experts=4, active=2), norm="rms")
SIGMOID = tp.ResNet("tanh", tp.MoE(experts=4, active=2, gate="sigmoid"), norm="rms")
# By optimizer and matrix, powers of learning rates at alpha, gamma; then initial sizes where k m is few beside n.
KNOWN = {
    "adamw": {"R": dict(n=-1, L="-g"), "W1": dict(n=-1, L="-g"), "W2": dict(m=-1, L="-g")},
    "sgd": {"R": dict(E=1, n=-1, L="a-g"), "W1": dict(E=1, m=1, n=-1, L="a-g"), "W2": dict(n=1, E=1, m=-1, L="a-g")},
    "muon": {"R": dict(E=HALF, n=-HALF, L="-g"), "W1": dict(m=HALF, n=-HALF, L="-g"),
             "W2": dict(n=HALF, m=-HALF, L="-g")}}
FIRST = {"R": dict(k=HALF, n=-1), "W1": dict(k=HALF, m=HALF, n=-1), "W2": dict(k=HALF, m=-HALF)}


def named(powers: dict[str, Any], alpha: sp.Expr, gamma: sp.Expr) -> dict[str, sp.Expr]:
    """Without those that are 0, a and g being alpha and gamma."""
    found = {size: sp.sympify(power).subs({"a": alpha, "g": gamma}) for size, power in powers.items()}
    return {size: power for size, power in found.items() if power != 0}


@pytest.mark.parametrize("optimizer", KNOWN)
@pytest.mark.parametrize("alpha, gamma", [(HALF, HALF), (sp.Rational(3, 4), sp.Rational(1, 4)), (sp.Integer(1), 0)])
def test_powers_are_those_of_the_table(optimizer: str, alpha: sp.Expr, gamma: sp.Expr) -> None:
    found = tp.recipe(tp.DepthScaling(alpha, gamma), optimizer, net=NET)
    assert found.branch == -alpha and list(found.matrices) == [*NET.trained_of_block]
    for name, powers in found.matrices.items():
        kind = name.split("_")[0]
        assert dict(powers.lr) == named(KNOWN[optimizer][kind], alpha, gamma), name
        assert dict(powers.init) == FIRST[kind] and not powers.multiplier, name
        assert {size: powers.of("lr", size) + powers.of("decay", size) for size in "nmEkL"} == dict.fromkeys("nmEkL", 0)
        assert (powers.eps is None) == (optimizer != "adamw")


def test_what_acts_together_may_be_as_wide_as_the_stream() -> None:
    found = tp.recipe(net=NET)
    assert dict(found.where["R_1"]["k grows as n or more"].init) == {"n": -HALF}
    assert dict(found.where["W1_3"]["k m grows as n or more"].init) == {"n": -HALF}
    assert found.where["W2_3"] == {} and found.where["W1_3"].keys() == {"k m grows as n or more"}
    growing = tp.recipe(net=tp.ResNet("tanh", tp.MoE(expert_dim=4, share=0.25), norm="rms"))
    assert dict(growing.matrices["Wr"].init) == dict(growing.matrices["W1"].init) == {"n": -HALF}
    assert dict(growing.matrices["W2"].init) == {"k": -HALF, "m": -HALF}  # sigmoids are of order one by themselves
    assert growing.where["W1"] == {} and growing.where["Wr"].keys() == {"m outgrows L"}


@pytest.mark.parametrize("optimizer, more", [("adam", HALF), ("sgd", 1), ("muon", HALF)])
def test_routers_may_be_faster_where_learning_drives_them(optimizer: str, more: sp.Expr) -> None:
    """With sigmoids and m large beside L^(2 gamma): learned c is L^-gamma, aligned in all layers. By gradient descent
    the rate per gradient is then L^(alpha + gamma), as verdicts of infinite width have it."""
    found = tp.recipe("depth-mup", optimizer, net=SIGMOID)
    usual, faster = found.matrices["R_1"], found.where["R_1"]["m outgrows L"]
    assert faster.of("lr", "L") - usual.of("lr", "L") == more and usual.init == faster.init
    assert "m outgrows L" not in tp.recipe("depth-mup", optimizer, net=NET).where["R_1"]  # shares lose it
    assert faster.eps is None or faster.of("eps", "L") - usual.of("eps", "L") == -HALF
    assert "m outgrows L" not in tp.recipe("ode", optimizer, net=SIGMOID).where["R_1"]
    point = tp.DepthScaling(sp.Rational(3, 4), sp.Rational(1, 4))
    slower = tp.recipe(point, "sgd", net=SIGMOID)
    assert slower.where["R_1"]["m outgrows L^(1/2)"].of("lr", "L") == point.alpha + point.gamma


def test_layers_beside_experts_have_their_own() -> None:
    """Attention is as wide as the stream, a shared expert one hidden layer, and embedding and readout are ends."""
    found = tp.recipe("depth-mup", "adamw", net=tp.Transformer(
        phi="tanh", mlp=tp.MoE(experts=2, shared=1), train_embedding_readout=True))
    for name in ("Wq", "Wk", "Wv", "Wo"):
        assert (dict(found.matrices[name].lr), dict(found.matrices[name].init)) == ({"n": -1, "L": -HALF}, {"n": -HALF})
    assert dict(found.matrices["W1_3"].init) == {"m": HALF, "n": -1} and dict(found.matrices["W2_3"].lr) == {
        "m": -1, "L": -HALF}
    assert dict(found.matrices["W1_3"].eps) == {"m": -1, "L": -HALF}  # all vectors act on it
    assert dict(found.matrices["U"].lr) == {} and dict(found.matrices["V"].lr) == {"n": -1}
    assert dict(found.matrices["V"].init) == {"n": -1}
    assert found.judged({"*": {"n": -1, "L": "-1/2"}, "V": {}})["V"] == ("unstable", {"n": 1})


def test_experts_of_ones_own_are_read() -> None:
    def three(b: tp.Branch) -> sp.Expr:
        h = b.let("h", MatVec(b.weights("A"), b.x))
        return MatVec(b.weights("C"), b.let("g", b.phi(b.let("i", MatVec(b.weights("B"), b.let("p", b.phi(h)))))))

    found = tp.recipe("depth-mup", "adamw", net=tp.ResNet("tanh", tp.MoE(experts=2, expert=three), norm="rms"))
    rates = {name: dict(found.matrices[f"{name}_2"].lr) for name in "ABC"}
    assert rates == {"A": {"n": -1, "L": -HALF}, "B": {"m": -1, "L": -HALF}, "C": {"m": -1, "L": -HALF}}
    assert dict(found.matrices["C_2"].init) == {"k": HALF, "m": -HALF}


class Third(tp.Lion):
    """A direction of one's own."""


def scaled(b: tp.Branch) -> sp.Expr:
    return b.trained("s") * b.let("h", MatVec(b.weights(), b.x))


def test_vectors_in_one_function_of_coordinates_are_equally_wide() -> None:
    def block(b: tp.Branch) -> sp.Expr:
        v = b.let("v", MatVec(b.weights("A"), b.x))
        return MatVec(b.weights("B"), b.let("z", v * b.phi(b.x)))  # beside the stream itself

    assert fans_of(tp.ResNet("tanh", block)) == {"A": ("n", "n"), "B": ("n", "n")}


@pytest.mark.parametrize("number", range(12))
def test_factors_are_those_of_plans(number: int) -> None:
    """Of drawn sizes, optimizers, gates and recipes, where a plan leaves the multiplier to the forward pass."""
    draw = np.random.default_rng(number)
    optimizer = ("sgd", "momentum", "adam", "adamw", "lion", "muon")[draw.integers(6)]
    recipe = (tp.DepthScaling(HALF, HALF), tp.DepthScaling(1, 0), tp.DepthScaling(0.75, 0.5))[draw.integers(3)]
    free = bool(draw.integers(2))
    n, m, E, k, L = (float(one) for one in 2.0**draw.integers(-1, 4, 5))
    found = tp.recipe(recipe, optimizer, net=SIGMOID if free else NET).factors(
        dict(n=64, m=32, E=64, k=2, L=4), dict(n=64 * n, m=32 * m, E=64 * E, k=2 * k, L=4 * L))
    for name, kind, fan_in, fan_out in (("R_1", "router", n, 1.0), ("W1_1", "expert", n, m), ("W2_1", "expert", m, n)):
        use = ParameterGrowth(fan_in, fan_out, L, experts=E, active=k, gates=FREE if free else SHARES)
        one = Parameter(name, kind, True, (2, 2), n, (name,), (True, True), name == "W2_1", use=use)
        entry, = plan_of_roles(Roles(LayerCount("h.", 1, int(L)), n, (one,)), recipe, optimizer, "multiplier").entries
        for ours, theirs in (("init", "init"), ("lr", "lr"), ("decay", "weight_decay"), ("eps", "eps")):
            if ours in found[name]:
                assert found[name][ours] == pytest.approx(entry.factor(theirs)), (name, ours)
        branch = L**-float(recipe.alpha) if name == "W2_1" else 1.0
        assert found[name]["multiplier"] * branch == pytest.approx(entry.factor("forward"))


@pytest.mark.parametrize("size, matrix, word", [
    ("n", "W1_1", "unstable"), ("m", "W2_1", "unstable"), ("n", "R_1", "lazy")])
def test_what_is_judged_are_slopes_of_real_networks(size: str, matrix: str, word: str) -> None:
    """Of what a third step by signs changes, where one matrix has a rate of another power than the recipe's, and n and
    m grow together; of 4 seeds over two doublings."""
    recipe = tp.recipe("depth-mup", "lion", net=NET)
    usual = {name: dict(powers.lr) for name, powers in recipe.matrices.items()}
    off = {"unstable": HALF, "lazy": -HALF}[word]
    own = {**usual, matrix: {**usual[matrix], size: usual[matrix].get(size, 0) + off}}
    assert recipe.judged(own)[matrix] == (word, {size: off})
    assert {one[0] for name, one in recipe.judged(own).items() if name != matrix} == {"learns"}
    base, growth, names = dict(n=32, m=16, E=4, k=2, L=2), (1, 2, 4), ("R", "W1", "W2")
    start = {"R": 2**0.5 / 32, "W1": 32**-0.5, "W2": (2 / 16)**0.5 * 2**-0.5}
    rate = {"R": 0.05 / 32, "W1": 0.05 / 32, "W2": 0.05 / 16 * 2**-0.5}

    def change(factor: int, seed: int) -> float:
        sizes = {**base, "n": base["n"] * factor, "m": base["m"] * factor}
        factors = recipe.factors(base, sizes)
        starts = tuple(start[one] * factors[f"{one}_1"]["init"] for one in names)
        rates = [rate[one] * factors[f"{one}_1"]["lr"] for one in names]
        rates[names.index(matrix[:-2])] *= factor**float(off)
        return WideExperts(**sizes, starts=starts, B=128, seed=seed).changes(tuple(rates), "lion", 3)[matrix[:-2]]

    runs = [[change(factor, seed) for factor in growth] for seed in range(4)]
    Slope.of(growth, runs).off(float(off))


def test_words_of_a_verdict() -> None:
    found = tp.recipe("depth-mup", "adamw", net=SIGMOID)
    said = found.judged({"*": {"n": -1, "E": 1, "L": "-1/2"}, "W2_*": {"m": -1, "k": -1, "L": "-1/2"},
                         "R_*": {"n": -1}})
    assert said["W1_1"] == ("unstable", {"E": 1}) and said["W2_1"] == ("learns", {})
    assert said["R_1"] == ("unstable", {"L": HALF}) and said["R_1 where m outgrows L"] == ("learns", {})
    growing = tp.recipe("depth-mup", "adamw", net=tp.ResNet("tanh", tp.MoE(expert_dim=4, share=0.25), norm="rms"))
    assert growing.judged({"*": {"n": -1, "L": "-1/2"}})["W2"] == ("learns", {})  # k m is n / 4
    assert growing.judged({"*": {"m": -1, "L": "-1/2"}})["W2"] == ("depends", {"n": 1, "m": -1})
    assert found.judged({"*": {"n": -2, "E": 1, "L": "-1/2"}})["W1_4"][0] == "depends"


@pytest.mark.parametrize("call, says", [
    (lambda: tp.recipe(net=tp.ResNet("tanh", "mlp"), depth=4), "depth: got 4 with net=; expected None"),
    (lambda: tp.recipe("muon-unit-rms", "muon", net=NET), "multiplied by a factor of a matrix's shape"),
    (lambda: tp.recipe("depth-mup", "muon-original", net=NET), "multiplied by a factor of a matrix's shape"),
    (lambda: tp.recipe("depth-mup", tp.Muon(sphere=True), net=NET), "relative to sizes of weights"),
    (lambda: tp.recipe("depth-mup", "soap", net=NET), "got a matrix that grows with the width, with soap"),
    (lambda: tp.recipe(net=tp.ResNet("tanh", "mlp", skip=tp.Skip(learned=True))), "expected skip=None"),
    (lambda: tp.recipe(net=tp.ResNet("tanh", block=scaled)), "with the trained vector s"),
    (lambda: tp.recipe(net=tp.ResNet("tanh", tp.MoE(experts=2), norm="rms", norm_position="sandwich")),
     "which no branch ends with"),
    (lambda: tp.recipe(net=tp.ResNet("tanh", tp.MoE(2, expert=tp.MoE(2)))), "which no branch ends with"),
    (lambda: tp.recipe(net=NET, optimizer=Third()), "whose direction is its own"),
    (lambda: tp.recipe(net=NET, optimizer="lioness"), "optimizer: got 'lioness'; expected 'sgd', .*'muonh'"),
    (lambda: tp.recipe(net=NET).factors(dict(n=1), dict(m=1)), "base, target: got"),
    (lambda: tp.recipe(net=NET).factors(dict(B=1), dict(B=2)), "numbers for some of n, m, E, k, L"),
    (lambda: tp.recipe(net=tp.ResNet("tanh", tp.MoE(expert_dim=4))).factors(dict(n=8, E=2), dict(n=16, E=2)),
     "expected E m in proportion to n"),
    (lambda: tp.recipe(net=tp.ResNet("tanh", tp.MoE(expert_dim=4))).factors(dict(n=8, k=2), dict(n=16, k=2)),
     "k: got .* expected k m in proportion to n"),
    (lambda: tp.recipe(net=NET).factors(dict(E=2, k=2), dict(E=4, k=8)), "target: got k=8 of E=4; expected at most"),
    (lambda: tp.recipe(net=NET).factors(dict(E=9, k="10"), dict(E=9, k=9)), "base: got k=10 of E=9; expected at most"),
    (lambda: tp.recipe(net=NET).judged({"R_*": {"n": -1}}), "there are none of W1_1"),
    (lambda: tp.recipe(net=NET).judged({"*": {"B": -1}}), "W1_1: got powers of B"),
    (lambda: tp.classify(tp.Parametrization({"*": tp.Powers(lr={"E": 1})}), NET), "got powers of E"),
], ids=lambda value: value if isinstance(value, str) else "call")
def test_what_is_refused(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


def test_parts_of_a_hidden_layer_are_one_matrix() -> None:
    assert list(tp.recipe(net=tp.ResNet("tanh", "mlp", mlp_ratio=2)).matrices) == ["W1", "W2"]


def test_a_table_has_a_line_for_what_is_set_alike() -> None:
    found = tp.recipe("depth-mup", "sgd", net=NET)
    assert [row["matrix"] for row in found.rows] == [
        "branch", "W1_1 ... W1_4", "  where k m grows as n or more", "W2_1 ... W2_4", "R_1 ... R_4",
        "  where k grows as n or more"]
    assert "eps" not in found.rows[1] and "eps" in tp.recipe(net=NET).rows[1]
    assert "assumed: experts act on equal shares of a batch" in str(found) and "<table>" in found._repr_html_()
    assert "convention A" in str(tp.recipe(net=tp.ResNet("tanh", tp.MoE(experts=4, init="A"))))
    assert math.prod(found.factors({}, {})["R_1"].values()) == 1
