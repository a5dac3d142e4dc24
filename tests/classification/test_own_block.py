"""Named recipes on the MLP of a transformer: slopes of real networks."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.classification.own_block import audit_on_block, audit_on_mlp
from tpcalc.classification.recipe import named
from tpcalc.parametrizations.recipes import POST_NORM

pytestmark = pytest.mark.slow

JUDGED = ("gpt-2", "gpt-2-smaller-lr", "completep", "branch-only", "depth-mup-fixed-eps", "unit-scaling",
          "megatron-depth-mup-uncompensated", "depth-mup", "ode", "deepnorm", "deepnorm-adam")


@pytest.mark.parametrize("name", JUDGED)
def test_real_networks_have_the_slope(name: str) -> None:
    """The change of f in one small step on a repeated input, at depths 16 and 128 and width 300, over seeds."""
    found = audit_on_mlp(name) if named(name).block != POST_NORM else audit_on_block(named(name))
    task, depths, moved = tp.Task([1.0, 1.0], [1.0, 1.0]), (16, 128), []
    for depth in depths:
        runs = [tp.train(found.net, task, tp.SGD(1e-3), found.scaling, depth, width=300, seed=s).outputs.ravel()
                for s in range(3)]
        moved.append(np.mean([abs(f[1] - f[0]) / abs(1 - f[0]) for f in runs]))
    slope = np.log(moved[1] / moved[0]) / np.log(8)
    assert abs(slope - float(found.verdict.exponents["change of f"])) < .15


def test_behind_a_norm_a_branch_of_order_one_grows_and_does_not_explode() -> None:
    verdict = audit_on_mlp("sp").verdict
    assert (verdict.name, str(verdict.exponents["x at initialisation"])) == ("grows at initialisation", "1/2")


@pytest.mark.parametrize("name, said", [("fixup", "a block of m >= 2 matrices"), ("nothing", "name: 'nothing' given")])
def test_what_no_power_says_is_refused(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        audit_on_mlp(name)
