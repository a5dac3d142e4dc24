"""Infinite depth with a past that few rows span: rows that kept ones give to a tolerance are not kept.

Forward rows x and backward rows delta are vectors of Gaussian variables at every layer time. Of training that repeats
one batch they soon lie, up to a small residual, in the span of a few kept ones, x = sum_j phi_j x_j with one phi for
all layer times. An update delta (x) x is then a matrix of weights M for pairs of kept rows, and the weights of a layer
are W_0 - sum_kj M_kj delta_k (x) x_j: gradient descent whose gradients are off by what the residuals say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .._chebyshev import reference
from ..kernels import collocation_span as kernel
from .element import ITERATIONS, SETTLED
from .mesh import Mesh

ROUND_OFF = 1e-14  # of Gram matrices whose rows have norm 1
STAGNANT = 1e-9    # changes that stop falling below this are round-off: of weights that nearly cancel


class Unresolved(ArithmeticError):
    """Elements of layer time are too long for a row."""


class SpannedRow(NamedTuple):
    """A row of a step: y = [p | s], (nodes, m + k), against m kept rows of the other direction and k of its own; c:
    covariances with these, (nodes, k); feature: its input or its output weights, (d,)."""

    y: np.ndarray
    c: np.ndarray
    feature: np.ndarray


@dataclass
class Kept:
    """Kept rows of one direction, letters as in ``Side``: P, A, r are (nodes, k, m), S, C (nodes, k, k); features (k,
    d); gram: of their norms over all layer times, (k, k)."""

    P: np.ndarray
    A: np.ndarray
    r: np.ndarray
    S: np.ndarray
    C: np.ndarray
    features: np.ndarray
    gram: np.ndarray

    @staticmethod
    def none(nodes: int, d: int) -> Kept:
        P, A, r, S, C = (np.zeros((nodes, 0, 0)) for _ in range(5))
        return Kept(P, A, r, S, C, np.zeros((0, d)), np.zeros((0, 0)))

    def __len__(self) -> int:
        return len(self.features)

    def widen(self) -> None:
        """The other direction keeps one more row, of which these know nothing."""
        self.P, self.A, self.r = (np.concatenate([a, np.zeros((*a.shape[:2], 1))], axis=2)
                                  for a in (self.P, self.A, self.r))

    def append(self, row: SpannedRow, density: np.ndarray, r: np.ndarray, own_s: np.ndarray, own_c: np.ndarray,
               weights: np.ndarray) -> None:
        """Keep a row; density, r: (nodes, m); own_s, own_c: its own S and C, (nodes,)."""
        m = self.P.shape[2]
        self.P, self.A, self.r = (np.concatenate([a, new[:, None]], axis=1) for a, new in (
            (self.P, row.y[:, :m]), (self.A, density), (self.r, r)))
        self.S, self.C = (_bordered(a, new, own) for a, new, own in ((self.S, row.y[:, m:], own_s),
                                                                     (self.C, row.c, own_c)))
        self.features = np.concatenate([self.features, row.feature[None]])
        self.gram = np.tensordot(weights, self.C, 1)


class Operators(NamedTuple):
    """What rows of one direction are multiplied with, as ``kernels.collocation_span`` reads it, at nodes from where
    they enter; on_r: to their response, (nodes, m, m), in the order of the mesh; factor: of the normalized Gram matrix
    of kept rows; norms: theirs.
    """

    on_p: np.ndarray
    on_s: np.ndarray
    on_r: np.ndarray
    factor: tuple[np.ndarray, bool] | None
    gram: np.ndarray
    norms: np.ndarray


class SpannedPropagator:
    """The body of a linear network of infinite depth between kept rows. mesh; noise, drift: as in
    ``CollocationPropagator``; M: (backward, forward), what updates weigh pairs of kept rows by."""

    def __init__(self, mesh: Mesh, noise: float, drift: float, d_in: int, d_out: int) -> None:
        self.mesh, self.noise, self.drift = mesh, noise, drift
        nodes = len(mesh.times)
        self.forward, self.backward = Kept.none(nodes, d_in), Kept.none(nodes, d_out)
        self.M = np.zeros((0, 0))
        self._operators: dict[bool, Operators] = {}
        self._seen: dict[tuple[bool, int], list[np.ndarray]] = {}

    def sweep(self, forward: bool, number: int, feature: np.ndarray) -> SpannedRow:
        """The row with this feature, the ``number``-th of the step; it leaves no trace. Raises ``Unresolved``."""
        mine, m = (self.forward, len(self.backward)) if forward else (self.backward, len(self.forward))
        found = self._of(forward)
        state = np.concatenate([np.zeros(m), mine.features @ feature])
        updates = np.ascontiguousarray(-self.drift * (self.M.T if forward else self.M))
        points, _, integral = reference(self.mesh.nodes)
        y, c = self._near(forward, number, state), np.empty((len(self.mesh.times), len(mine)))
        inner_y, inner_c = np.empty((self.mesh.nodes, len(state))), np.empty((self.mesh.nodes, len(mine)))
        for e in range(self.mesh.elements) if forward else reversed(range(self.mesh.elements)):
            here, step = self.mesh.element(e), 1 if forward else -1
            entered = here if forward else slice(len(y) - here.stop, len(y) - here.start)
            inner_y[:] = y[here][::step]
            inner_y += state - inner_y[0]
            if len(state) and not kernel.element(
                    state, inner_y, m, found.on_p[entered], found.on_s[entered], updates, points, integral,
                    self.mesh.lengths[e] / 2, ITERATIONS, SETTLED, STAGNANT, inner_c):
                raise Unresolved(f"layer time {self.mesh.ends[e]:.3g} to {self.mesh.ends[e + 1]:.3g}")
            y[here], c[here], state = inner_y[::step], inner_c[::step], inner_y[-1].copy()
        seen = self._seen.setdefault((forward, number), [])
        seen.insert(0, y)
        del seen[3:]
        return SpannedRow(y, c, feature)

    def _near(self, forward: bool, number: int, state: np.ndarray) -> np.ndarray:
        """Where iterations start: rows of the steps before, continued."""
        seen = self._seen.get((forward, number), [])
        alike = [y for y in seen if y.shape[1] == len(state)]
        if not alike:
            return np.repeat(state[None], len(self.mesh.times), axis=0)
        weights = {1: (1.0,), 2: (2.0, -1.0), 3: (3.0, -3.0, 1.0)}[len(alike)]
        return np.asarray(sum(a * y for a, y in zip(weights, alike)))

    def own(self, forward: bool, row: SpannedRow) -> tuple[np.ndarray, np.ndarray]:
        """S and C of a row with itself, (nodes,) each."""
        other, m = (self.backward, len(self.backward)) if forward else (self.forward, len(self.forward))
        p, s = row.y[:, :m], row.y[:, m:]
        on_c, on_s, on_r = (np.matmul(p[:, None], a)[:, 0] for a in (other.C, other.A, other.r))
        inner = np.einsum("nj,nj->n", p, on_c)
        crossed = inner + 2 * np.einsum("nj,nj->n", on_r, s)
        grown = self.noise * (crossed + inner) + 2 * np.einsum("nj,nj->n", on_s, s)
        own, state = np.empty(len(p)), float(row.feature @ row.feature)
        for e in range(self.mesh.elements) if forward else reversed(range(self.mesh.elements)):
            here, integral = self.mesh.element(e), self.mesh.integral(e, forward)
            own[here] = np.linalg.solve(np.eye(len(integral)) - self.noise * integral, state + integral @ grown[here])
            state = float(own[here][-1 if forward else 0])
        return own, own + crossed

    def coordinates(self, forward: bool, row: SpannedRow, norm: float) -> tuple[np.ndarray, float]:
        """(phi, residual): what the row is made of in the kept ones, and the norm of the rest over all layer times."""
        found = self._of(forward)
        if found.factor is None or norm == 0.0:
            return np.zeros(len(found.norms)), norm
        known = self.mesh.weights @ row.c / (found.norms * norm)
        phi = cho_solve(found.factor, known)
        square = 1.0 + phi @ (found.gram @ phi - 2 * known)
        floor = ROUND_OFF / 4 * (1.0 + float(np.sum(np.abs(phi))))
        return phi * norm / found.norms, norm * float(np.sqrt(max(square, 0.0) + floor))

    def keep(self, forward: bool, row: SpannedRow, own_s: np.ndarray, own_c: np.ndarray) -> None:
        """Keep a row, as the last of its direction."""
        mine, other = (self.forward, self.backward) if forward else (self.backward, self.forward)
        m = len(other)
        r = np.matmul(row.y[:, None, :m], self._of(forward).on_r)[:, 0]
        density = self.noise * r - self.drift * row.c @ (self.M.T if forward else self.M)
        mine.append(row, density, r, own_s, own_c, self.mesh.weights)
        other.widen()
        self.M = np.pad(self.M, ((0, 0), (0, 1)) if forward else ((0, 1), (0, 0)))
        self._operators.clear()
        for (direction, number), seen in self._seen.items():  # every row gains a column: its s, or its p
            at = len(mine) + m - 1 if direction == forward else len(mine) - 1
            self._seen[direction, number] = [np.insert(y, at, 0.0, axis=1) for y in seen[:1]]

    def _of(self, forward: bool) -> Operators:
        if forward not in self._operators:
            mine, other = (self.forward, self.backward) if forward else (self.backward, self.forward)
            self._operators[forward] = _operators(mine, other, self.noise, 1 if forward else -1)
        return self._operators[forward]


def _operators(mine: Kept, other: Kept, noise: float, order: int) -> Operators:
    """Identities as in ``Element``: G' = I + (G' Q) P, and <delta x> = Q <x x> + R (G P)^T."""
    k, m = len(mine), len(other)
    P, S, C, r = mine.P, mine.S, mine.C, mine.r
    Q, R, B, D = other.P, other.S, other.A, other.C
    rT, PT = r.transpose(0, 2, 1), P.transpose(0, 2, 1)
    on_r = np.eye(m) + Q @ r
    p_c, s_c = Q @ C + R @ rT, np.eye(k) + (r @ Q).transpose(0, 2, 1)
    on_p = np.concatenate([noise * on_r + B @ P, noise * (p_c + D @ PT) + B @ S, p_c], axis=2)
    on_s = np.concatenate([noise * s_c + (P @ B).transpose(0, 2, 1), s_c], axis=2)
    norms = np.sqrt(np.diagonal(mine.gram))
    gram = mine.gram / np.outer(norms, norms)
    factor = cho_factor(gram + ROUND_OFF * np.eye(k)) if k else None
    on_p, on_s = (np.ascontiguousarray(a[::order]) for a in (on_p, on_s))
    return Operators(on_p, on_s, on_r, factor, gram, norms)


def _bordered(a: np.ndarray, row: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Symmetric matrices with one more row and column."""
    nodes, k = row.shape
    result = np.empty((nodes, k + 1, k + 1))
    result[:, :k, :k] = a
    result[:, k, :k] = result[:, :k, k] = row
    result[:, k, k] = own
    return result
