"""The hierarchy of differentials: powers of n at any order."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof
from tpcalc.ledger.proof import Identity
from tpcalc.width.counting import own_gradients
from tpcalc.width.measured import measure_differentials

from ._symbols import S
from .differential_form import K, general

M = sp.Symbol("m", integer=True, nonnegative=True)
ODD, EVEN = sp.symbols("E_{2m+1} E'_{2m}", real=True)
FAST = (64, 128, 256)


def statement() -> Equations:
    return Equations((Equation(ODD, sp.expand(M * (S - 1)), r"E[\eta^{2m+1} d^{2m} H] \sim n^{E_{2m+1}}"),
                      Equation(EVEN, sp.expand(-M * (1 - S) - S), r"E[z \eta^{2m} d^{2m-1} H] \sim n^{E'_{2m}}")))


def derive() -> Proof:
    """The form of (A18), counted: how many learning rates a term has drops out, so that all terms are of one order."""
    family = tp.meta_principled(S, layers=2)
    hidden = own_gradients(family.q[0])

    def power(order: sp.Expr, inserted: int) -> sp.Expr:
        term = general()
        return sp.expand((K * family.r + term.power(family, hidden, inserted)).subs(K, order))

    steps = (Identity(1, ODD, power(2 * M + 1, 0), M * (S - 1)), Identity(2, EVEN, power(2 * M, 1), -M * (1 - S) - S))

    def numbers(rng: np.random.Generator) -> float:
        half, s = int(rng.integers(1, 12)), sp.Rational(int(rng.integers(-8, 24)), 16)
        odd, even = (step.after.subs({M: half, S: s}) for step in steps)
        return float(max(abs(odd - tp.ntk_exponent(2 * half + 1, s)), abs(even - tp.ntk_exponent(2 * half, s, True))))

    return Proof(steps, numbers, "the counted powers of orders up to 23")


def evidence() -> Evidence:
    """Slopes of real perceptrons of one hidden layer."""
    found = []
    for s in (sp.Integer(0), sp.Rational(1, 2), sp.Integer(1)):
        for one in measure_differentials(tp.meta_principled(s, layers=2), FAST, samples=5000, seed=int(2 * s)):
            found.append(MeasuredNumber(f"power of n in E[{'z ' * one.insert_output}eta^{one.order} d^{one.order - 1} "
                                        f"H] at s = {s}", one.slope, max(one.slope_error, 0.05 / 3),
                                        float(tp.ntk_exponent(one.order, s, one.insert_output))))
    return Evidence(tuple(found))


ENTRY = Entry(
    key="meta_principled/hierarchy",
    kind="theorem",
    title="the hierarchy of differentials",
    source="Meta-Principled Family, (A14) to (A17)",
    says="At initialization, of the meta-principled scaling $s$. Expectations with an odd number of weights of the "
         "last layer vanish.",
    statement=statement,
    assumptions=("one hidden layer", "smooth activations", "width to infinity at fixed depth"),
    uses=("meta_principled/family", "meta_principled/differential_form", "meta_principled/type_one_differentials"),
    derive=derive,
    evidence=evidence,
)
