"""Verdicts on batches and many steps: regimes cover all sizes, and powers are those of plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.horizon.batches import BATCH, DECAY, SIGNAL, WIDTH

T = sp.Symbol("t", real=True)


@pytest.mark.parametrize("opt, data", [
    (tp.SGD(), "fixed"), (tp.SGD(weight_decay=0.1, decoupled=True), "width"), (tp.AdamW(), "fixed"),
    (tp.Muon(), "width"), (tp.Muon(weight_decay=0.1), "width"), (tp.Muon(sphere=True), "width"),
    (tp.NormalizedSGD(sphere=True), "fixed")])
def test_every_point_is_in_one_regime_which_has_its_powers(opt: object, data: str) -> None:
    found = tp.classify(1, "1/2", opt=opt, steps=T, data=data).horizon
    rng, seen = np.random.default_rng(0), set()
    for _ in range(60):
        point = {one: sp.Rational(int(rng.integers(0, 13)), 4) * (-1 if one in (SIGNAL, DECAY) else 1)
                 for one in found.parameters}
        inside = [one for one in found.regimes if one.region.contains([point[one] for one in found.parameters])]
        assert len(inside) == 1
        there = found.at(**{str(one): value for one, value in point.items()})
        assert there.drift == found.drift.subs(point) and there.noise == found.noise.subs(point)
        assert ("signal" in there.name) == (there.drift >= there.noise)
        seen.add(there.name)
    assert len(seen) > 3


@pytest.mark.parametrize("opt, data, regimes", [
    (tp.Adam(), "fixed", 6), (tp.Muon(), "width", 12), (tp.Muon(weight_decay=0.1), "width", 18)])
def test_regimes_that_say_the_same_are_joined_where_they_touch(opt: object, data: str, regimes: int) -> None:
    """No slice is left on a boundary, and every point has the regime that it had in the parts; many are on one."""
    found = tp.classify(1, "1/2", opt=opt, steps=T, data=data).horizon
    parts = tuple(found._regimes())
    assert len(found.regimes) == regimes < len(parts)
    assert not any(isinstance(one, sp.Eq) for regime in found.regimes for one in regime.where)
    rng = np.random.default_rng(1)
    for _ in range(100):
        point = {one: sp.Rational(int(rng.integers(0, 5)), 4) * (-1 if one in (SIGNAL, DECAY) else 1)
                 for one in found.parameters}
        values = list(point.values())
        (before,), (after,) = ([one for one in regimes if one.region.contains(values)]
                               for regimes in (parts, found.regimes))
        assert before.name == after.name
        assert (before.drift - after.drift).subs(point) == (before.noise - after.noise).subs(point) == 0


def test_muon_has_two_regions_of_batches_where_data_are_as_wide_as_the_network() -> None:
    wide = tp.classify(1, 0.5, opt=tp.Muon(), steps=0, data="width").horizon
    below, above = (wide.at(b=b, n=1, s=-4) for b in ("1/2", 2))
    assert "below the width" in below.name and "above the width" in above.name
    slopes = [(wide.at(b=b + 1, n=n, s=-9).drift - wide.at(b=b, n=n, s=-9).drift,
               wide.at(b=b + 1, n=n, s=-9).noise - wide.at(b=b, n=n, s=-9).noise) for b, n in ((1, 3), (3, 1))]
    assert slopes == [(1, sp.S.Half), (sp.S.Half, 0)]
    fixed = tp.classify(1, 0.5, opt=tp.Muon(), steps=0).horizon
    assert all("width" not in one.name for one in fixed.regimes) and WIDTH not in fixed.parameters


def test_nothing_that_data_decide_gets_a_number() -> None:
    found = tp.classify(1, 0.5, opt=tp.AdamW(), batch_size=1, steps=2).horizon
    assert found.parameters == (SIGNAL, DECAY)
    assert found.after["decay"] == -DECAY and found.after["drift of f"].has(SIGNAL)
    assert found.after["memory of moments"] == 0
    assert "one input at every step" not in str(found.assumptions)


def test_what_one_update_leaves_out_comes_after_steps_that_its_power_tells() -> None:
    """A trivial scaling trains after L^(1/2) steps of full batches, and its noise is seen after L^1."""
    found = tp.classify(1, 0.5, opt=tp.SGD(), batch_size=0).horizon
    assert found.after["drift of f"].subs(SIGNAL, 0) == sp.S.Half
    assert found.after["noise of f"] == found.after["noise of h"] == 1


def forgotten(n: int, rank: int, g: float, aligned: bool, seed: int) -> float:
    """After how many steps of rank ``rank`` a matrix on its sphere has a quarter of its square left."""
    rng = np.random.default_rng(seed)
    w = first = rng.normal(size=(n, n)) / n**0.5
    norm, steps = np.linalg.norm(w), 0

    def step() -> np.ndarray:
        left, right = (np.linalg.qr(rng.normal(size=(n, rank)))[0] for _ in range(2))
        return left * rng.choice((-1, 1), rank) @ right.T

    u = step()
    while (w * first).sum() > norm**2 / 2:
        w = w - g * (u if aligned else step())
        w *= norm / np.linalg.norm(w)
        steps += 1
    return float(steps)


@pytest.mark.parametrize("aligned", (False, True))
def test_the_projection_is_of_order_one_after_as_many_steps(aligned: bool) -> None:
    """In the width, the step and the rank of a batch, below the width: independent steps, then the same again."""
    def said(n: int, batch: int, gamma: str) -> float:
        found = tp.classify(1, gamma, opt=tp.Muon(sphere=True), steps=T, data="width").horizon
        signal = -batch if aligned else -60  # a signal of one direction that is as large as the noise of its batch
        at = {"b": batch, "n": n, "s": signal, "t": 0}
        return float(found.after["projection of W"].subs({BATCH: batch, WIDTH: n, SIGNAL: at["s"]}))

    real = {key: np.mean([forgotten(*key, aligned, seed) for seed in range(4)])
            for key in ((16, 1, 0.3), (64, 1, 0.3), (16, 1, 0.15))}
    by_width = np.log(real[64, 1, 0.3] / real[16, 1, 0.3]) / np.log(4)
    by_step = np.log(real[16, 1, 0.15] / real[16, 1, 0.3]) / np.log(2)
    assert abs(by_width - (said(40, 0, "1/2") - said(39, 0, "1/2"))) < 0.15
    assert abs(by_step - (said(40, 0, "3/2") - said(40, 0, "1/2"))) < 0.15
    if not aligned:
        rank = np.log(np.mean([forgotten(64, 4, 0.3, False, seed) for seed in range(4)]) / real[64, 1, 0.3]) / np.log(4)
        assert abs(rank - (said(40, 3, "1/2") - said(40, 2, "1/2"))) < 0.15


def test_noise_of_what_is_learned_goes_like_the_root_of_the_rate() -> None:
    """Two rates of gradient descent that has come to its noise, on one weight, beside two gammas."""
    def noise(rate: float, batch: int) -> float:
        rng, w = np.random.default_rng(0), np.zeros(4000)
        for _ in range(int(6 / rate)):
            w = w - rate * (w - 1 + rng.normal(size=w.shape) / batch**0.5)
        return float(w.std())

    def said(gamma: str, b: int) -> sp.Expr:
        there = tp.classify(1, gamma, opt=tp.SGD(), steps=T).horizon.at(b=b, t=50, s=-1)
        assert "learned" in there.name and there.drift == 0
        return there.noise

    by_rate = np.log(noise(0.01, 4) / noise(0.08, 4)) / np.log(8)
    by_batch = np.log(noise(0.02, 16) / noise(0.02, 4)) / np.log(4)
    assert abs(by_rate - (said("7/2", 0) - said("5/2", 0))) < 0.05
    assert abs(by_batch - (said("5/2", 1) - said("5/2", 0))) < 0.05


def until_half(depth: int, matrices: int, seed: int) -> int:
    """After how many steps of gradient descent at alpha = 2, gamma = 0 a linear network has learned half of its target;
    layers of so many matrices in a row."""
    rng, n, eps, steps = np.random.default_rng(seed), 48, depth**-2.0, 0
    u, v = rng.standard_normal((2, n))
    weights = rng.standard_normal((depth, matrices, n, n)) / n**0.5
    first = None
    while True:
        x, inside = u, []
        for layer in weights:
            inside.append([x])
            for w in layer:
                inside[-1].append(w @ inside[-1][-1])
            x = x + eps * inside[-1][-1]
        first = v @ x / n if first is None else first
        if v @ x / n - first > 0.5:
            return steps
        back = -v  # the loss derivative of a target of 1 stays of order one
        for layer, vectors in zip(weights[::-1], inside[::-1]):
            now = back
            for k in reversed(range(matrices)):
                now, gradient = layer[k].T @ now, np.outer(now, vectors[k]) / n
                layer[k] -= 0.3 * gradient
            back = back + eps * now
        steps += 1


def test_what_matrices_do_to_each_other_feeds_on_itself() -> None:
    """Steps until outputs are learned: depth times as many with one matrix a layer, of two each grows by the other, so
    that it takes a logarithm of the depth, and adding up steps would be wrong."""
    one, two = (tp.classify(2, 0, tp.ResNet("linear", block), batch_size=0).horizon for block in ("post_nonlin", "mlp"))
    assert one.after["drift of f"].subs(SIGNAL, 0) == 1 and "drift of f" not in two.after
    assert two.after["drift of h"].subs(SIGNAL, 0) == 0
    assert one.at(t="1/2", s=0).name.startswith("signal, training")
    assert two.at(t="1/2", s=0).name.startswith("signal, changed") and two.at(t="1/2", s=0).drift == -1
    plain, block = (np.mean([[until_half(depth, matrices, seed) for seed in range(3)] for depth in (16, 64)], axis=1)
                    for matrices in (1, 2))
    assert abs(np.log(plain[1] / plain[0]) / np.log(4) - 1) < 0.1
    assert np.log(block[1] / block[0]) / np.log(4) < 0.35 and block[1] < plain[1] / 8


def test_noise_that_changes_the_network_is_no_training() -> None:
    """Steps whose noise is of order one by itself change the network before their drift is anything."""
    found = tp.classify(1, 0, opt=tp.Adam(), batch_size=1, steps=1).horizon
    assert found.at(s=-2).name == "noise, changed, below the critical batch" and found.at(s=-2).noise == 0
    for opt in (tp.SGD(), tp.Adam(), tp.Muon()):
        found = tp.classify(1, "1/2", opt=opt, steps=T).horizon
        assert all(sp.Max(one.drift, one.noise).subs({BATCH: 1, "s": -3, T: 9}) <= 0 for one in [
            found.at(b=1, s=-3, t=9)])
    assert "what comes later feeds on itself" in str(found.assumptions)


def test_refusals() -> None:
    with pytest.raises(tp.NotCovered, match="counted where one step changes outputs by a known power of at most"):
        tp.classify(0.5, 0, batch_size=1)
    with pytest.raises(tp.NotCovered, match="functions of matrices"):
        tp.classify(1, 0, opt="shampoo", steps=1)
    with pytest.raises(tp.NotCovered, match="how clipped gradients answer a batch is not known"):
        tp.classify(1, 0, opt=tp.Clipped(tp.SGD(), 1.0), steps=1)
    with pytest.raises(tp.NotCovered, match="does not say by which optimizer"):
        tp.classify(1, 0, tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(*sp.symbols("alpha gamma"))), steps=1)
    for bad in (-1, sp.pi, "many", sp.Symbol("s"), sp.Symbol("b") + 1, sp.Symbol("q", imaginary=True),
                sp.Symbol("b", negative=True)):
        with pytest.raises(ValueError, match="batch_size: "):
            tp.classify(1, 0, batch_size=bad)
    with pytest.raises(ValueError, match="data: got 'width' without batch_size and steps"):
        tp.classify(1, 0, data="width")
    found = tp.classify(1, 0, batch_size=1).horizon
    with pytest.raises(ValueError, match="powers: got s; expected t, s"):
        found.at(s=0)
    with pytest.raises(ValueError, match="t: got q; expected a number"):
        found.at(s=0, t=sp.Symbol("q"))
    with pytest.raises(ValueError, match="expected s and w of at most 0"):
        found.at(s=1, t=0)
