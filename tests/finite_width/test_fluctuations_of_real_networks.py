"""Means and covariances of real networks, extrapolated from two widths, against what is computed at leading order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from support.plain.many_networks import outputs

WIDTHS, NETWORKS = (32, 64), 4000
LOSSES = ("mse", "logistic", "softmax")


def problem(seed: int) -> tuple[tp.ResNet, tp.Task, tp.SGD, tp.DepthScaling, int]:
    """Random data, optimizer, scaling, loss and depth; ends trained in every other."""
    rng = np.random.default_rng(seed)
    loss, batch, d_out = LOSSES[seed % 3], int(rng.integers(1, 3)), 2 if seed % 3 == 2 else int(rng.integers(1, 3))
    inputs = rng.uniform(-1, 1, (3, batch, 2))
    y = {"mse": rng.uniform(-1, 1, (3, batch, d_out)), "logistic": rng.choice([-1.0, 1.0], (3, batch, d_out)),
         "softmax": rng.dirichlet(np.ones(d_out), (3, batch))}[loss]
    opt = tp.SGD(float(rng.uniform(0.1, 0.6)), momentum=float(rng.choice([0, 0.5])),
                 weight_decay=float(rng.choice([0, 0.3])))
    alpha = float(rng.choice([0.5, 0.75]))
    net = tp.ResNet(train_embedding_readout=bool(rng.integers(2)))
    return net, tp.Task(inputs, y, loss), opt, tp.DepthScaling(alpha, 1 - alpha), int(rng.integers(1, 4))


def z_scores(case: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the upper triangle of Sigma, and of b."""
    net, task, opt, scale, depth = case
    run = tp.train(net, task, opt, scale, depth)
    f = run.outputs.ravel()
    upper = np.triu_indices(len(f))
    values, errors = [], []
    for width in WIDTHS:
        change = outputs(task, opt, scale.multiplier(depth), scale.update_size(depth), depth, width, NETWORKS,
                         seed * 1000 + width, net.train_embedding_readout) - f
        centered = change - change.mean(axis=0)
        each = width * np.concatenate([(centered[:, :, None] * centered[:, None, :])[:, *upper], change], axis=1)
        values.append(each.mean(axis=0))
        errors.append(each.std(axis=0, ddof=1) / NETWORKS**0.5)
    found = run.fluctuations
    expected = np.concatenate([found.covariance.reshape(len(f), len(f))[upper], found.bias.ravel()])
    z = (2 * values[1] - values[0] - expected) / np.sqrt(4 * errors[1]**2 + errors[0]**2)
    return z[:-len(f)], z[-len(f):]


def silent(tasks: int) -> list[tuple[int, Any]]:
    """Problems of which the smaller width is not warned."""
    found: list[tuple[int, Any]] = []
    seed = 0
    while len(found) < tasks:
        case = problem(seed)
        net, task, opt, scale, depth = case
        if tp.train(net, task, opt, scale, depth).at_width(WIDTHS[0]).warning is None:
            found.append((seed, case))
        seed += 1
    return found


def test_real_networks_spread_as_computed() -> None:
    """One task of each loss, the first that is not warned of."""
    for seed, case in silent(3):
        assert np.max(np.abs(np.concatenate(z_scores(case, seed)))) < 4.5


@pytest.mark.slow
def test_real_networks_of_random_tasks_spread_as_computed() -> None:
    """z-scores of Sigma, and of b, have a root mean square of 1, and no outliers."""
    scores = [z_scores(case, seed) for seed, case in silent(30)]
    for name, least, z in zip(("Sigma", "b"), (200, 60), map(np.concatenate, zip(*scores))):
        print(f"{name}: {len(z)} z-scores, rms {np.sqrt(np.mean(z**2)):.2f}, largest {np.max(np.abs(z)):.2f}")
        assert len(z) > least
        assert 0.8 < np.sqrt(np.mean(z**2)) < 1.2
        assert np.max(np.abs(z)) < 4.5
