"""The ket equations of Program 1."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus.kets import Ket
from tpcalc.ledger import Entry, Erratum, Proof, Witness
from tpcalc.ledger.entry import line
from tpcalc.programs.language import Mat, MatVec

from .._ket_space import difference
from .._line import DEPTH, DEPTH_MUP, XI, Y, derived_outputs, exact, kets, true_outputs
from ._printed import printed_output

STEPS, LAYERS = 4, 5


def derive() -> Proof:
    equations = kets()
    steps = [step for step in equations.derivation.steps if not isinstance(step.left, Mat)]

    def numbers(rng: np.random.Generator) -> float:
        """Both sides of every step, and of every equation, for all base kets at random steps and layers."""
        xi, y = rng.uniform(-1, 1, (2, STEPS))
        run = exact(DEPTH_MUP, xi, y, LAYERS, rational=False)
        setting = equations.setting
        layer = sp.Symbol("l", integer=True, nonnegative=True)
        worst = 0.0
        for step in steps:
            for _ in range(3):
                at = {setting.time: int(rng.integers(1, STEPS)), layer: int(rng.integers(1, LAYERS + 1)),
                      setting.program.sizes[1]: LAYERS}
                data = {m: xi[i] for i in range(STEPS) for m in [setting.program.data[0].at(i)]}
                sides = [side.subs(at).subs(data) for side in (step.left, step.before, step.after)]
                worst = max(worst, difference(sides[1], sides[2], run, {}), difference(sides[0], sides[2], run, {}))
        return worst

    return Proof(equations.derivation.steps, numbers,
                 f"both sides of every step over all base kets, L = {LAYERS}, by the interpreter of definition C.1")


def _forward() -> str:
    """The corrected form of the display in C.2."""
    equation = next(e for e in kets().equations if isinstance(e.target, Ket) and e.value.has(sp.Sum)
                    and any(isinstance(v, MatVec) for v in e.place.statement.value.atoms(MatVec)))
    return line(equation.target, equation.value)


def witness() -> Witness:
    return Witness(f"f_1 at L = {DEPTH}", true_outputs()[1], 1e-12, printed_output(1, XI, Y, DEPTH, first=1),
                   derived_outputs()[1])


def statement() -> tp.KetEquations:
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
        "appendix C.2, and the sketch of proof in D.1: the sum over past steps starts at 1",
        r"| x_{t}^{l} \rangle &= | x_{t}^{l-1} \rangle + \tfrac{1}{\sqrt{L}} | W_{0}^{l} x_{t}^{l-1} \hat{\rangle} + "
        r"\tfrac{1}{\sqrt{L}} \sum_{s=1}^{t-1} | \delta x_{s}^{l} \rangle \left( \frac{\partial | x_{t}^{l-1} \rangle}"
        r"{\partial | W_{0}^{l\top} \delta x_{s}^{l} \hat{\rangle}} - \tfrac{1}{\sqrt{L}} \langle x_{s}^{l-1} | "
        r"x_{t}^{l-1} \rangle \right)",
        _forward, witness),),
)
