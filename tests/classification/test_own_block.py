"""Named recipes on the MLP of a transformer: powers by hand, slopes of real networks."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.classification.own_block import MLP, audit_on_mlp

pytestmark = pytest.mark.slow

# alpha, gamma of W1 and of W2, by hand from the sources: Adam's update is the rate where its gradient, L^-alpha over
# the matrix's own initial size, is above eps, else the rate times gradient over eps; gamma is relative to that size
BY_HAND = {"gpt-2": (.5, .5, -.5, "unstable in training"), "gpt-2-smaller-lr": (.5, 1.5, .5, "Depth-muP"),
           "completep": (1, 0, 0, "ODE limit"), "branch-only": (.5, 0, 0, "unstable in training"),
           "depth-mup-fixed-eps": (.5, 1, 1, "trivial"), "unit-scaling": (.5, .5, .5, "Depth-muP"),
           "megatron-depth-mup-uncompensated": (1.5, .5, -.5, "converges in x and f, not in h"),
           "depth-mup": (.5, .5, .5, "Depth-muP"), "ode": (1, 0, 0, "ODE limit")}


@pytest.mark.parametrize("name", BY_HAND)
def test_exponents_are_those_by_hand_and_real_networks_have_the_slope(name: str) -> None:
    """The change of f in one small step on a repeated input, at depths 16 and 128 and width 300, over seeds."""
    found = audit_on_mlp(name)
    alpha, first, second, verdict = BY_HAND[name]
    assert found.verdict.name == verdict
    assert [float(found.scaling.alpha), *(float(found.scaling.update_exponent(m)) for m in ("W1", "W2"))] == [
        alpha, first, second]
    task, depths, moved = tp.Task([1.0, 1.0], [1.0, 1.0]), (16, 128), []
    for depth in depths:
        runs = [tp.train(MLP, task, tp.SGD(1e-3), found.scaling, depth, width=300, seed=s).outputs.ravel()
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
