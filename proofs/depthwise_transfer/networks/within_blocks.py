"""Fields within blocks of several matrices: identities of one real network, trained with its own backward pass."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from tpcalc._types import Value
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import Letters
from .._fields import fields

N, L, K, STEPS, MU0, ETA0 = 12, 2, 3, 3, 0.8, 0.5
t, s, ell, k, last = sp.symbols("t s ell k K", integer=True)
c, depth = sp.symbols("c L")
h, g, dphi, hk, gk, chik, xik, dphik, Phik = fields("h g dphi hk gk chik xik dphik Phik")
Delta = sp.IndexedBase(r"\Delta")

INNER = Equation(hk(t, ell, k + 1), chik(t, ell, k) + c / sp.sqrt(depth) * sp.Sum(
    Delta[s] * Phik(t, s, ell, k) * gk(s, ell, k + 1), (s, 0, t - 1)))
OUTER = Equation(h(t, ell + 1), h(t, ell) + chik(t, ell, last - 1) / sp.sqrt(depth) + c / depth * sp.Sum(
    Delta[s] * Phik(t, s, ell, last - 1) * g(s, ell + 1), (s, 0, t - 1)))
INNER_GRADIENT = Equation(gk(t, ell, k), dphik(t, ell, k) * xik(t, ell, k))
OUTER_GRADIENT = Equation(g(t, ell), g(t, ell + 1) + dphi(t, ell) * xik(t, ell, 0) / sp.sqrt(depth))
LAST = Equation(gk(t, ell, last), g(t, ell + 1))


class Network:
    """Steps of descent on one input each; blocks and nodes from 1, matrices and inner fields from 0, as printed."""

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        self.start, self.w = rng.normal(size=(STEPS, N)), rng.normal(size=N)
        self.W = [rng.normal(size=(L, K, N, N))]
        self.Delta, targets = np.zeros(STEPS), rng.normal(size=STEPS)
        self.inner: list[np.ndarray] = []   # (L, K + 1, N): h before the block, then fields behind each matrix
        self.outer: list[np.ndarray] = []
        self.gradients: list[tuple[np.ndarray, np.ndarray]] = []
        for step in range(STEPS):
            W = self.W[-1]
            inner, outer = self.forward(W, self.start[step])
            self.Delta[step] = targets[step] - self.output(outer[-1])
            # N mu0 df/dh, and sqrt L times that of inner fields, by (124)
            g_, gk_ = np.zeros((L + 1, N)), np.zeros((L, K + 1, N))
            g_[L] = self.w * np.cosh(outer[-1])**-2.0
            for block in range(L - 1, -1, -1):
                gk_[block, K] = g_[block + 1]
                for number in range(K - 1, 0, -1):
                    gk_[block, number] = np.cosh(inner[block, number])**-2.0 * (
                        W[block, number].T @ gk_[block, number + 1]) / np.sqrt(N)
                g_[block] = g_[block + 1] + np.cosh(inner[block, 0])**-2.0 * (W[block, 0].T @ gk_[block, 1]) / np.sqrt(
                    N * L)
            self.inner.append(inner)
            self.outer.append(outer)
            self.gradients.append((g_, gk_))
            push = np.einsum("lki,lkj->lkij", gk_[:, 1:], np.tanh(inner[:, :-1])) / np.sqrt(N * L)
            self.W.append(W + ETA0 * MU0 * self.Delta[step] * push)

    @staticmethod
    def forward(W: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inner, outer = np.zeros((L, K + 1, N)), [start]
        for block in range(L):
            inner[block, 0] = outer[-1]
            for number in range(K):
                inner[block, number + 1] = W[block, number] @ np.tanh(inner[block, number]) / np.sqrt(N)
            outer.append(outer[-1] + inner[block, K] / np.sqrt(L))
        return inner, np.array(outer)

    def output(self, end: np.ndarray) -> float:
        return float(self.w @ np.tanh(end)) / (MU0 * N)

    def by_difference(self, block: int, number: int, neuron: int, step: float = 1e-6) -> float:
        """N mu0 sqrt L df_0 / d(inner field), from outputs of the network with the field moved."""
        found = 0.0
        for sign in (1, -1):
            field = self.inner[0][block, number].copy()
            field[neuron] += sign * step
            for rest in range(number, K):
                field = self.W[0][block, rest] @ np.tanh(field) / np.sqrt(N)
            end = self.outer[0][block] + field / np.sqrt(L)
            for later in range(block + 1, L):
                end = self.forward(np.roll(self.W[0], -later, axis=0), end)[1][1]
            found += sign * self.output(end) / (2 * step)
        return N * MU0 * np.sqrt(L) * found

    @property
    def reading(self) -> Letters:
        def field(step: int, block: int, number: int) -> np.ndarray:
            return self.inner[step][block - 1, number]

        def kernel(a: int, b: int, block: int, number: int) -> float:
            return float(np.tanh(field(a, block, number)) @ np.tanh(field(b, block, number))) / N
        tables: dict[str, Value] = {
            "h": lambda a, node: self.outer[a][node - 1], "hk": field, "Phik": kernel,
            "g": lambda a, node: self.gradients[a][0][node - 1], "gk": lambda a, b, m: self.gradients[a][1][b - 1, m],
            "chik": lambda a, b, m: self.W[0][b - 1, m] @ np.tanh(field(a, b, m)) / np.sqrt(N),
            "xik": lambda a, b, m: self.W[a][b - 1, m].T @ self.gradients[a][1][b - 1, m + 1] / np.sqrt(N),
            "dphi": lambda a, node: np.cosh(self.outer[a][node - 1])**-2.0,
            "dphik": lambda a, b, m: np.cosh(field(a, b, m))**-2.0, r"\Delta": lambda a: self.Delta[a]}
        return Letters(tables, {c: ETA0 * MU0, depth: L, last: K, t: STEPS - 1, ell: 1})


@lru_cache(maxsize=None)
def network() -> Network:
    return Network()


def residual(equation: Equation, matrix: int) -> float:
    here = network().reading.at({k: matrix})
    return float(np.max(np.abs(here.of(equation.target) - here.of(equation.value))))


def evidence() -> Evidence:
    where = f"left less right, a tanh network of width {N} with {L} blocks of {K} matrices, step {STEPS - 1}"
    own = [network().by_difference(0, number, 3) - network().gradients[0][1][0, number, 3] for number in (1, 2)]
    return Evidence((
        MeasuredNumber(f"(122) by differences of outputs, two matrices, less (124), {where}", max(map(abs, own)), 1e-7,
                       0.0),
        *(MeasuredNumber(f"(123), {what}, {where}", residual(equation, 1), 1e-12, 0.0)
          for what, equation in (("fields within", INNER), ("fields behind", OUTER))),
        *(MeasuredNumber(f"(124), {what}, {where}", residual(equation, 1), 1e-12, 0.0)
          for what, equation in (("within", INNER_GRADIENT), ("before", OUTER_GRADIENT), ("behind", LAST)))))


def last_witness() -> Witness:
    """The K matrices of a block are numbered from 0: there is no W^(l,K), and its kernel is of what it would read."""
    here = network().reading
    return Witness("h of a neuron behind the first block, two steps learnt", float(here.of(OUTER.target)[0]), 1e-12,
                   None, float(here.of(OUTER.value)[0]))


ENTRY = Entry(
    key="depthwise_transfer/within_blocks",
    kind="proposition",
    title="fields within blocks of several matrices",
    source="Depthwise Hyperparameter Transfer, appendix K.2, (122) to (124)",
    says="Identities of one real network whose blocks have $K$ matrices, numbered from 0. Of block $\\ell$, $\\tilde "
         "h^{\\ell, k}$ are the fields within, $\\tilde h^{\\ell, 0} = h^\\ell$, and $\\tilde g^{\\ell, k} = N \\mu_0 "
         "\\sqrt{L} \\, \\partial f / \\partial \\tilde h^{\\ell, k}$ their gradients, of order one. $\\tilde\\chi$ "
         "is what the initial matrix makes of features, $\\tilde\\xi$ what the present one makes of gradients. Within "
         "a block fields learn as $L^{-1/2}$, and every block does.",
    statement=lambda: Equations((INNER, OUTER, INNER_GRADIENT, OUTER_GRADIENT, LAST)),
    assumptions=("$\\alpha = 1/2$, rate 0", "plain gradient descent", "one input a step"),
    uses=("depthwise_transfer/parametrization",),
    evidence=evidence,
    errata=(
        Erratum(Slip.MISPRINT, "(123), second line: $W^{\\ell,K}$ and $\\Phi^{\\ell,K}$, for those of $K - 1$, "
                "the last of (120)",
                r"h^{\ell+1} &= h^\ell + \tfrac{1}{\sqrt{L N}} W^{\ell,K}(0) \phi(\tilde h^{\ell,K-1}) + "
                r"\tfrac{c}{L} \sum_s \Delta_s \Phi^{\ell,K}_{ts} g^{\ell+1}_s",
                lambda: line(OUTER.target, OUTER.value), last_witness),
    ),
)
