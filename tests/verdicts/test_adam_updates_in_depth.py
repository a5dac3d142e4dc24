"""Adam's updates in depth with eps and rate as arXiv:2505.01618 sets them: published norms, and networks of our own."""

from pathlib import Path

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp

PUBLISHED = Path(__file__).parents[1] / "references" / "completep_update_norms.csv"
POWERS = (sp.Rational(1, 2), sp.Integer(1))


def derived(alpha):
    """The power of L of an update: the rate goes like L^(alpha - 1), eps like L^-alpha, gradients like the branch."""
    raw = {"branch": tp.Powers(multiplier={"L": -alpha}), "*": tp.Powers(lr={"L": alpha - 1}, eps={"L": -alpha})}
    found = tp.theory.audit_matrices(tp.Parametrization(depth=raw), tp.ResNet("relu", "mlp"), "adam")
    assert found.outgrown == ()
    return -found.scaling.update_exponent("W1")


def slope(depths, norms):
    return np.polyfit(np.log(depths), np.log(norms), 1)[0]


@pytest.mark.parametrize("alpha", POWERS, ids=str)
def test_published_norms_have_the_derived_power(alpha):
    rows = np.genfromtxt(PUBLISHED, delimiter=",", names=True, skip_header=2)
    chosen = rows[(rows["alpha"] == float(alpha)) & (rows["depth"] >= 16)]
    assert len(chosen) >= 8
    assert abs(slope(chosen["depth"], chosen["update_norm_mean"]) - float(derived(alpha))) < 0.03


def update_norm(alpha, depth, n=48, samples=24, seed=0):
    """|one Adam step| of the first matrix of the second branch of a real network; synthetic inputs, cross entropy."""
    rng = np.random.default_rng((seed, depth))
    eps = (depth / 2) ** -alpha
    weights = rng.standard_normal((depth, 2, n, n), dtype=np.float32) * np.float32(np.sqrt(2 / n))
    read_out = rng.standard_normal((10, n)) / n
    labels = rng.integers(10, size=samples)
    x = [rng.standard_normal((n, samples))]
    hidden = []
    for one, two in weights:
        h = one @ np.maximum(x[-1], 0)
        hidden.append(h)
        x.append(x[-1] + eps * (two @ np.maximum(h, 0)))
    scores = read_out @ x[-1]
    chances = np.exp(scores - scores.max(axis=0))
    chances /= chances.sum(axis=0)
    chances[labels, np.arange(samples)] -= 1
    d = read_out.T @ chances / samples
    for layer in reversed(range(1, depth)):
        one, two = weights[layer]
        inner = (two.T @ (eps * d)) * (hidden[layer] > 0)
        gradient = inner @ np.maximum(x[layer], 0).T
        d = d + (one.T @ inner) * (x[layer] > 0)
    rate = 1e-4 / np.sqrt(n) * (depth / 2) ** (alpha - 1)
    return float(np.linalg.norm(rate * gradient / (np.abs(gradient) + 1e-8 * (depth / 2) ** -alpha)))


def measured(alpha, depths, seeds):
    norms = [[update_norm(float(alpha), depth, seed=seed) for seed in range(seeds)] for depth in depths]
    return slope(depths, np.mean(norms, axis=1))


@pytest.mark.parametrize("alpha", POWERS, ids=str)
def test_real_updates_have_the_derived_power(alpha):
    assert abs(measured(alpha, (16, 64, 256), 2) - float(derived(alpha))) < 0.06


@pytest.mark.slow
@pytest.mark.parametrize("alpha", POWERS, ids=str)
def test_real_updates_have_the_derived_power_up_to_depth_4096(alpha):
    assert abs(measured(alpha, (16, 64, 256, 1024, 4096), 4) - float(derived(alpha))) < 0.03
