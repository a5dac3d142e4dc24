"""Memory, angle and norm beside weights of a network that does not see their size."""

from __future__ import annotations


import numpy as np
import pytest

import tpcalc as tp

LR, WD, STEPS = 0.02, 0.5, 1500


def trained(kind: str) -> tuple[float, float]:
    """(norm over that of an update, cosine from a step to the next) of W in f = v . W x / |W|, fresh samples."""
    rng = np.random.default_rng(0)
    weights, second = rng.normal(size=(24, 24)), np.zeros((24, 24))
    reader, norms, cosines = rng.normal(size=24), [], []
    for step in range(STEPS):
        x, y = rng.normal(size=24), rng.normal()
        length = np.linalg.norm(weights)
        f = reader @ weights @ x / length
        gradient = (f - y) * (np.outer(reader, x) / length - f * weights / length**2)
        second = 0.99 * second + 0.01 * gradient**2
        update = {"normalized": gradient / np.linalg.norm(gradient),
                  "adam": gradient / np.sqrt(second / (1 - 0.99 ** (step + 1))) / 24}[kind]
        before, weights = weights, (1 - LR * WD) * weights - LR * update
        if step >= STEPS - 300:
            norms.append(np.linalg.norm(weights) / np.linalg.norm(update))
            cosines.append(np.sum(before * weights) / np.linalg.norm(before) / np.linalg.norm(weights))
    return float(np.mean(norms)), float(np.mean(cosines))


def test_normalized_updates_come_to_this_norm_and_angle() -> None:
    found = tp.timescale(LR, WD, STEPS, tp.NormalizedSGD())
    norm, cosine = trained("normalized")
    assert found.norm and found.angle and abs(norm / found.norm - 1) < 1e-6
    assert abs(cosine - np.cos(found.angle)) < 1e-4 and found.tau == 100 and found.share == 100 / STEPS


def test_adam_does_not_and_gets_none() -> None:
    found, known = tp.timescale(LR, WD, STEPS, tp.Adam()), tp.timescale(LR, WD, STEPS)
    norm, _ = trained("adam")
    assert known.norm and abs(norm / known.norm - 1) > 0.1
    assert found.norm is found.angle is None and found.tau == known.tau
    assert found.why == "the direction of Adam is no multiple of the gradient, and overlaps with the weights"


@pytest.mark.parametrize("optimizer, why", [
    ("muon", "overlaps"), ("signsgd", "overlaps"), (tp.SGD(), "size of gradients"),
    (tp.NormalizedSGD(momentum=0.9), "buffer"), (tp.NormalizedSGD(), "")])
def test_who_has_an_equilibrium(optimizer: object, why: str) -> None:
    found = tp.timescale(LR, WD, STEPS, optimizer)
    assert why in found.why and (found.angle is None) == bool(why)


def test_all_of_the_weights_at_once() -> None:
    with pytest.raises(ValueError, match="lr wd = 2 of the weights; expected less than 1"):
        tp.timescale(4, 0.5, 10)


@pytest.mark.parametrize("independent", [False, True])
def test_decay_is_that_of_the_optimizer(independent: bool) -> None:
    """What is left of weights that get no gradient after tau steps is 1/e, to (1 - 1 / tau)^tau."""
    opt = tp.SGD(0.02, weight_decay=0.05, decoupled=True, independent=independent)
    found = tp.timescale(0.02, 0.05, STEPS, opt)
    left = opt.memory(round(found.tau) + 1)[0][-1]
    assert found.tau == pytest.approx(20 if independent else 1000) and abs(np.log(left) + 1) < 0.03


def test_weights_on_spheres_have_no_memory() -> None:
    with pytest.raises(tp.NotCovered, match="whose weights keep their norms: a decay takes nothing of them"):
        tp.timescale(LR, WD, STEPS, tp.NormalizedSGD(sphere=True))


def test_decay_in_a_momentum_buffer() -> None:
    with pytest.raises(tp.NotCovered, match="goes through its momentum buffer; expected decoupled=True"):
        tp.timescale(LR, WD, STEPS, tp.SGD(momentum=0.9, weight_decay=0.1))
    assert tp.timescale(LR, WD, STEPS, tp.SGD(weight_decay=0.1)).tau == 100
