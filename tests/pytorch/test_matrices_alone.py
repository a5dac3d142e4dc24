"""What every matrix alone brings to outputs: verdicts by matrix against transformers in which no other one moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

torch = pytest.importorskip("torch")

from support.pytorch.many_transformers import logs_of_sizes  # noqa: E402

import tpcalc as tp  # noqa: E402
from drawn.measured_powers import measured_power  # noqa: E402
from drawn.position_blocks import (  # noqa: E402
    CHANGE,
    DEPTHS,
    HALF,
    OUTPUT,
    ROUNDS,
    SHARP,
    Compared,
    DrawnTransformer,
    corrections_at,
)

ONE, QUARTER = sp.Integer(1), sp.Rational(1, 4)
POINTS = ((HALF, HALF), (ONE, ONE - ONE), (HALF, HALF + QUARTER), (ONE - QUARTER, QUARTER))
SOFTMAX = DrawnTransformer("softmax", None, "rms", "gelu", True, 2, tp.SGD(0.05), POINTS[0])
NORMED = replace(SOFTMAX, head_dim=4, qk_norm=True)
GATED = DrawnTransformer("gated", "glu", "layer", "tanh", False, 1, tp.Adam(0.05, eps=0), POINTS[0])


def brought(drawn: DrawnTransformer, name: str, power: sp.Expr, size: str = OUTPUT,
            trained: tuple[str, ...] | None = None) -> Compared:
    """The power of L by which outputs, or another size, move when some matrices alone are updated."""
    logs = [np.zeros(0) for _ in DEPTHS]
    for number in range(ROUNDS):
        logs = [np.concatenate([one, logs_of_sizes(drawn, depth, number, trained=trained)[size]])
                for depth, one in zip(DEPTHS, logs)]
        s, error = measured_power(DEPTHS, logs, corrections_at(drawn.point, DEPTHS, 0))
        if error <= SHARP:
            break
    return Compared(name, power, s, error)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("drawn", [SOFTMAX, GATED, NORMED], ids=["softmax", "gated", "normed"])
def test_every_matrix_moves_outputs_as_real_ones_do(drawn: DrawnTransformer,
                                                    point: tuple[sp.Rational, sp.Rational]) -> None:
    """Three positions, and of softmax heads of two coordinates, against what is counted with one at two."""
    drawn = replace(drawn, point=point)
    for name, one in tp.classify(*point, drawn.net, drawn.opt).matrices.items():
        found = brought(drawn, name, one.output, trained=(name,))
        print(drawn.attention, "with qk_norm" * drawn.qk_norm, point, one.name, found)
        assert found.agrees and found.tells, found


@pytest.mark.slow
@pytest.mark.parametrize("point", [(HALF, ONE), (ONE - QUARTER, ONE - QUARTER), (ONE - QUARTER, HALF), (ONE, ONE)])
@pytest.mark.parametrize("drawn", [SOFTMAX, GATED], ids=lambda one: one.attention)
def test_weight_decay_moves_streams_as_real_ones(drawn: DrawnTransformer, point: tuple[sp.Rational, sp.Rational]
                                                 ) -> None:
    """A fifth of every initial matrix is gone after the update, which changes a stream by more than the update does, or
    by the same power of L."""
    drawn = replace(drawn, point=point, opt=replace(drawn.opt, weight_decay=4.0))
    verdict = tp.classify(*point, drawn.net, drawn.opt)
    found = brought(drawn, CHANGE, verdict.exponents[CHANGE], CHANGE)
    print(drawn.attention, point, found)
    assert found.agrees and found.tells, found
