"""A deep linear network without skips, read from its program, against its mean-field equations.

The setting is that of Pehlevan-Group/dmft_wide_networks, Linear_DMFT.ipynb: five hidden layers, all weights trained,
learning rate 0.025, richness 1.5; here with one sample.
"""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.interpreters import read_program_coefficients
from tpcalc.width.sizes import perceptron

HIDDEN, RATE, RICHNESS = 5, 0.025, 1.5


def program_outputs(steps: int, n: float = 1.0) -> np.ndarray:
    """f over the richness; powers of n cancel in muP."""
    program = perceptron(tp.width_recipe("muP", HIDDEN + 1), "linear", tp.SGD(RATE))
    data = {"xi": 1.0, "y": np.full(steps, RICHNESS), "n": n}
    return read_program_coefficients(program, {"T": steps}, data).series("f") / RICHNESS


def mean_field(steps: int, rounds: int) -> np.ndarray:
    """The same from kernels: in each layer h = u + (A - rate H chi) g and g = r + (B - rate G chi) h, with u of
    covariance H below, r of covariance G above, A and B the responses of h below and of g above, and chi = f - target.
    What a round says of late steps is used when what it rests on has settled."""
    constant, none, past = np.ones((steps, steps)), np.zeros((steps, steps)), np.tri(steps, k=-1)
    H, G = [constant] * (HIDDEN + 1), [constant] * (HIDDEN + 2)
    A, B = [none] * (HIDDEN + 1), [none] * (HIDDEN + 1)
    chi, f = np.zeros(steps), np.zeros(steps)
    for k in range(rounds):
        chi = np.where(np.arange(steps) <= k // 5, f - RICHNESS, 0.0)
        new = [list(kind) for kind in (H, G, A, B)]
        for layer in range(1, HIDDEN + 1):
            up = A[layer - 1] - RATE * past * H[layer - 1] * chi
            down = B[layer] - RATE * past * G[layer + 1] * chi
            both = np.linalg.inv(np.eye(steps) - up @ down)
            h_u, h_r, g_u = both, both @ up, down @ both
            g_r = np.eye(steps) + down @ h_r
            new[0][layer] = h_u @ H[layer - 1] @ h_u.T + h_r @ G[layer + 1] @ h_r.T
            new[1][layer] = g_u @ H[layer - 1] @ g_u.T + g_r @ G[layer + 1] @ g_r.T
            new[2][layer], new[3][layer - 1] = h_r, g_u
        new[2][0], new[3][HIDDEN] = none, none
        H, G, A, B = new
        f = A[HIDDEN].sum(axis=1) - RATE * (past * H[HIDDEN]) @ chi  # the read-out is constant but for its updates
    return f / RICHNESS


def test_a_program_without_skips_is_its_mean_field() -> None:
    steps = 16
    found = program_outputs(steps)
    np.testing.assert_allclose(found, mean_field(steps, 160), rtol=0, atol=1e-11)
    np.testing.assert_allclose(program_outputs(4, n=7.0), found[:4], rtol=0, atol=1e-13)
    assert found[-1] > 0.99


def real_outputs(steps: int, width: int, seed: int) -> np.ndarray:
    """f over the richness of a real network, with its own backward pass."""
    rng = np.random.default_rng(seed)
    first, last = rng.normal(size=(2, width))
    matrices = list(rng.normal(size=(HIDDEN - 1, width, width)) / np.sqrt(width))
    outputs = []
    for _ in range(steps):
        signals = [first]
        for matrix in matrices:
            signals.append(matrix @ signals[-1])
        f = last @ signals[-1] / width
        outputs.append(f / RICHNESS)
        gradient = (f - RICHNESS) * last
        last = last - RATE * (f - RICHNESS) * signals[-1]
        for k in reversed(range(HIDDEN - 1)):
            before = matrices[k].T @ gradient
            matrices[k] = matrices[k] - RATE * np.outer(gradient, signals[k]) / width
            gradient = before
        first = first - RATE * gradient
    return np.array(outputs)


def test_real_networks_come_to_it() -> None:
    real = np.array([real_outputs(12, 256, seed) for seed in range(16)])
    far = np.abs(real.mean(0) - program_outputs(12)) / (real.std(0) / 4)
    assert np.all(far < 4) and np.all(real.std(0) < 0.2)


@pytest.mark.slow
def test_a_hundred_steps() -> None:
    np.testing.assert_allclose(program_outputs(100), mean_field(100, 600), rtol=0, atol=1e-9)
