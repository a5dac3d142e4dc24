"""One depth scaling has every property."""

from __future__ import annotations

import sympy as sp

from tpcalc.ledger import Entry, Equations, Evidence, MeasuredNumber, Proof

from ..._claims import judged_faces, iff
from ..._line import ALPHA, GAMMA, HALF, NET
from ._derived import derived
from .definitions_5 import DIVERSE, FAITHFUL, FAITHFUL_AT_FIRST, LEARNS, NONTRIVIAL, STABLE, STARTS

EVERY = iff(sp.And(STARTS, STABLE, NONTRIVIAL, FAITHFUL_AT_FIRST, FAITHFUL, LEARNS, DIVERSE),
            sp.And(sp.Eq(ALPHA, HALF), sp.Eq(GAMMA, HALF)))


def derive() -> Proof:
    return derived(EVERY)


def evidence() -> Evidence:
    found = [one.diversity_exponent for one in judged_faces(NET).values() if one.diversity_exponent is not None]
    return Evidence((MeasuredNumber("largest diversity exponent on the faces of the plane", float(max(found)), 0.0,
                                    float(HALF)),))


ENTRY = Entry(
    key="tensor_programs_vi/claim_55",
    kind="claim",
    title="Depth-muP is unique",
    source="Tensor Programs VI, claim 5.5",
    says="Exactly one point of the plane has every property. No diversity exponent is larger: what a piece of the "
         "network adds is noise, in proportion to $\\epsilon^{1/2}$, or drift.",
    statement=lambda: Equations((EVERY,)),
    assumptions=("a linear network", "width to infinity, then depth"),
    uses=("tensor_programs_vi/definitions_5", "tensor_programs_vi/appendix_h"),
    derive=derive,
    evidence=evidence,
)
