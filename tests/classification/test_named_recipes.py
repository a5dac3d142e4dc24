"""Named recipes on their own blocks: powers and verdicts by hand, and what is said of those that are not judged."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.classification.own_block import BLOCKS, audit_on_block, width_of
from tpcalc.classification.resolved import gamma_of
from tpcalc.parametrizations import DepthChoices
from tpcalc.parametrizations.recipes import MLP, NAMED, ONE, POST_NORM

# block, alpha, gamma by matrix and verdict, by hand from the sources: Adam's update is the rate where its gradient,
# L^-alpha over the matrix's own initial size, is above eps, else the rate times gradient over eps; Muon's is the rate
BY_HAND = {
    "sp": (ONE, 0, [0], "explodes at initialisation"), "depth-mup": (ONE, .5, [.5], "Depth-muP"),
    "ode": (ONE, 1, [0], "ODE limit"), "mup": (MLP, 0, [0, 0], "grows at initialisation"),
    "branch-only": (MLP, .5, [0, 0], "unstable in training"), "depth-mup-fixed-eps": (MLP, .5, [1, 1], "trivial"),
    "completep": (MLP, 1, [0, 0], "ODE limit"), "megatron-depth-mup": (MLP, 1, [0, 0], "ODE limit"),
    "megatron-depth-mup-uncompensated": (MLP, 1.5, [.5, -.5], "converges in x and f, not in h"),
    "gpt-2": (MLP, .5, [.5, -.5], "unstable in training"), "gpt-2-smaller-lr": (MLP, .5, [1.5, .5], "Depth-muP"),
    "unit-scaling": (MLP, .5, [.5, .5], "Depth-muP"), "deepnorm": (POST_NORM, .75, [.25, .25], "ODE limit"),
    "deepnorm-adam": (POST_NORM, .75, [-.25, -.25], "unstable in training"),
    **dict.fromkeys(("muon", "muon-spectral", "muon-unit-rms"), (MLP, 0, [0, 0], "grows at initialisation"))}


def test_the_table_judges_each_recipe_on_its_own_block() -> None:
    """No star: each line names the block that its verdict is of, or says why there is none."""
    named = tp.named_recipes()
    assert set(named) == set(BY_HAND) and set(named.outside) == {"fixup", "rezero", "layerscale"}
    text = str(named)
    lines = {line.split()[0]: line for line in text.splitlines()}
    for name, (block, alpha, gammas, verdict) in BY_HAND.items():
        found = named[name]
        assert (found.block, float(found.alpha), [float(g) for g in found.gammas.values()], found.verdict.name) == (
            block, alpha, gammas, verdict), name
        assert block in lines[name] and lines[name].endswith(verdict)
    assert "*" not in text and all("not judged: " in lines[name] for name in named.outside)
    assert len(named.rows) == len(NAMED)


def test_what_of_a_block_is_not_judged_is_said() -> None:
    named = tp.named_recipes()
    assert {name for name in named if not named[name].caveat} == {"sp", "depth-mup", "ode"}
    assert "attention is not" in named["completep"].caveat and named["completep"].caveat in str(named["completep"])
    with pytest.raises(KeyError):
        named["fixup"]
    with pytest.raises(ValueError, match="trained multiplier for every coordinate"):
        tp.recipe("layerscale")


def test_decay_of_named_recipes() -> None:
    """CompleteP's stays visible; Depth-muP's with a fixed decoupled decay dies out."""
    named = tp.named_recipes()
    assert named["completep"].decay == 0 and named["unit-scaling"].decay == 0
    assert named["depth-mup-fixed-eps"].decay == sp.Rational(1, 2) and named["sp"].decay is None
    assert [one for one in named["depth-mup-fixed-eps"].warnings if one.startswith("W1, W2: weight decay dies out")]


@pytest.mark.parametrize("name", [name for name, (block, *_) in BY_HAND.items() if block == ONE])
def test_on_one_matrix_it_is_the_audit_of_its_powers(name: str) -> None:
    found = tp.named_recipes()[name]
    one, = found.choices.values()
    audited = tp.audit(one.branch, one.lr, one.optimizer, one.eps, one.init, one.weight_decay)
    assert (found.alpha, found.gamma, found.decay) == (audited.alpha, audited.gamma, audited.decay)
    assert found.verdict == audited.verdict and found.warnings == audited.warnings


def test_the_changes_are_the_settings_of_depth_mup() -> None:
    """GPT-2's with what is advised, put by hand, has alpha = 1/2 and both gammas 1/2."""
    changes, = tp.named_recipes()["gpt-2"].changes
    assert "W1: learning rate from 1 to L^(-1/2)" in changes and "W2: learning rate from 1 to L^(-1)" in changes
    half, first, last = sp.Rational(1, 2), DepthChoices(0, "-1/2", eps="-1/2"), DepthChoices(0, -1, eps=0, init="-1/2")
    assert gamma_of(first, half) == gamma_of(last, half) == half
    assert tp.named_recipes()["unit-scaling"].changes == ("it is Depth-muP: nothing to change",)


def test_the_powers_of_deepnorm_are_solved_from_its_principle() -> None:
    """Updates of gradient descent add up to order one over layers; stream and matrices share it equally: 1/4, -1/4."""
    share = sp.Symbol("share", real=True)
    one = DepthChoices(-share, 0, "sgd", init=-share)
    alpha = -one.branch - 2 * one.init
    solved, = sp.solve(alpha + gamma_of(one, alpha) - 1, share)
    entry = next(one for one in NAMED if one.name == "deepnorm")
    assert entry.choices is not None and (entry.choices.branch, entry.choices.init) == (-solved, -solved)


def test_norms_behind_homogeneous_branches_are_one_norm_at_the_end() -> None:
    """What ``BLOCKS`` takes the place of DeepNorm's block for: real networks, equal to rounding."""
    rng, n, depth = np.random.default_rng(0), 12, 5
    first, last = rng.standard_normal((2, depth, n, n)) / np.sqrt(n)
    x = rng.standard_normal(n)
    x /= np.sqrt(np.mean(x**2))
    z = x.copy()
    for a, b in zip(first, last):
        x = 3.0 * x + b @ np.maximum(a @ x, 0)
        x /= np.sqrt(np.mean(x**2))
        z = z + b @ np.maximum(a @ z, 0) / 3.0
    assert np.allclose(x, z / np.sqrt(np.mean(z**2)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["muon", "muon-spectral", "muon-unit-rms"])
def test_factors_of_muon_in_width_are_those_of_real_updates(name: str) -> None:
    """Spectral norms of U V^T, U V^T of rank two, times the factor, at widths 32 and 128."""
    factor = next(one.factor for one in NAMED if one.name == name)
    assert factor is not None
    norms = []
    for n in (32, 128):
        u, v = (np.linalg.qr(np.random.default_rng(seed).standard_normal((n, 2)))[0] for seed in (0, 1))
        norms.append(np.linalg.norm(u @ v.T, 2) * float(factor.subs({s: n for s in factor.free_symbols})))
    assert np.isclose(np.log(norms[1] / norms[0]) / np.log(4), float(width_of(factor)), atol=1e-12)
    assert (f"\n{name}: in width" in str(tp.named_recipes())) == (name == "muon-unit-rms")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (block, *_) in BY_HAND.items() if block != ONE])
def test_terms_that_are_counted_once_say_what_those_of_the_point_say(name: str) -> None:
    found = audit_on_block(next(one for one in NAMED if one.name == name))
    assert found.verdict == tp.classify(found.scaling, BLOCKS[found.block])
