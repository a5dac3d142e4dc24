"""Comparisons with a tolerance relative to the size of what is compared."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_close(actual: Any, expected: Any, tolerance: float, *sizes: Any) -> None:
    """Largest difference at most ``tolerance`` times the largest absolute value of all arrays given.

    sizes: arrays that also set the scale: what the compared values are sums of, where these cancel.
    """
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert actual.shape == expected.shape
    assert np.all(np.isfinite(actual)) and np.all(np.isfinite(expected))
    scale = max(float(np.max(np.abs(a), initial=0.0)) for a in (actual, expected, *map(np.asarray, sizes)))
    difference = float(np.max(np.abs(actual - expected), initial=0.0))
    assert difference <= tolerance * scale, f"difference {difference:.3e}, allowed {tolerance:.0e} of {scale:.3e}"
