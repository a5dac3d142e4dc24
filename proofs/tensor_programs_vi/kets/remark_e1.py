"""An outer product of kets is not their product as random variables."""

from __future__ import annotations

import numpy as np

from tpcalc.calculus import Derivation
from tpcalc.calculus.kets import Bracket, Ket
from tpcalc.calculus.equations import UpdateActs
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof
from tpcalc.programs.language import Family, MatVec, Outer, Vector

from ..._finite_width import at_width
from ..._line import kets, relative

U, Z = (Family(Vector, name)() for name in "uz")
ACTS = Ket(MatVec(Outer(U, U), Z, evaluate=False))


def derive() -> Proof:
    derivation = Derivation()
    derivation.apply(UpdateActs(kets().setting), ACTS, ACTS)
    step, = derivation.steps

    def numbers(rng: np.random.Generator) -> float:
        values = dict(zip((U, Z), rng.standard_normal((2, 50))))
        return relative(at_width(step.before, values), at_width(step.after, values))

    return Proof(derivation.steps, numbers, "random vectors of width 50")


def evidence() -> Evidence:
    """u = v, so that a product of random variables would be |u|^2 and act on |z> as a positive number."""
    u, z = np.random.default_rng(0).standard_normal((2, 4000))
    acted = at_width(ACTS, {U: u, Z: z})
    aligned = [abs(np.mean(acted * w)) / np.sqrt(np.mean(acted**2) * np.mean(w**2)) for w in (u, z)]
    return Evidence((MeasuredNumber("cosine of (u u^T / n) z with u, for u, z independent, n = 4000", float(aligned[0]),
                                    1e-12,
                                    1.0),
                     MeasuredNumber("its cosine with z, which would be 1 for a product", float(aligned[1]), 4000**-0.5,
                                    0.0)))


ENTRY = Entry(
    key="tensor_programs_vi/remark_e1",
    kind="remark",
    title="an outer product is not a product of random variables",
    source="Tensor Programs VI, remark E.1",
    says="$|u\\rangle\\langle u|$ sends $|z\\rangle$ along $|u\\rangle$; the random variable $|u\\rangle \\cdot "
         "|u\\rangle$ in its place would send it along $|z\\rangle$.",
    statement=lambda: Equations((Equation(ACTS, Ket(U) * Bracket(U, Z)),)),
    uses=("tensor_programs_vi/outer_product",),
    derive=derive,
    evidence=evidence,
)
