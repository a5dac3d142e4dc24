"""Powers of batch and steps, beside directions that were measured on drawn batches."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.horizon.transfer_rule import ABOVE, ALL, BELOW, U, X, batch_power

DIRECTIONS = {
    "sgd": lambda g: g, "signsgd": np.sign, "normalizedsgd": lambda g: g / np.linalg.norm(g),
    "muon": lambda g: (lambda u, _, v: u[:, :v.shape[0]] @ v)(*np.linalg.svd(g, full_matrices=False))}


def measured(name: str, width: int, batches: tuple[int, ...], draws: int, signal: float) -> tuple[float, ...]:
    """Powers of the batch in a direction's drift along the mean gradient, and in its Frobenius norm.

    A sample's gradient is delta x^T of Gaussian vectors that agree a little along one pair of directions.
    """
    rng, drifts, norms = np.random.default_rng(0), [], []
    for batch in batches:
        drift, norm = 0.0, 0.0
        for _ in range(draws):
            x, delta = rng.normal(size=(2, batch, width))
            delta[:, 0] += signal * x[:, 0]
            g = delta.T @ x / batch
            if name == "muon" and batch < width:  # the factor of rank batch, from factors of the two
                (q, r), (p, s) = np.linalg.qr(delta.T), np.linalg.qr(x.T)
                u, _, v = np.linalg.svd(r @ s.T)
                direction = q @ (u @ v) @ p.T
            else:
                direction = DIRECTIONS[name](g)
            drift += direction[0, 0] / draws
            norm += np.linalg.norm(direction) / draws
        drifts.append(drift)
        norms.append(norm)
    return tuple(float(np.polyfit(np.log(batches), np.log(found), 1)[0]) for found in (drifts, norms))


@pytest.mark.parametrize("name, where, batches", [
    ("sgd", ALL, (2, 8, 32)), ("signsgd", ALL, (2, 8, 32)), ("normalizedsgd", ALL, (2, 8, 32)),
    ("muon", BELOW, (2, 4, 8)), ("muon", ABOVE, (128, 256, 512))])
def test_drift_and_noise_of_drawn_batches_give_the_power(name: str, where: str, batches: tuple[int, ...]) -> None:
    width = 16 if where == ABOVE else 64
    drift, noise = measured(name, width, batches, 3000, 0.1 if where == ABOVE else 0.25)
    found = next(region for region in tp.transfer_rule(name).regions if region.where == where)
    p = float(found.rate.at_fixed_data)
    assert abs(1 - drift - p) < 0.12 and abs((1 - 2 * noise) / 2 - p) < 0.06


def test_the_best_rate_of_a_stream_moves_as_the_rule_says() -> None:
    """Batches of 1 and 4, the same data, no fit: the best rate of SGD in closed form is 4 times as large."""
    found = tp.long_horizon(tp.ResNet(), tp.Stream(np.eye(2), [1.0, 0.0], 0.5), tp.SGD(), tp.DepthScaling(1, 0))
    rates = [found.best("constant", batch, 2**18 // batch).rate for batch in (1, 4)]
    assert abs(rates[1] / rates[0] / tp.transfer_rule("sgd").factors(4, sp.Rational(1, 4))["rate"] - 1) < 0.01


@pytest.mark.parametrize("optimizer, p", [
    (tp.SGD(), 1), (tp.SGD(momentum=0.9), 1), *((opt(), sp.S.Half) for opt in (
        tp.SignSGD, tp.Adam, tp.AdamW, tp.Lion, tp.NormalizedSGD))])
def test_powers(optimizer: object, p: sp.Expr) -> None:
    (found,) = tp.transfer_rule(optimizer).regions
    assert found.rate.at_fixed_data == p and found.rate.steps == found.rate.data == -X
    assert found.rate.batch == p - X and found.decay.at_fixed_data == 1 - p and found.decay.steps == X - U


def on_sphere(batch: int, steps: int, rate: float) -> float:
    """How far along the signal weights on a sphere have come, by normalized noisy gradients, mean of 2000."""
    rng = np.random.default_rng(batch)
    w = rng.normal(size=(2000, 50))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    for _ in range(steps):
        g = rng.normal(size=w.shape) / batch**0.5
        g[:, 0] -= 0.2
        w -= rate * g / np.linalg.norm(g, axis=1, keepdims=True)
        w /= np.linalg.norm(w, axis=1, keepdims=True)
    return float(w[:, 0].mean())


def test_weights_on_spheres_have_the_power_of_free_ones_and_no_decay() -> None:
    (found,) = tp.transfer_rule(tp.NormalizedSGD(sphere=True)).regions
    assert found.decay is None and list(tp.transfer_rule(tp.Muon(sphere=True)).factors(2, 2, ABOVE)) == ["rate"]
    p = float(found.rate.at_fixed_data)
    one, more, wrong = on_sphere(1, 320, 0.06), on_sphere(4, 80, 0.06 * 4**p), on_sphere(4, 80, 0.06 * 4 ** (p + 0.25))
    assert 0.1 < one < 0.6  # neither nothing, nor where the rate no longer matters
    assert abs(more / one - 1) < 0.05 < abs(wrong / one - 1)


def test_rates_relative_to_norms_take_the_root_of_a_batch_in_every_region() -> None:
    """MuonH and AdamH in practice: of a step over its norm, rank or not, noise is of size one."""
    for name, regions in (("muonh", (BELOW, ABOVE)), ("AdamH", (ALL,))):
        found = tp.transfer_rule(name, x="1/4").regions
        assert tuple(one.where for one in found) == regions
        assert all(one.rate.at_fixed_data == sp.S.Half and one.decay is None for one in found)
    muon = tp.transfer_rule(tp.Muon(sphere=True)).regions[0].rate.at_fixed_data  # a norm of (rank / n)^(1/2)
    assert tp.transfer_rule("muonh").regions[0].rate.at_fixed_data == muon + sp.S.Half


def test_nothing_that_data_decide_is_a_number() -> None:
    for name in ("sgd", "adam", "muon", "normalizedsgd"):
        for region in tp.transfer_rule(name).regions:
            assert X in region.rate.steps.free_symbols and U in region.decay.steps.free_symbols
    given = tp.transfer_rule("muon", x="1/3", u=1)
    assert given.factors(2, 4, ABOVE)["rate"] == sp.Integer(2) ** sp.Rational(1, 6) / sp.Integer(4) ** sp.Rational(1, 3)


def test_symbols_called_x_and_u_are_those_of_the_rule() -> None:
    """u = 2 x, as at equilibrium: the decay has x alone, once."""
    (found,) = tp.transfer_rule("adam", u=2 * sp.Symbol("x")).regions
    assert found.decay.steps == -X and found.rate.steps == -X


@pytest.mark.parametrize("decay, at_fixed_data, steps", [
    (dict(decoupled=True), 0, X - U), (dict(), 0, X - U), (dict(decoupled=True, independent=True), 1, -U)])
def test_kinds_of_decay(decay: dict[str, bool], at_fixed_data: int, steps: sp.Expr) -> None:
    (found,) = tp.transfer_rule(tp.SGD(weight_decay=0.1, **decay)).regions
    assert found.decay.at_fixed_data == at_fixed_data and found.decay.steps == steps


def test_refusals() -> None:
    for other in (tp.Shampoo(), tp.SOAP(), "soap"):
        with pytest.raises(tp.NotCovered, match="sums over steps inside of functions of matrices"):
            tp.transfer_rule(other)
    with pytest.raises(ValueError, match="where: got None for muon; expected one of 'below the width', 'above"):
        tp.transfer_rule("muon").factors(2)
    with pytest.raises(tp.NotCovered, match=r"one asks for B\^\(1\), the other for B\^\(1/2\)"):
        batch_power(sp.Integer(0), sp.Integer(0))
