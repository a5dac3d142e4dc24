"""A trained matrix is its initial value minus outer products."""

from __future__ import annotations

import numpy as np
import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.calculus.rules import Unroll
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Proof, Slip, Witness
from tpcalc.ledger.entry import line
from tpcalc.programs.language import Family, Matrix, Vector

from ..._finite_width import at_width
from ..._line import (ALPHA, DEPTH, DEPTH_MUP, GAMMA, GENERAL, XI, Y, compiled, kets, relative, true_outputs)

WIDTH, STEPS = 6, 4


def _update() -> tuple[sp.Expr, sp.Expr]:
    """W_{t+1} and its value in the program."""
    location = next(p for p in kets(GENERAL).setting.program.locations() if isinstance(p.statement.target, Matrix))
    return location.statement.target, location.statement.value


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
        target, value = _update()
        for s in range(STEPS):
            values[target.subs({**at, t: s})] = at_width(value.subs({**at, t: s}), values)
        return relative(at_width(step.after.subs({**at, t: STEPS}), values), values[W.at(STEPS, 2)])

    return Proof(derivation.steps, numbers, f"{STEPS} updates of a random matrix of width {WIDTH}, one after the other")


def witness() -> Witness:
    """Without the depth factor, gamma is 0."""
    numbers = [[float(v) for v in values] for values in (XI, Y)]
    without, right = (compiled(GENERAL)(DEPTH, *numbers, alpha=0.5, gamma=g).outputs[1] for g in (0.0, 0.5))
    return Witness(f"f_1 of Program 1 at L = {DEPTH}", true_outputs(DEPTH_MUP)[1], 1e-12, float(without), float(right))


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
        lambda: line(*_update()), witness),),
)
