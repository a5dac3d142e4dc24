"""Softmax attention at infinitely many heads, as maps of the Gram matrices of the positions of sequences.

Per head queries, keys and values are q, k, v = W x / |x|, weights softmax_j(q_i . k_j / d^s), and W_o adds z_i =
sum_j A_ij v_j of all heads to the stream. Heads of fixed dimension are independent, so that kappa is a mean over one of
them of <N, A_i A'_k>, N the overlaps of normalized rows, and every tangent kernel a derivative of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ... import _checks
from ...action.densities import KAPPA
from ...errors import NotCovered
from ...kernels import attention as means
from ...models import ResNet
from ..blocks import Grams, GroupKernels
from .group_sums import LiftedKernels
from .pair_laws import kernels_of

MATRICES = ("q", "k", "v", "o")
NEGLIGIBLE = 1e-13  # of a unit variance, below which nothing is left of a key that those before it do not determine


@lru_cache(maxsize=32)
def head_points(positions: int, head_dim: int, log2_points: int, seed: int) -> np.ndarray:
    """Scrambled Sobol points as the radius of a query, its partner's components in their plane, and normals for keys.

    Of shape (2^log2_points, 1 + w + 2 w (S - 1)), w = min(d, 2): whatever d is, logits see a plane of the d directions.
    """
    from scipy.stats import chi, norm, qmc  # takes a second to be imported

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


@dataclass(frozen=True)
class AttentionKernels:
    """The kernels of a layer of softmax attention with RMSNorm before it: the protocol ``GroupKernels``.

    positions: rows of a group; head_dim: d, fixed while heads are infinitely many; causal: whether a position sees
    those up to itself, or all; power: s, logits are q . k / d^s; log2_points, seed: of the scrambled Sobol points that
    stand for a head's queries and keys, the same for all overlaps, so that kernels are smooth functions of them.

    Raises ``ValueError`` for sizes that are no positive whole numbers, one position, and groups of rows that are 0.
    Source: [tpcalc/action_principle].
    """

    positions: int
    head_dim: int = 1
    causal: bool = False
    power: float = 0.5
    log2_points: int = 11
    seed: int = 0

    has_diagonal = True
    is_linear = False
    resolution = 1e-7
    matrices = MATRICES

    def __post_init__(self) -> None:
        for name, value in (("positions", self.positions), ("head_dim", self.head_dim)):
            _checks.positive_integer(name, value)
        if self.positions < 2:
            raise NotCovered(f"positions: got {self.positions}; softmax over one position is 1, and attention the "
                             "product of two matrices; expected at least 2")
        _checks.flag("causal", self.causal)

    size = property(lambda self: self.positions)
    points = property(lambda self: head_points(self.positions, self.head_dim, self.log2_points, self.seed))

    def at(self, grams: Grams) -> "AttentionMaps":
        return AttentionMaps(self, grams)


class AttentionMaps:
    """Kernels at given Gram matrices and their derivatives, each computed when it is first asked for."""

    def __init__(self, kernels: AttentionKernels, grams: Grams) -> None:
        self.kernels, self.grams = kernels, grams
        self.same = grams.left is grams.right
        self.shape = grams.between.shape
        left, right = grams.left[..., :, None, :, :], grams.right[..., None, :, :, :]
        norms = [np.sqrt(np.diagonal(gram, axis1=-2, axis2=-1)) for gram in (left, right)]
        if not all(np.all(norm > 0) for norm in norms if np.all(np.isfinite(norm))):
            raise NotCovered("positions: got rows that are 0; RMSNorm takes rows that are not")
        self.units = norms[0][..., :, None] * norms[1][..., None, :]
        self.N = self._flat(grams.between / self.units)
        self.left, self.right = (self._flat(gram / (norm[..., :, None] * norm[..., None, :]))
                                 for gram, norm in zip((left, right), norms))
        self.left_units = self._flat(norms[0][..., :, None] * norms[0][..., None, :])
        self.root = root_of_differences(self.left, self.N, self.right)
        scale = float(kernels.head_dim)**-kernels.power
        pairs = (*self.shape[:-2],)
        self.scales = np.stack([np.broadcast_to(grams.left_decay[:, None] * scale, pairs).ravel(),
                                np.broadcast_to(grams.right_decay * scale, pairs).ravel()], axis=1)
        self.decay = np.broadcast_to(grams.decay, pairs).ravel()[:, None, None]
        self._found: dict[bytes, tuple[np.ndarray, ...]] = {}

    def value(self, kernel: str) -> np.ndarray:
        value, slope, _ = self._first
        if kernel == KAPPA:
            return self._shaped(self.decay**2 * value)
        return self._shaped(self.decay * (value + _times(slope, self.N)))

    def push(self, kernel: str, moved: np.ndarray) -> np.ndarray:
        assert kernel == KAPPA
        return self._shaped(self.decay**2 * _times(self._first[1], self._flat(moved / self.units)))

    def tangents(self) -> dict[str, np.ndarray]:
        """theta of every matrix: N times the derivative in the overlaps that go through it."""
        value, slope, by_query = self._first
        of_query = self.N * by_query
        found = {"q": of_query, "k": _times(slope, self.N) - value - of_query, "v": value, "o": value}
        return {name: self._shaped(self.decay * theta) for name, theta in found.items()}

    def pull(self, kernel: str, weights: np.ndarray, moved: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        w = self._flat(weights) * (self.decay**2 if kernel == KAPPA else self.decay)
        slope = self._first[1]
        direction = self.N if moved is None else self._flat(moved / self.units)
        cross, own, own_value = self._second(direction)
        by_rows = np.zeros(w.shape[:2])
        if kernel != KAPPA:
            between, left = _back(w, cross + 2 * slope), _back(w, own + own_value)
        elif moved is None:
            between, left = _back(w, slope), _back(w, own_value)
        else:
            between, left = _back(w, cross), _back(w, own)
            by_rows = np.sum(direction * _back(w, slope), axis=-1)
        # N is C12 over both norms, so that a row's norm moves all that is normalized by it
        by_rows = -(by_rows + np.sum(self.N * between, axis=-1)) / 2 - np.sum(self.left * left, axis=-1)
        left = left + by_rows[:, :, None] * np.eye(w.shape[-1])
        return self._shaped(between / self._flat(self.units)), self._shaped(left / self.left_units).sum(axis=-3)

    @cached_property
    def _first(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pairs, S = self.N.shape[:2]
        value, slope, by_query = np.zeros(self.N.shape), np.zeros((pairs, S, S, S, S)), np.zeros(self.N.shape)
        kernels = self.kernels
        means.first(kernels.points, kernels.head_dim, kernels.causal, self.N, self.root, self.scales, value, slope,
                    by_query)
        return self._symmetric(value), self._symmetric(slope), self._symmetric(by_query)

    def _second(self, direction: np.ndarray) -> tuple[np.ndarray, ...]:
        key = direction.tobytes()
        if key not in self._found:
            pairs, S = self.N.shape[:2]
            cross, own, own_value = (np.zeros((pairs, S, S, S, S)) for _ in range(3))
            kernels = self.kernels
            means.second(kernels.points, kernels.head_dim, kernels.causal, self.N, self.root, self.scales, self.left,
                         self.right, direction, cross, own, own_value)
            self._found[key] = cross, own, own_value
        return self._found[key]

    def _flat(self, x: np.ndarray) -> np.ndarray:
        """(..., G, K, S, S) -> (pairs, S, S)."""
        return np.ascontiguousarray(np.broadcast_to(x, self.shape).reshape(-1, *self.shape[-2:]))

    def _shaped(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(self.shape)

    def _symmetric(self, x: np.ndarray) -> np.ndarray:
        """The mean with its mirror image, of groups with themselves: neither comes first."""
        if not self.same:
            return x
        whole = x.reshape(*self.shape[:-2], *x.shape[1:])
        first = len(self.shape) - 2
        mirrored = np.swapaxes(whole, first - 2, first - 1)
        for axis in range(first, whole.ndim, 2):
            mirrored = np.swapaxes(mirrored, axis, axis + 1)
        return ((whole + mirrored) / 2).reshape(x.shape)


def _times(slope: np.ndarray, moved: np.ndarray) -> np.ndarray:
    return np.einsum("pikjl,pjl->pik", slope, moved)


def _back(weights: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return np.einsum("pik,pikjl->pjl", weights, slope)


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


def attention_sublayers(positions: int, head_dim: int, causal: bool, power: float, points: int, seed: int,
                        mlp: ResNet | None) -> tuple[GroupKernels, ...]:
    """Attention with ``points`` of a head, a power of 2, and behind it the block of a network that acts on every
    position by itself, in the order in which a layer applies them."""
    attention = AttentionKernels(positions, head_dim, causal, power, int(math.log2(points)), seed)
    return (attention,) if mlp is None else (attention, LiftedKernels(kernels_of(mlp), positions))
