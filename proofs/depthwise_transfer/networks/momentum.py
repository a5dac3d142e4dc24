"""Momentum: velocities and weights unrolled, and what the stream learns."""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Proof, Slip, Witness
from tpcalc.ledger.entry import line

from .._fields import Slope
from ._finite_network import STEPS, train
from ._network_numbers import of_a_neuron
from ._network_rules import OUT_OF_SUMS, Phi, V, W, Outer, chi, depth, g, h, insert, later, phi, read, unroll, width
from .fields_and_kernels import ell, mu0, s, t
from .finite_network import WHERE, Delta, c, eta, forward, loss, step_of_loss, worst_of

BETA = 0.6
beta, v = sp.Symbol("beta"), sp.Symbol("v", integer=True)

_push = Delta[t] * Outer(g(t, ell + 1), phi(t, ell)) / (sp.sqrt(width) * sp.sqrt(depth))
_pushes = (1 - beta) / (sp.sqrt(width) * sp.sqrt(depth)) * sp.Sum(
    beta**(t - s) * Delta[s] * Outer(g(s, ell + 1), phi(s, ell)), (s, 0, t))
VELOCITY = Equation(V(t, ell), beta * V(t - 1, ell) + (1 - beta) * _push)
UNROLLED = Equation(V(t, ell), _pushes)
UPDATE = Equation(W(t + 1, ell), W(t, ell) + c * _pushes)
MOMENTUM = Equation(h(t, ell + 1), h(t, ell) + chi(t, ell + 1) / sp.sqrt(depth) + c * (1 - beta) / depth * sp.Sum(
    beta**(v - s) * Phi(t, s, ell) * Delta[s] * g(s, ell + 1), (s, 0, v), (v, 0, t - 1)))
LATE = Equation(MOMENTUM.target, MOMENTUM.value.xreplace({sp.Tuple(s, 0, v): sp.Tuple(s, 0, v - 1)}))   # as printed


@lru_cache(maxsize=None)
def derivation() -> Derivation:
    steps, slope = Derivation(), Slope(loss(t), W(t, ell))
    push = step_of_loss(steps)
    left = V(t, ell)
    velocity = steps.apply(insert(slope, -push / eta), left, beta * V(t - 1, ell) - (1 - beta) * width * mu0 * slope)
    velocity = steps.apply(read(eta, c * mu0 * width, "the rate of what is not divided by $N \\mu_0$",
                                "depthwise_transfer/parametrization"), left, velocity)
    unrolled = steps.apply(unroll(V(t + 1, ell), velocity.subs(t, t + 1), t, s, sp.Integer(-1)), left, left)
    unrolled = steps.through((read(V(-1, ell), sp.Integer(0), "nothing moves before the first step",
                                   "depthwise_transfer/parametrization"), later(s), OUT_OF_SUMS), left, unrolled)
    update = steps.apply(insert(V(t, ell), unrolled), W(t + 1, ell), W(t, ell) + c * V(t, ell))
    weights = steps.apply(unroll(W(t + 1, ell), update.subs(t, v).subs(v, t), t, v), W(t, ell), W(t, ell))
    forward(steps, weights)
    return steps


def derive() -> Proof:
    return Proof(derivation().steps, lambda rng: worst_of(derivation(), rng, {beta: BETA}, beta=BETA), WHERE)


def witness() -> Witness:
    net = train(inputs=1, beta=BETA)
    return of_a_neuron("a neuron behind the second block", MOMENTUM, LATE, net, {
        c: net.eta0 * net.mu0, beta: BETA, t: STEPS - 1, ell: 2})


ENTRY = Entry(
    key="depthwise_transfer/momentum",
    kind="proposition",
    title="momentum in a finite network",
    source="Depthwise Hyperparameter Transfer, (134) to (137)",
    says="Velocities $V$ are averages of what weights are pushed by, over steps that $\\beta$ forgets, and weights "
         "move by $c V$; $c = \\eta_0 \\mu_0$.",
    statement=lambda: Equations((VELOCITY, UNROLLED, UPDATE, MOMENTUM)),
    assumptions=("$\\alpha = 1/2$, rate 0", "discrete time", "one input a step"),
    uses=("depthwise_transfer/parametrization", "depthwise_transfer/fields_and_kernels"),
    derive=derive,
    errata=(
        Erratum(Slip.FALSE, "(137): a gradient enters the velocity a step late; without momentum nothing is learnt",
                r"h^{\ell+1}_t &= h^\ell_t + \tfrac{1}{\sqrt{L}} \chi^{\ell+1}_t + \tfrac{c (1 - \beta)}{L} "
                r"\sum_{t' < t} \sum_{s < t'} \beta^{t' - s} \Phi^\ell_{ts} \Delta_s g^{\ell+1}_s",
                lambda: line(MOMENTUM.target, MOMENTUM.value), witness),),
)
