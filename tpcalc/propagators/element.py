"""The rows of one step on one element of layer time: what is known there, and the problem they solve.

In y = [p | s] the rows are an initial-value problem in layer time. For a linear block, and for every backward sweep, it
is a linear one, y' = y M: Picard's iteration, superlinear and cheap, is tried first; where it fails, the collocation
equations themselves are solved, by a factorization or in a Krylov space, so that elements are as long as the solution
allows and not as the iteration does.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from scipy.linalg import lu_solve

from .blocks import Law, BlockRates
from .layer_time import LARGEST, factorized, integrated, krylov
from .mesh import reference

TINY = np.finfo(np.float64).tiny
ITERATIONS = 40        # a contraction that needs more loses digits
UNCHECKED = 10         # iterations before the first look at the change: no element is so short
SETTLED = 2e-14        # a change this small: the next, a superlinear iteration's, would be round-off
STAGNANT = 2e-13       # changes that stop falling below this are round-off
KINKED = 1e-10         # the same of nonlinear blocks: where r = 1, the arcsine of r has half of its digits
UNRESOLVED = 1e-2      # last Chebyshev coefficients relative to the values: later steps would be nonsense
COMPOSED = 30          # rows of earlier steps for every row of the step, up to which operators are composed
KRYLOV = 60            # its dimension: a row that needs more is solved sooner on half the element


@dataclass
class DirectionSolution:
    """What one direction has found at the nodes, each (nodes, N, N); letters are those of the forward direction.

    P, S: reflection and covariance; A, N: densities of response and noise; C: covariance of the signal
    itself, <x x>; r: its response to the opposite source, (I - P Q)^-1 P.
    """

    P: np.ndarray
    S: np.ndarray
    A: np.ndarray
    N: np.ndarray
    C: np.ndarray
    r: np.ndarray

    @staticmethod
    def empty(nodes: int, rows: int) -> DirectionSolution:
        return DirectionSolution(*(np.zeros((nodes, rows, rows)) for _ in range(6)))

    def on(self, nodes: slice, rows: int) -> DirectionSolution:
        """A view of some nodes and of the first rows."""
        return DirectionSolution(*(getattr(self, f.name)[nodes, :rows, :rows] for f in fields(self)))

    def at(self, weights: np.ndarray) -> DirectionSolution:
        """Interpolated: weights (new nodes, nodes)."""
        return DirectionSolution(*(np.tensordot(weights, getattr(self, f.name), 1) for f in fields(self)))

    def forget(self) -> None:
        """All but P and S."""
        self.A = self.N = self.C = self.r = np.empty((0, 0, 0))

    def whole(self) -> DirectionSolution:
        """As whole matrices."""
        return self

    def store(self, nodes: slice, solved: Solved, m: int, wide: int) -> None:
        """Append the rows of a step; wide: columns of P that they have."""
        end = m + solved.state.shape[1]
        self.P[nodes, m:end, :wide] = solved.state[..., :wide]
        self.r[nodes, m:end, :wide] = solved.r
        self.A[nodes, m:end, :m] = solved.rates.density
        diagonal = solved.rates.diagonal
        if diagonal is not None and diagonal.ndim == 2:
            self.A[nodes, range(m, end), range(m, end)] = diagonal
        elif diagonal is not None:
            self.A[nodes, m:end, m:end] = diagonal
        for array, row, own in ((self.S, solved.state[..., wide:wide + m], solved.state[..., wide + m:]),
                                (self.C, solved.c, solved.own), (self.N, solved.rates.noise, solved.rates.own_noise)):
            array[nodes, m:end, :m] = row
            array[nodes, :m, m:end] = row.transpose(0, 2, 1)
            array[nodes, m:end, m:end] = own


class Solved(NamedTuple):
    """The rows of a step on an element, over its nodes: state [p | s | S_tt] and what it entails."""

    state: np.ndarray
    r: np.ndarray
    c: np.ndarray
    own: np.ndarray | None
    rates: BlockRates


@dataclass
class Element:
    """The problem of b rows on an element, with m rows of earlier steps.

    wide: columns of p, m or m + b where the block gives backward rows a response to their own step; keep: whether
    the state ends with S_tt, b more columns, or one, its diagonal, for passengers; integral: (nodes, nodes), from where
    the sweep enters; law: the block's.
    """

    mine: DirectionSolution
    other: DirectionSolution
    integral: np.ndarray
    law: Law
    m: int
    wide: int
    keep: bool

    def solve(self, start: np.ndarray, near: np.ndarray | None) -> Solved | None:
        """The rows from their values (b, columns) where they enter; None where the element is too long for them.
        near: nodal values to start from, or None."""
        nodes = len(self.integral)
        # composing costs about 8 products of matrices; leaving it, twice 7 products of rows in every iteration
        operator = self._operator() if self.m <= COMPOSED * len(start) else None
        solved = self._iterate(start, near, operator)
        if solved is None and self.law.linear is not None:
            solved = self._directly(start, self._operator() if operator is None else operator)
        if solved is None:
            return None
        largest = np.abs(solved.state).max(axis=(0, 1))
        tail = np.abs(np.tensordot(reference(nodes)[1][-2:], solved.state, 1)).max(axis=(0, 1))
        parts = self._parts(start.shape[1])
        resolved = np.maximum.reduceat(tail, parts) <= UNRESOLVED * np.maximum.reduceat(largest, parts)
        return solved if np.all(resolved) else None

    def _parts(self, total: int) -> list[int]:
        """Reflection, covariance and own covariance have scales of their own."""
        return sorted({0, self.wide, self.wide + self.m} - {total})

    def _operator(self) -> np.ndarray:
        """What a row [p | s] is multiplied with at every node, in one product.

        Columns: response r = p + g P, covariance c = <x_t x>, p B P, p (N1 P^T + B S) + s (P B)^T, and for
        kept rows the halves that (with p^T) give the covariance of the step and its rate. Two identities
        make it cheap: G' = (I - Q P)^-1 = I + (G' Q) P, and <delta x> = Q <x x> + R (G P)^T.
        """
        m, wide, other = self.m, self.wide, self.other
        P, S, C, r = (a[:, :m, :m] for a in (self.mine.P, self.mine.S, self.mine.C, self.mine.r))
        Q, R, B, N, e = (a[:, :wide, :m] for a in (other.P, other.S, other.A, other.N, other.r))
        PT = P.transpose(0, 2, 1)
        operator = np.zeros((len(P), wide + m, 4 * m + (2 * wide if self.keep else 0)))
        on_p, on_s = operator[:, :wide], operator[:, wide:]
        on_p[:, :, :m] = np.eye(wide, m) + e @ P
        on_p[:, :, m:2 * m] = Q @ C + R @ r.transpose(0, 2, 1)
        on_s[:, :, m:2 * m] = np.eye(m) + (r @ Q[:, :m]).transpose(0, 2, 1)
        on_p[:, :, 2 * m:3 * m] = B @ P
        on_p[:, :, 3 * m:4 * m] = N @ PT + B @ S
        on_s[:, :, 3 * m:4 * m] = (P @ B[:, :m]).transpose(0, 2, 1)
        if self.keep:
            on_p[:, :, 4 * m:4 * m + wide] = other.C[:, :wide, :wide] / 2
            on_s[:, :, 4 * m:4 * m + wide] = e.transpose(0, 2, 1)
            on_p[:, :, 4 * m + wide:] = other.N[:, :wide, :wide] / 2
            on_s[:, :, 4 * m + wide:] = B.transpose(0, 2, 1)
        return operator

    def _products(self, state: np.ndarray) -> np.ndarray:
        """The operator's products with few rows, (nodes, b, columns), without composing it: matrices are only read."""
        m, wide, other = self.m, self.wide, self.other
        p, s = state[..., :wide], state[..., wide:]
        P, S, C, r = (a[:, :m, :m] for a in (self.mine.P, self.mine.S, self.mine.C, self.mine.r))
        Q, R, B, N, e = (a[:, :wide, :m] for a in (other.P, other.S, other.A, other.N, other.r))
        pB, sB = p @ B, s @ B.transpose(0, 2, 1)
        parts = [p[..., :m] + (p @ e) @ P,
                 s + (p @ Q) @ C + (p @ R + s @ Q[:, :m].transpose(0, 2, 1)) @ r.transpose(0, 2, 1), pB @ P,
                 (p @ N + sB[..., :m]) @ P.transpose(0, 2, 1) + pB @ S]
        if self.keep:
            parts += [p @ other.C[:, :wide, :wide] / 2 + s @ e.transpose(0, 2, 1),
                      p @ other.N[:, :wide, :wide] / 2 + sB]
        return np.concatenate(parts, axis=-1)

    def _iterate(self, start: np.ndarray, near: np.ndarray | None, operator: np.ndarray | None) -> Solved | None:
        """Picard's iteration; None where it does not contract."""
        m, wide, total = self.m, self.wide, start.shape[1]
        width, parts = wide + m, self._parts(start.shape[1])
        state = np.repeat(start[None], len(self.integral), axis=0) if near is None else near
        slope = np.zeros_like(state)
        own = None
        settled = max(SETTLED, self.law.resolution)
        stagnant = KINKED if self.law.linear is None else STAGNANT
        before = np.inf
        for iteration in range(ITERATIONS):
            p = state[..., :wide]
            y = self._products(state[..., :width]) if operator is None else state[..., :width] @ operator
            c = y[..., m:2 * m]
            r = y[..., :m] if wide == m else np.concatenate([y[..., :m], p[..., m:]], axis=-1)
            if self.keep:
                own = state[..., width:] + _symmetric(y[..., 4 * m:4 * m + wide], p, total - width)
            rates = self.law(r, c, own)
            slope[..., :m] = y[..., 2 * m:3 * m] + rates.density
            slope[..., wide:width] = y[..., 3 * m:4 * m] + rates.noise
            if rates.diagonal is not None:
                b = np.arange(start.shape[0])
                if rates.diagonal.ndim == 2:
                    slope[:, b, m + b] = rates.diagonal
                else:
                    slope[..., m:wide] = rates.diagonal
            if self.keep:
                slope[..., width:] = rates.own_noise + _symmetric(y[..., 4 * m + wide:], p, total - width)
            new = start + integrated(self.integral, slope)
            if iteration < (UNCHECKED if near is None and not self.law.resolution else 1):
                state = new
                continue
            changes = np.concatenate([new, new - state], axis=1)
            largest = np.abs(changes).reshape(len(new), 2, -1, total).max(axis=(0, 2))
            size, change = np.maximum.reduceat(largest, parts, axis=1)
            now = float((change / (size + TINY)).max())
            state = new
            if not np.isfinite(now) or (iteration > UNCHECKED + 1 and now > before > stagnant):
                return None
            if now <= settled or (now <= stagnant and now > before / 2):
                return Solved(state, r, c, own, rates)
            before = now
        return None

    def _directly(self, start: np.ndarray, operator: np.ndarray) -> Solved | None:
        """The collocation equations of a linear law, all rows at once: they have the same matrix."""
        assert self.law.linear is not None and self.wide == self.m
        on_r, on_c, on_own = self.law.linear
        m, nodes, b = self.m, len(operator), len(start)
        on_response, on_covariance = operator[:, :, :m] * on_r, _times(operator[:, :, m:2 * m], on_c)
        rate = np.concatenate([operator[:, :, 2 * m:3 * m] + on_response + on_covariance,
                               operator[:, :, 3 * m:4 * m] + operator[:, :, m:2 * m] * on_r], axis=2)
        if not np.all(np.isfinite(rate)):
            return None
        y = (self._factorized if 2 * m * nodes <= LARGEST else self._in_krylov_space)(start[:, :2 * m], rate)
        if y is None or not np.all(np.isfinite(y)):
            return None
        products, p = y @ operator, y[..., :m]
        state, own = y, None
        if self.keep:
            # S_tt' = (what the initial matrices add of C_tt = S_tt + ...) + ...
            crossed, grown = (_symmetric(half, p, b) for half in (products[..., 4 * m:5 * m], products[..., 5 * m:]))
            known = start[:, 2 * m:] + integrated(self.integral, on_own * crossed + grown)
            own_s = np.linalg.solve(np.eye(nodes) - on_own * self.integral, known.reshape(nodes, -1))
            state = np.concatenate([y, own_s.reshape(known.shape)], axis=-1)
            own = state[..., 2 * m:] + crossed
        r, c = products[..., :m], products[..., m:2 * m]
        return Solved(state, r, c, own, self.law(r, c, own))

    def _factorized(self, start: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """y of y' = y M: the same matrix for every row."""
        nodes, columns = rate.shape[:2]
        factors = factorized(self.integral, rate.transpose(0, 2, 1))
        flat = lu_solve(factors, np.tile(start, (1, nodes)).T, check_finite=False)
        return np.ascontiguousarray(flat.T.reshape(len(start), nodes, columns).transpose(1, 0, 2))

    def _in_krylov_space(self, start: np.ndarray, rate: np.ndarray) -> np.ndarray | None:
        """y of y' = y M by GMRES on y - J y M, all rows as one vector: they have one matrix, hence one Krylov space.

        An integral operator's spectrum gathers at 1, so convergence is superlinear, also where Picard's series of the
        same operator grows. Measured with 70 earlier rows and a batch of 64, it takes 0.35 to 0.45 of the time of one
        factorization and 0.30 to 0.55 of that of Picard's iteration on the halves or quarters where it contracts.
        """
        nodes, b, m = len(rate), len(start), self.m
        # p and s in units in which each moves the other as much: one norm measures both
        up, down = (np.max(np.abs(block)) for block in (rate[:, :m, m:], rate[:, m:, :m]))
        units = np.repeat([1.0, np.sqrt(down / up) if up > 0 and down > 0 else 1.0], m)
        balanced = rate * units / units[:, None]

        def equation(flat: np.ndarray) -> np.ndarray:
            y = flat.reshape(nodes, b, 2 * m)
            return (y - integrated(self.integral, y @ balanced)).ravel()

        found = krylov(equation, np.repeat((start * units)[None], nodes, axis=0).ravel(), KRYLOV)
        return None if found is None else found.reshape(nodes, b, 2 * m) / units


def _times(c: np.ndarray, on_c: np.ndarray) -> np.ndarray:
    return c @ on_c if on_c.ndim > 1 else c * on_c


def _symmetric(half: np.ndarray, p: np.ndarray, columns: int) -> np.ndarray:
    """half p^T + its transpose, (nodes, b, b), or its diagonal in one column."""
    if columns != half.shape[1]:
        return 2 * np.sum(half * p, axis=-1, keepdims=True)
    product = half @ p.transpose(0, 2, 1)
    return product + product.transpose(0, 2, 1)
