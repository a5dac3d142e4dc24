"""Fields within blocks of several matrices: updates and fields of one real network, derived from its passes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Proof, Slip, Witness
from tpcalc.ledger.entry import line

from ..._rewriting import Rewriting
from .._fields import Slope
from ._block_network import ETA0, K, L, MU0, N, STEPS, Network, letters_of_blocks
from ._network_numbers import worst
from ._network_rules import (KERNELS, LINEAR, OUT_OF_SUMS, OUTER as OUTER_ACTS, Outer, Phik, W, chain_rule,
                             chik, depth, dphi, dphik, g, gk, h, hk, insert, phik, read, unroll, width, xik)
from .blocks_of_several_matrices import (AFTER, AHEAD, BACK, FIRST_WITHIN, GRADIENT, GRADIENT_WITHIN, WITHIN, ell, f, k,
                                         last, mu0, network, s, t)
from .finite_network import ERROR, RATE, Delta, c, eta, loss

UPDATE = Equation(W(t + 1, ell, k), W(t, ell, k) + c / (sp.sqrt(width) * sp.sqrt(depth)) * Delta[t] * Outer(
    gk(t, ell, k + 1), phik(t, ell, k)))
INNER = Equation(hk(t, ell, k + 1), chik(t, ell, k) + c / sp.sqrt(depth) * sp.Sum(
    Delta[s] * Phik(t, s, ell, k) * gk(s, ell, k + 1), (s, 0, t - 1)))
OUTER = Equation(h(t, ell + 1), h(t, ell) + chik(t, ell, last - 1) / sp.sqrt(depth) + c / depth * sp.Sum(
    Delta[s] * Phik(t, s, ell, last - 1) * g(s, ell + 1), (s, 0, t - 1)))
INNER_GRADIENT = Equation(gk(t, ell, k), dphik(t, ell, k) * xik(t, ell, k))
OUTER_GRADIENT = Equation(g(t, ell), g(t, ell + 1) + dphi(t, ell) * xik(t, ell, 0) / sp.sqrt(depth))
LAST = Equation(gk(t, ell, last), g(t, ell + 1))

WHERE = "depthwise_transfer/blocks_of_several_matrices"
AFTER_ONE = read(Slope(f(t), h(t, ell + 1)), g(t, ell + 1) / (width * mu0), "gradients, by their name", WHERE)


def _gradient_at(number: sp.Expr) -> Rewriting:
    return read(Slope(f(t), hk(t, ell, number)), gk(t, ell, number) / (width * mu0 * sp.sqrt(depth)),
                "gradients, by their name", WHERE)


def _returned(number: sp.Expr) -> Rewriting:
    return read(BACK.value.subs(k, number) * sp.sqrt(width), xik(t, ell, number) * sp.sqrt(width),
                "what the matrix makes of gradients", WHERE)


def _gradients(steps: Derivation) -> None:
    """(124), and what the last of a block's fields has."""
    within, after = {hk(t, ell, k + 1): WITHIN.value}, {h(t, ell + 1): AFTER.value}
    steps.through((chain_rule(hk(t, ell, k), within), _gradient_at(k + 1), LINEAR, _returned(k), OUT_OF_SUMS),
                  gk(t, ell, k), GRADIENT_WITHIN.value)
    steps.through((chain_rule(h(t, ell), {**after, FIRST_WITHIN.target: FIRST_WITHIN.value}), AFTER_ONE,
                   _gradient_at(sp.Integer(1)), LINEAR, _returned(sp.Integer(0)), OUT_OF_SUMS), g(t, ell),
                  GRADIENT.value)
    steps.through((chain_rule(hk(t, ell, last), after), AFTER_ONE), gk(t, ell, last), GRADIENT_WITHIN.value.subs(
        k, last))


@lru_cache(maxsize=None)
def derivation() -> Derivation:
    steps, now = Derivation(), W(t, ell, k)
    update = steps.through((ERROR, chain_rule(now, {hk(t, ell, k + 1): WITHIN.value}), _gradient_at(k + 1), LINEAR,
                            RATE), UPDATE.target, now - eta * Slope(loss(t), now))
    weights = steps.apply(unroll(UPDATE.target, update, t, s), now, now)
    ahead = read(AHEAD.value * sp.sqrt(width), chik(t, ell, k) * sp.sqrt(width),
                 "what the initial matrix makes of features", WHERE)
    inner = steps.through((insert(now, weights), LINEAR, OUTER_ACTS, KERNELS, ahead, OUT_OF_SUMS), INNER.target,
                          WITHIN.value)
    _gradients(steps)
    at_end = insert(hk(t, ell, last), inner.subs(k, last - 1))
    steps.through((at_end, insert(gk(s, ell, last), g(s, ell + 1)), OUT_OF_SUMS), OUTER.target, AFTER.value)
    return steps


