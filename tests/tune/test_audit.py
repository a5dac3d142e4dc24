"""Audits: real recipes against the table of known ones, their warnings, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.optimizers.updates import OPTIMIZERS
from tpcalc.testing import rationals

H = sp.Rational(1, 2)
POWERS = rationals(-2, 1, max_denominator=4)

# Reference: what is set, (alpha, gamma) and the verdict, worked out by hand for blocks of one matrix, eps negligible.
TABLE = {
    "SP": (dict(branch=0, lr=0), (0, 0), "explodes at initialization"),
    "Depth-muP, SGD": (dict(branch=-H, lr=0, optimizer="sgd"), (H, H), "Depth-muP"),
    "Depth-muP, Adam": (dict(branch=-H, lr=-H, eps=-H), (H, H), "Depth-muP"),
    "Depth-muP, Adam, smaller eps": (dict(branch=-H, lr=-H, eps=-1), (H, H), "Depth-muP"),
    "Depth-muP, Adam, eps fixed": (dict(branch=-H, lr=-H, eps=0), (H, H), "Depth-muP"),
    "branch alone, Adam, eps fixed": (dict(branch=-H), (H, 0), "unstable in training"),
    "branch alone, Adam": (dict(branch=-H, lr=0, eps=None), (H, 0), "unstable in training"),
    "ODE, SGD": (dict(branch=-1, lr=1, optimizer="sgd"), (1, 0), "ODE limit"),
    "ODE, Adam": (dict(branch=-1, lr=0, eps=None), (1, 0), "ODE limit"),
    "CompleteP": (dict(branch=-1, lr=0, optimizer="adamw", eps=-1, weight_decay=0), (1, 0), "ODE limit"),
    "CompleteP, eps fixed": (dict(branch=-1, lr=0, eps=0), (1, 0), "ODE limit"),
    "Megatron-style": (dict(branch=-1, lr=0, eps=-1), (1, 0), "ODE limit"),
    "Megatron-style, init": (dict(branch=-1, lr=0, eps=-1, init=-H), (3 * H, -H), "converges in x and f, not in h"),
    "GPT-2": (dict(branch=0, lr=0, init=-H), (H, -H), "unstable in training"),
    "GPT-2, lr 1/L": (dict(branch=0, lr=-1, init=-H), (H, H), "Depth-muP"),
    "SGD scaled twice": (dict(branch=-H, lr=-H, optimizer="sgd"), (H, 1), "trivial"),
}

# By hand where eps outgrows gradients: Adam's update is then the rate times gradient over eps.
IN_CHARGE = {
    "Depth-muP, Adam, eps fixed": (1, "trivial"), "branch alone, Adam, eps fixed": (H, "Depth-muP"),
    "CompleteP, eps fixed": (1, "trivial")}


@pytest.mark.parametrize("name", TABLE)
def test_the_verdict_with_eps_in_charge(name: str) -> None:
    """None where eps never outgrows gradients; what names that eps is as good as given is never in the headline."""
    found = tp.audit(**TABLE[name][0])
    if name not in IN_CHARGE:
        assert found.eps_in_charge is None and "in charge" not in str(found) and "negligible" not in str(found)
        return
    gamma, verdict = IN_CHARGE[name]
    assert found.eps_in_charge == tp.classify(found.alpha, gamma) and found.eps_in_charge.name == verdict
    headline, charged = str(found).splitlines()[3:5]
    assert headline.endswith(f"{found.name}, while eps is negligible") and charged.endswith(f": {verdict}")


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(OPTIMIZERS), POWERS, POWERS, POWERS, st.one_of(st.none(), POWERS), st.one_of(st.none(), POWERS),
       st.sampled_from(["decoupled", "coupled"]))
def test_the_headline_does_not_read_eps(optimizer: str, branch: sp.Rational, lr: sp.Rational, init: sp.Rational,
                                        eps: sp.Rational | None, decay: sp.Rational | None, kind: str) -> None:
    """Any eps: one headline; its own verdict is there exactly where Adam's eps outgrows what enters it."""
    given_powers = dict(branch=branch, lr=lr, optimizer=optimizer, init=init, weight_decay=decay,
                        decoupled=kind != "coupled")
    found, bare = tp.audit(eps=eps, **given_powers), tp.audit(eps=None, **given_powers)
    assert (found.alpha, found.gamma, found.decay, found.verdict) == (bare.alpha, bare.gamma, bare.decay, bare.verdict)
    assert bare.eps_in_charge is None and bare.crossover_depth is None
    entering = branch if decay is None or kind != "coupled" else max(branch, decay + init)
    outgrows = optimizer in ("adam", "adamw") and eps is not None and eps > entering and found.alpha >= H
    assert (found.eps_in_charge is not None) == outgrows
    if found.eps_in_charge is not None:
        assert found.eps_in_charge.gamma == found.gamma + eps - entering and found.eps_in_charge.alpha == found.alpha


