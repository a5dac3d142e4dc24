"""Plans for other batches and steps, and for weights on spheres: factors, what is refused, and real steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.groups import plan_shapes

HORIZON = dict(batch_size=(512, 1024), steps=(10_000, 40_000))


def shapes(depth: int, n: int) -> dict[str, tuple[int, ...]]:
    layers = {f"h.{l}.{name}.weight": (n, n) for l in range(depth) for name in ("fc", "proj")}
    return {"emb.weight": (65, n), **layers, **{f"h.{l}.norm.weight": (n,) for l in range(depth)},
            "head.weight": (65, n)}


SMALL, SAME = shapes(2, 64), shapes(2, 64)


def factors(optimizer: str, name: str = "h.0.fc.weight", target: Any = SAME, **given: Any) -> tuple[float, float]:
    entry = plan_shapes(SMALL, target, optimizer=optimizer, **given).entry(name)
    return entry.factor("lr"), entry.factor("weight_decay")


@pytest.mark.parametrize("optimizer, rule", [("sgd", "sgd"), ("adamw", "adam"), ("lion", "lion"), ("muon", "muon")])
def test_factors_are_those_of_the_rule(optimizer: str, rule: str) -> None:
    where = "above the width" if rule == "muon" else None
    said = tp.transfer_rule(rule, x="0.3", u=1).factors(2, 4, where)
    found = factors(optimizer, horizon={**HORIZON, "u": 1}, x=0.3, data="width")
    assert np.allclose(found, [float(said["rate"]), float(said["decay"])], rtol=1e-12)
    vector = plan_shapes(SMALL, SAME, optimizer=optimizer, horizon={**HORIZON, "u": 1}, x=0.3, data="width")
    assert vector.entry("h.0.norm.weight").factor("weight_decay") == 1  # which does not decay


def test_muon_has_a_region_a_matrix() -> None:
    """Below the width the batch does not matter; the embedding, outside of layers, is AdamW's."""
    given = dict(horizon=dict(batch_size=(8, 32), steps=(4000, 1000)), data="width")
    assert factors("muon", **given)[0] == 1 and factors("muon", "emb.weight", **given)[0] == 2
    assert factors("muon", **{**given, "data": "fixed"})[0] == 2
    with pytest.raises(tp.NotCovered, match="32 and 128 with .*whose least dimension is 64"):
        factors("muon", horizon=dict(batch_size=(32, 128), steps=(400, 100)), data="width")
    with pytest.raises(tp.NotCovered, match="data: needed for h.*fc.weight, whose rate moves with the batch"):
        factors("muon", horizon=dict(batch_size=(8, 32), u=1), x=0.3)
    for batches, why in ((128, 128), "64 in the base and 256 in the target: Muon's rate moves"), (
            (128, 512), "64 in the base and 256 in the target: Muon's rate goes with the batch over the width"):
        with pytest.raises(tp.NotCovered, match=why):
            factors("muon", target=shapes(2, 256), horizon=dict(batch_size=batches, u=1), x=0.3, data="width")


def test_what_data_decide_is_asked_for_where_it_is_needed() -> None:
    with pytest.raises(tp.NotCovered, match="x: needed for the rate, which 8 times the data move as a power"):
        factors("adamw", horizon=HORIZON)
    with pytest.raises(tp.NotCovered, match="u: needed for the decay, .* u=1 keeps it the same share"):
        factors("adamw", horizon=HORIZON, x=0.3)
    assert factors("adam", horizon=HORIZON, x=0.5) == (0.5, 1)  # which plans give no decay
    same = factors("adamw", horizon=dict(batch_size=(512, 1024), steps=(10_000, 5_000)))
    assert np.allclose(same, [2**0.5, 2**0.5])  # the same data: x and u cancel
    with pytest.raises(ValueError, match="x: got 0.3 without a horizon"):
        factors("adamw", x=0.3)
    for bad in (3, {}, dict(u=1), dict(batch=(1, 2)), dict(steps=4), dict(steps=(4, 0)), dict(steps=(1, 2, 3))):
        with pytest.raises(ValueError, match="horizon"):
            factors("adamw", horizon=bad, x=0.3)
    with pytest.raises(tp.NotCovered, match="functions of matrices"):
        factors("soap", horizon=HORIZON, x=0.3)
    with pytest.raises(ValueError, match="x: got x; expected a number, of which a plan has factors"):
        factors("adamw", horizon=HORIZON, x=sp.Symbol("x"))
    with pytest.raises(ValueError, match="data: got 'many'"):
        factors("muon", data="many")


