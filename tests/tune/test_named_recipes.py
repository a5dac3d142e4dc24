"""Named recipes on their own blocks: powers and verdicts by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.tune import table
from tpcalc.tune.own_block import RecipeAudit, audit_on_block
from tpcalc.tune.blocks import BLOCKS, set_on_block
from tpcalc.training.by_parameter import settings_in_layers
from tpcalc.optimizers.faithful import update_power
from tpcalc.tune.named import BOTTLENECK, FROM_ZERO, GATED, LAYER, NAMED, ONE, POST_NORM, SCALED, NamedRecipe, width_of

OO = float("inf")
LAST = [1, 1, 1, 0, 1, 0]  # matrices of attention and MLP, 0 where a branch ends with it


def of_six(alpha: float, first: float, last: float, name: str, block: str = LAYER) -> tuple:
    return block, alpha, [first if one else last for one in LAST], name


# block, alpha, gamma by matrix and verdict, by hand from the sources: Adam's update is the rate, and Muon's too, where
# its gradient, L^-alpha over the matrix's own initial size, is above eps.
# DeepNorm's queries and keys start as usual, so that SGD moves them by their gradient alone. What started at zero is as
# large as its first update: Fixup's W2 L^(-1/2), which makes alpha 1 and W1's gradient L^(-1/2), its own size.
BY_HAND = {
    "sp": (ONE, 0, [0], "explodes at initialization"), "depth-mup": (ONE, .5, [.5], "Depth-muP"),
    "ode": (ONE, 1, [0], "ODE limit"), "mup": of_six(0, 0, 0, "grows at initialization"),
    "branch-only": of_six(.5, 0, 0, "unstable in training"), "depth-mup-fixed-eps": of_six(.5, .5, .5, "Depth-muP"),
    "completep": of_six(1, 0, 0, "ODE limit"), "megatron-depth-mup": of_six(1, 0, 0, "ODE limit"),
    "megatron-depth-mup-uncompensated": of_six(1.5, 0, -.5, "converges in x and f, not in h"),
    "gpt-2": of_six(.5, 0, -.5, "unstable in training"), "gpt-2-smaller-lr": of_six(.5, 1, .5, "Depth-muP"),
    "unit-scaling": of_six(.5, .5, .5, "Depth-muP"),
    "deepnorm": (POST_NORM, .75, [.75, .75, .25, .25, .25, .25], "ODE limit"),
    "deepnorm-adam": (POST_NORM, .75, [0, 0, -.25, -.25, -.25, -.25], "unstable in training"),
    **dict.fromkeys(("muon", "muon-spectral", "muon-unit-rms", "megatron-muon-spectral",
                     "megatron-muon-unit-rms-norm"), of_six(0, 0, 0, "grows at initialization")),
    "fixup": (FROM_ZERO, 1, [0, 0], "ODE limit"), "fixup-bottleneck": (BOTTLENECK, 1, [.5, .5, 0], "ODE limit"),
    "rezero": (GATED, OO, [OO, OO], "trivial"), "rezero-adam": (GATED, 0, [0, 0], "explodes at initialization"),
    "layerscale": (SCALED, 0, [0, 0, 0], "grows at initialization")}

# Where eps outgrows gradients: whose, their gamma, and the verdict: the rate times gradient over eps.
OUTGROWN = {
    "depth-mup-fixed-eps": (("Wq", "Wk", "Wv", "Wo", "W1", "W2"), 1, "trivial"),
    "megatron-depth-mup-uncompensated": (("Wq", "Wk", "Wv", "W1"), .5, "converges in x and f, not in h"),
    "gpt-2": (("Wq", "Wk", "Wv", "W1"), .5, "unstable in training"),
    "gpt-2-smaller-lr": (("Wq", "Wk", "Wv", "W1"), 1.5, "Depth-muP")}


def entry(name: str) -> NamedRecipe:
    return next(one for one in NAMED if one.name == name)


@pytest.mark.slow
def test_the_table_judges_each_recipe_on_its_own_block() -> None:
    require_table_by_hand(tuple(BY_HAND))


def test_the_table_judges_recipes_without_transformers(few_recipes: tuple[str, ...]) -> None:
    require_table_by_hand(few_recipes)


def require_table_by_hand(names: tuple[str, ...]) -> None:
    """No star, and nothing that is not judged: each line names the block that its verdict is of."""
    named = tp.named_recipes()
    assert set(named) == set(names) and not named.outside
    text = str(named)
    lines = {line.split()[0]: line for line in text.splitlines()}
    for name, (block, alpha, gammas, verdict) in {name: BY_HAND[name] for name in names}.items():
        found = named[name]
        assert (found.block, float(found.alpha), [float(g) for g in found.gammas.values()], found.called) == (
            block, alpha, gammas, verdict), name
        assert block in lines[name] and f"  {verdict}  " in lines[name]
        outgrown, gamma, charged = OUTGROWN.get(name, ((), 0, ""))
        assert (sorted(found.outgrown), found.called_in_charge) == (sorted(outgrown), charged), name
        assert lines[name].endswith(charged or "  -") and (
            f"with eps in charge of {', '.join(found.outgrown)}, from a depth on that is not known" in str(found)
        ) == bool(outgrown)
        for matrix in outgrown:
            init, rate, eps = (found.settings.of(matrix, setting) for setting in ("init", "lr", "eps"))
            moved = update_power(found.optimizer, found.alpha + init, -rate, -eps)  # the branch's over its own
            assert moved + init == sp.Rational(gamma) == found.settings.gamma(matrix)
    assert "*" not in text and "not judged" not in text and len(named.rows) == len(names)


def test_matrices_that_share_settings_are_said_together() -> None:
    named = tp.named_recipes()
    assert list(named["gpt-2"].groups) == [("Wq", "Wk", "Wv", "W1"), ("Wo", "W2")]
    assert list(named["deepnorm"].groups) == [("Wq", "Wk"), ("Wv", "Wo", "W1", "W2")]
    assert "alpha = 1/2, gamma = 0 of Wq, Wk, Wv, W1, gamma = -1/2 of Wo, W2" in str(named["gpt-2"])
    assert "W2: branch 1, init 0, lr 1" in str(named["fixup"]) and r"of W2} &= 0" in named["fixup"].latex()


def test_what_of_a_block_is_not_judged_is_said() -> None:
    named = tp.named_recipes()
    assert {name for name in named if not named[name].caveat} == {"sp", "depth-mup", "ode"}
    assert "gains of its norms" in named["completep"].caveat and named["completep"].caveat in str(named["completep"])
    assert "no power of L" in named["layerscale"].caveat and "n^(-1/2)" in named["rezero"].caveat
    with pytest.raises(KeyError):
        named["nothing"]


@pytest.mark.parametrize("name, said", [("layerscale", "trained multiplier"), ("fixup", "starts at zero"),
                                        ("rezero-adam", "starts at zero")])
def test_what_no_power_of_one_matrix_says_is_no_recipe_of_powers(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.recipe(name)


def test_what_starts_at_zero_has_a_program_and_no_scaling() -> None:
    named = tp.named_recipes()
    for name in ("fixup", "rezero"):
        with pytest.raises(ValueError, match="starts at zero"):
            named[name].scaling
    with pytest.raises(ValueError, match="the number a starts at zero"):
        named["rezero"].program
    assert "W2[t, l] @ z[t, l]" in str(named["fixup"].program) and named["ode"].program.matrices


def test_decay_of_named_recipes() -> None:
    """CompleteP's stays visible; Depth-muP's with a fixed decoupled decay dies out."""
    named = tp.named_recipes()
    assert named["completep"].decay == 0 and named["unit-scaling"].decay == 0
    assert named["depth-mup-fixed-eps"].decay == sp.Rational(1, 2) and named["sp"].decay is None
    assert [one for one in named["depth-mup-fixed-eps"].warnings if "W1, W2: weight decay dies out" in one]


@pytest.mark.parametrize("name", [name for name, (block, *_) in BY_HAND.items() if block == ONE])
def test_on_one_matrix_it_is_the_audit_of_its_powers(name: str) -> None:
    found = tp.named_recipes()[name]
    one = found.settings
    audited = tp.audit(one.branch, one.of("W", "lr"), one.optimizer, one.eps("W"), one.of("W", "init"),
                       one.decay_of("W"))
    assert (found.alpha, found.gamma, found.decay) == (audited.alpha, audited.gamma, audited.decay)
    assert found.verdict == audited.verdict and found.warnings == audited.warnings


def test_the_changes_are_the_settings_of_depth_mup() -> None:
    """GPT-2's with what is advised, put by hand, has alpha = 1/2 and both gammas 1/2."""
    changes, = tp.named_recipes()["gpt-2"].changes
    assert "Wq, Wk, Wv, W1: learning rate from 1 to L^(-1/2)" in changes
    assert "Wo, W2: learning rate from 1 to L^(-1)" in changes
    half, eps = sp.Rational(1, 2), {"L": "-1/2"}
    first, last = tp.Powers(lr={"L": "-1/2"}, eps=eps), tp.Powers(init={"L": "-1/2"}, lr={"L": -1}, eps={})
    found = settings_in_layers(tp.Parametrization(depth={"*": first, "last": last}), BLOCKS[LAYER], "adam")
    assert found.alpha == half and set(found.gammas.values()) == {half} and not any(map(found.outgrown, found.names))
    assert tp.named_recipes()["unit-scaling"].changes == ("it is Depth-muP: nothing to change",)


