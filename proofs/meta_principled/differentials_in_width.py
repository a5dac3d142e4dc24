"""Powers of the width in dNTK and ddNTKs of both types, and how they depend on s in a network of any depth."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof
from tpcalc.ledger.proof import Identity
from tpcalc.width.counting import contraction, own_gradients
from tpcalc.width.differentials import DifferentialTerm
from tpcalc.width.measured import measure_differentials, measure_type_two

from ._symbols import S

FIRST, ONE, TWO = sp.symbols("D_1 D_I D_{II}", real=True)
PARTS = tuple((sp.Symbol(f"X_{k}{name}"), k, inserted, weights, rates) for k, inserted, name, weights, rates in (
    (2, 1, "", 1, 1), (2, 1, "'", 3, 0), (3, 0, "", 2, 1), (3, 0, "'", 4, 0), (3, 0, "''", 0, 2)))
LAYERS, WIDTHS = 3, (32, 64, 128)


def statement() -> Equations:
    """At two layers, and in what the last of any number of layers adds to the powers of s = 0, term by term."""
    extra = {2: sp.Integer(0), 3: S}
    return Equations((
        Equation(FIRST, sp.Integer(-1), r"E[z \eta^2 dH] \sim n^{D_1}, L = 2"),
        Equation(ONE, S - 1, r"E[\eta^3 dd_I H] \sim n^{D_I}"),
        Equation(TWO, S - 1, r"E[\eta^3 dd_{II} H] \sim n^{D_{II}}"),
        *(Equation(target, extra[k], rf"\text{{{weights} weights and {rates} rates of the last layer}}")
          for target, k, _, weights, rates in PARTS)))


def added(order: int, inserted: int, weights: int, rates: int) -> sp.Expr:
    """The power of n that a term of the last layer's forward equation has beyond that of s = 0."""
    def power(s: sp.Expr) -> sp.Expr:
        family = tp.meta_principled(s, layers=2)
        return order * family.r + contraction(family.p[-1], family.q[-1], weights + inserted, rates)

    return sp.expand(power(S) - power(sp.Integer(0)))


def two_layers(order: int, inserted: int, weights: int, rates: int) -> sp.Expr:
    """The power of n of a term of a network of one hidden layer."""
    family = tp.meta_principled(S, layers=2)
    term = DifferentialTerm(rates, weights, order - rates)  # [meta_principled/differential_form]
    return sp.expand(order * family.r + term.power(family, own_gradients(family.q[0]), inserted))


def derive() -> Proof:
    """Type I has the terms with weights and a rate, or weights alone; type II also the one with two rates."""
    steps = [Identity(i, target, two_layers(order, inserted, weights, rates), value) for i, (
        target, order, inserted, weights, rates, value) in enumerate((
            (FIRST, 2, 1, 1, 1, sp.Integer(-1)), (ONE, 3, 0, 2, 1, S - 1), (TWO, 3, 0, 0, 2, S - 1)), 1)]
    for target, order, inserted, weights, rates in PARTS:
        steps.append(Identity(len(steps) + 1, target, added(order, inserted, weights, rates),
                              S if order == 3 else sp.Integer(0), reason="what (2.8) does not change"))

    def numbers(rng: np.random.Generator) -> float:
        """Against the largest of all terms, as tpcalc counts them."""
        s = sp.Rational(int(rng.integers(-16, 32)), 16)
        found = (tp.ntk_exponent(2, s, insert_output=True) - steps[0].after.subs(S, s),
                 *(tp.ntk_exponent(3, s) - step.after.subs(S, s) for step in steps[1:3]))
        return float(max(map(abs, found)))

    return Proof(tuple(steps), numbers, "the largest power of all terms")


def evidence() -> Evidence:
    """Slopes of real perceptrons of two hidden layers."""
    s = sp.Rational(1, 2)
    family = tp.meta_principled(s, LAYERS)
    found = [*measure_differentials(family, WIDTHS, highest=3, samples=1500, seed=1)[1:],
             measure_type_two(family, WIDTHS, samples=800, seed=2)]
    return Evidence(tuple(MeasuredNumber(
        f"power of n, order {one.order}{' of type II' * one.type_two}, at s = {s} and L = {LAYERS}", one.slope,
        max(one.slope_error, 0.05 / 3), float(tp.ntk_exponent(one.order, s, one.insert_output))) for one in found))


ENTRY = Entry(
    key="meta_principled/differentials_in_width",
    kind="proposition",
    title="dNTK and ddNTKs in powers of the width",
    source="Meta-Principled Family, (4.3), (4.6), (4.9)",
    says="At initialization. $X$ is what a term of the last layer's forward equation has beyond its power at $s = 0$, "
         "for any number of layers; two terms of a differential have one power.",
    statement=statement,
    assumptions=("smooth activations", "width to infinity at fixed depth"),
    uses=("meta_principled/family", "meta_principled/forward_equations", "meta_principled/differential_form"),
    derive=derive,
    evidence=evidence,
)
