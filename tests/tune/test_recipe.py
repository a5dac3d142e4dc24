"""Recipes: multipliers solved from the sizes of updates, and those of sources."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.scaling.parametrization import Frozen
from tpcalc.optimizers.updates import OPTIMIZERS
from tpcalc.training.settings import Settings
from tpcalc.testing import rationals, scalings

H = sp.Rational(1, 2)


def audited(given: Settings, **changes: Any) -> tp.tune.audit.Audit:
    return tp.audit(given.branch, given.of("W", "lr"), given.optimizer, given.eps("W"), given.of("W", "init"),
                    **changes)


@settings(max_examples=60, deadline=None)
@given(scalings(), st.sampled_from(OPTIMIZERS), rationals(-1, 1), st.one_of(st.none(), rationals(-2, 1)))
def test_what_realizes_a_scaling_audits_to_it(target: tp.DepthScaling, optimizer: str, init: sp.Rational,
                                              eps: sp.Rational | None) -> None:
    start = tp.Powers(init={"L": init}, eps=None if eps is None else {"L": eps})
    found = audited(Settings(tp.ResNet(), Frozen({"W": start}), optimizer).realized(target))
    assert (found.alpha, found.gamma, found.powers["init"]) == (target.alpha, target.gamma, init)
    assert not any("eps outgrows" in one for one in found.warnings)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name, exponents", [("depth-mup", (H, H)), ("ode", (1, 0))])
def test_solved_recipes(optimizer: str, name: str, exponents: tuple) -> None:
    found = tp.recipe(name, optimizer)
    again = audited(found.settings)
    assert (again.alpha, again.gamma) == exponents and again.faithful_at_init
    assert "decoupled" in found.decays and "independent" in found.decays
    for kind, size in found.decays.items():
        decayed = audited(found.settings, weight_decay=size, decoupled=kind != "coupled",
                          independent=kind == "independent")
        assert decayed.decay == 0, kind


def test_coupled_decay_is_visible_in_sgd_and_not_in_adam() -> None:
    """Steps of Depth-muP's Adam are L^(-1/2) of the weights, whatever enters them."""
    assert "coupled" in tp.recipe("depth-mup", "sgd").decays
    assert "coupled" not in tp.recipe("depth-mup", "adam").decays
    assert "coupled" in tp.recipe("ode", "adam").decays


def test_factors_are_powers_of_the_depth_multiplier() -> None:
    found = tp.recipe("depth-mup", optimizer="adam", depth=96, base_depth=12)
    assert found.depth_multiplier == 8
    assert found.factors == pytest.approx({
        "branch": 8**-0.5, "init": 1, "lr": 8**-0.5, "eps": 8**-0.5, "weight_decay_decoupled": 8**0.5,
        "weight_decay_independent": 1})
    assert set(found.powers) == set(found.factors)
    assert tp.recipe("depth-mup", "sgd", 96, 12).factors["lr"] == 1
    assert tp.recipe("ode", "sgd", 96, 12).factors["lr"] == pytest.approx(8)
    assert "x 0.353553" in str(found) and "8 times 12" in str(found)
    assert r"\left(L / L_0\right)^{- \frac{1}{2}}" in found.latex() and "aligned" in found._repr_latex_()


def test_recipes_as_published() -> None:
    found = tp.recipe("completep", depth=24, base_depth=2)
    assert found.factors == pytest.approx({"branch": 1 / 12, "init": 1, "lr": 1, "eps": 1 / 12, "weight_decay": 1})
    assert "2505.01618" in found.source and "gains of its norms" in str(found)


def test_powers_by_role_are_a_recipe() -> None:
    """What one sets by hand, and the same that is published."""
    powers = {"*": tp.Powers(eps={}, decay={}), "last": tp.Powers(init={"L": -H}, eps={}, decay={})}
    found, named = tp.recipe(tp.Parametrization(depth=powers), "adamw", 64), tp.recipe("gpt-2", "adamw", 64)
    assert found.settings == named.settings and found.factors == named.factors == {
        "branch": 1, "init": 1 / 8, "lr": 1, "eps": 1, "weight_decay": 1}
    with pytest.raises(tp.NotCovered, match=r"got powers of W1, \*; expected those of '\*' and of 'last'"):
        tp.recipe(tp.Parametrization(depth={"W1": tp.Powers(), "*": tp.Powers()}))
    with pytest.raises(ValueError, match="expected one exponent for all matrices, and muP in width"):
        tp.recipe(tp.Parametrization({"W": tp.Powers(lr={"n": -1})}))


@pytest.mark.parametrize("given, said", [
    (dict(name="magic"), "name: got 'magic'; expected 'sp'"), (dict(depth=0), "depth: got 0"),
    (dict(depth=2.5), "depth: got 2.5"), (dict(base_depth=0), "base_depth: got 0"),
    (dict(base_depth=float("nan")), "base_depth: got nan"), (dict(optimizer="adagrad"), "optimizer: got 'adagrad'"),
    (dict(name="completep", optimizer="sgd"), "optimizer: got 'sgd', for which 'completep' was not published"),
    (dict(name="fixup"), "name: got 'fixup', in which W2 starts at zero")])
def test_bad_input(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.recipe(**given)
    assert str(caught.value).startswith(said)


def test_factors_need_a_depth() -> None:
    with pytest.raises(ValueError, match="depth: got None"):
        tp.recipe("depth-mup").factors
