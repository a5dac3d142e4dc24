"""A trained matrix is its initial value minus outer products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus import Derivation
from tpcalc.calculus.equations import Unroll
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Proof, Slip, Witness
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.programs.language import Family, Matrix, Vector
from tpcalc.programs.program import Assign, Program, mapped

from ..._finite_width import at_width
from ..._line import (ALPHA, DEPTH, DEPTH_MUP, GAMMA, GENERAL, HALF, NET, OPT, XI, Y, derived_outputs, kets,
                      relative)

WIDTH, STEPS = 6, 4


def update_of(program: Program) -> Equation:
    """W_{t+1} and its value in the program."""
    assign, = (p.statement for p in program.locations() if isinstance(p.statement.target, Matrix))
    return Equation(assign.target, assign.value)


UPDATE = update_of(tp.program(NET, OPT, GENERAL))


def _matrix() -> sp.Expr:
    return kets(GENERAL).setting.trained()[0]


def statement() -> Equations:
    step = kets(GENERAL).derivation.steps[0]
    return Equations((Equation(step.left, step.after),))


def derive() -> Proof:
    derivation = Derivation()
    derivation.apply(Unroll(kets(GENERAL).setting), _matrix(), _matrix())
    step, = derivation.steps

    def numbers(rng: np.random.Generator) -> float:
        """The loop of the program, run with matrices, against the sum."""
        setting = kets(GENERAL).setting
        t, l, L = setting.time, step.left.indices[1], setting.program.sizes[1]
        x, dx, W = Family(Vector, "x", layered=True), Family(Vector, "dx", r"\delta x", layered=True), _matrix()
        values = {v[s, node]: rng.standard_normal(WIDTH) for v in (x, dx) for s in range(STEPS) for node in (1, 2)}
        values |= {W.at(0, 2): rng.standard_normal((WIDTH, WIDTH))}
        at = {l: 2, L: 5, ALPHA: rng.uniform(0.5, 1), GAMMA: rng.uniform(0, 1)}
        target, value = UPDATE.target, UPDATE.value
        for s in range(STEPS):
            values[target.subs({**at, t: s})] = at_width(value.subs({**at, t: s}), values)
        return relative(at_width(step.after.subs({**at, t: STEPS}), values), values[W.at(STEPS, 2)])

    return Proof(derivation.steps, numbers, f"{STEPS} updates of a random matrix of width {WIDTH}, one after the other")


def output_by(value: sp.Expr) -> float:
    """f_1 of Program 1 with this value of its update, alpha = gamma = 1/2, statement by statement."""
    program = tp.program(NET, OPT, DEPTH_MUP)
    own = update_of(program).target

    def change(one: Assign) -> list[Assign]:
        return [replace(one, value=value.subs({ALPHA: HALF, GAMMA: HALF})) if one.target == own else one]
    changed = replace(program, body=tuple(mapped(program.body, change)))
    run = read_program_coefficients(changed, {"T": len(XI), "L": DEPTH}, {"xi": XI, "y": Y}, exact=True)
    return float(next(found for member, found in run.scalars.items() if str(member) == "f[1]"))


def witness() -> Witness:
    """Without the depth factor, gamma is 0; f_1 in truth is that of the derived recursion."""
    return Witness(f"f_1 of Program 1 at L = {DEPTH}", derived_outputs(DEPTH_MUP)[1], 1e-12,
                   output_by(UPDATE.value.subs(GAMMA, 0)), output_by(UPDATE.value))


ENTRY = Entry(
    key="tensor_programs_vi/parameter_update",
    kind="rule",
    title="the update, unrolled",
    source="Tensor Programs VI, appendix F, parameter update",
    says="SGD moves a matrix by outer products, so that after $t$ steps it is its initial value minus their sum.",
    statement=statement,
    assumptions=("SGD with learning rate 1 and updates of size $L^{-\\gamma}$",),
    uses=("tensor_programs_vi/program_1", "tensor_programs_vi/outer_product"),
    derive=derive,
    errata=(Erratum(
        Slip.INCOMPLETE,
        "appendix F, parameter update",
        r"| W_{t+1}^{l} | &= | W_{t}^{l} | - \eta\, | \delta h_{t}^{l} \rangle_{\chi_{t}} \langle x_{t}^{l-1} |",
        UPDATE.latex, witness),),
)
