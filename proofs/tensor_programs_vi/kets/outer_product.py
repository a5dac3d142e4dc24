"""How the limit of u v^T / n acts on kets and bras."""

from __future__ import annotations

import numpy as np

from tpcalc.calculus import Derivation
from tpcalc.calculus.kets import Bracket, Ket
from tpcalc.calculus.equations import UpdateActs
from tpcalc.ledger import Entry, Equation, Equations, Proof
from tpcalc.programs.language import Family, MatVec, Outer, Transpose, Vector

from ..._finite_width import at_width
from ..._line import kets, relative

U, V, Z = (Family(Vector, name)() for name in "uvz")
ACTS = Ket(MatVec(Outer(U, V), Z, evaluate=False))
TURNED = Ket(MatVec(Transpose(Outer(U, V)), Z, evaluate=False))


def statement() -> Equations:
    return Equations((Equation(ACTS, Ket(U) * Bracket(V, Z)), Equation(TURNED, Ket(V) * Bracket(U, Z))))


def derive() -> Proof:
    derivation, rule = Derivation(), UpdateActs(kets().setting)
    for product in (ACTS, TURNED):
        derivation.apply(rule, product, product)

    def numbers(rng: np.random.Generator) -> float:
        values = dict(zip((U, V, Z), rng.standard_normal((3, 50))))
        worst = 0.0
        for step in derivation.steps:
            worst = max(worst, relative(at_width(step.before, values), at_width(step.after, values)))
        for w in rng.standard_normal((3, 50)):  # <w| (|u><v| |z>) = (<w| |u><v|) |z>, and the adjoint is the transpose
            acted, bra = at_width(ACTS, values), np.mean(w * values[U]) * values[V]
            turned = at_width(TURNED, {**values, Z: w})
            worst = max(worst, relative(np.mean(w * acted), np.mean(bra * values[Z])),
                        relative(np.mean(w * acted), np.mean(turned * values[Z])))
        return worst

    return Proof(derivation.steps, numbers, "random vectors of width 50, where both sides are matrix products and "
                 "averages; associativity with a bra, and the adjoint")


ENTRY = Entry(
    key="tensor_programs_vi/outer_product",
    kind="rule",
    title="an outer product acts on a ket",
    source="Tensor Programs VI, appendix E.1.2",
    says="$|u\\rangle\\langle v|$, the limit of $u v^\\top$, takes a ket to a number times $|u\\rangle$, a bra "
         "$\\langle w|$ to a number times $\\langle v|$, in any order of multiplication; its adjoint is "
         "$|v\\rangle\\langle u|$.",
    statement=statement,
    derive=derive,
)
