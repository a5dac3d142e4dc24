"""The coefficient recursion of a linear residual network (Tensor Programs VI, Lemma D.1): every ket over its base kets.

Base kets: U_j, nV_k, and the hat-kets F_a^m = hat(W^m x_a^(m-1)), B_a^m = hat(W^mT delta_a^m) of
every layer m = 1..L and sample a = (step, input). Layer m is stored at index m - 1.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def apply_covariance(hat, ends, covariance, y, y_ends):
    """Apply the covariance of the base kets to one ket: hat, y: (2, L, N); covariance: (2, L, N, N)."""
    for a in range(len(ends)):
        y_ends[a] = ends[a]
    for d in range(hat.shape[0]):
        for m in range(hat.shape[1]):
            for a in range(hat.shape[2]):
                y[d, m, a] = 0.0
            for c in range(hat.shape[2]):
                x = hat[d, m, c]
                if x != 0.0:
                    for a in range(hat.shape[2]):
                        y[d, m, a] += x * covariance[d, m, c, a]


@njit(cache=True)
def bracket(y, y_ends, hat, ends):
    """<ket | ket'> from the contracted first and the coefficients of the second."""
    total = 0.0
    for j in range(ends.shape[0]):
        total += y_ends[j] * ends[j]
    for d in range(hat.shape[0]):
        for m in range(hat.shape[1]):
            for a in range(hat.shape[2]):
                total += y[d, m, a] * hat[d, m, a]
    return total


@njit(cache=True)
def accumulate(hat, ends, factor, hat2, ends2):
    """Add a multiple of one ket's coefficients to another's, in place."""
    for j in range(ends.shape[0]):
        ends[j] += factor * ends2[j]
    for d in range(hat.shape[0]):
        for m in range(hat.shape[1]):
            for a in range(hat.shape[2]):
                hat[d, m, a] += factor * hat2[d, m, a]


@njit(cache=True)
def sweep_coefficients(forward, earlier, first, last, eps, g, rho, w, own, own_ends, other, other_ends, covariance,
                       response, work):
    """Rows first..last-1 of one step through all layers; rows 0..earlier-1 belong to earlier steps.

    own, other: (N, L + 1, 2, L, N) coefficients over the hat-kets (own is x when forward, else delta);
    own_ends, other_ends: (N, L + 1, E) over U and nV. covariance: (2, L, N, N) of F and B; response:
    (2, L, N, N), the coefficients D and E. Returns 0, or the layers passed at the first value not finite.
    """
    layers = covariance.shape[1]
    d = 0 if forward else 1
    y = work
    y_ends = np.empty(own_ends.shape[2])
    for step in range(layers):
        layer = step if forward else layers - 1 - step
        old = step if forward else layers - step
        new = old + 1 if forward else old - 1
        for a in range(first, last):
            # Cov(F_a, F_b) = <x_a | x_b> for b <= a
            apply_covariance(own[a, old], own_ends[a, old], covariance, y, y_ends)
            for known in range(earlier + a + 1 - first):
                b = known if known < earlier else first + known - earlier
                value = bracket(y, y_ends, own[b, old], own_ends[b, old])
                covariance[d, layer, a, b] = value
                covariance[d, layer, b, a] = value
        for a in range(first, last):
            own[a, new] = own[a, old]
            own_ends[a, new] = own_ends[a, old]
            own[a, new, d, layer, a] += eps * rho[a]
            for b in range(earlier):
                # |W_t x_a> = rho_a (F_a + sum_b |delta_b> d|x_a>/dB_b) - g sum_b w_ab |delta_b> <x_a|x_b>
                D = own[a, old, 1 - d, layer, b]
                response[d, layer, a, b] = D
                factor = eps * (rho[a] * D - g * w[a, b] * covariance[d, layer, a, b])
                # delta_b^l is at the node a forward sweep enters, x_b^(l-1) at that a backward sweep enters
                accumulate(own[a, new], own_ends[a, new], factor, other[b, new], other_ends[b, new])
            if not np.isfinite(covariance[d, layer, a, a]):
                return step + 1
    return 0