SIZES = dict(depth=12, width=768, eps=1e-8, gradient=1e-5)


def test_the_depth_from_which_on_eps_is_in_charge() -> None:
    """eps over gradient is 1e-3 at depth 12 and goes like L^(1/2): one at 12e6; the text says so, or what lacks."""
    found = tp.audit(-H, sizes=SIZES)
    assert found.crossover_depth == pytest.approx(12e6) and "from depth 1.2e+07 on, at width 768" in str(found)
    assert tp.audit(-1, eps=-H, sizes=SIZES).crossover_depth == pytest.approx(12e6)
    assert tp.audit(-1, eps=0, sizes=SIZES).crossover_depth == pytest.approx(12e3)
    assert "already at depth 12" in str(tp.audit(-1, sizes={**SIZES, "eps": 1e-3}))
    for name in SIZES:
        less = tp.audit(-H, sizes={key: size for key, size in SIZES.items() if key != name})
        assert less.crossover_depth is None and f"not among sizes: {name})" in str(less)
    assert tp.audit(-H).crossover_depth is None and "depth, width, eps and gradient)" in str(tp.audit(-H))
    never = [tp.audit(-H, optimizer="sgd", sizes=SIZES), tp.audit(-H, eps=-H, sizes=SIZES),
             tp.audit("-1/4", sizes=SIZES), tp.audit(-H, eps=None, sizes=SIZES),
             tp.audit(-H, weight_decay=0, decoupled=False, eps=1, sizes=SIZES)]  # this decay is what enters
    assert [one.crossover_depth for one in never] == [None] * 5
    assert tp.audit(-1, eps="-63/64", sizes={**SIZES, "gradient": 1e30}).crossover_depth == float("inf")


@pytest.mark.parametrize("sizes, said", [
    (3, "sizes: got 3"), ({"deph": 3}, "sizes: got 'deph'"), ({"depth": 2.5}, "sizes['depth']: got 2.5"),
    ({"eps": 0}, "sizes['eps']: got 0"), ({"width": -1}, "sizes['width']: got -1"), ([12], "sizes: got [12]"),
    ({"gradient": float("nan")}, "sizes['gradient']: got nan"), ({1: 3}, "sizes: got 1")])
def test_bad_sizes_are_refused_before_any_work(sizes: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.audit(-H, sizes=sizes)
    assert str(caught.value).startswith(said) and "expected" in str(caught.value)


@pytest.mark.parametrize("scale", [tp.width.width_recipe("SP", 3), tp.Parametrization(), tp.DepthScaling()], ids=repr)
def test_scalings_are_sent_to_the_calls_that_judge_them(scale: Any) -> None:
    """One call returns one type: of scalings there are other calls, which the message names."""
    with pytest.raises(ValueError, match="^branch: .* tp.classify .* tp.theory.audit_matrices .*broken_principles"):
        tp.audit(scale, sizes=SIZES)


@pytest.mark.parametrize("given, exponents, name", TABLE.values(), ids=TABLE.keys())
def test_known_recipes(given: dict[str, Any], exponents: tuple, name: str) -> None:
    found = tp.audit(**given)
    assert (found.alpha, found.gamma) == exponents and found.verdict.name == name
    assert found.verdict == tp.classify(*exponents)
    assert found.faithful_at_init == (found.verdict.faithful_at_init and "init" not in given)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(OPTIMIZERS), POWERS, POWERS, POWERS, POWERS)
def test_an_initialization_is_a_change_of_variables(optimizer: str, branch: sp.Rational, lr: sp.Rational,
                                                    init: sp.Rational, eps: sp.Rational) -> None:
    """L^init into the matrix or into the branch: the same alpha; and the warnings know which."""
    found = tp.audit(branch, lr, optimizer, eps, init)
    assert found.alpha == tp.audit(branch + init, lr, optimizer, eps).alpha
    moved = tp.audit(branch, lr, optimizer, eps)
    assert found.gamma == moved.gamma + init
    assert any("not faithful to the activation" in one for one in found.warnings) == (init != 0)
    assert not (found.faithful_at_init and init != 0)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(OPTIMIZERS), POWERS, POWERS, POWERS, POWERS, st.one_of(st.none(), POWERS), st.booleans())
