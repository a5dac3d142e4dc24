"""Convolutional residual networks: kernels with positions, and the recursions that close on them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from tpcalc._types import Value
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber

from ..._letters import Letters
from .._fields import fields, mean_of

POSITIONS, REACH, L, WIDTH, SEEDS, STEPS, MU0, ETA0 = 4, 1, 3, 64, 60, 3, 0.8, 0.5
a, b, d, e, t, s, ell = sp.symbols("a b d e t s ell", integer=True)
c, depth, R, P = sp.symbols("c L R P")
h, phi, chi, g, Phi, H = fields("h phi chi g Phi H")
Delta = sp.IndexedBase(r"\Delta")

KERNEL = Equation(Phi(a, b, t, s, ell), mean_of(phi(a, t, ell) * phi(b, s, ell)))
FORWARD = Equation(h(a, t, ell + 1), h(a, t, ell) + chi(a, t, ell + 1) / sp.sqrt(depth) + c / depth * sp.Sum(
    Delta[s] * Phi(a + d, e + d, t, s, ell) * g(e, s, ell + 1), (d, -R, R), (e, 0, P - 1), (s, 0, t - 1)))
START = Equation(H(a, b, t, s, ell + 1), H(a, b, t, s, ell) + sp.Sum(Phi(a + d, b + d, t, s, ell), (d, -R, R)) / depth)


class Network:
    """A ring of positions, filters of 2 REACH + 1, steps of descent on one input each; nodes from 1, as printed."""

    def __init__(self, width: int, seed: int, steps: int = STEPS) -> None:
        rng = np.random.default_rng(seed)
        inputs, targets = np.random.default_rng(1).normal(size=(2, STEPS, POSITIONS))
        self.U, self.w = rng.normal(size=width), rng.normal(size=(POSITIONS, width))
        W, self.width = rng.normal(size=(L, 2 * REACH + 1, width, width)), width
        self.first, self.Delta = W, np.zeros(steps)
        self.h: list[np.ndarray] = []   # (L + 1, positions, N)
        self.g: list[np.ndarray] = []
        for step in range(steps):
            nodes = [inputs[step][:, None] * self.U]
            for matrices in W:
                nodes.append(nodes[-1] + self.apply(matrices, np.tanh(nodes[-1])) / np.sqrt(L))
            back = [self.w]
            for matrices, before in zip(W[::-1], nodes[-2::-1]):
                returned = sum(np.roll(back[-1], shift, axis=0) @ matrices[shift + REACH]
                               for shift in range(-REACH, REACH + 1))
                back.append(back[-1] + np.cosh(before)**-2.0 * returned / np.sqrt(width * L))
            self.h.append(np.array(nodes))
            self.g.append(np.array(back[::-1]))
            self.Delta[step] = targets[step, 0] - float(np.sum(self.w * nodes[-1])) / (MU0 * width)
            push = np.zeros_like(W)
            for block in range(L):
                for shift in range(-REACH, REACH + 1):
                    seen = np.roll(np.tanh(nodes[block]), -shift, axis=0)
                    push[block, shift + REACH] = self.g[-1][block + 1].T @ seen / np.sqrt(width * L)
            W = W + ETA0 * MU0 * self.Delta[step] * push

    def stream(self, one: np.ndarray) -> np.ndarray:
        """The stream of an input at the end, by the first matrices."""
        found = one[:, None] * self.U
        for matrices in self.first:
            found = found + self.apply(matrices, np.tanh(found)) / np.sqrt(L)
        return found

    def apply(self, matrices: np.ndarray, features: np.ndarray) -> np.ndarray:
        """sum_d W_d phi_(a + d) / sqrt N."""
        found: np.ndarray = sum(np.roll(features, -shift, axis=0) @ matrices[shift + REACH].T
                                for shift in range(-REACH, REACH + 1)) / np.sqrt(self.width)
        return found

    @property
    def reading(self) -> Letters:
        tables: dict[str, Value] = {
            "h": lambda at, step, node: self.h[step][node - 1, at % POSITIONS],
            "phi": lambda at, step, node: np.tanh(self.h[step][node - 1, at % POSITIONS]),
            "g": lambda at, step, node: self.g[step][node - 1, at % POSITIONS],
            r"\Delta": lambda step: self.Delta[step],
            "chi": lambda at, step, node: self.apply(self.first[node - 2], np.tanh(self.h[step][node - 2]))[at]}
        plain = Letters(tables)
        tables["Phi"] = lambda p, q, m, n, node: plain.at({a: p, b: q, t: m, s: n, ell: node}).of(KERNEL.value)
        return Letters(tables, {c: ETA0 * MU0, depth: L, R: REACH, P: POSITIONS})

    def by_difference(self, step: float = 1e-6) -> float:
        """N mu0 df_0 / dh of a neuron at a position of node 2, less its g."""
        found = 0.0
        for sign in (1, -1):
            field = self.h[0][1].copy()
            field[2, 5] += sign * step
            for matrices in self.first[1:]:
                field = field + self.apply(matrices, np.tanh(field)) / np.sqrt(L)
            found += sign * float(np.sum(self.w * field)) / (2 * step)
        return found - float(self.g[0][1, 2, 5])


FIRST = np.random.default_rng(1).normal(size=(2, STEPS, POSITIONS))[0, :2]   # two inputs
ROWS = [(one, at) for one in (0, 1) for at in range(POSITIONS)]


@lru_cache(maxsize=None)
def limit() -> np.ndarray:
    """H of all pairs of positions of two inputs at the end, before training, with the mean over sites by quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    kernel, over = np.outer(FIRST.ravel(), FIRST.ravel()), np.outer(weights, weights) / (2 * np.pi)

    def mean(p: int, q: int, found: np.ndarray) -> float:
        x, y, z = found[p, p], found[q, q], found[p, q]
        rest = np.sqrt(max(y - z**2 / x, 0.0))
        return float(np.sum(over * np.tanh(np.sqrt(x) * points[:, None]) * np.tanh(
            z / np.sqrt(x) * points[:, None] + rest * points)))

    def row(one: int, at: int) -> int:
        return ROWS.index((one, at % POSITIONS))
    for node in range(1, L + 1):
        now = kernel
        features = np.array([[mean(p, q, now) for q in range(len(ROWS))] for p in range(len(ROWS))])
        tables: dict[str, Value] = {
            name: lambda p, q, m, n, node_, known=known: known[row(m, p), row(n, q)]
            for name, known in (("H", now), ("Phi", features))}
        here = Letters(tables, {depth: L, R: REACH, ell: node})
        kernel = np.array([[here.at({t: one, a: p, s: two, b: q}).of(START.value) for two, q in ROWS]
                           for one, p in ROWS])
    return kernel


