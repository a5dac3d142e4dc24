"""Checks of what users give: raise before any work, with what was given and what is allowed."""

from __future__ import annotations

import math
import numbers
import os
from typing import Any, Iterable

import numpy as np
import sympy as sp


def positive_integer(name: str, value: Any, infinite: bool = False) -> int | None:
    """``value`` as an int >= 1; ``None`` stands for infinity, which is taken where ``infinite``."""
    allowed = "a whole number of at least 1" + (", or tp.oo" if infinite else "")
    if infinite and (value is sp.oo or isinstance(value, float) and value == np.inf):
        return None
    integral = isinstance(value, (numbers.Integral, sp.Integer)) and not isinstance(value, bool)
    if not integral or int(value) < 1:
        raise ValueError(f"{name}: {value!r} given; allowed is {allowed}")
    return int(value)


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    allowed = tuple(allowed)
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}: {value!r} given; allowed are {', '.join(map(repr, allowed))}")
    return str(value)


def finite_array(name: str, value: Any) -> np.ndarray:
    """``value`` as a float64 array without NaN or infinity."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected an array of real numbers, got {type(value).__name__} ({error})") from None
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        place = tuple(int(i) for i in bad[0])
        raise ValueError(f"{name}: {len(bad)} values are NaN or infinite (the first at index {place}); "
                         "allowed are finite numbers")
    return array


def exact(name: str, value: Any) -> sp.Expr:
    """A real exponent, exactly: 0.1 means 1/10, symbols stay symbols."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{name}: {value!r} given; allowed is a real number or a sympy expression")
    if isinstance(value, (float, np.floating)):
        if not np.isfinite(value):
            raise ValueError(f"{name}: {value!r} given; allowed is a finite real number")
        return sp.Rational(repr(float(value)))
    try:
        expression = sp.sympify(value)
    except (sp.SympifyError, TypeError) as error:
        raise ValueError(f"{name}: {value!r} given; allowed is a real number or a sympy expression ({error})") from None
    if not isinstance(expression, sp.Expr) or expression.is_real is False or expression.has(sp.nan, sp.oo, -sp.oo):
        raise ValueError(f"{name}: {value!r} given; allowed is a finite real number or a real symbol")
    if expression.has(sp.Float):
        expression = expression.replace(lambda e: isinstance(e, sp.Float), lambda e: sp.Rational(repr(float(e))))
    return expression


def learning_rate(name: str, value: Any, symbols: bool = False) -> Any:
    """A float, or a tuple of floats, one a step; a sympy expression stays one where ``symbols``."""
    if symbols and isinstance(value, sp.Expr):
        exact(name, value)
        return value
    rates = finite_array(name, value)
    if rates.ndim > 1:
        raise ValueError(f"{name}: an array of shape {rates.shape} given; allowed is a number or one number a step")
    return float(rates) if rates.ndim == 0 else tuple(float(r) for r in rates)


def schedule(lr: Any, steps: int) -> np.ndarray:
    """The learning rate of every step, shape (steps,), from one number or one a step."""
    if isinstance(lr, sp.Expr) and not lr.is_number:
        raise ValueError(f"lr: {lr} given; allowed is a number, or one number a step")
    rates = np.asarray(lr, dtype=np.float64)
    if rates.ndim == 1 and len(rates) != steps:
        raise ValueError(f"lr: {len(rates)} learning rates given for a task of {steps} steps; allowed is one "
                         "number, or one a step")
    return np.broadcast_to(rates, (steps,)).copy()


def nonnegative_number(name: str, value: Any) -> float:
    number = float(value)
    if not np.isfinite(number) or number < 0:
        raise ValueError(f"{name}: {value!r} given; allowed is a finite number of at least 0")
    return number


def memory(needed: float, what: str, advice: str) -> None:
    """Refuse before the work what cannot fit: ``needed`` bytes against the machine's physical memory."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else math.inf
    if needed > physical:
        raise MemoryError(f"{what} needs {needed / 2**30:.1f} GiB, this machine has {physical / 2**30:.1f} GiB; "
                          f"{advice}")