def derive() -> Proof:
    def numbers(rng: np.random.Generator) -> float:
        net, rate = Network(rng), ETA0 * MU0
        return max(worst(derivation().steps, letters_of_blocks(net, {
            t: STEPS - 1, ell: block, k: number, mu0: MU0, c: rate, eta: rate * MU0 * N}))
            for block in range(1, L + 1) for number in range(1, K))
    return Proof(derivation().steps, numbers, f"both sides of every step, a random tanh network of width {N} with {L} "
                 f"blocks of {K} matrices, trained with its own backward pass, slopes by complex steps of its outputs")


def last_witness() -> Witness:
    """The K matrices of a block are numbered from 0: there is no W^(l,K), and its kernel is of what it would read."""
    here = letters_of_blocks(network(), {t: STEPS - 1, ell: 1, c: ETA0 * MU0})
    return Witness("h of a neuron behind the first block, two steps learnt", float(here.of(OUTER.target)[0]), 1e-12,
                   None, float(here.of(OUTER.value)[0]))


def gradient_witness(step: float = 1e-6) -> Witness:
    """One block of two matrices: the derivative of the output in an entry of the last one, the paper's W^(l,1)."""
    rng, n = np.random.default_rng(1), 12
    W0, W1, w, start = rng.normal(size=(n, n)), rng.normal(size=(n, n)), rng.normal(size=n), rng.normal(size=n)

    def parts(of_last: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        first = W0 @ np.tanh(start) / np.sqrt(n)
        second = of_last @ np.tanh(first) / np.sqrt(n)
        return first, second, float(w @ (start + second)) / n
    change = np.zeros((n, n))
    change[2, 5] = step
    truth = (parts(W1 + change)[2] - parts(W1 - change)[2]) / (2 * step) * n**1.5
    first, second, _ = parts(W1)
    return Witness("n^(3/2) df / dW_25 of the last matrix of a block", truth, 1e-8, float(w[2] * np.tanh(second)[5]),
                   float(w[2] * np.tanh(first)[5]))


ENTRY = Entry(
    key="depthwise_transfer/within_blocks",
    kind="proposition",
    title="fields within blocks of several matrices",
    source="Depthwise Hyperparameter Transfer, appendix K.2, (121), (123) and (124)",
    says="Identities of one real network. Within a block fields learn as $L^{-1/2}$, and every block does. What is "
         "stated of $k$ is of matrices and fields within a block; $\\tilde g^{\\ell, K}$ is the gradient behind it.",
    statement=lambda: Equations((UPDATE, INNER, OUTER, INNER_GRADIENT, OUTER_GRADIENT, LAST)),
    assumptions=("$\\alpha = 1/2$, rate 0", "plain gradient descent", "one input a step"),
    uses=("depthwise_transfer/parametrization", "depthwise_transfer/blocks_of_several_matrices"),
    derive=derive,
    errata=(
        Erratum(Slip.MISPRINT, "(121): $W^{\\ell,K}$ and $\\phi(\\tilde h^{\\ell,K})$ for those of $K - 1$, the last "
                "matrix of (120)", r"\tfrac{d}{dt} W^{\ell,K} &= \tfrac{c}{\sqrt{N L}} \Delta\, g^{\ell+1} "
                r"\phi(\tilde h^{\ell,k})^\top", lambda: line(UPDATE.target, UPDATE.value), gradient_witness),
        Erratum(Slip.MISPRINT, "(123), second line: $W^{\\ell,K}$ and $\\Phi^{\\ell,K}$, for those of $K - 1$, "
                "the last of (120)",
                r"h^{\ell+1} &= h^\ell + \tfrac{1}{\sqrt{L N}} W^{\ell,K}(0) \phi(\tilde h^{\ell,K-1}) + "
                r"\tfrac{c}{L} \sum_s \Delta_s \Phi^{\ell,K}_{ts} g^{\ell+1}_s",
                lambda: line(OUTER.target, OUTER.value), last_witness),
    ),
)
