"""A deep linear network without skips, read from its programs, against its mean-field equations and real networks.

The setting is that of Pehlevan-Group/dmft_wide_networks, Linear_DMFT.ipynb: five hidden layers, all weights trained,
learning rate 0.025, richness 1.5, a hundred steps on twenty inputs of dimension 40 whose targets are all -1; and one
sample.
"""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.interpreters import read_program_coefficients
from tpcalc.training.deep_linear import deep_linear
from tpcalc.width.sizes import perceptron

HIDDEN, RATE, RICHNESS = 5, 0.025, 1.5


def of_one_sample(steps: int, n: float = 1.0) -> np.ndarray:
    """f over the richness, by the program of a perceptron; powers of n cancel in muP."""
    program = perceptron(tp.width.width_recipe("muP", HIDDEN + 1), "linear", tp.SGD(RATE))
    data = {"xi": 1.0, "y": np.full(steps, RICHNESS), "n": n}
    return read_program_coefficients(program, {"T": steps}, data).series("f") / RICHNESS


def batch(samples: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, one a row, of squared length one on average; and targets."""
    inputs = np.random.default_rng(0).normal(size=(samples, dimension)) / np.sqrt(dimension)
    return inputs, -np.ones(samples)


ONE, BATCH = (np.ones((1, 1)), np.ones(1)), batch(20, 40)


def of_modes(steps: int, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """f over the richness, (steps, samples), by the program of a batch in its modes."""
    rotation, sizes, _ = np.linalg.svd(inputs)
    sizes = np.pad(sizes, (0, len(targets) - len(sizes)))
    data = {"xi": sizes, "y": np.broadcast_to(RICHNESS * rotation.T @ targets, (steps, len(targets)))}
    run = read_program_coefficients(deep_linear(tp.SGD(RATE)), {"T": steps, "L": HIDDEN, "B": len(targets)}, data)
    return run.series("f") @ rotation.T / RICHNESS


def mean_field(steps: int, inputs: np.ndarray, targets: np.ndarray, rounds: int) -> np.ndarray:
    """The same from kernels: in each layer h = u + (A - rate H chi) g and g = r + (B - rate G chi) h, with u of
    covariance H below, r of covariance G above, A and B the responses of h below and of g above, and chi the errors
    over their number. H, u and h are of steps and samples, G, r and g of steps.
    What a round says of late steps is used when what it rests on has settled."""
    count = len(inputs)
    rows, earlier = steps * count, np.repeat(np.tri(steps, k=-1), count, axis=0)  # (t, i) before s
    each = np.kron(np.eye(steps), np.ones(count))                                 # s of (s, j)
    start, constant = np.kron(np.ones((steps, steps)), inputs @ inputs.T), np.ones((steps, steps))
    H, G = [start] * (HIDDEN + 1), [constant] * (HIDDEN + 2)
    A, B = [np.zeros((rows, steps))] * (HIDDEN + 1), [np.zeros((steps, rows))] * (HIDDEN + 1)
    f = np.zeros(rows)
    for k in range(rounds):
        chi = np.where(np.arange(rows) // count <= k // 5, f - RICHNESS * np.tile(targets, steps), 0.0) / count
        new = [list(kind) for kind in (H, G, A, B)]
        for layer in range(1, HIDDEN + 1):
            up = A[layer - 1] - RATE * earlier * ((H[layer - 1] * chi) @ each.T)
            down = B[layer] - RATE * ((np.tri(steps, k=-1) * G[layer + 1]) @ each) * chi
            h_u = np.linalg.inv(np.eye(rows) - up @ down)
            h_r, g_u = h_u @ up, down @ h_u
            g_r = np.eye(steps) + down @ h_r
            new[0][layer] = h_u @ H[layer - 1] @ h_u.T + h_r @ G[layer + 1] @ h_r.T
            new[1][layer] = g_u @ H[layer - 1] @ g_u.T + g_r @ G[layer + 1] @ g_r.T
            new[2][layer], new[3][layer - 1] = h_r, g_u
        H, G, A, B = new
        f = A[HIDDEN].sum(axis=1) - RATE * (earlier * ((H[HIDDEN] * chi) @ each.T)).sum(axis=1)
    return f.reshape(steps, count) / RICHNESS


def real_outputs(steps: int, inputs: np.ndarray, targets: np.ndarray, width: int, seed: int) -> np.ndarray:
    """f over the richness, (steps, samples), of a real network, with its own backward pass."""
    rng, count = np.random.default_rng(seed), len(targets)
    first, last = rng.normal(size=(inputs.shape[1], width)), rng.normal(size=width)
    matrices = list(rng.normal(size=(HIDDEN - 1, width, width)) / np.sqrt(width))
    outputs = []
    for _ in range(steps):
        signals = [inputs @ first]
        for matrix in matrices:
            signals.append(signals[-1] @ matrix.T)
        f = signals[-1] @ last / width
        outputs.append(f / RICHNESS)
        chi = (f - RICHNESS * targets) / count
        gradient = np.outer(chi, last)
        last = last - RATE * chi @ signals[-1]
        for k in reversed(range(HIDDEN - 1)):
            before = gradient @ matrices[k]
            matrices[k] = matrices[k] - RATE * gradient.T @ signals[k] / width
            gradient = before
        first = first - RATE * inputs.T @ gradient
    return np.array(outputs)


def far(limit: np.ndarray, width: int, seeds: int) -> np.ndarray:
    """How far means of real networks are, by steps, in errors: of chance, and of a bias of a few 1 / width."""
    real = np.array([real_outputs(len(limit), *BATCH, width, seed) for seed in range(seeds)]).mean(axis=2)
    error = real.std(axis=0, ddof=1) / np.sqrt(seeds) + 4.0 / width
    found: np.ndarray = np.abs(real.mean(axis=0) - limit.mean(axis=1)) / error
    return found


def test_a_program_without_skips_is_its_mean_field() -> None:
    steps = 16
    found = of_one_sample(steps)
    np.testing.assert_allclose(found, mean_field(steps, *ONE, 160)[:, 0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(of_one_sample(4, n=7.0), found[:4], rtol=0, atol=1e-13)
    np.testing.assert_allclose(of_modes(steps, *ONE)[:, 0], found, rtol=0, atol=1e-12)
    assert found[-1] > 0.99


@pytest.mark.parametrize("opt", [tp.SGD((0.1, 0.2, 0.05, 0.1)), tp.SGD(0.1, momentum=0.5),
                                 tp.SGD(0.1, weight_decay=0.3)])
def test_schedules_momentum_and_decay(opt: tp.SGD) -> None:
    rates = {"eta": opt.schedule(4)} if isinstance(opt.lr, tuple) else {}
    one = read_program_coefficients(perceptron(tp.width.width_recipe("muP", 3), "linear", opt), {"T": 4},
                                    {"xi": 0.8, "y": np.ones(4), "n": 1.0, **rates})
    same = read_program_coefficients(deep_linear(opt), {"T": 4, "L": 2, "B": 1},
                                     {"xi": [0.8], "y": np.ones((4, 1)), **rates})
    np.testing.assert_allclose(same.series("f")[:, 0], one.series("f"), rtol=0, atol=1e-14)


def test_updates_that_are_no_sums_are_refused() -> None:
    with pytest.raises(ValueError, match="^opt: .* expected a tp.SGD"):
        deep_linear(tp.Adam(0.1))  # type: ignore[arg-type]


@pytest.mark.parametrize("dimension", [2, 5])
def test_a_batch_is_its_mean_field(dimension: int) -> None:
    """Sample by sample there, mode by mode here; more samples than dimensions, and fewer."""
    data = batch(3, dimension)
    np.testing.assert_allclose(of_modes(10, *data), mean_field(10, *data, 100), rtol=0, atol=1e-11)


def test_real_networks_come_to_it() -> None:
    real = np.array([real_outputs(12, *ONE, 256, seed)[:, 0] for seed in range(16)])
    away = np.abs(real.mean(0) - of_modes(12, *ONE)[:, 0]) / (real.std(0) / 4)
    assert np.all(away < 4) and np.all(real.std(0) < 0.2)


def test_real_networks_on_the_batch() -> None:
    limit = of_modes(30, *BATCH)
    assert np.all(far(limit, 256, 8) < 3) and np.mean(limit[-1]) < -0.3


@pytest.mark.slow
def test_a_hundred_steps() -> None:
    np.testing.assert_allclose(of_one_sample(100), mean_field(100, *ONE, 600)[:, 0], rtol=0, atol=1e-9)


@pytest.mark.slow
def test_the_batch_of_twenty_is_its_mean_field() -> None:
    np.testing.assert_allclose(of_modes(25, *BATCH), mean_field(25, *BATCH, 200), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_the_whole_notebook() -> None:
    """A hundred steps on twenty samples: the loss of a real network of the notebook's width, and narrower ones."""
    limit = of_modes(100, *BATCH)
    wide = real_outputs(100, *BATCH, 2200, 0)
    loss, measured = (np.mean((outputs - BATCH[1])**2, axis=1) for outputs in (limit, wide))
    assert np.max(np.abs(measured - loss)) < 0.03 and loss[50] < 0.1
    assert np.all(far(limit, 512, 8) < 3)
