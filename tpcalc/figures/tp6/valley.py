"""The direction of a valley of losses over two hyperparameters."""

from __future__ import annotations

import numpy as np

SHARE = 0.4  # of the grid's points, the best ones: what a parabola fits


def valley_slope(x: np.ndarray, y: np.ndarray, losses: np.ndarray) -> float:
    """The slope dy / dx along which the logarithm of the losses, (y, x), grows least around their minimum.

    x, y: logarithms of the hyperparameters. A quadratic is fitted to the best points, and the slope is that of the long
    axis of its level sets; NaN where they are no ellipses.

    >>> x = y = np.linspace(-3, 3, 7)
    >>> losses = np.exp((y[:, None] + 2 * x) ** 2 + 0.1 * x**2)
    >>> round(valley_slope(x, y, losses), 1)
    -2.0
    """
    here, there = np.meshgrid(x, y)
    values = np.log(np.where(np.isfinite(losses), losses, np.inf))
    best = values <= np.quantile(values, SHARE, method="lower")
    best &= np.isfinite(values)
    u, v = here[best], there[best]
    basis = np.stack([np.ones_like(u), u, v, u**2, u * v, v**2], axis=1)
    if len(u) <= basis.shape[1]:
        return float("nan")
    *_, a, b, c = np.linalg.lstsq(basis, values[best], rcond=None)[0]
    curvatures, axes = np.linalg.eigh(np.array([[a, b / 2], [b / 2, c]]))
    return float(axes[1, 0] / axes[0, 0]) if curvatures[1] > 0 and axes[0, 0] != 0 else float("nan")
