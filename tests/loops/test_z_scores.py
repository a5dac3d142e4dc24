"""Particles of drawn loops against real networks of two widths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tpcalc as tp

DRAWS, SEEDS, WIDTHS, SAMPLES = 20, 32, (128, 256), 2**12


def drawn(draw: np.random.Generator) -> tp.Problem:
    """A loop with or without attention, injection, norms, trained ends and skips, and an optimizer."""
    visits, order = int(draw.integers(2, 4)), str(draw.choice(["cycle", "block"]))
    inject = float(draw.choice([0, 0.5])) * (order == "cycle")
    opt = [tp.SGD(0.4), tp.SGD(0.3, momentum=0.5, weight_decay=0.1), tp.Adam(0.1, eps=1e-3), tp.SignSGD(0.1),
           tp.NormalizedSGD(0.3), tp.Muon(0.2)][int(draw.integers(6))]
    ends = bool(draw.integers(2)) and not isinstance(opt, (tp.NormalizedSGD, tp.Muon))
    net: tp.ResNet | tp.Transformer
    if draw.integers(3):
        phi = str(draw.choice(["tanh", "relu", "gelu"]))
        norm = [None, "rms"][int(draw.integers(2))]
        net = tp.ResNet(phi, "mlp", norm=norm, visits=visits, order=order, inject=inject, train_embedding_readout=ends)
        task = tp.Task(draw.normal(size=(2, 1, 2)), draw.normal(size=(2, 1, 1)))
    else:
        net = tp.Transformer(positions=2, visits=visits, order=order, inject=inject)
        task = tp.Sequences(draw.normal(size=(2, 1, 2, 2)), draw.normal(size=(2, 1, 2, 1)))
    return tp.Problem(net, task, opt, tp.DepthScaling(), depth=2)


def z_scores(problem: tp.Problem, seed: int) -> np.ndarray:
    """Of all outputs behind updates; a mean over widths has 1/n taken out."""
    limit = tp.train(problem, method=tp.methods.Particles(samples=SAMPLES, seed=seed))
    means, errors = [], []
    for width in WIDTHS:
        real = np.array([tp.train(replace(problem, width=width), method=tp.methods.Dense(seed=seed + k)).outputs[1:]
                         for k in range(SEEDS)])
        means.append(real.mean(axis=0))
        errors.append(real.std(axis=0, ddof=1) / SEEDS**0.5)
    off, error = 2 * means[1] - means[0] - limit.outputs[1:], np.hypot(2 * errors[1], errors[0])
    return (off / np.hypot(error, limit.error_estimate)).ravel()


@pytest.mark.slow
def test_drawn_loops() -> None:
    draw, found = np.random.default_rng(20261128), []
    for k in range(DRAWS):
        problem = drawn(draw)
        found.append(z_scores(problem, 1000 * k))
        print(k, problem.net, problem.opt, found[-1].round(2))
    rms = float(np.sqrt(np.mean(np.concatenate(found)**2)))
    largest = max(float(np.max(np.abs(z))) for z in found)
    print(f"{DRAWS} loops, {sum(map(len, found))} z-scores, rms {rms:.2f}, largest {largest:.1f}")
    assert 0.6 < rms < 1.4 and largest < 4
