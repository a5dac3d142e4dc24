"""How the product of all layers moves when every layer follows its own gradient."""

from __future__ import annotations

from typing import Callable

import numpy as np

PRECISE, LEAST = 1e-12, 1e-13  # what steps in training time may be off by, of the state and at all


def layer_mean(a: np.ndarray, b: np.ndarray, depth: float) -> np.ndarray:
    """The mean over layers l of a^((L - l)/L) b^((l - 1)/L), at infinite depth the integral of a^(1 - s) b^s.

    >>> round(float(layer_mean(4.0, 1.0, 2)), 12), round(float(layer_mean(4.0, 1.0, np.inf) * np.log(4)), 12)
    (1.5, 3.0)
    """
    def slope(x: np.ndarray) -> np.ndarray:  # (e^x - 1) / x
        return np.where(x == 0, 1.0, np.expm1(x) / np.where(x == 0, 1.0, x))

    ratio = np.log(a) - np.log(b)
    return b ** (1 - 1 / depth) * slope(ratio) / slope(ratio / depth)


def velocity(product: np.ndarray, pull: np.ndarray, depth: float) -> np.ndarray:
    """M' of M = product of all layers, where -dLoss/dM is ``pull``.

    Layers 1 + A^l / L move by pull, multiplied by all layers above from the left and all below from the right, both
    transposed. What two neighbors are away from having W^T W = W W^T stays, and is nothing at the start, so that all
    that the layers above do is a power of M M^T, and below of M^T M:

        M' = mean over l of (M M^T)^((L - l)/L) pull (M^T M)^((l - 1)/L)

    In singular vectors of M the powers are numbers, and their mean is that of ``layer_mean``. Source:
    [tpcalc/long_training].
    """
    left, sizes, right = np.linalg.svd(product)
    means = layer_mean(sizes[:, None] ** 2, sizes[None, :] ** 2, depth)
    return np.asarray(left @ ((left.T @ pull @ right.T) * means) @ right)


def moved(pull: Callable[[np.ndarray], np.ndarray], size: int, times: np.ndarray, depth: float) -> np.ndarray:
    """The products, shape (times, size, size), at increasing times from 0, from M = 1.

    Directions of large variance are learned long before those of small ones, and stay: the solver takes implicit steps
    there.
    """
    from scipy.integrate import solve_ivp

    def slope(_: float, state: np.ndarray) -> np.ndarray:
        product = state.reshape(size, size)
        return velocity(product, pull(product), depth).ravel()

    found = solve_ivp(slope, (0.0, float(times[-1])), np.eye(size).ravel(), "LSODA", times, rtol=PRECISE, atol=LEAST)
    return np.asarray(found.y).T.reshape(-1, size, size)
