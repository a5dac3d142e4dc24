"""Finite networks: updates and fields of one real network, derived from its passes and from gradient descent."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Proof

from ..._rewriting import Rewriting, of_nodes
from .._fields import Slope, fields
from ._finite_network import L, N, train
from ._network_numbers import letters_of_network, worst
from ._network_rules import (KERNELS, LINEAR, OUT_OF_SUMS, OUTER, G, Phi, W, Acts, Outer, chain_rule, chi, depth, dphi,
                             g, h, insert, phi, r, read, unroll, width)
from .fields_and_kernels import AHEAD, BACK, GRADIENT, ell, f, mu0, s, t

c, eta = sp.symbols("c eta")
loss, = fields("loss")
Delta = sp.IndexedBase(r"\Delta")
TRAINED = 5   # steps of networks that proofs are tried on, two from the end

SLOPE = Equation(Slope(f(t), W(t, ell)), Outer(g(t, ell + 1), phi(t, ell)) / (width * mu0 * sp.sqrt(width) * sp.sqrt(
    depth)))
UPDATE = Equation(W(t + 1, ell), W(t, ell) + c / (sp.sqrt(width) * sp.sqrt(depth)) * Delta[t] * Outer(
    g(t, ell + 1), phi(t, ell)))
FORWARD = Equation(h(t, ell + 1), h(t, ell) + chi(t, ell + 1) / sp.sqrt(depth) + c / depth * sp.Sum(
    Delta[s] * Phi(t, s, ell) * g(s, ell + 1), (s, 0, t - 1)))
BACKWARD = Equation(g(t, ell), g(t, ell + 1) + dphi(t, ell) * (r(t, ell) / sp.sqrt(depth) + c / depth * sp.Sum(
    Delta[s] * G(t, s, ell + 1) * phi(s, ell), (s, 0, t - 1))))

ERROR = Rewriting("error signal", "$\\Delta$ is minus the slope of the loss in the output", "calculus",
                  of_nodes(Slope, lambda e: -Delta[e.args[0].args] * Slope(f(*e.args[0].args), e.args[1])
                           if isinstance(e.args[0], loss) else e))
RATE = read(eta, c * mu0 * width, "the rate is $\\eta_0 \\mu_0^2 N$, and $c = \\eta_0 \\mu_0$",
            "depthwise_transfer/parametrization")
SOURCES = tuple(read(one.value * sp.sqrt(width), one.target * sp.sqrt(width), reason) for one, reason in (
    (AHEAD, "what the initial matrix makes of features"), (BACK, "what its transpose makes of gradients")))


def stream_after(one: sp.Symbol) -> sp.Expr:
    """What a block makes of the stream; one: the step, or the input."""
    return h(one, ell) + Acts(W(t, ell), phi(one, ell)) / (sp.sqrt(width) * sp.sqrt(depth))


def gradient_at(node: sp.Expr, one: sp.Symbol = t) -> Rewriting:
    """Slopes of the output in a field by their name."""
    return read(Slope(f(one), h(one, node)), g(one, node) / (width * mu0), "gradients, by their name")


def slope_of_block(steps: Derivation) -> sp.Expr:
    """(13)."""
    left = Slope(f(t), W(t, ell))
    return steps.through((chain_rule(W(t, ell), {h(t, ell + 1): stream_after(t)}), gradient_at(ell + 1), LINEAR), left,
                         left)


def step_of_loss(steps: Derivation) -> sp.Expr:
    """Minus the slope of the loss in a block's weights times the rate, in gradients."""
    own = slope_of_block(steps)
    left = -eta * Slope(loss(t), W(t, ell))
    return steps.through((ERROR, insert(Slope(f(t), W(t, ell)), own), RATE), left, left)


def forward(steps: Derivation, weights: sp.Expr) -> sp.Expr:
    """The stream after a block, by what its weights are."""
    return steps.through((insert(W(t, ell), weights), LINEAR, OUTER, KERNELS, SOURCES[0], OUT_OF_SUMS), h(t, ell + 1),
                         stream_after(t))


def backward(steps: Derivation, weights: sp.Expr) -> sp.Expr:
    rules = (chain_rule(h(t, ell), {h(t, ell + 1): stream_after(t)}), gradient_at(ell + 1), insert(W(t, ell), weights),
             LINEAR, OUTER, KERNELS, SOURCES[1], OUT_OF_SUMS)
    return steps.through(rules, g(t, ell), GRADIENT.value)


@lru_cache(maxsize=None)
def derivation() -> Derivation:
    steps = Derivation()
    push = step_of_loss(steps)
    left = W(t + 1, ell)
    update = steps.apply(insert(-eta * Slope(loss(t), W(t, ell)), push), left, W(t, ell) - eta * Slope(
        loss(t), W(t, ell)))
    weights = steps.apply(unroll(left, update, t, s), W(t, ell), W(t, ell))
    forward(steps, weights)
    backward(steps, weights)
    return steps


def worst_of(steps: Derivation, rng: np.random.Generator, at: dict[sp.Symbol, Any] = {}, **options: Any) -> float:
    """Both sides of every step at every block of a random network, one input, after some training."""
    net = train(inputs=1, steps=TRAINED, rng=rng, **options)
    rate = net.eta0 * net.mu0
    return max(worst(steps.steps, letters_of_network(net, {t: TRAINED - 2, ell: block, c: rate, mu0: net.mu0,
                                                           eta: rate * net.mu0 * N, **at}))
               for block in range(1, L + 1))


WHERE = (f"both sides of every step at each block of a random tanh network of width {N}, trained with its own backward "
         "pass, slopes by complex steps of its outputs")


def derive() -> Proof:
    return Proof(derivation().steps, lambda rng: worst_of(derivation(), rng), WHERE)


ENTRY = Entry(
    key="depthwise_transfer/finite_network",
    kind="proposition",
    title="fields and updates of a finite network",
    source="Depthwise Hyperparameter Transfer, (13) and (17) to (19)",
    says="Identities of one real network, for each neuron and at every step, of weights that are written out as what "
         "they started from and what they learned; $c = \\eta_0 \\mu_0$.",
    statement=lambda: Equations((SLOPE, UPDATE, FORWARD, BACKWARD)),
    assumptions=("$\\alpha = 1/2$, rate 0", "discrete time", "one input a step"),
    uses=("depthwise_transfer/parametrization", "depthwise_transfer/fields_and_kernels"),
    derive=derive,
)
