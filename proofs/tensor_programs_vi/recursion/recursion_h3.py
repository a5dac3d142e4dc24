"""The recursion of Gamma and C for any depth scaling."""

from __future__ import annotations

import numpy as np

import tpcalc as tp
from tpcalc.ledger import Entry, Proof

from ..._line import GENERAL, compiled, kets, random_task, recursion
from .lemma_d1 import against_coefficients

LAYERS = 6


def derive() -> Proof:
    steps = recursion(GENERAL).derivation.steps[len(kets(GENERAL).derivation.steps):]

    def numbers(rng: np.random.Generator) -> float:
        worst = 0.0
        for _ in range(5):
            task, (alpha, gamma) = random_task(rng), rng.uniform((0.5, 0.0), 1.0)
            trained = compiled(GENERAL)(LAYERS, task.inputs.ravel(), task.targets.ravel(), alpha=alpha, gamma=gamma)
            worst = max(worst, against_coefficients(trained, task, tp.DepthScaling(alpha, gamma), LAYERS))
        return worst

    return Proof(steps, numbers, f"the compiled recursion on 5 random tasks and scalings, L = {LAYERS}: outputs, every "
                 "$\\Gamma$ and every $C$ against the hand-written kernel")


def statement() -> tp.theory.Recursion:
    return recursion(GENERAL)


ENTRY = Entry(
    key="tensor_programs_vi/recursion_h3",
    kind="lemma",
    title="recursion of $\\Gamma$ and $C$ for any $(\\alpha, \\gamma)$",
    source="Tensor Programs VI, appendix H.3",
    says="Branches multiplied by $L^{-\\alpha}$, updates of size $L^{-\\gamma}$.",
    statement=statement,
    assumptions=("width to infinity at fixed depth and number of steps", "one input and one output a step"),
    uses=("tensor_programs_vi/ket_equations", "tensor_programs_vi/definition_c1"),
    derive=derive,
)
