"""Exponents of a sweep at a point: in arrays of whole numbers as one by one."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from tpcalc.orders import EXPLODES, Affine, Exponent, Quantity, Region, elimination
from tpcalc.orders.affine import Cell
from tpcalc.orders.elimination import GrowingLoop

SWEEP = [Quantity.scalar(name, 0) for name in "abcdefghi"]


@pytest.mark.parametrize("largest", [-1, 0, 1])
@pytest.mark.parametrize("seed", range(8))
def test_arrays_solve_a_sweep_as_one_quantity_after_the_other_does(
        seed: int, largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random exponents, and loops some of which grow where the largest weight is positive.

    Of those nothing vanishes or has exploded before, for arrays say nothing of a loop that changes nothing.
    """
    draw = random.Random(seed)

    def number(high: int) -> Exponent:
        return Exponent.single(Affine((), Fraction(draw.randint(-4, 2 * high), 2)))

    special = [] if largest > 0 else [Exponent(), EXPLODES]
    alone = {u: draw.choice([*special, *[number(2)] * 8]) for u in SWEEP}
    loops = {(u, v): number(largest) for u in SWEEP for v in SWEEP if draw.random() < 0.3}
    found = []
    for few in (0, len(SWEEP)):
        monkeypatch.setattr(elimination, "FEW", few)
        solved = elimination._eliminate_linear(Cell(Region(0), {}), SWEEP, frozenset(), dict(alone), dict(loops))
        found.append((solved.quantity, solved.weight) if isinstance(solved, GrowingLoop) else solved.exponents)
    assert found[0] == found[1]
