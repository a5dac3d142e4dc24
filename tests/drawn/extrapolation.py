"""Values over depths, extrapolated to infinite depth, and powers of the depth fitted to them."""

from __future__ import annotations

from typing import Sequence

import numpy as np
from scipy.optimize import least_squares

SHRINKS = 0.95  # a sequence over doubled depths converges if its differences shrink by this; L^-1/8 shrinks by 0.92

DETERMINED = 1e8  # condition of a fit's derivatives, of length 1 each, up to which it has an error
STEEP = 0.1  # a slope that steepens and is at least this is no power of the depth: exp(L^1/4) is slow


def extrapolate(depths: Sequence[int], values: np.ndarray, rate: float, terms: int = 3) -> tuple[np.ndarray, float]:
    """The limit of values of shape (depths, ...) that go like a + b L^-r + ..., and an estimate of its error.

    The powers are the smallest sums of rates and whole numbers; as many as ``terms``, fewer where there are few depths.
    The error is by how much the last depth, and the last power, move the limit.
    """
    powers = powers_of_corrections(rate, min(terms, len(depths) - 2))

    def limit(stop: int, count: int) -> np.ndarray:
        size = np.array(depths[:stop][-count - 1:], dtype=float)
        matrix = np.stack([size**0.0, *(size**-p for p in powers[:count])], axis=1)
        found = values[:stop][-count - 1:].reshape(count + 1, -1)
        return np.linalg.solve(matrix, found)[0].reshape(values.shape[1:])

    best, count = limit(len(depths), len(powers)), len(powers)
    others = [limit(len(depths) - 1, count), limit(len(depths), count - 1)]
    return best, float(max(np.max(np.abs(best - other)) for other in others))


def powers_of_corrections(rate: float, terms: int = 4) -> list[float]:
    """The smallest sums of a rate and of whole numbers: powers of 1/L that correct what goes like a + b L^-rate."""
    powers = sorted({i * rate + j for i in range(terms + 1) for j in range(terms + 1) if i + j})
    return [p for n, p in enumerate(powers) if n == 0 or p - powers[n - 1] > 1e-9][:terms]


def converges(values: np.ndarray) -> bool:
    """Do the differences of values at doubled depths, shape (depths, ...), shrink, the last two times at least?"""
    with np.errstate(invalid="ignore"):
        steps = [float(np.max(np.abs(b - a))) for a, b in zip(values, values[1:])]
    scale = float(np.max(np.abs(values[-1]))) if np.all(np.isfinite(values[-1])) else np.inf
    return bool(np.isfinite(scale) and all(after <= max(SHRINKS * before, 1e-13 * scale, 1e-300)
                                           for before, after in list(zip(steps, steps[1:]))[-2:]))


def vanishes(sizes: np.ndarray) -> bool:
    """Do sizes at doubled depths, shape (depths,), shrink faster than powers of the depth? Zeros do.

    What vanishes steepens at the end: beside exp(-L^(1/4)) a power may fall more steeply before.
    """
    if not np.all(np.isfinite(sizes)):
        return False
    local = np.diff(np.log2(np.maximum(np.abs(sizes), 1e-300)))
    return bool(abs(sizes[-1]) < 1e-10 or local[-1] < -STEEP and local[-1] < local[-2])


def falls(sizes: np.ndarray) -> bool:
    """Is every size at doubled depths smaller than the one before, by L^-0.1 at least?"""
    return bool(np.all(np.isfinite(sizes)) and np.all(np.diff(np.log2(sizes)) < -STEEP))


def explodes(sizes: np.ndarray) -> bool:
    """Do sizes at doubled depths, shape (depths,), grow faster than powers of the depth? They may overflow."""
    if not np.all(np.isfinite(sizes)):
        return True
    local = np.diff(np.log2(sizes))
    return bool(local[-1] > STEEP and np.all(np.diff(local) > 0))


def slope(depths: Sequence[int], sizes: np.ndarray, corrections: Sequence[float] = ()) -> tuple[float, float]:
    """s and its error in size^2 ~ L^2s (a + b L^-r + ...), by least squares of logarithms.

    It is the squares of root mean squares that are sums of powers. corrections: the powers r, smallest first, of which
    as many are fitted as leave one value to spare; of fits with one of them, two and so on, that one counts which
    leaves least, by its standard error. The error is this one, or what the shallowest depth or a correction more moves
    the slope by.
    """
    size = np.array(depths, dtype=float)
    kept = list(corrections)[:max(0, len(depths) - 3)]
    fits = [_fitted(size, sizes, kept[:count]) for count in range(min(1, len(kept)), len(kept) + 1)]
    count = int(np.argmin([error for _, error in fits]))
    found, error = fits[count]
    deeper, _ = _fitted(size[1:], sizes[1:], kept[:count + min(1, len(kept))])
    more = fits[count + 1][0] if count + 1 < len(fits) else found
    return found, max(error, abs(found - deeper), abs(found - more))


def _fitted(size: np.ndarray, sizes: np.ndarray, corrections: Sequence[float]) -> tuple[float, float]:
    """The fit that is next to size ~ L^s exp(b L^-r + ...), and its standard error."""
    powers = np.array([size**-r for r in corrections]).reshape(len(corrections), len(size))
    start, *_ = np.linalg.lstsq(np.stack([np.log(size), size**0.0, *powers], axis=1), np.log(sizes), rcond=None)
    start[2:] = np.expm1(np.clip(2 * start[2:] * powers[:, 0], -1, 3)) / powers[:, 0] / max(1, len(corrections))

    def left(parameters: np.ndarray) -> np.ndarray:
        corrected = np.maximum(1 + parameters[2:] @ powers, 1e-9)
        return parameters[0] * np.log(size) + parameters[1] + np.log(corrected) / 2 - np.log(sizes)

    fit = least_squares(left, start, x_scale="jac", xtol=1e-12, ftol=1e-12)
    spare = max(1, len(size) - len(start))
    lengths = np.linalg.norm(fit.jac, axis=0)
    if not np.all(lengths) or np.linalg.cond(fit.jac / lengths) > DETERMINED:
        return float(fit.x[0]), np.inf  # corrections that are all of a size, or that are cut off, leave others free
    return float(fit.x[0]), float(np.sqrt(np.linalg.inv(fit.jac.T @ fit.jac)[0, 0] * 2 * fit.cost / spare))
