"""Verdicts on drawn networks of any shape against real ones in plain NumPy: tests/references/measured_slopes.py."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from references import measured_slopes as plain
from support.drawn_trees import REFUSED, asked
from support.slopes_of_depth import Compared, compared, measured, power
from drawn.refusals import Refused, refused_or

PARTS = json.loads((Path(__file__).parents[1] / "references" / "measured_slopes.json").read_text())
MOST_REFUSED = 1 / 8
LOOPS = [row["name"] for row in PARTS["loops"]]
QUICK = (7, 25)
# A power of twice the depth; an explosion by upper bounds alone, with exponents beside it that were none; the output of
# a branch less its mean, divided by its size.
ONCE_WRONG = (64, 99, 103)
# W x - silu(x) at alpha = 3/4 decays like exp(-c L^(1/4)), by less than 1/e over these depths, and h is a mean over
# layers, of which the first L^(3/4) still keep theirs.
TOO_SLOW = frozenset({50})
# Loops of which exponents do not tell whether they grow or decay, and no sign of a term is known.
UNDECIDED = ("W x - x^3/4", "W^T tanh(W x)", "W^T sin(W x)")
H = 0.5


def verdict_on(row: dict[str, Any], named: bool = True) -> tp.verdicts.Verdict:
    """Raises ``Refused``."""
    scale, net, opt = asked(row, named)
    return refused_or(tp.classify, scale, net, opt)


def assert_right(row: dict[str, Any], named: bool = True) -> None:
    """What a verdict says is what real networks show. Raises ``Refused`` where there is no verdict."""
    verdict = verdict_on(row, named)
    found = compared(row, verdict.exponents, verdict.bounds)
    assert all(one.agrees for one in found), f"{verdict.name}: " + "; ".join(map(str, found))


def test_stored_networks_are_those_that_are_drawn() -> None:
    assert [row["seed"] for row in PARTS["drawn"]] == list(range(plain.DRAWN))
    for row in PARTS["drawn"]:
        one = json.loads(json.dumps(asdict(plain.drawn(row["seed"]))))
        assert {name: row[name] for name in one} == one


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed not in QUICK))
                                  for seed in range(plain.DRAWN)])
def test_blocks_are_the_networks_that_were_measured(seed: int, steps: int = 3) -> None:
    """tpcalc trains the same network from the same weights; Adam as the sign descent that its first update is."""
    what, width, depth = plain.drawn(seed), 12, 4
    ours = plain.Network(what, depth, np.random.default_rng(seed), width, 1)
    weights = {name: np.stack([ours.weights[name, layer][0] for layer in range(1, depth + 1)]).astype(float)
               for name in plain.names(what.tree)}
    ends = {"U": ours.start[0].astype(float) / plain.INPUT, "nV": ours.readout[0].astype(float)}
    scale, net, opt = asked({**asdict(what), "opt": "sgd" if what.opt == "sgd" else "sign"})
    task = tp.Task([plain.INPUT] * steps, [plain.TARGET] * steps)
    run = tp.train(net, task, replace(opt, lr=plain.RATE), scale, depth=depth, width=width,
                   method=tp.methods.Dense(weights={**weights, **ends}))
    outputs = []
    for _ in range(steps):
        end, f = ours.forward()
        ours.step(end, f)
        outputs.append(f[0])
    assert np.abs(run.outputs.ravel() - outputs).max() < 1e-4 * max(1, np.abs(outputs).max())


def test_one_network_is_measured_again() -> None:
    row = PARTS["drawn"][7]
    again = plain.measured(plain.drawn(7), depths=row["depths"][:1], rounds=row["networks"] // plain.NETWORKS, seed=7)
    for name, told in row["logs"].items():
        assert np.allclose([one[0] for one in again["logs"][name]], [one[0] for one in told], atol=2e-3)


@pytest.mark.parametrize("true", [0.0, -0.5, 0.25, 0.5])
def test_a_power_is_found_and_a_wrong_one_is_seen(true: float) -> None:
    depths, rng = [16, 32, 64, 128, 256], np.random.default_rng(0)
    found = power(depths, [(true * np.log(n) + 0.2 * (n / 16)**-0.5 + 0.01 * rng.normal(), 0.01) for n in depths])
    assert Compared("f", true, found).agrees
    assert not any(Compared("f", true + by, found).agrees for by in (-0.25, 0.25, np.inf, -np.inf))
    assert Compared("f", true + 0.25, found, bound=True).agrees and Compared("f", np.inf, found, bound=True).agrees
    assert not Compared("f", true - 0.25, found, bound=True).agrees


def test_exponentials_are_no_powers() -> None:
    """Those of L^(1/4) are taken for either."""
    depths = [16, 32, 64, 128, 256]
    for sign in (-1, 1):
        found, slow = (power(depths, [(sign * n**v, 0.01) for n in depths]) for v in (0.5, 0.25))
        for one in (found, slow):
            assert Compared("x", sign * np.inf, one).agrees and not Compared("x", -sign * np.inf, one).agrees
        assert not any(Compared("x", sign * by, found).agrees for by in (0, 0.5, 1, 2, 4))


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed not in ONCE_WRONG))
                                  for seed in sorted({*range(plain.DRAWN)} - TOO_SLOW - REFUSED)])
def test_verdicts_say_what_real_networks_show(seed: int) -> None:
    assert_right(PARTS["drawn"][seed])


@pytest.mark.slow
def test_what_decays_too_slowly_to_be_measured_decays() -> None:
    for seed in TOO_SLOW:
        verdict = verdict_on(PARTS["drawn"][seed])
        assert verdict.name == "decays"
        found = compared(PARTS["drawn"][seed], verdict.exponents, verdict.bounds)
        assert all(one.measured.slope < -0.1 or one.agrees for one in found)


def refusals() -> dict[int, str]:
    refused = {}
    for row in PARTS["drawn"]:
        try:
            verdict_on(row)
        except Refused as refusal:
            refused[row["seed"]] = str(refusal)
    return refused


@pytest.mark.slow
def test_no_others_are_refused() -> None:
    """Counted before any is left out."""
    assert refusals().keys() == REFUSED


def test_few_are_refused() -> None:
    assert len(REFUSED) <= MOST_REFUSED * plain.DRAWN and REFUSED.isdisjoint(ONCE_WRONG)


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("number", range(len(LOOPS)), ids=LOOPS)
def test_loops_have_signs(number: int, named: bool) -> None:
    """Also where functions have no names."""
    if LOOPS[number] in UNDECIDED:
        with pytest.raises(Refused, match="whether that makes it grow or decay is not known"):
            verdict_on(PARTS["loops"][number], named)
    else:
        assert_right(PARTS["loops"][number], named)


def test_a_silu_gate_behind_a_norm() -> None:
    """What was asked for, over three updates, of the stream, the output and a layer."""
    wanted = {("1/2", "1/2"): (0.0, 0.0, -H), ("1", "0"): (0.0, 0.0, 0.0), ("1", "1/2"): (-H, -H, -H)}
    names = ("change of x", "change of f", "update of h")
    for row in PARTS["silu_gate"]:
        for name, slope in zip(names, wanted[tuple(row["point"])]):
            assert Compared(name, slope, measured(row)[name]).agrees


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
def test_verdicts_on_a_silu_gate_behind_a_norm(number: int) -> None:
    assert_right(PARTS["silu_gate"][number])


def test_a_stream_with_norms_behind_branches_is_bounded() -> None:
    """rms x <= rms x_0 + L^(1 - alpha), and L^(1/2) at alpha = 0."""
    for row in PARTS["norm_behind"]:
        alpha = plain.ratio(row["point"][0])
        sizes = [np.exp(told[0]) for told in row["logs"]["x at initialization"][0]]
        assert all(one <= 1.02 * plain.INPUT + depth**(1 - alpha) for one, depth in zip(sizes, row["depths"]))
        assert Compared("x", max(0.0, 0.5 - alpha), measured(row)["x at initialization"]).agrees


@pytest.mark.slow
@pytest.mark.parametrize("number", range(12))
def test_verdicts_on_norms_behind_branches(number: int) -> None:
    assert_right(PARTS["norm_behind"][number])