def untrained(seed: int) -> np.ndarray:
    """Overlaps of streams at the end of a network, two inputs, all positions."""
    net = Network(WIDTH, seed, 0)
    streams = [net.stream(one) for one in FIRST]
    ends = np.concatenate(streams)
    return ends @ ends.T / WIDTH


def evidence() -> Evidence:
    net = Network(16, 0)
    here = net.reading.at({a: 1, t: STEPS - 1, ell: 2})
    found = np.array([untrained(seed) for seed in range(1, SEEDS + 1)])
    means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    where = f"{POSITIONS} positions, {L} blocks"
    kernel = net.reading.at({a: 1, b: 3, t: 0, s: 2, ell: 2}).of(KERNEL.value)
    sites = np.tanh(net.h[0][1, 1]) @ np.tanh(net.h[2][1, 3]) / 16
    return Evidence((
        MeasuredNumber(f"(119), left less right, a tanh network of width 16, {where}", float(kernel - sites), 1e-12,
                       0.0),
        MeasuredNumber(f"(118), learned steps by kernels, left less right, a tanh network of width 16, {where}",
                       float(np.max(np.abs(here.of(FORWARD.target) - here.of(FORWARD.value)))), 1e-12, 0.0),
        MeasuredNumber(f"g by differences of outputs, the same, {where}", net.by_difference(), 1e-7, 0.0),
        *(MeasuredNumber(f"H of inputs and positions {ROWS[p]} and {ROWS[q]} before training, {SEEDS} networks of "
                         f"width {WIDTH}, {where}", float(means[p, q]), float(errors[p, q]), float(limit()[p, q]))
          for p, q in ((0, 0), (0, 1), (1, POSITIONS + 3), (3, POSITIONS + 1)))))


ENTRY = Entry(
    key="depthwise_transfer/convolutions",
    kind="proposition",
    title="convolutional residual networks",
    source="Depthwise Hyperparameter Transfer, appendix K.1, (118) and (119)",
    says="On a ring of $P$ positions with filters that reach $R$ far, $\\chi_a = N^{-1/2} \\sum_d W_d(0) \\phi_{a + "
         "d}$ and kernels have positions besides steps. What a block learned at position $e$ acts at $a$ where one "
         "entry of the filter sees both; the last line is the kernel of streams of two inputs before training, at "
         "infinite width, "
         "where entries of the filter are independent.",
    statement=lambda: Equations((KERNEL, FORWARD, START)),
    assumptions=("$\\alpha = 1/2$, rate 0", "plain gradient descent", "one input a step", "a ring of positions"),
    uses=("depthwise_transfer/finite_network",),
    evidence=evidence,
)
