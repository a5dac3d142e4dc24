"""Covariances of the signals at a node, from what lies to its left and to its right.

x = P delta + x_left and delta = Q x + delta_right, with x_left (covariance S) and delta_right (R)
independent: <x x> = G (S + P R P^T) G^T with G = (I - P Q)^-1, <delta delta> its mirror. All functions
take (..., N, N) arrays, one node or a stack of them, of any propagator.
"""

from __future__ import annotations

import numpy as np

from .._types import Value


def inverse(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(I - P Q)^-1, unit lower triangular by blocks of steps; shape (..., N, N)."""
    identity = np.eye(p.shape[-1])
    return np.linalg.solve(identity - p @ q, np.broadcast_to(identity, p.shape))


def forward_covariance(p: np.ndarray, q: np.ndarray, s: np.ndarray, r: np.ndarray) -> np.ndarray:
    """<x_a | x_b> = G (S + P R P^T) G^T, symmetric positive semidefinite, shape (..., N, N)."""
    g = inverse(p, q)
    return _symmetric(g @ (s + p @ r @ _t(p)) @ _t(g))


def backward_covariance(p: np.ndarray, q: np.ndarray, s: np.ndarray, r: np.ndarray) -> np.ndarray:
    """<delta_a | delta_b> = G' (R + Q S Q^T) G'^T with G' = (I - Q P)^-1, shape (..., N, N)."""
    return forward_covariance(q, p, r, s)


def at_times(propagator: Value, forward: bool, layer_times: np.ndarray) -> np.ndarray:
    """<x|x> or <delta|delta> of a trained propagator at layer times in [0, 1], shape (times, N, N). At finite depth,
    those of the nearest nodes l = round(L tau); at infinite depth, spectrally accurate values anywhere."""
    covariance = forward_covariance if forward else backward_covariance
    times = np.asarray(layer_times, dtype=np.float64)
    if hasattr(propagator, "mesh"):
        return propagator.mesh.evaluate(covariance(propagator.P, propagator.Q, propagator.S, propagator.R), times)
    # one node at a time: what is asked for may fill the memory
    nodes = np.rint(times * propagator.depth).astype(int)
    found = np.empty((len(nodes), len(propagator.rho), len(propagator.rho)))
    for here, node in zip(found, nodes):
        here[:] = covariance(*(a[node] for a in (propagator.P, propagator.Q, propagator.S, propagator.R)))
    return found


def _t(a: np.ndarray) -> np.ndarray:
    return np.swapaxes(a, -1, -2)


def _symmetric(a: np.ndarray) -> np.ndarray:
    return (a + _t(a)) / 2