def repaired(name: str, settings: tp.Powers, **own: tp.Powers) -> RecipeAudit:
    """A recipe with other settings, and of some names others."""
    return audit_on_block(replace(entry(name), powers={"*": settings, **own}))


def rated(lr: object, init: object = 0, **more: object) -> tp.Powers:
    return tp.Powers(lr={"L": lr}, init={"L": init}, **{key: {"L": power} for key, power in more.items()})


def test_layerscale_is_repaired_by_what_is_said() -> None:
    """Its multiplier starts at L^(-1/2) and moves L^(-1/2) times as fast as matrices, whose rate goes like L^(-1/2)."""
    said, = tp.named_recipes()["layerscale"].changes
    for change in ("s: initial standard deviation from 1 to L^(-1/2)", "s: learning rate from 1 to L^(-1)",
                   "W1, W2: learning rate from 1 to L^(-1/2)"):
        assert change in said
    matrices = rated("-1/2", eps="-1/2", decay="1/2")
    found = repaired("layerscale", matrices, s=rated(-1, "-1/2", eps=0))
    assert (found.called, found.gamma, found.changes[0]) == (
        "Depth-muP", sp.Rational(1, 2), "it is Depth-muP: nothing to change")
    as_fast = repaired("layerscale", matrices, s=rated("-1/2", "-1/2", eps=0))
    assert as_fast.called == "unstable in training" and as_fast.gammas["s"] == 0


