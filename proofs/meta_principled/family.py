"""The meta-principled family: all principles at any number of layers."""

from __future__ import annotations

import itertools

import numpy as np
import sympy as sp

from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof
from tpcalc.ledger.proof import Identity
from tpcalc.scaling import WidthScaling
from tpcalc.width import broken_principles, meta_principled, principles, solve_any_depth
from tpcalc.width.counting import own_gradients
from tpcalc.width.principles import critical, equivalent, learning

from ._symbols import LAYER, LAYERS, S, T

P_HIDDEN, P_LAST, Q_NEXT, Q_LAST, RATE = sp.symbols("p_{l} p_{L} q_{l+1} q_{L} r", real=True)
HALVES = tuple(sp.Rational(k, 2) for k in range(-1, 4))


def statement() -> Equations:
    found = solve_any_depth()
    (hidden_p, _), (last_p, _) = found.p.args
    (hidden_q, _), (last_q, _) = found.q.args
    return Equations((Equation(P_HIDDEN, hidden_p, "l < L"), Equation(P_LAST, last_p),
                      Equation(Q_NEXT, hidden_q, "l + 1 < L"), Equation(Q_LAST, last_q), Equation(RATE, found.r)))


def derive() -> Proof:
    """Each principle is added to, or taken from, its unknown; the layers between are an induction from q_1 = t."""
    steps = (Identity(1, P_HIDDEN, P_HIDDEN + critical(P_HIDDEN, LAYER).power, sp.Integer(0)),
             Identity(2, P_LAST, S, S, "definition", "no principle is about p_L, whose name is s"),
             Identity(3, Q_NEXT, Q_NEXT + equivalent(sp.Integer(0), Q_NEXT, own_gradients(T), LAYER).power, T),
             Identity(4, Q_LAST, Q_LAST + equivalent(S, Q_LAST, own_gradients(T), LAYERS).power, S + T),
             Identity(5, RATE, RATE - learning(own_gradients(S + T), RATE, LAYERS).power, S + T))

    def numbers(rng: np.random.Generator) -> float:
        """The linear equations of a drawn number of layers, at a drawn member."""
        layers = int(rng.integers(2, 9))
        found = principles(layers)
        values = {S: sp.Rational(int(rng.integers(-32, 33)), 16), T: sp.Rational(int(rng.integers(-32, 33)), 16)}
        member = solve_any_depth().at(layers)
        point = [x.subs(values, simultaneous=True) for x in (*member.p, *member.q, member.r)]
        return float(max(abs(one.power.subs(dict(zip(found.unknowns, point)))) for one in found.equations))

    return Proof(steps, numbers, "the linear equations of 2 to 8 layers")


def evidence() -> Evidence:
    """Dimensions of solutions, and all strategies of two layers with exponents in halves."""
    dimensions = [MeasuredNumber(f"dimension of the solutions at L = {layers}", float(len(principles(layers).kernel)),
                                 0.0,
                                 float(solve_any_depth().free)) for layers in range(2, 7)]
    right = tried = 0
    for p1, p2, q2, r in itertools.product(HALVES, repeat=4):
        strategy = WidthScaling((p1, p2), (0, q2), r)
        right += broken_principles(strategy).passes == (strategy == meta_principled(p2, 2) and 0 <= p2 <= 1)
        tried += 1
    what = ("strategies of two layers, in halves from -1/2 to 3/2, that pass where they are members with s in [0, 1] "
            "and only there")
    return Evidence((*dimensions, MeasuredNumber(what, float(right), 0.0, float(tried))))


ENTRY = Entry(
    key="meta_principled/family",
    kind="theorem",
    title="the meta-principled family",
    source="Meta-Principled Family, (3.12) to (3.20)",
    says="The principles leave $s = p_L$ and the gauge $t = q_1$, which is no choice; $t = 0$ is the family.",
    statement=statement,
    assumptions=("a perceptron of $L \\geq 2$ layers",),
    uses=("meta_principled/translation", "meta_principled/criticality", "meta_principled/learning_rate_equivalence"),
    derive=derive,
    evidence=evidence,
)
