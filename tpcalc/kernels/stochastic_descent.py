"""Stochastic gradient descent of a linear network on fresh samples: its mean and its variances, step by step."""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def descend(rates, teacher, along, across, directions, label_noise, batch_size):
    """(output, variance along the teacher, sum of the others, what noise has moved), inputs of variance 1.

    along, across: tangent kernels at outputs 0, ..., teacher, equally far apart. A sample x moves the output's weights
    by K x (noise - error . x), and E (e . x)^2 x x^T = |e|^2 + 2 e e^T.
    """
    last = len(along) - 1
    output = parallel = others = moved = 0.0
    for rate in rates:
        at = output / teacher * last
        cell = min(max(int(at), 0), last - 1)
        share = at - cell
        k1 = rate * (along[cell] + share * (along[cell + 1] - along[cell]))
        k2 = rate * (across[cell] + share * (across[cell + 1] - across[cell]))
        square = (teacher - output) ** 2 + parallel
        spread = label_noise + square + others
        output += k1 * (teacher - output)
        parallel = (1 - k1) ** 2 * parallel + k1**2 * (spread + square) / batch_size
        others = (1 - k2) ** 2 * others + k2**2 * (directions * spread + others) / batch_size
        moved += rate * (k1 + directions * k2) * spread / batch_size
    return output, parallel, others, moved