def test_rezero_is_repaired_by_what_is_said() -> None:
    said, = tp.named_recipes()["rezero-adam"].changes
    assert said == "for Depth-muP: change W1, W2, a: learning rate from 1 to L^(-1/2)"
    slower = rated("-1/2")
    assert repaired("rezero-adam", slower, a=slower).called == "Depth-muP"
    assert repaired("rezero-adam", slower, a=rated(-1)).called == "trivial"
    assert tp.named_recipes()["rezero"].changes == ("for Depth-muP: change a: initial value from 0 to L^(-1/2)",)


def test_fixup_with_other_rates() -> None:
    """A rate that grows with the depth is unstable, one that falls is trivial."""
    called = [repaired("fixup", rated(lr), W1=rated(lr, "-1/2")).called for lr in ("1/2", 0, "-1/2")]
    assert called == ["unstable in training", "ODE limit", "trivial"]


def test_the_powers_of_deepnorm_are_solved_from_its_principle() -> None:
    """Updates of gradient descent add up to order one over layers; stream and matrices share it equally: 1/4, -1/4."""
    share = sp.Symbol("share", real=True)
    shared = {"branch": tp.Powers(multiplier={"L": -share}), "*": tp.Powers(), "W[vo12]": tp.Powers(init={"L": -share})}
    found = settings_in_layers(tp.Parametrization(depth=shared), BLOCKS[POST_NORM], "sgd")
    solved, = sp.solve(found.alpha + found.gamma("Wo") - 1, share)
    given = set_on_block(entry("deepnorm"))
    assert (given.branch, given.of("Wo", "init")) == (-solved, -solved)


