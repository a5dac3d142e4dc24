"""Strategies for what users give where a number, a flag or an option belongs: right, borderline and wrong."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import strategies as st

ODD: list[Any] = [
    None, True, False, np.True_, "", "half", "1/0", "nan", "2*3", "x", b"1", "1e400", "1e999999999", "__import__('os')",
    float("nan"), float("inf"), -float("inf"), np.float32("nan"), 1j, 0.5 + 0j, np.complex128(0.5), sp.I, sp.oo, sp.zoo,
    sp.nan, sp.Symbol("x"), sp.Symbol("z", imaginary=True), sp.sqrt(-2), [], [0.5], (1, 2), {}, {"a": 1}, object(), int,
    np.array([]), np.array([0.5, 1.0]), np.array([[1.0]]), np.array(1j), np.datetime64("2020-01-01"), Decimal("nan"),
    10**400, -10**400, 10.0**308, 5e-324, lambda: 1, slice(1), range(3), np.ma.masked, sp.true, Ellipsis]
BORDERLINE: list[Any] = [
    0, 1, -1, 2, 0.0, -0.0, 1.0, 0.5, -0.5, 2 / 3, 1 / 3, 7 / 12, 0.1 + 0.2, 1 - 2 / 3, 0.5000001, 1e-17, 1e-3, 1e16,
    "1/2", "0.5", "-1/3", " 2/3 ", "1e-3", "1_000", Fraction(2, 3), Decimal("0.1"), np.float64(2 / 3), np.float32(0.1),
    np.float16(0.5), np.longdouble(0.25), np.int64(1), np.uint8(2), np.array(0.5), sp.Rational(2, 3), sp.Float(2 / 3),
    sp.sqrt(2), sp.pi / 4, sp.Integer(1), np.str_("1/2")]
VALUES = st.one_of(st.sampled_from(ODD), st.sampled_from(BORDERLINE), st.integers(-3, 10**20), st.fractions(-2, 2),
                   st.floats(), st.text(max_size=6), st.complex_numbers())
WORDS = st.sampled_from(["yes", "no", "auto", "all", "dense", "float16", "float64", "post_nonlin", "linear", "mse",
                         "sgd"])
ANYTHING = st.one_of(VALUES, WORDS)


def meant(value: Any) -> float | None:
    """The real number that was given, read without the package; None where there is none."""
    if isinstance(value, (bool, np.bool_, bytes, complex, np.complexfloating)):
        return None
    if value is np.ma.masked:
        return None
    if isinstance(value, np.ndarray):
        return meant(value.item()) if value.ndim == 0 else None
    if isinstance(value, str):
        mantissa, _, power = value.lower().partition("e")
        if power.strip().lstrip("+-").isdigit() and abs(int(power)) > 400:
            return None  # no float, and more digits than memory has room for
        try:
            return float(Fraction(value))
        except (ValueError, ZeroDivisionError, OverflowError):
            return None
    if isinstance(value, sp.Basic) and not (isinstance(value, sp.Expr) and value.is_real and value.is_number):
        return None
    if not isinstance(value, (int, float, np.number, Fraction, Decimal, sp.Expr)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError, TypeError):
        return None
    return number if np.isfinite(number) else None
