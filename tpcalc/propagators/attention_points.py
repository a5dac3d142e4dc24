"""Quasi-random queries and keys of one attention head, and the square root of their covariance."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.stats import chi, norm, qmc

NEGLIGIBLE = 1e-13  # of a unit variance, below which nothing is left of a key that those before it do not determine


@lru_cache(maxsize=32)
def head_points(positions: int, head_dim: int, log2_points: int, seed: int) -> np.ndarray:
    """Scrambled Sobol points as the radius of a query, its partner's components in their plane, and normals for keys.

    Of shape (2^log2_points, 1 + w + 2 w (S - 1)), w = min(d, 2): whatever d is, logits see a plane of the d directions.
    """
    width = min(head_dim, 2)
    with_keys = 1 + width + 2 * width * (positions - 1)
    uniform = qmc.Sobol(with_keys, scramble=True, rng=np.random.default_rng(seed)).random_base2(log2_points)
    uniform = np.clip(uniform, 2.0**-54, 1 - 2.0**-53)
    points = norm.ppf(uniform)
    points[:, 0] = chi.ppf(uniform[:, 0], head_dim)
    if width == 2:
        points[:, 2] = chi.ppf(uniform[:, 2], head_dim - 1)
    points.setflags(write=False)
    return points


def root_of_differences(left: np.ndarray, between: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A triangular root of the covariance of both slots' keys less their first, (pairs, 2 (S - 1), 2 (S - 1)).

    left, between, right: (pairs, S, S). Softmax does not see what keys share. Keys that others determine, such as those
    of repeated tokens, have a column of zeros.
    """
    a, b, c = (_differences(gram) for gram in (left, between, right))
    covariance = np.concatenate([np.concatenate([a, b], -1), np.concatenate([np.swapaxes(b, -1, -2), c], -1)], -2)
    root = np.zeros_like(covariance)
    for j in range(covariance.shape[-1]):
        column = covariance[:, :, j] - np.einsum("pik,pk->pi", root[:, :, :j], root[:, j, :j])
        there = column[:, j] > NEGLIGIBLE
        column[:, :j] = 0.0
        root[:, :, j] = np.where(there[:, None], column / np.sqrt(np.where(there, column[:, j], 1.0))[:, None], 0.0)
    return root


def _differences(gram: np.ndarray) -> np.ndarray:
    return gram[:, 1:, 1:] - gram[:, :1, 1:] - gram[:, 1:, :1] + gram[:, :1, :1]
