"""The reflection recursion tilted by exp(n j . f), as power series in the tilt j along one direction.

At a node the left part of the network is a Gaussian law Pi of the pairs (x, dhat) and the right part one, R, of the
pairs (xhat, delta), hats standing for response fields; blocks have twice the number of rows. Coefficient 0 of all
series is the reflection form itself, Pi = [[S, P], [P^T, 0]]. Reversing the layers swaps the two sides and the halves
of a pair, so that one sweep serves both directions.

Source: [tpcalc/finite_width], [tpcalc/overlap_action].
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .products import put


@njit(cache=True)
def resolvent_coefficient(order, l, inverse, product, F, A, a, B, b):
    """Coefficient ``order`` of F = (1 - A B)^-1 A at l, from all coefficients of A at a and B at b.

    inverse: (layers, n, n), (1 - A_0 B_0)^-1, made at order 0; product, F: (orders, layers, n, n); product is A B.
    """
    total = np.dot(A[0, a], B[order, b])
    for k in range(1, order + 1):
        total += np.dot(A[k, a], B[order - k, b])
    put(total, product[order, l], 0, 0)
    if order == 0:
        if np.all(np.isfinite(total)):  # compiled, inv raises where it is not
            put(np.linalg.inv(np.eye(len(total)) - total), inverse[l], 0, 0)
        else:
            inverse[l] = np.nan
    rest = A[order, a].copy()
    for k in range(1, order + 1):
        rest += np.dot(product[k, l], F[order - k, l])
    put(np.dot(inverse[l], rest), F[order, l], 0, 0)


@njit(cache=True)
def added_density(C, noise, drift, first, out):
    """What a layer with overlaps C adds, (n, n): for the overlaps [[c, d], [d^T, m]] of a signal and its partner,

        [[noise o c, noise o d - drift o c], [., noise o m - drift o d^T - (drift o d^T)^T]],

    the signal's rows from ``first`` on (0, or n / 2 where the partner comes first). noise, drift: (n / 2, n / 2).
    """
    rows = len(noise)
    second = rows - first
    for i in range(rows):
        for j in range(rows):
            c, d, back = C[first + i, first + j], C[first + i, second + j], C[first + j, second + i]
            out[first + i, first + j] = noise[i, j] * c
            across = noise[i, j] * d - drift[i, j] * c
            out[first + i, second + j] = across
            out[second + j, first + i] = across
            out[second + i, second + j] = (noise[i, j] * C[second + i, second + j] - drift[i, j] * back
                                           - drift[j, i] * d)


@njit(cache=True)
def sweep_tilted(forward, order, noise, drift, own, other, C, mine, theirs, at_node, node_product, through,
                 layer_product, F):
    """Carry coefficient ``order`` of ``own`` (orders, L + 1, n, n) from one end to the other.

    own, other: Pi and R, or forward being False R and Pi; C (orders, L, n, n): overlaps of what enters a layer; mine,
    theirs: what layers add to own and to other; at_node, through: (L, n, n) inverses at the node and through the
    layer, with products and F as ``resolvent_coefficient`` keeps them. Returns (largest change of own, largest value of
    it); the change is nan where a value is not finite, and the sweep ends there.
    """
    layers, n = C.shape[1], C.shape[2]
    changed, largest = 0.0, 0.0
    first = 0 if forward else n // 2
    for step in range(layers):
        l = step if forward else layers - 1 - step
        old = l if forward else l + 1
        new = l + 1 if forward else l
        resolvent_coefficient(order, l, at_node, node_product, C, own, old, other, old)
        added_density(C[order, l], noise, drift, first, mine[order, l])
        resolvent_coefficient(order, l, through, layer_product, F, own, old, theirs, l)
        for i in range(n):
            for j in range(n):
                value = mine[order, l, i, j] + F[order, l, i, j]
                if not np.isfinite(value):
                    return np.nan, largest
                changed = max(changed, abs(value - own[order, new, i, j]))
                largest = max(largest, abs(value))
                own[order, new, i, j] = value
    return changed, largest


@njit(cache=True)
def packed_conjugation(K, i, j, k, l):
    """X -> K X K^T of symmetric matrices, from their entries at (k, l) to those at (i, j): (p, q), p pairs i <= j, q
    pairs k <= l, each once."""
    out = np.empty((len(i), len(k)), dtype=K.dtype)
    for row in range(len(i)):
        first, second = K[i[row]], K[j[row]]
        for column in range(len(k)):
            a, b = k[column], l[column]
            value = first[a] * second[b]
            if a != b:
                value += first[b] * second[a]
            out[row, column] = value
    return out


@njit(cache=True)
def packed_conjugation_gradient(weights, K, i, j, k, l):
    """The gradient in K of tr(weights . conjugation(K, i, j, k, l)), of the shape of K; weights (q, p)."""
    out = np.zeros(K.shape)
    for column in range(len(k)):
        a, b = k[column], l[column]
        for row in range(len(i)):
            w = weights[column, row]
            if w != 0.0:  # half of a triangular matrix
                x, y = i[row], j[row]
                out[x, a] += w * K[y, b]
                out[y, b] += w * K[x, a]
                if a != b:
                    out[x, b] += w * K[y, a]
                    out[y, a] += w * K[x, b]
    return out
