"""A trained propagator whose triangles stay packed: matrices are unpacked node by node, when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .covariances import backward_covariance, forward_covariance


@dataclass(frozen=True)
class Triangles:
    """A stack of matrices, (places, N, N) when indexed, held by rows: (places, N (N - 1) / 2) strict lower triangles,
    or (places, N (N + 1) / 2) lower ones of symmetric matrices."""

    packed: np.ndarray
    rows: int
    symmetric: bool

    def __getitem__(self, locations: int | slice | np.ndarray) -> np.ndarray:
        packed = self.packed[locations]
        result = np.zeros(packed.shape[:-1] + (self.rows, self.rows))
        row, column = np.tril_indices(self.rows, 0 if self.symmetric else -1)
        result[..., row, column] = packed
        if self.symmetric:
            result[..., column, row] = packed
        return result

    def __len__(self) -> int:
        return len(self.packed)


@dataclass(frozen=True)
class Composed:
    """Covariances of the signals, (layers, N, N) when indexed, found from what meets at a node: not stored."""

    propagator: PackedSolution
    forward: bool

    def __getitem__(self, layers: int | slice | np.ndarray) -> np.ndarray:
        """Covariances of layer l = index + 1: <x x> at node l - 1, or <delta delta> at node l."""
        nodes = np.arange(self.propagator.depth)[layers] + (0 if self.forward else 1)
        covariance = forward_covariance if self.forward else backward_covariance
        return covariance(*(a[nodes] for a in (self.propagator.P, self.propagator.Q, self.propagator.S,
                                               self.propagator.R)))


@dataclass(frozen=True)
class PackedSolution:
    """What details of a trained network of finite depth are read from; letters as in ``ReflectionPropagator``."""

    depth: int
    eps: float
    rho: np.ndarray
    P: Triangles
    Q: Triangles
    S: Triangles
    R: Triangles
    A: Triangles
    B: Triangles

    C0 = property(lambda self: Composed(self, True))
    C1 = property(lambda self: Composed(self, False))
