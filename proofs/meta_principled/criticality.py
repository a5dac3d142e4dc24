"""Criticality of hidden layers as an equation between exponents."""

from __future__ import annotations

import numpy as np
import sympy as sp

from tpcalc.ledger import Entry, Equation, Equations, Evidence, Proof, Rate
from tpcalc.ledger.proof import Identity
from tpcalc.scaling import WidthScaling
from tpcalc.width.counting import contraction, preactivations
from tpcalc.width.principles import critical

from ._symbols import P, Q, WIDTHS, random_scaling, slope

ORDER = sp.Symbol("v_z", real=True)
SIZES = (64, 128, 256, 512)


def statement() -> Equations:
    return Equations((Equation(ORDER, preactivations(P), r"E[z^2] \sim n^{v_z}"),
                      Equation(P, sp.Integer(0), r"\text{where } v_z = 0")))


def derive() -> Proof:
    """A pair of weights and the sum over neurons that pairing leaves; then the requirement, added to the unknown."""
    steps = (Identity(1, ORDER, contraction(P, Q, weights=2) + 1, -P), Identity(2, P, P + critical(P, 1).power,
                                                                                sp.Integer(0)))

    def numbers(rng: np.random.Generator) -> float:
        scaling = random_scaling(rng)
        found = []
        for layer in range(4):
            variances = tuple(widths[layer] * scaling.sizes(widths).weight_std[layer]**2 for widths in WIDTHS)
            found.append(abs(slope((variances[0], variances[1])) - float(preactivations(scaling.p[layer]))))
        return max(found)

    return Proof(steps, numbers, "fan-in times variance of weights at width 64 and 128")


def evidence() -> Evidence:
    """The second hidden layer of real perceptrons, whose first is critical."""
    rates = []
    for p in (sp.Rational(-1, 2), sp.Integer(0), sp.Integer(1)):
        scaling, rng = WidthScaling((0, p, 0), (0, 0, 0), 0), np.random.default_rng(1)
        found = []
        for n in SIZES:
            std = scaling.sizes((2, n, n, 1)).weight_std
            first = np.tanh(std[0] * rng.standard_normal((100, n, 2)) @ np.ones(2))
            second = std[1] * np.einsum("aij,aj->ai", rng.standard_normal((100, n, n)), first)
            found.append(float(np.mean(second**2)))
        rates.append(Rate(f"E[z^2] of the second layer at p_2 = {p}", "n", 0.0 - float(preactivations(p)), SIZES,
                          tuple(found)))
    return Evidence((), tuple(rates))


ENTRY = Entry(
    key="meta_principled/criticality",
    kind="proposition",
    title="criticality",
    source="Meta-Principled Family, (3.1) to (3.3)",
    says="Preactivations of hidden layers start at order one where $p_l = 0$.",
    statement=statement,
    assumptions=("activations of order one in the layer below",),
    derive=derive,
    evidence=evidence,
)
