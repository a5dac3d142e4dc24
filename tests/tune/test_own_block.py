"""Named recipes on a transformer's layer, and on its MLP alone: slopes of real networks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.tune.own_block import RecipeAudit, audit_on_block, audit_on_mlp
from tpcalc.interpreters.dense import run_dense
from tpcalc.tune.named import NAMED, POST_NORM
from tpcalc.programs.indices import L, POSITIONS, T

JUDGED = ("gpt-2", "gpt-2-smaller-lr", "completep", "branch-only", "depth-mup-fixed-eps", "unit-scaling",
          "megatron-depth-mup-uncompensated", "deepnorm", "deepnorm-adam")
SEQUENCES = tp.Sequences([[[[1.0, 0.3], [0.4, 0.9]]]] * 2, [[[1.0, -1.0]]] * 2)


def slope(net: Any, found: RecipeAudit, task: Any, rate: float, depths: tuple[int, int], width: int, seeds: int
          ) -> float:
    """The power of L of what one small step changes of outputs, in geometric mean over networks."""
    moved = [np.mean([np.log(np.linalg.norm(np.diff(tp.train(
        net, task, tp.SGD(rate), found.scaling, depth, width=width, seed=s, method="dense").outputs[:2], axis=0)))
        for s in range(seeds)]) for depth in depths]
    return float((moved[1] - moved[0]) / np.log(depths[1] / depths[0]))


def of_a_small_step(found: RecipeAudit) -> float:
    """The largest power that a matrix alone has in f; where that grows beyond all, of which no power is known, that of
    all together."""
    alone = max(one.output for one in found.verdict.matrices.values())
    return float(found.verdict.exponents["change of f"] if alone == sp.oo else alone)


@pytest.mark.slow
@pytest.mark.parametrize("name", JUDGED)
def test_real_transformers_have_the_slope(name: str) -> None:
    """Layers of attention and an MLP, of DeepNorm with norms where it has them."""
    found = tp.named_recipes()[name]
    net = replace(found.net, norm_position="post") if found.block == POST_NORM else found.net
    assert abs(slope(net, found, SEQUENCES, 1e-4, (16, 64), 64, 16) - of_a_small_step(found)) < .15


@pytest.mark.slow
@pytest.mark.parametrize("name", [*JUDGED, "depth-mup", "ode"])
def test_real_mlps_have_the_slope(name: str) -> None:
    """An MLP behind a norm, whatever a recipe's own block is."""
    found = audit_on_mlp(name)
    measured = slope(found.net, found, tp.Task([1.0, 1.0], [1.0, 1.0]), 1e-3, (16, 128), 256, 3)
    assert abs(measured - of_a_small_step(found)) < .15


@pytest.mark.slow
@pytest.mark.parametrize("start, rate, expected", [
    ("-1/2", -1, 0), ("-1/2", "-1/2", .5), ("-1/2", "-3/2", 0), (-1, -1, 0)])
def test_real_multipliers_have_the_slope(start: Any, rate: Any, expected: float) -> None:
    """LayerScale repaired; with multipliers as fast as matrices; slower; and starting smaller."""
    entry = next(one for one in NAMED if one.name == "layerscale")
    found = audit_on_block(replace(entry, powers={
        "*": tp.Powers(lr={"L": "-1/2"}), "s": tp.Powers(init={"L": start}, lr={"L": rate})}))
    assert float(found.verdict.exponents["change of f"]) == expected
    measured = slope(found.net, found, tp.Task([1.0, 1.0], [1.0, 1.0]), 1e-3, (16, 128), 64, 24)
    assert abs(measured - expected) < .15


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["relu", "gelu"])
@pytest.mark.parametrize("alpha, expected", [(0, .5), (.25, .25)])
def test_real_streams_behind_two_norms_grow_like_powers(phi: str, alpha: float, expected: float) -> None:
    """Attention and an MLP, each behind a norm: at the first step, in root mean square over the last layer."""
    net, scale = tp.Transformer(positions=2, phi=phi), tp.DepthScaling(alpha, 1)
    counted = tp.classify(scale, net)
    assert (counted.name, float(counted.exponents["x at initialization"])) == ("grows at initialization", expected)
    sizes = []
    for depth in (32, 256):
        program = tp.program(net, tp.SGD(1.0), scale)
        sizes.append(np.mean([np.log(np.sqrt(np.mean(np.square(run_dense(
            program, {T: 1, L: depth, POSITIONS: 2}, {"xi": np.ones((1, 2)), "y": np.ones((1, 2))}, 32, seed,
            keep=("x",)).stack("x", 0, depth))))) for seed in range(8)]))
    assert abs((sizes[1] - sizes[0]) / np.log(8) - expected) < .1


def test_behind_norms_branches_of_order_one_grow_and_do_not_explode() -> None:
    verdicts = [audit_on_mlp("sp").verdict, tp.named_recipes()["mup"].verdict]
    assert [(one.name, str(one.exponents["x at initialization"])) for one in verdicts] == [
        ("grows at initialization", "1/2")] * 2


@pytest.mark.parametrize("name, said", [("fixup", "starts at zero"), ("nothing", "name: got 'nothing'")])
def test_what_no_power_says_is_refused(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        audit_on_mlp(name)