def test_what_is_advised_is_depth_mup_with_nothing_to_warn_of(
        optimizer: str, branch: sp.Rational, lr: sp.Rational, init: sp.Rational, eps: sp.Rational,
        decay: sp.Rational | None, decoupled: bool) -> None:
    found = tp.audit(branch, lr, optimizer, eps, init, decay, decoupled)
    best = found.recipe.settings
    again = tp.audit(best.branch, best.of("W", "lr"), optimizer, best.eps("W"), best.of("W", "init"),
                     best.decay_of("W"), best.decay != "coupled")
    assert (again.alpha, again.gamma, again.verdict.name) == (H, H, "Depth-muP")
    assert again.warnings == () and again.faithful_at_init and again.decay in (None, 0)
    assert "nothing to change" in again.recipe.changes[0]
    best_already = found.warnings == ()
    assert ("nothing to change" in found.recipe.changes[0]) == best_already


@pytest.mark.parametrize("given, said", [
    (dict(branch=-1, lr=0, eps=-1, init=-H), "double counting"),
    (dict(branch=-1, lr=0, eps=-1), "a branch smaller than it must be"),
    (dict(branch=0, lr=0), "a missing factor L^(-1/2)"),
    (dict(branch=-H, lr=0, eps=None), "a missing factor in the learning rate"),
    (dict(branch=-H, lr=-H, optimizer="sgd"), "a learning rate smaller than it must be"),
    (dict(branch=-H, lr=-H, eps=0), "eps outgrows gradients from a depth on that is not"),
    (dict(branch="-1/4"), "whether gradients fall below it is not counted"),
    (dict(branch=0, lr=-1, init=-H), "not faithful to the activation: the raw h = W x is L^(-1/2)"),
    (dict(branch=0, lr=0, init=H), "saturates"),
    (dict(branch=-1.5, lr=0.5, eps=None), "updates are L^(1/2) times as large as the initial weights"),
    (dict(branch=-H, lr=-H, eps=-H, weight_decay=0), "weight decay dies out"),
    (dict(branch=-H, lr=-H, eps=-H, weight_decay=1), "weight decay explodes"),
    (dict(branch=-H, lr=-H, eps=-H, weight_decay=0, decoupled=False), "weight decay dominates the gradients"),
    (dict(branch=-H, lr=-H, eps=None, init=-H / 2, weight_decay=0, decoupled=False),
     "it adds terms of order L^(-1/4)")])
def test_warnings(given: dict[str, Any], said: str) -> None:
    assert len([one for one in tp.audit(**given).warnings if said in one]) == 1


def test_weights_that_start_small_decay_by_little() -> None:
    """What a coupled decay adds to the gradients is as small as the weights: here, as the gradients."""
    found = tp.audit(-H, -H, eps=None, init=-H, weight_decay=0, decoupled=False)
    assert not any("dominates" in one for one in found.warnings) and found.gamma == 0


def test_what_is_silent() -> None:
    silent = [dict(branch=-H, lr=-H, eps=-H), dict(branch=-H, lr=0, optimizer="sgd", weight_decay=0, decoupled=False),
              dict(branch=-H, lr=-H, eps=-2, weight_decay=H),
              dict(branch=-H, lr=-H, eps=0, gradient=0, weight_decay=0, independent=True)]
    assert [tp.audit(**one).warnings for one in silent] == [(), (), (), ()]


@pytest.mark.parametrize("half", [0.5, Fraction(1, 2), H, "1/2", sp.Float(0.5)])
def test_powers_are_read_exactly(half: Any) -> None:
    minus = f"-{half}" if isinstance(half, str) else -half
    assert tp.audit(minus, minus, eps=minus).verdict.name == "Depth-muP"


@pytest.mark.parametrize("name", ["branch", "lr", "eps", "init", "weight_decay", "gradient"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1j, sp.I, "half", sp.Symbol("x", real=True), True, [1]])
def test_powers_that_are_not_numbers_are_refused(name: str, bad: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}: got .*; expected a "):
        tp.audit(**{"branch": -1, "lr": 0, name: bad})


