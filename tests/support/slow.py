"""The two recursions of a linear residual network once more, slowly: whole matrices with their inverses, and exact
rational arithmetic on kets as dictionaries. Nothing of tpcalc is used."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Callable, Hashable

import numpy as np


@dataclass(frozen=True)
class Reflections:
    """P, S, G, Q, R, GT: (L + 1, N, N) at nodes; A, B, C0, C1: (L, N, N) at layers."""

    P: np.ndarray
    S: np.ndarray
    G: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    GT: np.ndarray
    A: np.ndarray
    B: np.ndarray
    C0: np.ndarray
    C1: np.ndarray


def reflections(depth: int, steps: int, eps: float, g: float, rho: np.ndarray, w: np.ndarray, xi: np.ndarray,
                chi: np.ndarray) -> Reflections:
    """The reflection form with frozen ends, from the Gram matrices xi of x^0 and chi of delta^L, all (N, N).

    Sweeps over all rows at once, with whole matrices: a sweep makes one more step exact, because what a step
    needs is triangular in the steps. w must vanish unless its second index is of an earlier step.
    """
    n = len(rho)
    one = np.eye(n)
    rr = np.outer(rho, rho)
    step = np.arange(n) // (n // steps)
    earlier = (step[None, :] < step[:, None]).astype(float)
    P, S, G, Q, R, GT = (np.zeros((depth + 1, n, n)) for _ in range(6))
    A, B, C0, C1 = (np.zeros((depth, n, n)) for _ in range(4))

    def inverse(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.linalg.inv(one - a @ b)

    for _ in range(steps + 1):
        S[0] = xi
        for l in range(1, depth + 1):
            o = l - 1
            G[o] = inverse(P[o], Q[o])
            C0[o] = G[o] @ (S[o] + P[o] @ R[o] @ P[o].T) @ G[o].T
            A[o] = earlier * eps * (eps * rr * (G[o] @ P[o]) - g * w * C0[o])
            H = inverse(P[o], B[o])
            P[l] = A[o] + H @ P[o]
            S[l] = eps**2 * rr * C0[o] + H @ (eps**2 * P[o] @ (rr * C1[o]) @ P[o].T + S[o]) @ H.T
        R[depth] = chi
        for l in range(depth, 0, -1):
            o = l - 1
            GT[l] = inverse(Q[l], P[l])
            C1[o] = GT[l] @ (R[l] + Q[l] @ S[l] @ Q[l].T) @ GT[l].T
            B[o] = earlier * eps * (eps * rr * (GT[l] @ Q[l]) - g * w * C1[o])
            K = inverse(Q[l], A[o])
            Q[o] = B[o] + K @ Q[l]
            R[o] = eps**2 * rr * C1[o] + K @ (eps**2 * Q[l] @ (rr * C0[o]) @ Q[l].T + R[l]) @ K.T
    return Reflections(P, S, G, Q, R, GT, A, B, C0, C1)


Ket = dict[Hashable, Fraction]


def add(ket: Ket, factor: Fraction, other: Ket) -> Ket:
    """ket + factor other."""
    total = dict(ket)
    for base, coefficient in other.items():
        total[base] = total.get(base, Fraction(0)) + factor * coefficient
    return total


@dataclass
class Kets:
    """Training in exact rational arithmetic: a ket is its coefficients over base kets.

    Base kets: ("U", j), ("nV", k), ("F", m, a), ("B", m, a). One ket after the other, as the program runs:
    |W_t x> = rho_t (hat + sum_b |delta_b> d|x>/dB_b) - g sum_b w_ab |delta_b><x_b|x>, and the mirror.
    """

    depth: int
    batch: int
    eps: Fraction
    g: Fraction
    rho: list[Fraction]            # of a sample
    w: list[list[Fraction]]        # of two samples, 0 unless the second is of an earlier step
    derivative: Callable[[int, Fraction], Fraction]  # chi of sample a, from its (scalar) output
    x: dict[tuple[int, int], Ket] = field(default_factory=dict)       # sample, node
    delta: dict[tuple[int, int], Ket] = field(default_factory=dict)
    outputs: list[Fraction] = field(default_factory=list)

    def bracket(self, one: Ket, two: Ket) -> Fraction:
        return sum((c * d * self.overlap(a, b) for a, c in one.items() for b, d in two.items()), Fraction(0))

    def overlap(self, one: Hashable, two: Hashable) -> Fraction:
        """Hats of one matrix covary like what the matrix was applied to; all other base kets are independent."""
        assert isinstance(one, tuple) and isinstance(two, tuple)
        if one[0] != two[0] or one[1] != two[1]:
            return Fraction(0)
        if one[0] == "F":
            return self.bracket(self.x[one[2], one[1] - 1], self.x[two[2], one[1] - 1])
        if one[0] == "B":
            return self.bracket(self.delta[one[2], one[1]], self.delta[two[2], one[1]])
        return Fraction(1)

    def product(self, kind: str, layer: int, a: int, ket: Ket) -> Ket:
        """W_t of a layer on |x_a>, or its transpose on |delta_a>."""
        first = a - a % self.batch
        result: Ket = {(kind, layer, a): self.rho[a]}
        for b in range(first):
            if kind == "F":
                dot, earlier, old = ("B", layer, b), self.delta[b, layer], self.x[b, layer - 1]
            else:
                dot, earlier, old = ("F", layer, b), self.x[b, layer - 1], self.delta[b, layer]
            factor = self.rho[a] * ket.get(dot, Fraction(0)) - self.g * self.w[a][b] * self.bracket(old, ket)
            result = add(result, factor, earlier)
        return result

    def train(self, inputs: list[Ket]) -> None:
        """One pass forward and one backward for every step; inputs: |x_a^0> of every sample."""
        for first in range(0, len(inputs), self.batch):
            samples = range(first, first + self.batch)
            for a in samples:
                self.x[a, 0] = inputs[a]
                for l in range(1, self.depth + 1):
                    before = self.x[a, l - 1]
                    self.x[a, l] = add(before, self.eps, self.product("F", l, a, before))
                self.outputs.append(self.x[a, self.depth].get(("nV", 0), Fraction(0)))
            for a in samples:
                self.delta[a, self.depth] = {("nV", 0): self.derivative(a, self.outputs[a])}
                for l in range(self.depth, 0, -1):
                    after = self.delta[a, l]
                    self.delta[a, l - 1] = add(after, self.eps, self.product("B", l, a, after))
