"""Entrywise functions of outer products, as in SignSGD and Adam."""

from __future__ import annotations

from typing import Callable

import numpy as np
import sympy as sp

from tpcalc.calculus.kets import Ket
from tpcalc.calculus.equations import UpdateActs
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber
from tpcalc.programs.language import Family, MatVec, NonlinearOuter, Outer, Transpose, Vector

from ..._finite_width import at_width
from ..._line import kets, relative

WIDTH = 200
PHI = sp.Function("phi")
U, V, Z = (Family(Vector, name)() for name in "uvz")
OUTER = Outer(U, V)


def statement() -> Equations:
    """What the rule makes of a product, and of one with the transpose."""
    rule, matrix = UpdateActs(kets().setting), NonlinearOuter(PHI(OUTER))
    products = Ket(MatVec(matrix, Z)), Ket(MatVec(Transpose(matrix), Z))
    return Equations(tuple(Equation(product, rule.apply(product)) for product in products))


def evidence() -> Evidence:
    """The averages over an independent copy, taken over the n coordinates, are exact at finite n."""
    values = dict(zip((U, V, Z), np.random.default_rng(0).standard_normal((3, WIDTH))))

    def difference(phi: Callable[[sp.Expr], sp.Expr]) -> float:
        sides = [[at_width(side.replace(PHI, phi), values) for side in (one.target, one.value)]
                 for one in statement().equations]
        return max(relative(before, after) for before, after in sides)

    square = at_width(MatVec(NonlinearOuter(OUTER**2), Z), values)
    twice = relative(square, at_width(MatVec(OUTER, MatVec(OUTER, Z)), values))
    return Evidence((
        *(MeasuredNumber(f"phi(t) = {name}: matrix times vector and average over a copy, relative difference",
                         difference(phi), 1e-12, 0.0) for name, phi in (("t^2", lambda t: t**2), ("tanh t", sp.tanh))),
        MeasuredNumber("phi(t) = t^2: is it far from the operator applied twice? (1: yes)", float(twice > 0.1), 1e-12,
                       1.0)))


ENTRY = Entry(
    key="tensor_programs_vi/nonlinear_outer_product",
    kind="definition",
    title="nonlinear outer product",
    source="Tensor Programs VI, appendix E.1.3 and remark E.2",
    says="Kets with a prime are independent copies, and $E'$ is over them alone. $\\phi$ acts on coordinates: it is "
         "not the function of an operator. Where $\\phi$ is the identity this is the outer product itself.",
    statement=statement,
    uses=("tensor_programs_vi/outer_product",),
    evidence=evidence,
)
