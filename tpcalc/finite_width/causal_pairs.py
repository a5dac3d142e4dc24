"""Pairs of fields in causal order, in which the linearized equations of a trained network are triangular.

Signals of a step answer earlier steps, response fields later ones. So changes of overlaps can be ordered: first those
whose later field is a response field, the last step first, and then those whose later field is a signal, the first step
first. In this order nothing answers what comes after it, neither in Pi nor in R, of which the halves are swapped; what
goes from R to Pi answers what comes before it alone. Equations of this kind are solved without pivots, and products
of their matrices take 2/5 of the time.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtri

SHORTEST = 24  # rows of a panel, where there are as many: shorter ones are slow to multiply


class Order(NamedTuple):
    """Pairs i <= j of one side, (p,) each; its signals stand in the first half of a matrix (Pi), or in the second."""

    i: np.ndarray
    j: np.ndarray


class CausalPairs(NamedTuple):
    """Pairs of Pi and of R, in causal order, and where blocks of their triangular matrices end; below: (p, p), 1 below
    the diagonal and 0 elsewhere; turns: slices of pairs that are known at once."""

    p: Order
    q: Order
    turns: tuple[slice, ...]
    ends: tuple[int, ...]
    below: np.ndarray

    @property
    def size(self) -> int:
        return len(self.p.i)

    def product(self, first: np.ndarray, *others: np.ndarray) -> np.ndarray:
        """Products of block lower triangular matrices (..., p, p), from the left to the right."""
        for other in others:
            out = np.zeros(np.broadcast_shapes(first.shape, other.shape))
            start = 0
            for end in self.ends:
                rows = slice(start, end)
                np.matmul(first[..., rows, :end], other[..., :end, :end], out=out[..., rows, :end])
                start = end
            first = out
        return first

    def resolvent(self, E: np.ndarray) -> np.ndarray:
        """(1 - E)^-1 of a strictly lower triangular E (p, p), of which nothing else is read."""
        upper, _ = dtrtri(-E.T, lower=0, unitdiag=1)
        out: np.ndarray = upper.T * self.below
        np.fill_diagonal(out, 1.0)
        return out


@lru_cache(maxsize=8)
def causal_pairs(rows: int, per_step: int) -> CausalPairs:
    """Those of rows (step, sample), of which a step has ``per_step``."""
    i, j = np.triu_indices(2 * rows)
    steps = rows // per_step

    first, second = i % rows // per_step, j % rows // per_step
    when = np.maximum(first, second)
    response = (i >= rows) & (first == when) | (j >= rows) & (second == when)
    turns = np.where(response, -1 - when, when)
    order = np.argsort(turns, kind="stable")
    i, j = i[order], j[order]
    counts, ends = np.cumsum(np.bincount(turns + steps)).tolist(), [0]
    for end in counts:
        if end == len(i) or end - ends[-1] >= SHORTEST:
            ends.append(end)
    a, b = (i + rows) % (2 * rows), (j + rows) % (2 * rows)
    p, q = Order(i, j), Order(np.minimum(a, b), np.maximum(a, b))
    below = np.tri(len(i), k=-1)
    for array in (*p, *q, below):
        array.setflags(write=False)
    return CausalPairs(p, q, tuple(map(slice, [0, *counts], counts)), tuple(ends[1:]), below)
