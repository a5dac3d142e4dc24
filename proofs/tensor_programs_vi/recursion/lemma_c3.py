"""The recursion of Gamma and C, without its ends."""

from __future__ import annotations

import sympy as sp

from tpcalc.ledger import Entry, Equations, Proof

from ..._line import recursion
from . import lemma_d1


def statement() -> Equations:
    return Equations(tuple(e for e in recursion().equations if e.value.has(sp.Sum)))


def derive() -> Proof:
    whole = lemma_d1.derive()
    targets = {e.target for e in statement().equations}
    return Proof(tuple(step for step in whole.steps if step.left in targets), whole.check_numbers, whole.numbers)


ENTRY = Entry(
    key="tensor_programs_vi/lemma_c3",
    kind="lemma",
    title="recursion of $\\Gamma$ and $C$, without its ends",
    source="Tensor Programs VI, lemma C.3",
    says="The part of the recursion that runs over layers. Base kets of different groups are independent: covariances "
         "of initial vectors with hat-kets are 0.",
    statement=statement,
    assumptions=lemma_d1.ENTRY.assumptions,
    uses=("tensor_programs_vi/ket_equations", "tensor_programs_vi/lemma_d1"),
    derive=derive,
)
