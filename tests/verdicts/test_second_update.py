"""What verdicts count over one update, over two: powers of the second are those of the first."""

from __future__ import annotations

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts.counted import counted_program
from tpcalc.verdicts.counting import Counting
from tpcalc.verdicts.counting import symbols_of
from tpcalc.asymptotics import CHANGE, KET, SCALAR
from drawn.position_blocks import attention_of

HALF, QUARTER = sp.Rational(1, 2), sp.Rational(1, 4)
POINTS = ((HALF, HALF), (HALF, 3 * QUARTER), (1, 0), (1, HALF), (3 * QUARTER, QUARTER))


def powers(net: tp.Transformer, point: tuple[sp.Expr, sp.Expr], terms: Counting, steps: tuple[int, ...]
           ) -> list[dict[tuple[str, int | str], sp.Expr]]:
    """The powers of L of all vectors, changes and numbers of some steps."""
    alpha, gamma = point
    names = symbols_of(net)
    at = {names[name]: sp.sympify(alpha if name == "alpha" else gamma) for name in names}
    solution = terms.there(at).after(max(steps) + 1)
    return [{(key.sort, key.name): solution.power(solution.value_of(key)).exponent for key in solution.table
             if key.step == step and key.sort in (KET, CHANGE, SCALAR)} for step in steps]


def over_two_updates(net: tp.Transformer) -> Counting:
    return Counting.of(counted_program(net, tp.SGD(), tp.Parametrization(depth=symbols_of(net))))


@pytest.mark.parametrize("norm", [None, "rms"])
def test_a_second_update_has_the_powers_of_the_first(norm: str | None) -> None:
    net = tp.Transformer(head_dim=1, positions=3, mlp=None, norm=norm, attention=attention_of("mean", 1, True))
    terms = over_two_updates(net)
    for point in POINTS:
        first, second = powers(net, point, terms, (1, 2))
        assert first == second and len(first) >= 10, point
        assert {"f", "chi"} <= {name for _, name in first}
    growing = powers(net, (HALF, QUARTER), terms, (1, 2))  # where the first outgrows what was there
    assert growing[0] != growing[1]


def test_so_has_one_of_softmax_attention() -> None:
    net = tp.Transformer(head_dim=2, positions=3, mlp=None)
    terms = over_two_updates(net)
    for point in POINTS[:3]:
        first, second = powers(net, point, terms, (1, 2))
        assert first == second, point
