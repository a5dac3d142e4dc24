"""Weight decay: what is left of initial weights, and what the stream learns."""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Proof, Slip, Witness
from tpcalc.ledger.entry import line

from .._fields import Slope
from ._finite_network import STEPS, train
from ._network_numbers import of_a_neuron
from ._network_rules import OUT_OF_SUMS, Phi, W, Outer, chi, depth, g, h, insert, phi, unroll, width
from .fields_and_kernels import ell, s, t
from .finite_network import WHERE, Delta, c, eta, forward, loss, step_of_loss, worst_of

DECAYED, ETA0 = 0.3, 0.5
decay = sp.Symbol("lambda")

WEIGHTS = Equation(W(t, ell), (1 - decay)**t * W(0, ell) + c / (sp.sqrt(width) * sp.sqrt(depth)) * sp.Sum(
    (1 - decay)**(t - 1 - s) * Delta[s] * Outer(g(s, ell + 1), phi(s, ell)), (s, 0, t - 1)))
DECAY = Equation(h(t, ell + 1), h(t, ell) + (1 - decay)**t * chi(t, ell + 1) / sp.sqrt(depth) + c / depth * sp.Sum(
    (1 - decay)**(t - 1 - s) * Phi(t, s, ell) * Delta[s] * g(s, ell + 1), (s, 0, t - 1)))
OTHER_BLOCK = Equation(DECAY.target, DECAY.value.xreplace({chi(t, ell + 1): chi(t, ell)}))   # as printed


@lru_cache(maxsize=None)
def derivation() -> Derivation:
    steps, move = Derivation(), -eta * Slope(loss(t), W(t, ell))
    push, left = step_of_loss(steps), W(t + 1, ell)
    update = steps.apply(insert(move, push), left, (1 - decay) * W(t, ell) + move)
    weights = steps.through((unroll(left, update, t, s), OUT_OF_SUMS), W(t, ell), W(t, ell))
    forward(steps, weights)
    return steps


def derive() -> Proof:
    return Proof(derivation().steps, lambda rng: worst_of(derivation(), rng, {decay: ETA0 * DECAYED}, decay=DECAYED,
                                                          eta0=ETA0), WHERE)


def witness() -> Witness:
    net = train(inputs=1, decay=DECAYED, eta0=ETA0)
    return of_a_neuron("a neuron behind the second block", DECAY, OTHER_BLOCK, net, {
        c: net.eta0 * net.mu0, decay: ETA0 * DECAYED, t: STEPS - 1, ell: 2})


ENTRY = Entry(
    key="depthwise_transfer/weight_decay",
    kind="proposition",
    title="weight decay in a finite network",
    source="Depthwise Hyperparameter Transfer, (139) and (140)",
    says="A step takes $\\lambda$ of the weights away ($\\eta_0 \\lambda$ of the paper), so that what stays of the "
         "start and of every update are powers of $1 - \\lambda$, the paper's exponentials by steps; $c = \\eta_0 "
         "\\mu_0$.",
    statement=lambda: Equations((WEIGHTS, DECAY)),
    assumptions=("$\\alpha = 1/2$, rate 0", "discrete time", "one input a step"),
    uses=("depthwise_transfer/parametrization", "depthwise_transfer/fields_and_kernels"),
    derive=derive,
    errata=(
        Erratum(Slip.MISPRINT, "(140): $\\chi^\\ell$ for $\\chi^{\\ell+1}$ of (22)",
                r"h^{\ell+1}_t &= h^\ell_t + \tfrac{1}{\sqrt{L}} e^{-\eta_0 \lambda t} \chi^\ell_t + \ldots",
                lambda: line(DECAY.target, DECAY.value), witness),),
)