def test_a_plan_says_what_it_takes_for_granted() -> None:
    found = plan_shapes(SMALL, SAME, optimizer="adamw", horizon={**HORIZON, "u": 1}, x=0.3)
    assert "batches below the critical one" in str(found) and "T^(-3/10)" in str(found)
    entry = found.entry("h.0.fc.weight")
    assert "40000 steps of 1024 samples in the place of 10000 of 512" in entry.steps[-1].reason


@pytest.mark.parametrize("optimizer", ("muonh", "adamh"))
def test_relative_rates(optimizer: str) -> None:
    """Against width by the rank of gradients; against depth as steps of spectral norm 1, beside norms."""
    wide, deep = shapes(2, 256), shapes(8, 64)
    assert factors(optimizer, target=wide, data="fixed")[0] == 0.5
    assert factors(optimizer, target=wide, data="width")[0] == factors(optimizer, target=wide, data="Width")[0] == 1
    for forward in ("gauge", "multiplier"):
        muon = plan_shapes(SMALL, deep, optimizer="muon", forward=forward).entry("h.0.proj.weight")
        sphere = plan_shapes(SMALL, deep, optimizer=optimizer, forward=forward).entry("h.0.proj.weight")
        assert sphere.factor("lr") == pytest.approx(muon.factor("lr") / muon.factor("init"))
        assert sphere.moved(optimizer) == pytest.approx(muon.factor("lr"))
        assert sphere.factor("init") == muon.factor("init")
    assert factors(optimizer, "emb.weight", target=wide, data="fixed") == factors("muon", "emb.weight", target=wide)
    with pytest.raises(tp.NotCovered, match="data: needed for h.*weight, whose rate on a sphere goes with the width"):
        factors(optimizer, target=wide)
    found = factors(optimizer, horizon=dict(batch_size=(128, 512), steps=(4000, 1000)), data="width")
    assert found == (2, 1)


@pytest.mark.parametrize("optimizer", ("muonh", "adamh"))
def test_groups_of_spheres_do_not_decay(optimizer: str) -> None:
    class Weight:
        def __init__(self, shape: tuple[int, ...]) -> None:
            self.shape, self.requires_grad = shape, True

    class Model:
        def named_parameters(self) -> list[tuple[str, Weight]]:
            return [(name, Weight(shape)) for name, shape in SAME.items()]

    groups = plan_shapes(SMALL, SAME, optimizer=optimizer).groups(Model(), lr=0.01, weight_decay=0.1)
    assert {(group["sphere"], group["weight_decay"] > 0) for group in groups} == {
        (True, False), (False, True), (False, False)}
    assert ("use_muon" in groups[0]) == (optimizer == "muonh")


def test_relative_rates_below_the_width_make_the_steps_of_muon() -> None:
    """A batch has as many directions as samples, and the norm of a step is the root of that many singular values."""
    for (first, second), width in ((2, 8), 64), ((2, 2), 256), ((2, 8), 256):
        given = dict(target=shapes(2, width), data="width",
                     horizon=dict(batch_size=(first, second), steps=(100 * second, 100 * first)))
        assert factors("muon", **given)[0] == 1
        factor = factors("muonh", **given)[0]
        sizes = [np.mean([moved(n, rank, rate, False, seed) for seed in range(8)])
                 for n, rank, rate in ((64, first, 0.01), (width, second, 0.01 * factor))]
        assert abs(sizes[1] / sizes[0] - 1) < 0.15


def moved(n: int, rank: int, rate: float, signs: bool, seed: int) -> float:
    """By how much one relative step changes what a hidden matrix makes of a sample, over what it is."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(n, n)) / n**0.5
    x, delta = rng.normal(size=(2, rank, n))
    u, _, v = np.linalg.svd(delta.T @ x, full_matrices=False)
    step = np.sign(delta.T @ x) if signs else u[:, :rank] @ v[:rank]
    after = w - rate * np.linalg.norm(w) * step / np.linalg.norm(step)
    after *= np.linalg.norm(w) / np.linalg.norm(after)
    return float(np.linalg.norm((after - w) @ x[0]) / np.linalg.norm(w @ x[0]))


@pytest.mark.parametrize("optimizer, signs", [("muonh", False), ("adamh", True)])
@pytest.mark.parametrize("data", ("fixed", "width"))
def test_planned_steps_are_as_large_at_both_widths(optimizer: str, signs: bool, data: str) -> None:
    factor = factors(optimizer, target=shapes(2, 256), data=data)[0]
    sizes = [np.mean([moved(n, 2 if data == "fixed" else n, rate, signs, seed) for seed in range(8)])
             for n, rate in ((64, 0.01), (256, 0.01 * factor))]
    assert abs(sizes[1] / sizes[0] - 1) < 0.1
