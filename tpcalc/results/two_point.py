"""Gamma and C of Tensor Programs VI from a trained propagator, at finite depth and in the limit, without L x L arrays.

A source at layer m (a hat-ket of W_0^m) sends a wave to both sides. To its right x^l = TF^l x^(l-1) and
delta^l = Q^l x^l, with TF^l = (I - A^l Q^l)^-1; to its left delta^(l-1) = TB^l delta^l and x^l = P^l delta^l,
with TB^l = (I - B^l P^(l-1))^-1. In the limit dT/dp = A Q T and dT/dp = -B P T. Both transfers are
unipotent, so that the wave between any two places is T(p) T(q)^-1.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Union

import numpy as np

from .._types import Value
from ..errors import NotCovered
from ..propagators.collocation import CollocationPropagator
from ..propagators.covariances import inverse
from ..propagators.packed import PackedSolution
from ..propagators.reflection import ReflectionPropagator

Location = Union[int, float]  # a node, or a layer time


def ceiling(p: float, depth: int) -> int:
    """ceil(L p), where p = l / L means l whatever its rounding."""
    return max(0, math.ceil(p * depth - 1e-9))


class _Layers:
    """Finite depth: places are nodes 0..L."""

    def __init__(self, propagator: ReflectionPropagator | PackedSolution) -> None:
        self.propagator = propagator

    first = 0
    last = property(lambda self: self.propagator.depth)

    def location(self, p: float) -> int:
        return ceiling(p, self.propagator.depth)

    @cached_property
    def forward(self) -> np.ndarray:
        steps = inverse(self.propagator.A[:], self.propagator.Q[1:])
        return np.array(_products(steps))

    @cached_property
    def backward(self) -> np.ndarray:
        steps = inverse(self.propagator.B[:], self.propagator.P[:-1])
        return np.array(_products(steps[::-1]))[::-1]

    def at(self, name: str, location: Location) -> np.ndarray:
        return (getattr(self, name) if name in ("forward", "backward") else getattr(self.propagator, name))[location]

    def source(self, b: int, q: float) -> tuple[int, np.ndarray, int, np.ndarray]:
        """Where the wave starts to the right and with what x, to the left and with what delta; columns: sources."""
        propagator = self.propagator
        m = max(1, self.location(q))
        P, Q, PP, QQ = propagator.P[m], propagator.Q[m], propagator.P[m - 1], propagator.Q[m - 1]
        strength = math.sqrt(propagator.depth) * propagator.eps * propagator.rho
        if b == 0:
            x = inverse(P, Q)
            delta = inverse(QQ, PP) @ inverse(Q, propagator.A[m - 1]) @ Q
        else:
            x = inverse(P, Q) @ inverse(PP, propagator.B[m - 1]) @ PP
            delta = inverse(QQ, PP)
        return m, x * strength, m - 1, delta * strength

    def right_of(self, p: float, q: float, b: int) -> bool:
        return self.location(p) >= max(1, self.location(q))

    def covariance(self, a: int, p: float) -> np.ndarray:
        return (self.propagator.C0 if a == 0 else self.propagator.C1)[max(1, self.location(p)) - 1]


class _Times:
    """Infinite depth: places are layer times."""

    def __init__(self, propagator: CollocationPropagator, sign: int) -> None:
        self.propagator, self.sign = propagator, sign

    first, last = 0.0, 1.0

    def location(self, p: float) -> float:
        return p

    @cached_property
    def forward(self) -> np.ndarray:
        return self._transfer(self.propagator.A @ self.propagator.Q, True)

    @cached_property
    def backward(self) -> np.ndarray:
        return self._transfer(self.propagator.B @ self.propagator.P, False)

    def _transfer(self, rate: np.ndarray, forward: bool) -> np.ndarray:
        transfer = identity = np.broadcast_to(np.eye(rate.shape[-1]), rate.shape)
        for _ in range(rate.shape[-1] // self.propagator.rows):  # the rate is nilpotent: one step back at least
            transfer = identity + self.propagator.mesh.cumulative(rate @ transfer, forward)
        return transfer

    def at(self, name: str, location: Location) -> np.ndarray:
        nodal = getattr(self, name) if name in ("forward", "backward") else getattr(self.propagator, name)
        return self.propagator.mesh.evaluate(nodal, location)

    def source(self, b: int, q: float) -> tuple[float, np.ndarray, float, np.ndarray]:
        P, Q = self.at("P", q), self.at("Q", q)
        strength = self.sign * math.sqrt(self.propagator.noise) * self.propagator.rho
        x, delta = inverse(P, Q), inverse(Q, P)
        return (q, x * strength, q, delta @ Q * strength) if b == 0 else (q, x @ P * strength, q, delta * strength)

    def right_of(self, p: float, q: float, b: int) -> bool:
        return p > q or (p == q and b == 0)

    def covariance(self, a: int, p: float) -> np.ndarray:
        return self.at("C0" if a == 0 else "C1", p)


class TwoPoint:
    """Gamma and C of a trained network with scalar outputs and plain rows (step, input), flattened.

    inputs: (N, d_in); signal: (N, 1), the loss derivatives chi, delta^L = chi nV_t. Transfers are found
    once and kept, of the size of the propagator's own arrays. At p = q in the limit Gamma takes the papers'
    one-sided values, p >= q for forward and p <= q for backward sources.

    Source: Tensor Programs VI, Lemma D.1 [tensor_programs_vi/lemma_d1] (finite depth) and Proposition C.4
    [tensor_programs_vi/proposition_c4] (the limit); sources are scaled by sqrt(L) eps, hence vanish in the limit for
    alpha > 1/2. sign: of the branch multiplier, which a propagator of layer time knows by its square.
    """

    def __init__(self, propagator: Value, inputs: np.ndarray, signal: np.ndarray, train_embedding_readout: bool = False,
                 sign: int = 1) -> None:
        if signal.shape[1] != 1:
            raise NotCovered(f"signal: got {signal.shape[1]} outputs; expected 1")
        self._line = _Times(propagator, sign) if isinstance(propagator, CollocationPropagator) else _Layers(propagator)
        self._inputs, self._chi = inputs, signal[:, 0]
        self._rho = propagator.rho if train_embedding_readout else None

    def gamma(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        """Gamma_{t,s,a,b}(p, q): of x_t (a = 0) or delta_t (a = 1) at p, over the source b of row s at layer q.

        b = 0: hat(W_0^m x_s^(m-1)), b = 1: hat(W_0^mT delta_s^m), m = ceil(L q), scaled by sqrt(L). Row
        s = -1: U (b = 0; for one input dimension) and nV (b = 1), unscaled, whatever q. p in [0, 1], q in (0, 1].

        Raises ``ValueError`` for b = 0, s = -1 with several input dimensions.
        """
        line = self._line
        if row_s >= 0:
            start, x, end, delta = line.source(b, q)
            right, wave = line.right_of(p, q, b), (x if line.right_of(p, q, b) else delta)[:, row_s]
            start = start if right else end
        elif b == 0:
            if self._inputs.shape[1] > 1:
                raise NotCovered("gamma: s = -1, b = 0 is the derivative in U, a number for one input dimension; "
                                 f"this task has {self._inputs.shape[1]}")
            start, right = line.first, True
            wave = self._answered("P", "Q", start, self._inputs[:, 0])
        else:
            start, right = line.last, False
            wave = self._answered("Q", "P", start, self._chi)
        here, side = line.location(p), "forward" if right else "backward"
        if here != start:
            wave = line.at(side, here) @ np.linalg.solve(line.at(side, start), wave)
        if right == (a == 0):
            return float(wave[row_t])
        return float(line.at("Q" if right else "P", here)[row_t] @ wave)

    def _answered(self, end: str, body: str, location: Location, features: np.ndarray) -> np.ndarray:
        """The wave at an end of the network: features of its initial weights, among trained ones' reflections."""
        if self._rho is None:
            return features
        at = self._line.at
        return np.asarray(inverse(at(end, location), at(body, location)) @ (self._rho * features))

    def c(self, row_t: int, row_s: int, a: int, p: float) -> float:
        """C_{t,s,a}(p), p in (0, 1]: <x_t^(l-1) | x_s^(l-1)> or <delta_t^l | delta_s^l>, l = ceil(L p).

        Row -1 stands for U and nV: C_{-1,-1,a} = 1, C_{-1,s,a} = 0.
        """
        if row_t < 0 or row_s < 0:
            return float(row_t == row_s)
        return float(self._line.covariance(a, p)[row_t, row_s])


def _products(factors: np.ndarray) -> list[np.ndarray]:
    """The products of the first matrices, [I, F_1, F_2 F_1, ...]."""
    result = [np.eye(factors.shape[-1])]
    for factor in factors:
        result.append(factor @ result[-1])
    return result
