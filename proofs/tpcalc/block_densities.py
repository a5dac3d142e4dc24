"""Densities in layer time of any block that closes on kernels, as coefficients of its action."""

from __future__ import annotations

import numpy as np

from tpcalc.action.densities import PRINTED, TARGETS, derive_densities_of_kernels
from tpcalc.ledger import Entry, Equation, Equations, Proof

from .._line import relative
from ._block_numbers import MATRICES, BlockNumbers

OF_FIELDS = ("multiply out", "chain rule")


def statement() -> Equations:
    found = derive_densities_of_kernels()
    return Equations(tuple(Equation(TARGETS[name], getattr(found, name), "" if name == "B_diagonal" else "b < a")
                           for name in PRINTED))


def derive() -> Proof:
    def numbers(rng: np.random.Generator) -> float:
        drawn = BlockNumbers(rng)
        sides = [[drawn.value(e, {}, step.rule in OF_FIELDS) for e in (step.before, step.after)]
                 for step in derive_densities_of_kernels(MATRICES).derivation.steps]
        return max(relative(*pair) for pair in sides)

    return Proof(derive_densities_of_kernels().derivation.steps, numbers,
                 "both sides of every step for $W_2 \\phi(W_1 x)$ with a polynomial $\\phi$ and decay: the "
                 "action as means over the weights, coefficients as differences, at random fields or a random saddle")


ENTRY = Entry(
    key="tpcalc/block_densities",
    kind="proposition",
    title="the densities of a block",
    source="tpcalc (new)",
    says="The coefficients of $\\tilde{x}_a \\cdot \\delta_b$, $\\tilde{\\delta}_a \\cdot x_b$, $\\tfrac{1}{2} "
         "\\tilde{x}_a \\cdot \\tilde{x}_b$ and $\\tfrac{1}{2} \\tilde{\\delta}_a \\cdot \\tilde{\\delta}_b$ in the "
         "action $\\Psi$ at its saddle, in derivatives of the kernels $\\kappa$ and $\\theta^m$; terms with $w^m$ are "
         "summed over the matrices $m$. At the saddle $x_a \\cdot x_b = C_{ab}$, $\\delta_a \\cdot \\delta_b = "
         "C^1_{ab}$, $x_a \\cdot \\tilde{\\delta}_b = r_{ab}$ and $\\delta_a \\cdot \\tilde{x}_b = e_{ab}$. All other "
         "coefficients vanish: a signal does not answer later steps, nor another sample of its step.",
    statement=statement,
    assumptions=("kernels are functions of overlaps only",
                 "$r_{ab} = 0$ unless $b$ is of an earlier step than $a$, $e_{ab} = 0$ unless it is, or is $a$ itself; "
                 "response fields do not covary"),
    uses=("tpcalc/action_principle", "gaussian/price"),
    derive=derive,
)
