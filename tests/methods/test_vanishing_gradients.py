"""Gradients that vanish at infinite width alone, with optimizers that move as far along a fluctuation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.methods.normalized import require_gradients
from tpcalc.optimizers.sign_ambiguity import depends_on_sign

SCALE = tp.DepthScaling()
MOVING = [tp.SignSGD(0.1), tp.Lion(0.1), tp.Adam(0.1), tp.Adam(0.1, eps=1e-8), tp.AdamW(0.1, eps=1e-3),
          tp.Clipped(tp.SignSGD(0.1), 1.0)]
FOLLOWING = [tp.SGD(0.1), tp.SGD(0.1, momentum=0.9), tp.Adam(0.1, eps=0.05), tp.Clipped(tp.SGD(0.1), 1.0)]
REMEMBERING = [tp.Lion(0.1), tp.Adam(0.1), tp.AdamW(0.1), tp.Clipped(tp.Adam(0.1), 1.0),
               tp.NormalizedSGD(0.1, momentum=0.5)]
PARTICLES = tp.methods.Particles(samples=512)


def trained(net: Any, targets: list[float], opt: Any, **more: Any) -> tp.Run:
    return tp.train(net, tp.Task([1.0, 0.5, 0.3][:len(targets)], targets), opt, SCALE, **{"depth": 2, **more})


@pytest.mark.parametrize("opt", MOVING, ids=repr)
@pytest.mark.parametrize("phi", ["linear", "tanh"])
def test_no_answer_is_a_mean_of_random_signs(opt: Any, phi: str) -> None:
    with pytest.raises(tp.Divergence, match="at step 0 all loss derivatives vanish at infinite width|is not finite"):
        trained(tp.ResNet(phi), [0.0, 1.0], opt, method=PARTICLES)  # with eps = 0 an exact 0 is 0/0
    assert trained(tp.ResNet(phi), [1.0, 0.0], opt, method=PARTICLES).width is None  # the last update nobody reads
    assert trained(tp.ResNet(phi), [0.0, 1.0], opt, width=16).width == 16


def test_networks_of_every_width_go_one_way_or_the_other() -> None:
    """What networks do is no number: their spread is that of a sign, and does not fall with the width."""
    spreads = []
    for width in (64, 1024):
        found = np.array([trained(tp.ResNet(), [0.0, 1.0], tp.SignSGD(0.3), width=width, method=tp.methods.Conditioned(
            seed=seed)).outputs[:, 0, 0] for seed in range(24)])
        assert np.all(np.sign(found[:, 0]) == -np.sign(found[:, 1] - found[:, 0] / 2))
        spreads.append(np.std(found[:, 1] - found[:, 0] / 2))
    assert spreads[1] > 0.7 * spreads[0]


@pytest.mark.parametrize("opt", FOLLOWING, ids=repr)
def test_updates_that_follow_their_gradients_are_taken(opt: Any) -> None:
    run = trained(tp.ResNet("tanh"), [0.0, 1.0], opt, method=PARTICLES)
    assert abs(run.outputs[1, 0, 0]) < 0.05


@pytest.mark.parametrize("opt", [tp.SignSGD(0.1), tp.NormalizedSGD(0.1), *REMEMBERING], ids=repr)
def test_what_is_remembered_is_followed(opt: Any) -> None:
    """Zero loss derivatives at the second step: with a memory nothing is decided there."""
    problem = tp.Problem(tp.ResNet(), tp.Task([1.0, 0.5, 0.3], [1.0, 1.0, 1.0]), opt, SCALE, 2)
    outputs = problem.task.targets + np.array([1.0, 0.0, 1.0])[:, None, None]
    if opt in REMEMBERING:
        return require_gradients(problem, outputs, 0.0)
    with pytest.raises(tp.Divergence, match="at step 1 all loss derivatives vanish"):
        require_gradients(problem, outputs, 0.0)


def test_first_positions_of_causal_attention_have_no_choice() -> None:
    """Queries and keys have a gradient where one comes from later positions; without a mask from any."""
    opt = tp.SignSGD(0.1)
    inputs, targets = np.random.default_rng(0).normal(size=(2, 1, 2, 2)), np.array([[[1.0, 0.0]], [[1.0, 1.0]]])
    net = tp.Transformer(head_dim=1, positions=2, mlp=None)
    with pytest.raises(tp.Divergence, match="all loss derivatives after the first position vanish"):
        tp.train(net, tp.Sequences(inputs, targets), opt, SCALE, 1, method=PARTICLES)
    for one, y in ((net, targets[..., ::-1]), (replace(net, causal=False), targets)):
        assert tp.train(one, tp.Sequences(inputs, y), opt, SCALE, 1, method=PARTICLES).width is None


@pytest.mark.parametrize("opt", [tp.SignSGD((0.0, 0.1)), tp.Muon((0.0, 0.1))], ids=repr)
def test_steps_of_rate_0_move_nothing(opt: Any) -> None:
    run = trained(tp.ResNet("tanh"), [0.0, 1.0], opt, method=PARTICLES)
    assert abs(run.outputs[1, 0, 0]) < 0.05
    net = tp.Transformer(head_dim=1, positions=2, mlp=None)
    task = tp.Sequences(np.random.default_rng(0).normal(size=(2, 1, 2, 2)), np.zeros((2, 1, 2)))
    assert tp.train(net, task, opt, SCALE, 1, method=PARTICLES).width is None


def test_infinite_depth_says_the_same() -> None:
    method = tp.methods.CommonDraws(0.1, 1.0, 256, coarsest=2)
    with pytest.raises(tp.Divergence, match="at step 0 all loss derivatives vanish"):
        trained(tp.ResNet("tanh"), [0.0, 1.0], tp.SignSGD(0.1), depth=tp.oo, method=method)


def test_how_much_a_sign_decides() -> None:
    assert [depends_on_sign(opt, 1e-3) for opt in (tp.SGD(), tp.SignSGD(), tp.Lion(), tp.Adam())] == [0.002, 2, 2, 2]
    assert abs(depends_on_sign(tp.Adam(eps=1e-3), 1e-3) - 1) < 1e-9  # g / (|g| + eps)
    assert depends_on_sign(tp.Muon(momentum=0.5), 1e-3) == 2
    assert abs(depends_on_sign(tp.Muon(momentum=0.5), 1e-3, 2) - 0.008) < 1e-12
    first, second = 0.9 * 0.1, 0.999 * 0.001  # of moving averages of 1 and g, bias-corrected
    mean, root = first + 0.1 * np.array([1e-3, -1e-3]), np.sqrt(second + 0.001 * 1e-6)
    expected = (mean[0] - mean[1]) / (1 - 0.9**2) / (root / np.sqrt(1 - 0.999**2))
    assert abs(depends_on_sign(tp.Adam(), 1e-3, 1) - expected) < 1e-9
