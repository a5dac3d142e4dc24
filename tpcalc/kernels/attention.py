"""Means over an attention head with Gaussian queries and keys, of two slots' softmax weights, and their derivatives.

A slot is a group of positions with one setting of the weights. For query i of one slot and k of the other, weights A_j
and A'_l are a product measure on pairs of keys. The derivative of a mean of T under it in two logits is A_j A'_l times
T, centered in both indices, and each further derivative multiplies centered matrices: they are cumulants. By Price's
theorem derivatives in overlaps of queries or keys are means of such derivatives in logits, so that nothing is divided
by what vanishes where slots coincide.

Arrays: ``points`` (M, 1 + w + 2 w (S - 1)) are |g|, the w = min(d, 2) components of h in the plane, and normals for
differences of keys to the first, by component; queries are a g + b h and a g - b h, a^2, b^2 = (1 +- c) / 2 for overlap
c. ``root`` (pairs, 2 (S - 1), 2 (S - 1)): lower triangle, of the covariance of both slots' differences. N: (pairs, S,
S) overlaps of the rows of one slot with those of the other, ``left``, ``right`` among themselves; ``scales``: (pairs,
2), what q . k is multiplied by to be a logit. Rows are of unit variance, averages are over points and four signs.

Source: the action's kernels [tpcalc/action_principle].
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def key_differences(point, width, root, sign, keys):
    """keys (2, width, S), differences to the first: L z, with this sign of what the second slot has of its own."""
    n = len(root)
    half = n // 2
    for axis in range(width):
        start = 1 + width + axis * n
        for m in range(n):
            total = 0.0
            for z in range(min(m + 1, half)):
                total += root[m, z] * point[start + z]
            for z in range(half, m + 1):
                total += sign * root[m, z] * point[start + z]
            slot = 0 if m < half else 1
            keys[slot, axis, 1 + m - slot * half] = total


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def queries_of(point, width, c, sign, queries):
    """queries (2, width) with overlap c."""
    c = min(1.0, max(-1.0, c))
    a, b = np.sqrt((1 + c) / 2), np.sqrt((1 - c) / 2) * sign
    for axis in range(width):
        queries[0, axis] = b * point[1 + axis]
        queries[1, axis] = -b * point[1 + axis]
    queries[0, 0] += a * point[0]
    queries[1, 0] += a * point[0]


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def weigh(query, keys, scale, seen, u, A):
    """Softmax weights A of the logits u of the first ``seen`` keys; u is centered."""
    largest = 0.0  # the first logit
    for m in range(seen):
        u[m] = 0.0
        for axis in range(len(query)):
            u[m] += query[axis] * keys[axis, m]
        u[m] *= scale
        largest = max(largest, u[m])
    total, mean = 0.0, 0.0
    for m in range(seen):
        A[m] = np.exp(u[m] - largest)
        total += A[m]
    for m in range(seen):
        A[m] /= total
        mean += A[m] * u[m]
    for m in range(seen):
        u[m] -= mean


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def attend(point, c, sign, scales, keys, n, m, queries, u, v, A, B):
    """Queries with overlap c, weights A, B and logits u, v of both slots; returns the queries' scaled product."""
    width = queries.shape[1]
    queries_of(point, width, c, sign, queries)
    weigh(queries[0], keys[0], scales[0], n, u, A)
    weigh(queries[1], keys[1], scales[1], m, v, B)
    total = 0.0
    for axis in range(width):
        total += queries[0, axis] * queries[1, axis]
    return total * scales[0] * scales[1]


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def centered_under_weights(T, A, B, n, m, out):
    """T (n, m) less its means over either index, under weights A and B; returns its mean."""
    mean = 0.0
    for l in range(m):
        column = 0.0
        for j in range(n):
            column += A[j] * T[j, l]
        mean += B[l] * column
        for j in range(n):
            out[j, l] = T[j, l] - column
    for j in range(n):
        row = 0.0
        for l in range(m):
            row += B[l] * out[j, l]
        for l in range(m):
            out[j, l] -= row
    return mean


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def overlaps_of_keys(keys, N, rest, n, m, Z):
    """k_j . k'_l; ``rest`` directions outside the plane are at their mean."""
    for j in range(n):
        for l in range(m):
            Z[j, l] = rest * N[j, l]
            for axis in range(keys.shape[1]):
                Z[j, l] += keys[0, axis, j] * keys[1, axis, l]


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def first(points, head_dim, causal, N, root, scales, value, slope, by_query):
    """value: (pairs, S, S), mean of sum_jl N_jl A_j A'_l for queries i, k; slope: (pairs, S, S, S, S), its derivative
    in N_jl where queries, keys and values all have these overlaps; by_query: (pairs, S, S), in those of queries alone.
    All are added to."""
    pairs, S = N.shape[:2]
    width = min(head_dim, 2)
    rest = head_dim - width
    keys, queries = np.zeros((2, width, S)), np.zeros((2, width))
    A, B, u, v = np.zeros(S), np.zeros(S), np.zeros(S), np.zeros(S)
    T, Z = np.zeros((S, S)), np.zeros((S, S))
    share = 1.0 / (4 * len(points))
    for pair in range(pairs):
        tau = scales[pair, 0] * scales[pair, 1]
        for number in range(len(points)):
            for key_sign in (1.0, -1.0):
                key_differences(points[number], width, root[pair], key_sign, keys)
                overlaps_of_keys(keys, N[pair], rest, S, S, Z)
                for i in range(S):
                    for k in range(S):
                        n, m = (i + 1, k + 1) if causal else (S, S)
                        c = N[pair, i, k]
                        for sign in (1.0, -1.0):
                            g = attend(points[number], c, sign, scales[pair], keys, n, m, queries, u, v, A, B)
                            mean = centered_under_weights(N[pair], A, B, n, m, T)
                            total = 0.0
                            for j in range(n):
                                for l in range(m):
                                    p = A[j] * B[l] * share
                                    slope[pair, i, k, j, l] += p * (1 + g * T[j, l])
                                    total += p * Z[j, l] * T[j, l]
                            slope[pair, i, k, i, k] += tau * total
                            by_query[pair, i, k] += tau * total
                            value[pair, i, k] += mean * share


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def second(points, head_dim, causal, N, root, scales, left, right, R, cross, own, own_value):
    """Derivatives of D = sum_jl slope_jl R_jl, R (pairs, S, S) held fixed: cross (pairs, S, S, S, S), in N_jl, own, in
    left_jl, j != l, entries independent; own_value: that of ``value``."""
    pairs, S = N.shape[:2]
    d, width = head_dim, min(head_dim, 2)
    rest = d - width
    keys, queries = np.zeros((2, width, S)), np.zeros((2, width))
    A, B, u, v = np.zeros(S), np.zeros(S), np.zeros(S), np.zeros(S)
    T, Z, Q, X, W = np.zeros((S, S)), np.zeros((S, S)), np.zeros((S, S)), np.zeros((S, S)), np.zeros((S, S))
    Z0, V, Y, V2 = np.zeros((S, S)), np.zeros((S, S)), np.zeros((S, S)), np.zeros((S, S))
    y, by_value, by_R, by_key = np.zeros(S), np.zeros(S), np.zeros(S), np.zeros(S)
    share = 1.0 / (4 * len(points))
    for pair in range(pairs):
        one = scales[pair, 0]
        tau = one * scales[pair, 1]
        for number in range(len(points)):
            for key_sign in (1.0, -1.0):
                key_differences(points[number], width, root[pair], key_sign, keys)
                overlaps_of_keys(keys, N[pair], rest, S, S, Z0)
                for i in range(S):
                    for k in range(S):
                        n, m = (i + 1, k + 1) if causal else (S, S)
                        c, r = N[pair, i, k], R[pair, i, k]
                        for sign in (1.0, -1.0):
                            g = attend(points[number], c, sign, scales[pair], keys, n, m, queries, u, v, A, B)
                            h = 0.0
                            for axis in range(width):
                                h += queries[0, axis]**2
                            h *= one**2 / 2
                            centered_under_weights(N[pair], A, B, n, m, T)
                            centered_under_weights(R[pair], A, B, n, m, Q)
                            centered_under_weights(Z0, A, B, n, m, Z)
                            by_query = 0.0
                            for j in range(n):
                                for l in range(m):
                                    X[j, l] = g * Q[j, l] + r * tau * Z[j, l]
                                    W[j, l] = (g * X[j, l] + r * tau * (u[j] + v[l])) * T[j, l]
                                    by_query += A[j] * B[l] * (
                                        Z[j, l] * Q[j, l] + (d + u[j] + v[l] + g * Z[j, l]) * Q[j, l] * T[j, l]
                                        + r * tau * Z[j, l]**2 * T[j, l])
                            if rest > 0:
                                centered_under_weights(left[pair], A, A, n, n, V)
                                centered_under_weights(right[pair], B, B, m, m, V2)
                                for j in range(n):
                                    for l in range(m):
                                        by_query += A[j] * B[l] * r * tau * rest * T[j, l] * (
                                            T[j, l]**2 + V[j, j] * V2[l, l])
                            centered_under_weights(W, A, B, n, m, Y)
                            for j in range(n):
                                for l in range(m):
                                    cross[pair, i, k, j, l] += share * A[j] * B[l] * (
                                        X[j, l] + g * Q[j, l] + Y[j, l] + r * tau * d * T[j, l])
                            cross[pair, i, k, i, k] += share * tau * by_query
                            # three derivatives in logits of one slot and one of the other
                            mean_R, mean_value, mean_y = 0.0, 0.0, 0.0
                            for j in range(n):
                                by_R[j], by_value[j], by_key[j] = 0.0, 0.0, 0.0
                                for l in range(m):
                                    by_value[j] += B[l] * N[pair, j, l]
                                    by_R[j] += B[l] * R[pair, j, l]
                                    across = 0.0
                                    for axis in range(width):
                                        across += queries[0, axis] * keys[1, axis, l]
                                    by_key[j] += B[l] * across * T[j, l]
                                by_key[j] *= r * tau * one
                                for other_j in range(n):
                                    V[j, other_j] = 0.0
                                    for l in range(m):
                                        V[j, other_j] += B[l] * X[j, l] * T[other_j, l]
                                y[j] = V[j, j]
                                mean_y += A[j] * y[j]
                                mean_R += A[j] * by_R[j]
                                mean_value += A[j] * by_value[j]
                            for j in range(n):
                                for l in range(n):
                                    if j != l:
                                        p = share * A[j] * A[l]
                                        own[pair, i, k, j, l] += p * (
                                            h * (2 * mean_R - by_R[j] - by_R[l] + 2 * mean_y - y[j] - y[l] - V[j, l]
                                                 - V[l, j]) - by_key[j] - by_key[l])
                                        own_value[pair, i, k, j, l] += p * h * (
                                            2 * mean_value - by_value[j] - by_value[l])
