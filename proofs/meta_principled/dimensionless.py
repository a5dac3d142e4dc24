"""Combinations of outputs, kernels and differentials that do not depend on the units of the output."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Proof, Slip, Witness
from tpcalc.ledger.proof import Identity
from tpcalc.width.jets import Draws, draw_weights, output_series

WIDTHS = (2, 16, 1)
FIRST, SECOND = sp.symbols("U_1 U_2")


def units(order: int) -> sp.Expr:
    """The power of c in eta^k d^(k-1) H, k = order, of c f: one higher derivative and k first ones; k = 0: of c f."""
    return sp.Integer(1 + order)


def statement() -> Equations:
    return Equations((Equation(FIRST, sp.Integer(0), r"E[z \eta^2 dH] / (E[\eta H])^2 \sim c^{U_1}"),
                      Equation(SECOND, sp.Integer(0), r"E[z^2] E[\eta^3 ddH] / (E[\eta H])^3 \sim c^{U_2}")))


def derive() -> Proof:
    steps = (Identity(1, FIRST, units(0) + units(2) - 2 * units(1), sp.Integer(0)),
             Identity(2, SECOND, 2 * units(0) + units(3) - 3 * units(1), sp.Integer(0)))
    return Proof(steps, lambda rng: abs(power(2, 2, 1, rng)) + abs(power(3, 3, 2, rng)),
                 "real networks whose outputs are multiplied by 2")


def power(order: int, kernels: int, outputs: int, rng: np.random.Generator) -> float:
    """log2 of what z^outputs d^(order - 1) H / H^kernels is multiplied by where a network's output is doubled.

    Doubling f as a function of the same parameters is twice the last weights, at four times their rates. One network
    stands for all, for units are those of each.
    """
    sizes = tp.meta_principled(0, layers=2).sizes(WIDTHS)
    one = draw_weights(sizes, WIDTHS, 1, rng)
    doubled = Draws((one.weights[0], 2 * one.weights[1]), (one.biases[0], 2 * one.biases[1]))
    rates = replace(sizes, weight_rate=(sizes.weight_rate[0], 4 * sizes.weight_rate[1]),
                    bias_rate=(sizes.bias_rate[0], 4 * sizes.bias_rate[1]))
    values = []
    for drawn, at in ((one, sizes), (doubled, rates)):
        series = output_series(drawn, np.array([1.0, -0.5]), at, "tanh", order)[:, 0]
        values.append(series[0]**outputs * series[order] / series[1]**kernels)
    return math.log2(values[1] / values[0])


CUBE = Equation(sp.Symbol("k"), (2 * units(0) + units(3)) / units(1),
                r"E[z^2]\, E[\eta^3 d d_I H] / (E[\eta H])^k \text{ has no units}")


def square() -> Witness:
    """With the square that is printed, and with the cube."""
    truth = power(3, 0, 2, np.random.default_rng(0)) / float(units(1))
    return Witness("the power of E[eta H] that takes the units from E[z^2] E[eta^3 ddH]", truth, 1e-9, 2.0,
                   float(CUBE.value))


ENTRY = Entry(
    key="meta_principled/dimensionless",
    kind="remark",
    title="dimensionless combinations",
    source="Meta-Principled Family, footnote 16",
    says="Where the output $f$ is measured in other units, as $c f$, these do not change.",
    statement=statement,
    derive=derive,
    errata=(Erratum(Slip.FALSE, "footnote 16, the second combination",
                    r"&E[z^2]\, E[\eta^3 d d_I H] / (E[\eta H])^2",
                    CUBE.latex, square),),
)
