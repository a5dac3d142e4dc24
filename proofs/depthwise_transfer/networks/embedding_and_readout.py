"""Trained embedding and readout: what the first stream and the last gradient learn."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Proof, Slip, Witness
from tpcalc.ledger.entry import line

from .._fields import Slope
from ._finite_network import STEPS, train
from ._network_numbers import of_a_neuron
from ._network_rules import (KERNELS, LINEAR, OUT_OF_SUMS, OUTER, W0, Acts, Dot, Kx, Outer, Phi, chain_rule, depth,
                             dphi, g, h, inputs, insert, phi, unroll, w, width, x)
from .fields_and_kernels import GRADIENT, ell, f, mu0, s, t
from .finite_network import ERROR, RATE, WHERE, Delta, c, eta, gradient_at, loss, worst_of

EMBEDDING = Equation(W0(t + 1), W0(t) + c / sp.sqrt(inputs) * Delta[t] * Outer(g(t, 1), x(t)))
FIRST = Equation(h(t, 1), Acts(W0(0), x(t)) / sp.sqrt(inputs) + c * sp.Sum(
    Delta[s] * Kx(t, s, 0) * g(s, 1), (s, 0, t - 1)))
READOUT = Equation(w(t + 1), w(t) + c * Delta[t] * phi(t, depth + 1))
LAST = Equation(g(t, depth + 1), dphi(t, depth + 1) * (w(0) + c * sp.Sum(
    Delta[s] * phi(s, depth + 1), (s, 0, t - 1))))
AVERAGED = Equation(LAST.target, LAST.value.xreplace({phi(s, depth + 1): Phi(t, s, depth + 1)}))   # as printed

START = Acts(W0(t), x(t)) / sp.sqrt(inputs)
OUTPUT = Dot(w(t), phi(t, depth + 1)) / (mu0 * width)
TRAINED: dict[str, Any] = {"readout_of_phi": True, "ends": True}


@lru_cache(maxsize=None)
def derivation() -> Derivation:
    steps = Derivation()
    weights = []
    for now, through, value, named in ((W0(t), h(t, 1), START, gradient_at(1)), (w(t), f(t), OUTPUT, None)):
        rules = (ERROR, chain_rule(now, {through: value}), *([named] if named else []), LINEAR, RATE)
        following = now.subs(t, t + 1)
        update = steps.through(rules, following, now - eta * Slope(loss(t), now))
        weights.append(steps.apply(unroll(following, update, t, s), now, now))
    steps.through((insert(W0(t), weights[0]), LINEAR, OUTER, KERNELS, OUT_OF_SUMS), h(t, 1), START)
    last = {ell: depth + 1}
    steps.through((chain_rule(h(t, depth + 1), {f(t): OUTPUT}), insert(w(t), weights[1]), OUT_OF_SUMS),
                  g(t, depth + 1), GRADIENT.value.subs(last))
    return steps


def derive() -> Proof:
    return Proof(derivation().steps, lambda rng: worst_of(derivation(), rng, **TRAINED), WHERE)


def witness() -> Witness:
    net = train(inputs=1, **TRAINED)
    return of_a_neuron("g of a neuron at the last node", LAST, AVERAGED, net, {c: net.eta0 * net.mu0, t: STEPS - 1})


ENTRY = Entry(
    key="depthwise_transfer/embedding_and_readout",
    kind="proposition",
    title="a trained embedding and readout",
    source="Depthwise Hyperparameter Transfer, (129) and (130)",
    says="Identities of one real network that reads $\\phi(h)$ at its last node; $c = \\eta_0 \\mu_0$.",
    statement=lambda: Equations((EMBEDDING, FIRST, READOUT, LAST)),
    assumptions=("discrete time", "one input a step"),
    uses=("depthwise_transfer/parametrization", "depthwise_transfer/fields_and_kernels"),
    derive=derive,
    errata=(
        Erratum(Slip.FALSE, "(130): $\\Phi^L$, an average, in the place of each neuron's $\\phi(h^L)$",
                r"g^L_t &= \dot\phi(h^L_t) r^L_t + c\, \dot\phi(h^L_t) \sum_{s < t} \Phi^L_{ts} \Delta_s",
                lambda: line(LAST.target, LAST.value), witness),),
)
