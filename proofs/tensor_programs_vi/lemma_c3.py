"""The recursion of Gamma and C, without its ends."""

from __future__ import annotations

import sympy as sp

from tpcalc.calculus.kets import Covariance
from tpcalc.ledger import Entry, Equations, Erratum, Proof, Witness
from tpcalc.ledger.entry import line

from .._line import DEPTH, XI, Y, derived_outputs, recursion, true_outputs
from . import lemma_d1
from ._printed import printed_output


def statement() -> Equations:
    return Equations(tuple(e for e in recursion().equations if e.value.has(sp.Sum)))


def derive() -> Proof:
    whole = lemma_d1.derive()
    targets = {e.target for e in statement().equations}
    return Proof(tuple(step for step in whole.steps if step.left in targets), whole.check_numbers, whole.numbers)


def covariance() -> str:
    """C with the initial vectors apart: they are orthonormal, and independent of every hat."""
    equation = next(e for e in recursion().equations if isinstance(e.target, Covariance))
    return line(equation.target, equation.value)


def witness() -> Witness:
    return Witness(f"f_1 at L = {DEPTH}", true_outputs()[1], 1e-12, printed_output(1, XI, Y, DEPTH, cross=None),
                   derived_outputs()[1])


ENTRY = Entry(
    key="tensor_programs_vi/lemma_c3",
    kind="lemma",
    title="recursion of $\\Gamma$ and $C$, without its ends",
    source="Tensor Programs VI, lemma C.3",
    says="The part of the recursion that runs over layers.",
    statement=statement,
    assumptions=lemma_d1.ENTRY.assumptions,
    uses=("tensor_programs_vi/ket_equations", "tensor_programs_vi/lemma_d1"),
    derive=derive,
    errata=(Erratum(
        "appendix C.3: the sums over $t', s' \\ge -1$ read $C_{-1,s',b}$ and $C_{t',-1,b}$, of which only "
        "$C_{-1,-1,b}$ is given; the others are 0",
        r"C_{t,s,a}(p) &= \sum_{t'=-1}^{t} \sum_{s'=-1}^{s} \sum_{b} \int_0^1 \Gamma_{t,t',a,b}\left(\tfrac{l}{L}, "
        r"q\right) C_{t',s',b}(q)\, \Gamma_{s,s',a,b}\left(\tfrac{l}{L}, q\right) dq, \qquad C_{-1,-1,b} = 1",
        covariance, witness),),
)
