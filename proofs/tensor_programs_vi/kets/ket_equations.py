"""The ket equations of Program 1."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus.kets import Ket
from tpcalc.ledger import Entry, Erratum, Proof, Slip, Witness
from tpcalc.ledger.entry import line
from tpcalc.programs.language import MatVec

from ..._line import DEPTH, XI, Y, derived_outputs, kets, true_outputs, worst_equation, worst_step
from ..recursion._printed import printed_output

STEPS, LAYERS = 4, 5


def derive() -> Proof:
    def numbers(rng: np.random.Generator) -> float:
        xi, y = rng.uniform(-1, 1, (2, STEPS))
        sizes, data = {"T": STEPS, "L": LAYERS}, {"xi": xi, "y": y}
        return max(worst_step(tp.check_steps(kets(), sizes, data)),
                   worst_equation(kets(), statement().equations, sizes, data))

    return Proof(kets().derivation.steps, numbers,
                 f"both sides of every step and equation at all {STEPS} steps and {LAYERS} layers, over all base kets, "
                 "by the interpreter of definition C.1")


def _forward() -> str:
    """The corrected form of the display in C.2."""
    equation = next(e for e in kets().equations if isinstance(e.target, Ket) and e.value.has(sp.Sum)
                    and any(isinstance(v, MatVec) for v in e.location.statement.value.atoms(MatVec)))
    return line(equation.target, equation.value)


def witness() -> Witness:
    return Witness(f"f_1 at L = {DEPTH}", true_outputs()[1], 1e-12, printed_output(1, XI, Y, DEPTH, first=1),
                   derived_outputs()[1])


def statement() -> tp.theory.KetEquations:
    return kets()


ENTRY = Entry(
    key="tensor_programs_vi/ket_equations",
    kind="lemma",
    title="ket equations of Program 1",
    source="Tensor Programs VI, appendix C.2",
    says="Every ket is a hat, a sum over the kets of earlier steps, and what came before in the same pass.",
    statement=statement,
    assumptions=("width to infinity at fixed depth and number of steps",),
    uses=("tensor_programs_vi/program_1", "tensor_programs_vi/definition_c1", "tensor_programs_vi/outer_product",
          "tensor_programs_vi/parameter_update", "tensor_programs_vi/master_theorem"),
    derive=derive,
    errata=(Erratum(
        Slip.MISPRINT,
        "appendix C.2, and the sketch of proof in D.1: the sum over past steps starts at 1",
        r"| x_{t}^{l} \rangle &= | x_{t}^{l-1} \rangle + \tfrac{1}{\sqrt{L}} | W_{0}^{l} x_{t}^{l-1} \hat{\rangle} + "
        r"\tfrac{1}{\sqrt{L}} \sum_{s=1}^{t-1} | \delta x_{s}^{l} \rangle \left( \frac{\partial | x_{t}^{l-1} \rangle}"
        r"{\partial | W_{0}^{l\top} \delta x_{s}^{l} \hat{\rangle}} - \tfrac{1}{\sqrt{L}} \langle x_{s}^{l-1} | "
        r"x_{t}^{l-1} \rangle \right)",
        _forward, witness),),
)
