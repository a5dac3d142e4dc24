"""The power of n by which hidden layers change in training."""

from __future__ import annotations

import math

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Proof, Slip, Witness
from tpcalc.ledger.proof import Identity
from tpcalc.studies.convergence import fit_order
from tpcalc.width.counting import contraction, own_gradients
from tpcalc.width.regimes import feature_power

from ._real import Perceptron

P, Q, HIDDEN, R, S = sp.symbols("p_L q_L q_l r s", real=True)
CHANGE, START, STEPS = sp.symbols("F F_0 F_1", real=True)
MEMBERS = (sp.Integer(0), sp.Rational(1, 2), sp.Integer(1))
SIZES = tuple(2**k for k in range(7, 13))


def printed(p: sp.Expr, hidden: sp.Expr, q: sp.Expr, r: sp.Expr) -> sp.Expr:
    """What footnote 15 says is to be 0, of the other sign: a typed copy of the printed form."""
    return -(1 + hidden - r + sp.Min(q - r, (p + 1) / 2))


def statement() -> Equations:
    return Equations((Equation(START, sp.expand(R - HIDDEN - (1 + P) / 2), r"\text{by initial weights}"),
                      Equation(STEPS, sp.expand(2 * R - HIDDEN - Q - 1), r"\text{by learned weights}"),
                      Equation(CHANGE, -(1 - S) / 2, r"\text{of the family, the larger of both}")))


def derive() -> Proof:
    family = tp.meta_principled(S, layers=2)
    own = R + own_gradients(HIDDEN)
    initial, learned = own + contraction(P, Q, weights=1), own + R + contraction(P, Q, rates=1)
    member = {P: family.p[-1], HIDDEN: family.q[0], Q: family.q[-1], R: family.r}
    steps = (Identity(1, START, initial, R - HIDDEN - (1 + P) / 2),
             Identity(2, STEPS, learned, 2 * R - HIDDEN - Q - 1),
             Identity(3, CHANGE, initial.subs(member), -(1 - S) / 2, reason="larger than F_1 = s - 1 for s <= 1"))

    def numbers(rng: np.random.Generator) -> float:
        values = [sp.Rational(int(k), 8) for k in rng.integers(-8, 9, 4)]
        at = dict(zip((P, HIDDEN, Q, R), values))
        larger = max(step.after.subs(at) for step in steps[:2])
        return float(abs(feature_power(values[0], [values[1]], values[2], values[3]) - larger))

    return Proof(steps, numbers, "the larger of both, as tpcalc counts it")


LARGER = Equation(CHANGE, feature_power(P, [HIDDEN], Q, R))


def measured(s: sp.Expr) -> tuple[float, float]:
    """The power of n in the change of hidden preactivations over two steps of real networks, and its error.

    dL/df = 1. The error is that of the fit, and no less than what the next power of n bends a slope by at these widths.
    """
    changes, rng = [], np.random.default_rng(4)
    for n in SIZES:
        sizes = tp.meta_principled(s, layers=2).sizes((2, n, 1))
        found = []
        for _ in range(20):
            x = np.array([1.0, -0.5])
            weights = tuple(std * rng.standard_normal(shape) for std, shape in zip(sizes.weight_std, ((n, 2), (1, n))))
            net = Perceptron(weights, (np.zeros(n), np.zeros(1)), sizes, x[None])
            after = net.stepped(np.ones((1, 1)), 1.0).stepped(np.ones((1, 1)), 1.0)
            found.append(np.mean(((after.weights[0] - net.weights[0]) @ x + after.biases[0])**2))
        changes.append(math.sqrt(np.mean(found)))
    fitted = fit_order(np.array(SIZES, dtype=float), np.array(changes))
    return -fitted.order, max(fitted.uncertainty, 0.02)


def exponents(s: sp.Expr) -> dict[sp.Symbol, sp.Expr]:
    """Those of a member of the family, of two layers, in a gauge in which none is 0."""
    family = tp.meta_principled(s, layers=2).shifted(sp.Rational(1, 3))
    return dict(zip((P, HIDDEN, Q, R), (family.p[-1], family.q[0], family.q[-1], family.r)))


def evidence() -> Evidence:
    return Evidence(tuple(MeasuredNumber(f"power of n in the change of hidden layers at s = {s}", *measured(s), float(
        LARGER.value.subs(exponents(s)))) for s in MEMBERS))


def witness() -> Witness:
    s = sp.Rational(1, 2)
    known = exponents(s)
    return Witness(f"power of n in the change of hidden layers at s = {s}", *measured(s),
                   float(printed(*known.values())), float(LARGER.value.subs(known)))


ENTRY = Entry(
    key="meta_principled/feature_learning",
    kind="proposition",
    title="the change of hidden layers",
    source="Meta-Principled Family, footnote 15, after Tensor Programs IV",
    says="Hidden layers learn features at infinite width and fixed depth where the larger of both powers is $0$.",
    statement=statement,
    assumptions=("criticality", "a few steps of gradient descent", "loss derivatives of order one"),
    uses=("meta_principled/family",),
    derive=derive,
    evidence=evidence,
    errata=(Erratum(Slip.FALSE, "footnote 15, the conditions of Tensor Programs IV, three times",
                    r"F &= -1 - \min_l (q_l - r) - \min\left(q_L - r, \tfrac{p_L + 1}{2}\right)",
                    LARGER.latex, witness),),
)
