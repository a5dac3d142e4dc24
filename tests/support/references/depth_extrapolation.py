"""Values at infinite depth from finite depths, where they are power series in 1/L (Richardson's extrapolation)."""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple

import numpy as np

from tpcalc.errors import Divergence

KNOWN = 1e-6         # a value that is not known to this is not given
FIRST, MOST = 4, 1024
MOST_ORDERS = 10     # few thick layers may be too far from the limit to say anything of it: they drop out


class Extrapolated(NamedTuple):
    """A value and how far it may be off, absolutely."""

    value: np.ndarray
    error: float


def depths() -> Iterator[int]:
    """4, 6, 8, 12, 16, ...: ratios of 4/3 and 3/2 keep round-off small while orders are added."""
    depth = FIRST
    while depth <= MOST:
        yield depth
        yield depth * 3 // 2
        depth *= 2


def infinite_depth(at_depth: Callable[[int], np.ndarray], tolerance: float) -> Extrapolated:
    """The limit of ``at_depth``, by polynomials in 1/L through more and more depths.

    Every depth adds an order in 1/L. The error is the change that the last order made, or the one before it, whichever
    is larger; depths are added until it is at most ``tolerance`` times the largest value, or falls no more. Raises
    ``Divergence`` where not even ``KNOWN`` is reached.
    """
    used: list[int] = []
    row: list[np.ndarray] = []
    best, best_error, size, grown = np.zeros(0), np.inf, 1.0, 0
    failure: Divergence | None = None
    for depth in depths():
        try:
            value = at_depth(depth)
        except Divergence as divergence:  # few thick layers may blow up where many thin ones do not
            failure, used, row = divergence, [], []
            continue
        before, row = row, [value]
        used.append(depth)
        for k, older in enumerate(before[:MOST_ORDERS]):
            ratio = depth / used[-2 - k]
            row.append(row[k] + (row[k] - older) / (ratio - 1))
        if len(row) < 3:
            continue
        size = float(np.max(np.abs(row[-1]), initial=0.0))
        error = float(max(np.max(np.abs(row[-1] - row[-2])), np.max(np.abs(row[-1] - before[-1]))))
        if error < best_error:
            best, best_error, grown = row[-1], error, 0
        else:
            grown += 1
        if best_error <= tolerance * size or grown == 3 and best_error <= KNOWN * size:
            break
    if failure is not None and not len(best):
        raise failure
    if not best_error <= KNOWN * size:
        raise Divergence(f"fluctuations at infinite depth: values of size {size:.2g} are known to {best_error:.1e} "
                         f"only from {MOST} layers; a smaller learning rate may help")
    return Extrapolated(best, best_error)
