"""What ``at_width`` and ``fluctuations`` say of real networks, against plain NumPy networks: drawn blocks, optimizers,
scalings and tasks, and every z-score of them.

Where an expansion is known networks of two widths are compared, n and 2 n: of n times variances what is left of order
1/n is taken away, and of means what is left of order 1/n^2, but nothing of order 1/n, which a wrong bias would be.
Where ``at_width`` draws networks itself, means and variances of one width are those of two samples. Draws that are
refused, or of which ``at_width`` warns at every width that is affordable, are counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from support.plain.many_networks import outputs as linear_networks
from support.plain.many_trainings import ManyTrainings
from tpcalc.finite_width.crossover import MeanAtWidth
from tpcalc.finite_width.drawn_networks import DrawnAtWidth
from tpcalc.results.sampled_fluctuations import SampledFluctuations

SEED, DRAWS = 2026, 60
WIDTHS, WORK = (64, 128, 256), 4000 * 64**2  # networks of 64, and of others as many as take as long, or
LEAST, OWN = 500, 300                        # at least; those that at_width draws
LOSSES = ("mse", "logistic")


@dataclass(frozen=True)
class Drawn:
    """A training."""

    net: tp.ResNet
    task: tp.Task
    opt: Any
    scale: tp.DepthScaling
    depth: int

    @property
    def said(self) -> str:
        ends = ", trained" if self.net.train_embedding_readout else ""
        return (f"{self.net.phi} {self.net.block}{ends}, {self.opt!r}, alpha {self.scale.alpha}, L {self.depth}, "
                f"{self.task!r}, {type(self.task.loss).__name__}")


def drawn(rng: np.random.Generator) -> Drawn:
    phi = str(rng.choice(["linear", "linear", "tanh", "relu"]))
    block = str(rng.choice(["post_nonlin", "pre_nonlin", "mlp"])) if phi != "linear" else "post_nonlin"
    rate = float(rng.uniform(0.1, 0.5))
    opt = [tp.SGD(rate, momentum=float(rng.choice([0, 0.5])), weight_decay=float(rng.choice([0, 0.3]))),
           tp.SGD(rate), tp.Muon(rate / 2), tp.NormalizedSGD(rate / 2), tp.SignSGD(rate / 2),
           tp.Adam(rate / 3, eps=1e-30)][rng.integers(6)]
    steps, batch = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    d_in, d_out, loss = int(rng.integers(1, 3)), int(rng.integers(1, 3)), LOSSES[rng.integers(2)]
    inputs = rng.uniform(-1, 1, (steps, batch, d_in))
    targets = (rng.uniform(-1, 1, (steps, batch, d_out)) if loss == "mse"
               else rng.choice([-1.0, 1.0], (steps, batch, d_out)))
    alpha = float(rng.choice([0.5, 0.75, 1]))
    trained = bool(phi == "linear" and isinstance(opt, tp.SGD) and rng.integers(2))
    return Drawn(tp.ResNet(phi, block=block, train_embedding_readout=trained), tp.Task(inputs, targets, loss), opt,
                 tp.DepthScaling(alpha, 1 - alpha), int(rng.integers(1, 4)))


def real(one: Drawn, n: int, networks: int, seed: int) -> np.ndarray:
    """(networks, steps * batch * d_out)"""
    eps, g = one.scale.multiplier(one.depth), one.scale.update_size(one.depth)
    if one.net.train_embedding_readout:
        return linear_networks(one.task, one.opt, eps, g, one.depth, n, networks, seed, True)
    plain = ManyTrainings(one.task, one.opt, one.net.block, one.net.phi, eps, g, one.depth, one.net.zero_readout)
    return plain.outputs(n, networks, seed).reshape(networks, -1)


def networks_of(n: int) -> int:
    return max(LEAST, WORK // n**2)


def moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of columns, and their standard errors."""
    centered = values - values.mean(axis=0)
    each = np.concatenate([values, centered**2 * len(values) / (len(values) - 1)], axis=1)
    return each.mean(axis=0), each.std(axis=0, ddof=1) / len(values) ** 0.5


def directions(one: Drawn, rng: np.random.Generator) -> np.ndarray:
    """(outputs, 2): two of what is seen, orthogonal, both of outputs after the first update."""
    sizes = one.task.steps, one.task.targets[0].size
    found = rng.standard_normal((*sizes, 2))
    found[0] = 0
    return np.linalg.qr(found.reshape(-1, 2))[0]


def z_scores(one: Drawn, seed: int) -> tuple[np.ndarray, str]:
    """Of means along two directions, and of variances where these are known; and by which way ``at_width`` knows them.
    Raises what is refused."""
    rng = np.random.default_rng([SEED, seed])
    run = tp.train(one.net, one.task, one.opt, one.scale, one.depth)
    along, n = directions(one, rng), WIDTHS[0]
    at = run.at_width(n)
    if not isinstance(at, DrawnAtWidth):
        if not isinstance(one.opt, tp.SGD):
            said = "quadrature" + " with a bias" * isinstance(at, MeanAtWidth)
            return extrapolated(one, run, n, seed, along, None)[:2], said
        known = next((n for n in WIDTHS if run.at_width(n).warning is None), None)
        if known is None:
            raise Warned(f"the next order in 1/n is not small up to n = {WIDTHS[-1]}")
        found, size = run.fluctuations, len(along)
        sigma = found._found if isinstance(found, SampledFluctuations) else found.covariance.reshape(1, size, size)
        return extrapolated(one, run, known, seed, along, sigma), f"expansion at {known}"
    at = run.at_width(n, seeds=OWN)
    assert isinstance(at, DrawnAtWidth)
    (ours, error), (theirs, own) = (moments(each @ along) for each in (
        real(one, n, networks_of(n), seed), at.outputs.reshape(at.seeds, -1)))
    return (ours - theirs) / np.hypot(error, own), "drawn"