def test_norms_behind_branches_are_one_norm_at_the_end() -> None:
    """What ``BLOCKS`` takes the place of DeepNorm's block for: real networks, equal to rounding."""
    rng, n, depth = np.random.default_rng(0), 12, 5
    first, last = rng.standard_normal((2, depth, n, n)) / np.sqrt(n)

    def size(v: np.ndarray) -> np.floating:
        return np.sqrt(np.mean(v**2))

    x = rng.standard_normal(n)
    x /= size(x)
    z = x.copy()
    for a, b in zip(first, last):
        x = 3.0 * x + b @ np.tanh(a @ x)
        x /= size(x)
        z = z + size(z) * b @ np.tanh(a @ (z / size(z))) / 3.0
    assert np.allclose(x, z / size(z), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["muon", "muon-spectral", "muon-unit-rms", "megatron-muon-spectral",
                                  "megatron-muon-unit-rms-norm"])
def test_factors_of_muon_in_width_are_those_of_real_updates(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spectral norms of U V^T, U V^T of rank two, times the factor, at widths 32 and 128."""
    monkeypatch.setattr(table, "NAMED", (entry(name),))
    factor = entry(name).factor
    assert factor is not None
    norms = []
    for n in (32, 128):
        u, v = (np.linalg.qr(np.random.default_rng(seed).standard_normal((n, 2)))[0] for seed in (0, 1))
        norms.append(np.linalg.norm(u @ v.T, 2) * float(factor.subs({s: n for s in factor.free_symbols})))
    assert np.isclose(np.log(norms[1] / norms[0]) / np.log(4), float(width_of(factor)), atol=1e-12)
    assert (f"\n{name}: in width" in str(tp.named_recipes())) == (
        name in ("muon-unit-rms", "megatron-muon-spectral"))


def test_names_of_megatron_mean_the_opposite_of_ours() -> None:
    """Its spectral is our unit RMS but for a constant, its unit_rms_norm our spectral; both pairs say so."""
    factors = {name: entry(name).factor for name in BY_HAND if "muon-" in name}
    assert factors["megatron-muon-unit-rms-norm"] == factors["muon-spectral"]
    assert (factors["megatron-muon-spectral"] / factors["muon-unit-rms"]).is_number
    for ours, theirs in (("muon-spectral", "unit_rms_norm"), ("muon-unit-rms", "spectral")):
        other = "megatron-muon-" + theirs.replace("_", "-")
        assert "Megatron-LM calls this" in entry(ours).caveat and theirs in entry(ours).caveat
        assert f"it is {ours!r}" in entry(other).caveat and "opposite" in entry(other).caveat


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (block, *_) in BY_HAND.items()
                                  if block in (LAYER, POST_NORM, SCALED)])
def test_the_name_that_is_told_is_that_of_the_verdict(name: str) -> None:
    found = tp.named_recipes()[name]
    assert found.called == found.verdict.name
    assert found.verdict == tp.classify(found.scaling, BLOCKS[found.block])
