"""The exponents p, q, r as an abc-parametrization."""

from __future__ import annotations

import numpy as np
import sympy as sp

from tpcalc.ledger import Entry, Equation, Equations, Erratum, Proof, Slip, Witness
from tpcalc.ledger.proof import Identity
from tpcalc.scaling import WidthScaling
from tpcalc.width.counting import contraction

from ._symbols import P, P_BELOW, Q, Q_BELOW, R, WIDTHS, random_scaling, slope

SCALING = WidthScaling((P_BELOW, P), (Q_BELOW, Q), R)
A, B, C = (part[1] if isinstance(part, tuple) else part for part in SCALING.abc())
BIAS_A, BIAS_B, _ = (part[1] if isinstance(part, tuple) else part for part in SCALING.bias_abc())
VARIANCE, RATE, BIAS_VARIANCE, BIAS_RATE = sp.symbols("v_W eta_W v_b eta_b", real=True)


def statement() -> Equations:
    return Equations(tuple(Equation(target, sp.expand(value), condition) for target, value, condition in (
        (VARIANCE, -2 * A - 2 * B, "n^{v_W}: \\text{ variance of an entry of } W, l \\geq 2"),
        (RATE, -2 * A - C, "n^{\\eta_W}: \\text{ its learning rate}"),
        (BIAS_VARIANCE, -2 * BIAS_A - 2 * BIAS_B, "\\text{of biases}"), (BIAS_RATE, -2 * BIAS_A - C, ""))))


def derive() -> Proof:
    """Left of each step what (2.4), (2.6) say, right what n^-a w, with w of variance n^-2b and rate n^-c, gives."""
    steps = (Identity(1, VARIANCE, contraction(P, Q, weights=2), -2 * A - 2 * B),
             Identity(2, RATE, contraction(P, Q, rates=1) + R, -2 * A - C),
             Identity(3, BIAS_VARIANCE, -P, -2 * BIAS_A - 2 * BIAS_B),
             Identity(4, BIAS_RATE, R - Q, -2 * BIAS_A - C))

    def numbers(rng: np.random.Generator) -> float:
        scaling = random_scaling(rng)
        a, b, c = scaling.abc()
        small, large = (scaling.sizes(widths) for widths in WIDTHS)
        found = [abs(slope((small.weight_std[i], large.weight_std[i])) + float(a[i] + b[i])) for i in range(4)]
        found += [abs(slope((small.weight_rate[i], large.weight_rate[i])) + float(2 * a[i] + c)) for i in range(4)]
        return max(*found, float(WidthScaling.from_abc(a, b, c) != scaling))

    return Proof(steps, numbers, "standard deviations and rates of networks of width 64 and 128")


def biases() -> Witness:
    """Weights' exponents read for biases: the power of n of their variance in the last layer."""
    scaling = WidthScaling((0, 0, sp.Rational(1, 2)), (0, 0, 0), 0)
    small, large = (scaling.sizes(widths) for widths in ((3, 64, 64, 1), (3, 128, 128, 1)))
    printed = contraction(scaling.p[-1], scaling.q[-1], weights=2)
    return Witness("power of n of the variance of the last layer's biases at p_L = 1/2",
                   2 * slope((small.bias_std[-1], large.bias_std[-1])), 1e-12, float(printed),
                   float(statement().equations[2].value.subs(P, scaling.p[-1])))


ENTRY = Entry(
    key="meta_principled/translation",
    kind="lemma",
    title="$p_l q_l r$ strategies as abc-parametrizations",
    source="Meta-Principled Family, (2.4), (2.6) to (2.8), footnote 2",
    says="Both name the same initial variances and learning rates, in effective weights $n^{-a} w$.",
    statement=statement,
    derive=derive,
    errata=(Erratum(Slip.INCOMPLETE, "footnote 2, read for biases, for which it has no line",
                    r"2 a_l + 2 b_l &= 1 + p_l",
                    lambda: statement().equations[2].latex(), biases),),
)