@pytest.mark.parametrize("given, said", [
    (dict(optimizer="adagrad"), "optimizer: got 'adagrad'; expected 'sgd'"), (dict(base_depth=0), "base_depth: got 0"),
    (dict(decoupled="yes"), "decoupled: got 'yes'"), (dict(independent=None), "independent: got None"),
    (dict(independent=True, decoupled=False), "independent: got True with decoupled False"),
    (dict(branch=None), "branch: got None"), (dict(optimizer=tp.ResNet()), "optimizer: got ResNet")])
def test_other_bad_input(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.audit(**{"branch": -1, "lr": 0, **given})
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("given, name", [
    (dict(branch=0.7, lr=0), "branch"), (dict(branch=0.5, lr=0), "branch"), (dict(lr=1e-3), "lr"),
    (dict(branch=0.7, lr=1e-3), "branch"), (dict(eps=1e-8), "eps"), (dict(eps=1e-17), "eps"),
    (dict(weight_decay=0.01), "weight_decay"), (dict(init=0.02 + 1e-9), "init"), (dict(gradient=-1 / 65), "gradient"),
    (dict(lr=np.float64(1e-3)), "lr"), (dict(lr=np.float32(1e-3)), "lr"), (dict(lr=sp.Float(1e-3)), "lr")])
def test_values_are_not_taken_for_powers(given: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: got .*, which looks like a value; .* base_depth="):
        tp.audit(**{"branch": -1, "lr": 0, **given})


@pytest.mark.parametrize("given", [
    dict(branch=sp.Rational(7, 10), lr=Fraction(1, 1000)), dict(branch=1, lr="1/1000"), dict(branch="0.7", lr="1e-3"),
    dict(branch=-1 / 64, lr=63 / 64), dict(branch=-1 / 3, lr=2 / 3), dict(branch=0.0, lr=-0.0),
    dict(branch=-1.0, lr=2.5),
    dict(branch=-np.sqrt(0.25), lr=0, weight_decay=0.0)])
def test_exact_numbers_and_simple_floats_are_powers(given: dict[str, Any]) -> None:
    found = tp.audit(**given)
    assert found.alpha == -sp.Rational(Fraction(given["branch"]).limit_denominator(1000))


def test_optimizers_as_objects() -> None:
    assert tp.audit(-H, 0, tp.SGD(lr=0.1, momentum=0.9)).settings.optimizer == "momentum"
    assert tp.audit(-H, -H, tp.SignSGD()).verdict.name == "Depth-muP"


def test_an_audit_prints() -> None:
    found = tp.audit(branch=-1, lr=0, optimizer="adam", eps=-1, init=0, weight_decay=None)
    text = str(found)
    parts = (*found.warnings, *found.reasons, *found.recipe.changes, "alpha = 1, gamma = 0")
    assert all(part in text for part in parts)
    assert r"\text{branch multiplier} &\propto L^{-1}" in found.latex() and found.verdict.latex() in found.latex()
    assert found._repr_latex_().count("aligned") == 2


def test_audits_by_matrix_have_both_regimes() -> None:
    """W2's eps is left as it is and outgrows gradients like L^-1; W1's goes with them."""
    raw = {"branch": tp.Powers(multiplier={"L": -1}), "W1": tp.Powers(eps={"L": -1}), "W2": tp.Powers(eps={})}
    net = tp.ResNet("linear", "mlp")
    found = tp.theory.audit_matrices(tp.Parametrization(depth=raw), net, "adam")
    exponents = [tp.Parametrization(depth={"alpha": 1, "W1": 0, "W2": gamma}) for gamma in (0, 1)]
    assert found.outgrown == ("W2",) and "with eps in charge of W2" in str(found)
    charged = found.eps_in_charge
    assert charged is not None and (found.called, charged.name) == tuple(
        tp.classify(one, net=net).name for one in exponents)
    assert charged.matrices["W2"].gamma == 1 and found.verdict.matrices["W2"].gamma == 0


@pytest.mark.parametrize("opt", [tp.Adam(), tp.Shampoo(), tp.SOAP()], ids=repr)
def test_an_eps_of_0_is_not_one_of_order_one(opt: Any) -> None:
    """Of an optimizer that is given with none there is nothing to change, and nothing that outgrows gradients."""
    found, fixed = tp.audit(-1, 0, opt), tp.audit(-1, 0, replace(opt, eps=0.1))
    assert "change eps" not in str(found) and found.eps_in_charge is None
    assert "change eps from 1 to" in str(fixed) and fixed.eps_in_charge is not None
    assert found.name == tp.audit(-1, 0, opt, eps=None).name