def extrapolated(one: Drawn, run: tp.Run, n: int, seed: int, along: np.ndarray, sigma: np.ndarray | None) -> np.ndarray:
    """z-scores of two means and two variances at n and 2 n; sigma: (batches, outputs, outputs), where it is known."""
    at = run.at_width(n)
    # without a bias the order 1/n is taken away, too
    of_means = 4 if sigma is not None or isinstance(at, MeanAtWidth) else 2
    if sigma is None:
        sigma = np.full((1, len(along), len(along)), np.nan)
    each = np.einsum("ik,bij,jk->bk", along, sigma, along)
    own = each.std(axis=0, ddof=1) / len(each) ** 0.5 if len(each) > 1 else np.zeros(2)
    away = []
    for width in (n, 2 * n):
        mean = run.at_width(width).mean.ravel() @ along
        found, error = moments((real(one, width, networks_of(width), seed) @ along) * width**0.5)
        expected = np.concatenate([mean * width**0.5, each.mean(axis=0)])
        unit = np.concatenate([np.full(2, width**-0.5), np.ones(2)])  # means in outputs, variances times n
        away.append(((found - expected) * unit, error * unit))
    found = run.fluctuations if sigma.shape[0] > 1 else None
    limit = at.error.ravel() @ np.abs(along) if isinstance(at, MeanAtWidth) else np.zeros(2) if found is None else (
        np.hypot(run.error_estimate, found.bias_errors.ravel() @ np.abs(along) / n))  # of f, 4 - 1 times, and of b
    times = np.array([of_means, of_means, 2, 2])
    errors = np.sqrt((times * away[1][1]) ** 2 + away[0][1] ** 2 + np.concatenate([limit, own]) ** 2)
    return (times * away[1][0] - away[0][0]) / errors


class Warned(ValueError):
    """``at_width`` says that its own answer is not to be trusted."""


@pytest.mark.slow
def test_every_z_score_of_drawn_trainings() -> None:
    """Minutes; prints all, and what was refused."""
    rng, scores, refused, ways = np.random.default_rng(SEED), [], Counter[str](), Counter[str]()
    for k in range(DRAWS):
        one = drawn(rng)
        try:
            z, way = z_scores(one, k)
        except (tp.NotCovered, tp.Divergence, Warned) as reason:
            refused[f"{type(reason).__name__}: {str(reason)[:70]}"] += 1
            continue
        print(f"{k}: {one.said}, {way}: {z.round(2).tolist()}", flush=True)
        scores.append(z)
        ways[way] += 1
    z = np.concatenate(scores)
    print(f"seed {SEED}: {len(scores)} of {DRAWS} draws, {len(z)} z-scores, rms {np.sqrt(np.mean(z**2)):.3f}, largest "
          f"{np.abs(z).max():.2f}; by {dict(ways)}; refused: {dict(refused)}")
    assert len(z) >= 200 and sum(refused.values()) + len(scores) == DRAWS
    assert 0.85 < np.sqrt(np.mean(z**2)) < 1.15
    assert np.abs(z).max() < 4.5


@pytest.mark.slow
def test_every_z_score_of_entrywise_updates_without_first_outputs() -> None:
    """Forty drawn first updates by signs and by Adam, which have biases and no expansion that is sampled: means of
    networks that ``at_width`` draws, and those told from narrower ones, along a direction. Prints all."""
    rng, scores = np.random.default_rng(SEED + 1), []
    every = (one for one in (drawn(rng) for _ in range(10 * DRAWS)) if isinstance(one.opt, (tp.SignSGD, tp.Adam)))
    for k, one in zip(range(40), every):
        task = tp.Task(one.task.inputs[:2], one.task.targets[:2], one.task.loss)
        one = replace(one, net=replace(one.net, zero_readout=True), task=task)
        run = tp.train(one.net, one.task, one.opt, one.scale, one.depth)
        along, z = directions(one, np.random.default_rng([SEED, k]))[:, 0], []
        for n, widths in ((32, None), (64, (16, 32))):
            at = run.at_width(n, seeds=100, widths=widths)
            assert isinstance(at, DrawnAtWidth)
            theirs = real(one, n, 1000, k) @ along
            own = (np.std(at.outputs.reshape(100, -1) @ along, ddof=1) / 10 if widths is None else
                   at.error.ravel() @ np.abs(along))
            z.append((theirs.mean() - at.mean.ravel() @ along) / np.hypot(theirs.std(ddof=1) / 1000**0.5, own))
        print(f"{k}: {one.said}: {np.round(z, 2).tolist()}", flush=True)
        scores.append(z)
    rms = np.sqrt(np.mean(np.square(scores), axis=0))
    print(f"rms of {len(scores)} of networks of the width {rms[0]:.2f}, of narrower ones {rms[1]:.2f}; largest "
          f"{np.abs(scores).max():.2f}")
    assert len(scores) == 40 and 0.75 < rms[0] < 1.25 and rms[1] < 1.25 and np.abs(scores).max() < 4
