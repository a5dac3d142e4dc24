"""Kets as coefficients over base kets: initial vectors and hats, in floats or exact rationals.

Source: Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1] and appendix F (Hat, Dot).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import sympy as sp

from .._types import Value
from ..programs.language import Matrix


@dataclass(frozen=True, eq=False)
class KetVector:
    """A linear combination of base kets: entry i is the coefficient of the i-th, those beyond the end are 0."""

    coefficients: np.ndarray

    def __add__(self, other: "KetVector") -> "KetVector":
        long, short = self.coefficients, other.coefficients
        if len(long) < len(short):
            long, short = short, long
        total = long.copy()
        total[:len(short)] += short
        return KetVector(total)

    def __rmul__(self, factor: Value) -> "KetVector":
        return KetVector(factor * self.coefficients)


@dataclass
class Hats:
    """The hats of one initial matrix, or of its transpose, which correlate with each other and with nothing else.

    places: their numbers among the base kets; vectors: coefficients of the kets z that the matrix multiplied;
    room: their covariances <y|z>, in the upper left corner of an array with room to grow.
    """

    locations: list[int] = field(default_factory=list)
    vectors: list[np.ndarray] = field(default_factory=list)
    room: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def covariance(self) -> np.ndarray:
        return self.room[:len(self.locations), :len(self.locations)]

    def add(self, location: int, vector: np.ndarray, bra: np.ndarray) -> None:
        n = len(self.locations)
        if n == len(self.room):
            larger = np.zeros((2 * n + 1, 2 * n + 1), dtype=vector.dtype)
            larger[:n, :n] = self.room
            self.room = larger
        self.locations.append(location)
        self.vectors.append(vector)
        row = [bra[:len(z)] @ z for z in self.vectors]
        self.room[n, :n + 1] = self.room[:n + 1, n] = row


class Space:
    """The base kets of a program as they arise; initial vectors and the constant 1 are orthonormal.

    names: what each of them is, by number. dtype: float64, or object for exact rationals.
    """

    def __init__(self, dtype: type) -> None:
        self.dtype = dtype
        self.names: dict[sp.Expr, int] = {}
        self.groups: dict[tuple[Matrix, bool], Hats] = {}

    def base(self, name: sp.Expr) -> KetVector:
        """The base ket of that name, a new one if there is none."""
        location = self.names.setdefault(name, len(self.names))
        coefficients: np.ndarray = np.zeros(location + 1, dtype=self.dtype)
        coefficients[location] = 1
        return KetVector(coefficients)

    def bra(self, ket: KetVector) -> np.ndarray:
        """<ket|, the brackets with all base kets, group by group."""
        c: np.ndarray = np.zeros(len(self.names), dtype=self.dtype)
        c[:len(ket.coefficients)] = ket.coefficients
        bra = c.copy()
        for hats in self.groups.values():
            bra[hats.locations] = hats.covariance @ c[hats.locations]
        return bra

    def hat(self, name: sp.Expr, matrix: Matrix, turned: bool, ket: KetVector, bra: np.ndarray) -> KetVector:
        """hat(W ket), W the matrix or its transpose: Cov(hat(W y), hat(W z)) = <y|z>."""
        if name not in self.names:
            hats = self.groups.setdefault((matrix, turned), Hats())
            hats.add(len(self.names), ket.coefficients, bra)
        return self.base(name)

    def dot(self, matrix: Matrix, turned: bool, ket: KetVector) -> KetVector:
        """dot(W ket) = sum of |z> d|ket>/d hat(W^T z) over the products W^T z made before."""
        hats = self.groups.get((matrix, not turned), Hats())
        c = ket.coefficients
        total = KetVector(np.zeros(0, dtype=self.dtype))
        for location, vector in zip(hats.locations, hats.vectors):
            if location < len(c) and c[location] != 0:
                total = total + c[location] * KetVector(vector)
        return total

    def covariance(self) -> np.ndarray:
        """The covariance of all base kets, shape (bases, bases)."""
        whole: np.ndarray = np.zeros((len(self.names), len(self.names)), dtype=self.dtype)
        np.fill_diagonal(whole, 1)
        for hats in self.groups.values():
            whole[np.ix_(hats.locations, hats.locations)] = hats.covariance
        return whole
