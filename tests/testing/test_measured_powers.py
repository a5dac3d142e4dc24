"""Random transformers are drawn of all there is, and powers are found next to their corrections."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from drawn import position_blocks
from drawn.measured_powers import measured_power
from drawn.position_blocks import HALF, STEP, Compared, corrections_at, drawn_transformer

BLOCKS, DEPTHS = 60, (32, 64, 128, 256)


def test_all_there_is_is_drawn() -> None:
    drawn = [drawn_transformer(seed) for seed in range(BLOCKS)]
    for name, options in (("attention", position_blocks.ATTENTIONS), ("mlp", position_blocks.SECOND),
                          ("norm", position_blocks.NORMS), ("phi", position_blocks.ACTIVATIONS),
                          ("causal", (True, False)), ("head_dim", (1, 2))):
        assert {getattr(one, name) for one in drawn} == set(options)
    assert len({type(one.opt) for one in drawn}) == len(position_blocks.OPTIMIZERS)
    assert len({one.point for one in drawn}) > 4
    assert all(one.net.matrices_of_block for one in drawn)


@pytest.mark.parametrize("power, rate", [(0.0, 1.0), (-0.25, 0.5), (0.5, 1.0)])
def test_powers_are_found_next_to_corrections(power: float, rate: float) -> None:
    """Errors are those of repetitions: of 100 measurements about 68 are within one, 95 within two."""
    size, rng = np.array(DEPTHS, dtype=float), np.random.default_rng(0)
    logs = power * np.log(size) + 0.3 * (size / 32)**-rate
    found = [measured_power(DEPTHS, [rng.normal(one, 0.3, 200) for one in logs], [(size / 32)**-rate])
             for _ in range(100)]
    off = np.array([abs(s - power) / error for s, error in found])
    assert np.mean(off < 1) > 0.55 and np.mean(off < 2) > 0.9
    plain = [measured_power(DEPTHS, [rng.normal(one, 0.3, 200) for one in logs]) for _ in range(100)]
    assert abs(np.mean([s for s, _ in plain]) - power) > 0.05


def test_what_no_power_has_makes_errors_larger() -> None:
    rng = np.random.default_rng(0)
    bent = [rng.normal(value, 0.1, 400) for value in (0, 1, 0, 1)]
    straight = [rng.normal(value, 0.1, 400) for value in (0, 0.33, 0.67, 1)]
    assert measured_power(DEPTHS, bent)[1] > 10 * measured_power(DEPTHS, straight)[1]


@pytest.mark.parametrize("depths, logs", [((8,), [np.zeros(4)]), ((8, 16), [np.zeros(4)]),
                                          ((8, 16), [np.zeros(4), np.zeros(1)])])
def test_too_little_to_measure_is_refused(depths: tuple[int, ...], logs: list[np.ndarray]) -> None:
    with pytest.raises(ValueError, match="logs: got those of .* networks at .* depths; expected"):
        measured_power(depths, logs)


def test_corrections_are_those_of_noise_layers_and_updates() -> None:
    """At alpha = 3/4 noise is L^(-1/2) of a stream's square; at (1/2, 3/4) an update brings itself L^(-1/2)."""
    def powers(alpha: sp.Rational, gamma: sp.Rational, relative: float) -> list[tuple[float, float]]:
        return [(float(one[0]), round(float(np.log2(one[1] / one[0])), 9))
                for one in corrections_at((alpha, gamma), DEPTHS, relative)]

    quarter = sp.Rational(1, 4)
    assert powers(HALF, HALF, 0.5) == [(1, -1)]
    assert powers(sp.Integer(1), sp.Integer(0), 0.5) == [(1, -1)]
    assert powers(3 * quarter, quarter, 0.5) == [(1, -0.5)]
    assert powers(HALF, 3 * quarter, 0.5) == [(1, -1), (0.25, -0.5)]
    assert powers(HALF, quarter, 0) == [(1, -1)]


def test_a_power_wrong_by_a_quarter_does_not_agree() -> None:
    sharp = [Compared("f", by, 0.0, 0.05) for by in (sp.Integer(0), STEP, -STEP)]
    assert [one.agrees for one in sharp] == [True, False, False] and sharp[0].tells
    assert not Compared("f", sp.Integer(0), 0.0, 0.09).tells
    assert Compared("f", sp.Integer(0), 0.12, 0.04).agrees and not Compared("f", sp.Integer(0), 0.14, 0.048).tells
    assert Compared("f", STEP, 0.0, 0.01, bound=True).agrees and not Compared("f", -STEP, 0.0, 0.01, bound=True).agrees
    assert [Compared("f", by, 0.0, 0.01, bound=True).tells for by in (sp.Integer(0), STEP)] == [True, False]
