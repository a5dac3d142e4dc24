"""Powers by parameter, and exponents: there and back, and against real networks in plain NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.optimizers.faithful import update_power
from tpcalc.theory import powers_by_parameter, with_exponents

NETS = (tp.ResNet("tanh"), tp.ResNet("relu", "mlp"), tp.Transformer(head_dim=2, positions=2, mlp="glu"),
        tp.ResNet("relu", "glu", norm="rms", gains=True, train_embedding_readout=True))
OPTIMIZERS = (None, tp.SGD(momentum=0.9), tp.SignSGD(), tp.Lion(), tp.Adam(), tp.AdamW())


def some(rng: np.random.Generator) -> sp.Rational:
    return sp.Rational(int(rng.integers(-8, 9)), int(rng.integers(1, 9)))


@pytest.mark.parametrize("net", NETS, ids=lambda net: f"{type(net).__name__} {net.phi}")
def test_exponents_come_back_from_the_powers_that_realize_them(net: Any) -> None:
    rng = np.random.default_rng(5)
    for opt in OPTIMIZERS:
        ends = ("U", "nV") if net.train_embedding_readout else ()
        scale = tp.Parametrization(depth={"alpha": some(rng), **{
            name: some(rng) for name in (*net.trained_of_block, *ends)}})
        powers = powers_by_parameter(scale, net, opt)
        assert with_exponents(tp.Parametrization(powers), net, opt) == scale
        again = powers_by_parameter(with_exponents(tp.Parametrization(powers), net, opt), net, opt)
        assert again == powers


def test_powers_of_other_widths_come_back() -> None:
    net = tp.ResNet("tanh", train_embedding_readout=True)
    for width in ("SP", "NTP", tp.meta_principled("1/2", 3)):
        scale = tp.Parametrization(width, {"alpha": 1, "W": 0, "U": 0, "nV": 0})
        for opt in ("sgd", "adam"):
            found = with_exponents(tp.Parametrization(powers_by_parameter(scale, net, opt)), net, opt)
            assert found.width_scaling.canonical() == scale.width_scaling.canonical() and found.depth == scale.depth


def test_a_factor_may_stand_anywhere() -> None:
    """A multiplier in front of a matrix or a smaller start, by hand, of W2 relu(W1 x): alpha is that of the product."""
    net, usual = tp.ResNet("relu", "mlp"), {"n": "-1/2"}
    factors = {"multiplier": tp.Powers(multiplier={"L": "-1/2"}, init=usual, lr={"n": -1}),
               "init": tp.Powers(init={**usual, "L": "-1/2"}, lr={"n": -1})}
    found = {name: with_exponents(tp.Parametrization({"*": one}), net, "adam") for name, one in factors.items()}
    assert all(one.alpha == 1 for one in found.values())
    # Adam's updates of order one: of L^(-1/2) w as large as w, of a start like L^(-1/2) too large by L^(1/2)
    assert {name: one.update_exponent("W1") for name, one in found.items()} == {
        "multiplier": 0, "init": -sp.Rational(1, 2)}
    assert with_exponents(tp.Parametrization({"*": factors["multiplier"]}), net).update_exponent("W1") == 1


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "signsgd", "lion", "adam", "adamw"])
def test_raw_powers_of_the_depth_are_read_alike(optimizer: str) -> None:
    """Beside powers of n or alone, and as by hand of a product of matrices: the block carries all initial sizes, and
    a raw gradient those of the others."""
    rng = np.random.default_rng(11)
    net = tp.ResNet("relu", "mlp")
    for _ in range(5):
        branch, inits, rates = some(rng), [some(rng), some(rng)], [some(rng), some(rng)]
        alone = {name: tp.Powers(init={"L": init}, lr={"L": rate})
                 for name, init, rate in zip(("W1", "W2"), inits, rates)}
        mup = {name: one.lr for name, one in powers_by_parameter(tp.DepthScaling(0, 0), net, optimizer).items()}
        by_hand = {name: tp.Powers(init={"n": "-1/2", "L": init}, lr={"n": mup[name].get("n", 0), "L": rate})
                   for name, init, rate in zip(("W1", "W2"), inits, rates)}
        front, alpha = {"branch": tp.Powers(multiplier={"L": branch})}, -branch - sum(inits)
        gammas = [update_power(optimizer, alpha + init, -rate) + init for init, rate in zip(inits, rates)]
        for given in (tp.Parametrization({**front, **by_hand}), tp.Parametrization(depth={**front, **alone})):
            assert with_exponents(given, net, optimizer) == tp.Parametrization(depth={
                "alpha": alpha, "W1": gammas[0], "W2": gammas[1]})


def moved(powers: dict[str, tp.Powers], sign: bool, n: int, depth: int, seeds: int) -> tuple[float, float]:
    """rms of what W2 relu(W1 x) adds in the middle layer, and by how much its first factor moves relative to itself at
    the first step of plain gradient or sign descent, all factors being set by hand at n and L."""
    def value(name: str, setting: str) -> float:
        return float(np.prod([float(size) ** float(powers[name].of(setting, key))
                              for key, size in (("n", n), ("L", depth))]))

    names, found = ("W1", "W2"), []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, n, depth])
        raw = {name: rng.standard_normal((depth, n, n)) * value(name, "init") for name in names}
        front = {name: value(name, "multiplier") for name in names}
        x, readout, xs, hs, parts = rng.standard_normal(n), rng.standard_normal(n), [], [], []
        for l in range(depth):
            xs.append(x)
            hs.append(front["W1"] * raw["W1"][l] @ x)
            added = front["W2"] * raw["W2"][l] @ np.maximum(hs[-1], 0)
            x = x + added
            parts.append(added)
        back = readout / n  # of the output
        for l in reversed(range(depth)):
            inner = (hs[l] > 0) * (front["W2"] * raw["W2"][l].T @ back)
            if l == depth // 2:
                gradient = front["W1"] * np.outer(inner, xs[l])
                step = value("W1", "lr") * (np.sign(gradient) if sign else gradient)
                change = front["W1"] * step @ xs[l]
                found.append((np.sqrt(np.mean(parts[l]**2)), np.sqrt(np.mean(change**2) / np.mean(hs[l]**2))))
            back = back + front["W1"] * raw["W1"][l].T @ inner
    added, change = np.exp(np.mean(np.log(found), axis=0))
    return float(added), float(change)


@pytest.mark.parametrize("sign", [False, True], ids=["gradient descent", "sign descent"])
def test_real_networks_add_and_move_as_said(sign: bool) -> None:
    """Slopes in L at fixed n, and in n at fixed L, of factors that stand where nobody expects them."""
    powers = {"W1": tp.Powers({"L": "-1/4"}, {"n": "-1/2", "L": "-1/4"}, {"L": "-1/4", "n": -1 if sign else 0}),
              "W2": tp.Powers({"n": "1/2"}, {"n": -1, "L": "-1/4"}, {"n": 0})}
    net, opt = tp.ResNet("relu", "mlp"), tp.SignSGD() if sign else tp.SGD()
    mixed = {**powers, "W2": tp.Powers({"n": "1/2"}, {"n": -1, "L": "-1/4"},
                                       {"n": "-3/2" if sign else -1})}  # so that both move alike in width
    said = with_exponents(tp.Parametrization(mixed), net, opt)
    shallow, deep = (moved(powers, sign, 24, depth, 150) for depth in (16, 128))
    narrow, wide = (moved(powers, sign, n, 4, 60) for n in (32, 256))
    slopes = np.log(np.divide(deep, shallow)) / np.log(8)
    assert np.abs(slopes + [float(said.alpha), float(said.update_exponent("W1"))]).max() < 0.1
    assert said.width == "muP" and np.abs(np.log(np.divide(wide, narrow)) / np.log(8)).max() < 0.1


def test_the_most_special_name_counts() -> None:
    net = tp.ResNet("relu", "glu")
    of = {key: tp.Powers(init={"n": "-1/2"}, lr={"n": 0, "L": power}) for key, power in (
        ("W2", -1), ("hidden", -2), ("W[13]", -3), ("*", -4))}
    found = with_exponents(tp.Parametrization(of), net)
    assert [found.update_exponent(name) for name in ("W1", "W2", "W3")] == [2, 1, 2]
    del of["hidden"]
    found = with_exponents(tp.Parametrization(of), net)
    assert [found.update_exponent(name) for name in ("W1", "W2", "W3")] == [3, 1, 3]


MUP = tp.Powers(init={"n": "-1/2"}, lr={"n": -1})


@pytest.mark.parametrize("given, net, opt, says", [
    ({"W1": MUP}, tp.ResNet("relu", "mlp"), "adam", "there are none of W2"),
    ({"*": MUP, "W3": MUP}, tp.ResNet("relu", "mlp"), "adam", "W3 is none of the network's"),
    ({"*": MUP}, tp.ResNet("relu"), "muon", "of whose directions powers of n are not counted"),
    ({"*": MUP, "branch": MUP}, tp.ResNet("relu"), "adam", "branch: got .* expected a multiplier like a power of L"),
    ({"W": tp.Powers(multiplier={"L": -1}, init={"n": "-1/2"})}, tp.ResNet("tanh"), "sgd", "not homogeneous in it"),
    ({"*": tp.Powers(init={"n": "-1/2"}, eps={"n": -1})}, tp.ResNet("relu"), "adam", "got eps n"),
    ({"*": MUP, "W2": tp.Powers(init={"n": "-1/2"})}, tp.ResNet("relu", "mlp"), "adam", "others of its role"),
    ({"*": tp.Powers(init={"n": -1}, lr={"n": -1})}, tp.ResNet("relu"), "adam", "expected critical ones"),
    ({"W": MUP, "U": tp.Powers(multiplier={"L": 1}), "nV": tp.Powers(init={"n": -1}, lr={"n": -1})},
     tp.ResNet("relu", train_embedding_readout=True), "adam", "U: got multiplier L"),
    ({"*": MUP, "Wo": tp.Powers(multiplier={"L": -1}, init={"n": "-1/2"}, lr={"n": -1})},
     tp.Transformer(head_dim=2, positions=2), "adam", "expected one alpha")], ids=str)
def test_what_is_not_covered_is_refused(given: Any, net: Any, opt: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        with_exponents(tp.Parametrization(given), net, opt)


def test_bad_powers_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="lr: got 1; expected a mapping from what grows"):
        tp.Powers(lr=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"powers of B; expected those of the width n and the depth L"):
        tp.Parametrization({"W": tp.Powers(lr={"B": 1})})
    with pytest.raises(ValueError, match="expected powers of L among these"):
        tp.Parametrization({"W": MUP}, tp.DepthScaling(1, 0))
    unbound = tp.Parametrization({"W": MUP})
    for what in ("alpha", "own", "width_scaling", "scaling"):
        with pytest.raises(tp.NotCovered, match="tp.theory.with_exponents"):
            getattr(unbound, what)
    assert tp.Powers(lr={"L": 0}) == tp.Powers() and hash(tp.Powers(lr={sp.Symbol("n"): -1})) == hash(
        tp.Powers(lr={"n": -1}))


def test_they_go_where_scalings_go() -> None:
    net, task = tp.ResNet("linear"), tp.Task(np.ones((2, 1, 1)), np.ones((2, 1, 1)))
    by_hand = tp.Parametrization({"branch": tp.Powers(multiplier={"L": "-1/2"}), "W": tp.Powers(
        init={"n": "-1/2"}, lr={"n": 0})})  # gradients carry the multiplier
    same = with_exponents(by_hand, net).over(net.trained_of_block)
    assert same == tp.DepthScaling(sp.Rational(1, 2), sp.Rational(1, 2))
    assert np.array_equal(tp.train(net, task, tp.SGD(0.5), by_hand, 6).outputs,
                          tp.train(net, task, tp.SGD(0.5), same, 6).outputs)
    assert tp.classify(by_hand, net).name == tp.classify(same, net).name == "Depth-muP"


def decaying(lr: object, decay: object) -> tp.Parametrization:
    return tp.Parametrization(depth={"branch": tp.Powers(multiplier={"L": "-3/4"}),
                                     "*": tp.Powers(lr={"L": lr}, decay=None if decay is None else {"L": decay})})


def test_a_decay_of_another_share_than_the_optimizers_is_refused() -> None:
    """It was taken for one of order one in a step: exponents were those of another script."""
    net, opt = tp.ResNet("tanh", "mlp", norm="rms"), tp.AdamW(0.1, weight_decay=0.5)
    with pytest.raises(tp.NotCovered, match=r"share of a weight goes like L\^\(-3/4\)"):
        tp.classify(decaying("-3/4", 0), net, opt)
    with pytest.raises(tp.NotCovered, match="share of a weight"):
        with_exponents(decaying("-3/4", 0), net, opt)
    free = replace(opt, independent=True)
    same = [tp.classify(decaying("-3/4", decay), net, one).exponents
            for decay, one in (("3/4", opt), (None, opt), (0, free))]
    assert same[0] == same[1] == same[2]
    assert tp.classify(decaying("-3/4", 0), net, tp.Adam()).name  # nothing decays


def test_an_eps_that_outgrows_gradients_is_refused() -> None:
    given = tp.Parametrization(depth={"branch": tp.Powers(multiplier={"L": -1}), "*": tp.Powers(eps={})})
    with pytest.raises(tp.NotCovered, match="outgrows gradients"):
        tp.classify(given, tp.ResNet("relu", "mlp", norm="rms"), tp.Adam())


def test_keys_that_say_as_much_as_each_other_are_refused_in_any_order() -> None:
    one, other = {"?1": tp.Powers(lr={})}, {"W?": tp.Powers(lr={"L": -1})}
    for tied in ({**one, **other}, {**other, **one}):
        with pytest.raises(ValueError, match="none says more than the other"):
            with_exponents(tp.Parametrization(depth=tied), tp.ResNet("relu", "mlp"))
    with_exponents(tp.Parametrization(depth={"?1": tp.Powers(), "W?": tp.Powers()}), tp.ResNet("relu", "mlp"))


def test_audits_take_decays_as_the_optimizer_has_them() -> None:
    settings: dict[str, Any] = dict(branch="-1/2", lr="-1/2", weight_decay=0, eps=None)
    free = tp.AdamW(0.1, weight_decay=0.1, independent=True)
    assert tp.audit(**settings, optimizer=free).decay == 0
    assert tp.audit(**settings, optimizer=replace(free, independent=False)).decay == sp.Rational(1, 2)
    assert tp.audit(**settings, optimizer=tp.SGD(0.1, weight_decay=0.1, decoupled=True, independent=True)).decay == 0
    kinds = [tp.audit(**settings, optimizer=one).settings.decay for one in (tp.SGD(0.1, weight_decay=0.1), "sgd")]
    assert kinds == ["coupled", "decoupled"]


@pytest.mark.parametrize("block", ["mlp", "pre_nonlin"])
def test_no_activation_is_said_to_read_what_a_branch_ends_with(block: str) -> None:
    net = tp.ResNet("relu", block)
    for name in net.trained_of_block:
        given = {"branch": tp.Powers(multiplier={"L": -1}), "*": tp.Powers(), name: tp.Powers(init={"L": "-1/2"})}
        found = tp.theory.audit_matrices(tp.Parametrization(depth=given), net)
        assert any("not faithful to the activation" in one for one in found.warnings) == (name == "W1")
