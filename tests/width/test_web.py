"""The web of effective theories, and widths and depths that keep L / n^(1 - s)."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, strategies as st

import tpcalc as tp
from tpcalc.testing import rationals
from tpcalc.width.web import NAMES


@pytest.mark.parametrize("s, kappa, name", [
    (0, 0, "frozen NTK"), (0.5, 0, "frozen NTK"), (0.5, 0.25, "frozen NTK"), (0, 1, "NT"), (1, 0, "mean field / MU"),
    (0.5, 0.5, "missing"), ("1/3", "2/3", "missing"), (1 / 3, 2 / 3, "missing"), (1, "1/8", "beyond"),
    (0, 1.5, "beyond"), (0.5, 0.75, "beyond"), (2, 0, "beyond"), (-1, 1, "frozen NTK"), (-1, 1.5, "beyond")])
def test_names(s: Any, kappa: Any, name: str) -> None:
    found = tp.web(s, kappa)
    assert found.name == str(found) == name and name in NAMES
    assert tp.web().at(s, kappa) == found


@given(rationals(0, 1), rationals(0, 2))
def test_names_against_the_paper(s: sp.Rational, kappa: sp.Rational) -> None:
    """Section V, typed here as its independent reference; beyond it, growth."""
    if kappa < 1 - s:
        expected = "frozen NTK"
    elif kappa > 1 - s:
        expected = "beyond"
    else:
        expected = {0: "NT", 1: "mean field / MU"}.get(s, "missing")
    assert tp.web(s, kappa).name == expected


def test_what_s_outside_the_interval_breaks() -> None:
    assert tp.web(0, 1).breaks == tp.web(1, 0).breaks == ()
    (large,), (wild,) = tp.web(-1, 0).breaks, tp.web(2, 0).breaks
    assert large.startswith("bounded outputs") and "n^1" in large
    assert wild.startswith("bounded differentials") and "n^1" in wild


@given(st.floats(2, 1e5), st.floats(1, 1e4), st.floats(-1, 2).filter(lambda s: abs(s - 1) > 0.01))
def test_any_three_give_the_fourth(n: float, L: float, s: float) -> None:
    target = tp.width.depth_to_width_ratio(n=n, L=L, s=s)
    assert math.isclose(target, L / n**(1 - s), rel_tol=1e-12)
    for found, expected in ((tp.width.depth_to_width_ratio(L=L, s=s, target=target), n),
                            (tp.width.depth_to_width_ratio(n=n, s=s, target=target), L)):
        assert math.isclose(found, expected, rel_tol=1e-9) and math.isclose(found.depth_to_width, L / n, rel_tol=1e-9)
    assert math.isclose(tp.width.depth_to_width_ratio(n=n, L=L, target=target), s, abs_tol=1e-9)


def test_aspects_show_the_other_ratio() -> None:
    found = tp.width.depth_to_width_ratio(n=100, L=10, s=0)
    assert repr(found) == "0.1 (L / n = 0.1)" and isinstance(found, float)
    again = pickle.loads(pickle.dumps(found))
    assert again == found and again.depth_to_width == 0.1


@pytest.mark.parametrize("call, match", [
    (lambda: tp.width.depth_to_width_ratio(1, 2, 0, 3), "0 of them None"),
    (lambda: tp.width.depth_to_width_ratio(1, 2), "2 of them None"),
    (lambda: tp.width.depth_to_width_ratio(L=3, s=1, target=3), "n: got None at s = 1"),
    (lambda: tp.width.depth_to_width_ratio(n=1, L=3, target=3), "s: got None at n = 1"),
    (lambda: tp.width.depth_to_width_ratio(n=-1, L=3, s=0), "n: got -1"),
    (lambda: tp.width.depth_to_width_ratio(n=1, L=0, s=0), "L: got 0"),
    (lambda: tp.width.depth_to_width_ratio(n=2, L=3, s=float("nan")), "s: got nan"),
    (lambda: tp.width.depth_to_width_ratio(L=1e300, s=0.999, target=1), "n: .*beyond what floats hold"),
    (lambda: tp.width.depth_to_width_ratio(n=1e300, L=1, s=-3), "target: .*beyond what floats hold"),
    (lambda: tp.web(0), "expected both, or neither"), (lambda: tp.web(kappa=0), "expected both, or neither"),
    (lambda: tp.web(0, -1), "kappa: got -1"), (lambda: tp.web(sp.Symbol("s"), 0), "expected a number"),
    (lambda: tp.web(0, 1j), "kappa: got 1j"),
])
def test_bad_input_is_refused(call: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()


def test_the_map_says_what_the_theory_says() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    ax = tp.web().plot(figure.subplots())
    assert {text.get_text() for text in ax.texts} == set(NAMES)
    for text in ax.texts:
        s, kappa = text.xy
        assert tp.web(float(s), float(kappa)).name == text.get_text()
    line, = [one for one in ax.lines if len(one.get_xdata()) == 2]
    assert np.allclose(np.asarray(line.get_ydata(), dtype=float), [1, 0])
