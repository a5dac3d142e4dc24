"""Blocks at infinite depth against particles: the evidence for the action principle that takes minutes."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from support.references.extrapolated import extrapolated, one_round

import tpcalc as tp

h = sp.Symbol("h", real=True)
SINE = sp.sin(h + sp.Rational(1, 2))
TASK = tp.Task(np.array([[1, 0], [.5, .8], [-.6, .7], [1.1, -.4]])[:, None], np.array([1, -.7, .5, 1.2])[:, None, None])
OPT, SCALE = tp.SGD(1.0), tp.DepthScaling(0.5, 0.5)
DEPTH = 16  # and twice, and four times that
NETS = {"gated": (tp.ResNet(SINE, "glu"), 24), "RMS norm, two matrices": (tp.ResNet(SINE, "mlp", norm="rms"), 12),
        "three matrices": (tp.ResNet(SINE, "mlp", matrices=3), 12)}  # with numbers of rounds


@pytest.mark.slow
def test_blocks_against_particles(capsys: pytest.CaptureFixture[str]) -> None:
    """f_1, f_2, f_3 in standard errors, from depths 16, 32, 64 and 4096 and 1024 particles a batch."""
    scores = []
    for name, (net, rounds) in NETS.items():
        values, errors = extrapolated([one_round(net, TASK, OPT, SCALE, DEPTH, seed) for seed in range(rounds)])
        limit = tp.train(net, TASK, OPT, SCALE, depth=tp.oo).outputs.ravel()[1:]
        scores.append((values - limit) / errors)
        with capsys.disabled():
            for k, numbers in enumerate(zip(limit, values, errors, scores[-1])):
                print("\n{}: f_{} limit {:.4f}, particles {:.4f} +- {:.4f}, z {:.1f}".format(name, k + 1, *numbers),
                      end="")
    z = np.array(scores)
    with capsys.disabled():
        print(f"\nrms z {np.sqrt(np.mean(z**2)):.2f}, largest {np.max(np.abs(z)):.1f}")
    assert np.sqrt(np.mean(z**2)) < 1.5 and np.max(np.abs(z)) < 4


def test_extrapolation_and_inputs() -> None:
    """Two coordinates in one are one coordinate of their length; a linear network's limit is known."""
    task = tp.Task(TASK.inputs[:, :, :1] * [0.6, 0.8], TASK.targets)
    rounds = [one_round(tp.ResNet(), task, OPT, SCALE, 4, seed) for seed in range(2)]
    exact = [tp.train(tp.ResNet(), tp.Task(TASK.inputs[:, :, :1], TASK.targets), OPT, SCALE, depth).outputs.ravel()[1:]
             for depth in (4, 8, 16)]
    values, errors = extrapolated(rounds)
    assert np.max(np.abs(values - np.array([1, -6, 8]) / 3 @ exact) / errors) < 4
