"""One depth scaling has every property."""

from __future__ import annotations

import sympy as sp

from tpcalc.ledger import Entry, Equations, Evidence, MeasuredNumber

from ..._claims import PLANE, Equivalence, verdict
from ..._line import ALPHA, GAMMA, HALF

EVERY = Equivalence(
    "stable, nontrivial, faithful, feature learning, diversity exponent 1/2",
    lambda v: all((v.stable_at_init, v.stable_in_training, v.nontrivial, v.faithful_at_init, v.faithful_in_training,
                   v.feature_learning, v.diversity_exponent == HALF)),
    sp.And(sp.Eq(ALPHA, HALF), sp.Eq(GAMMA, HALF)))


def evidence() -> Evidence:
    found = [one for one in (verdict(*point).diversity_exponent for point in PLANE) if one is not None]
    return Evidence((EVERY.agreement(),
                     MeasuredNumber("largest diversity exponent on the grid", float(max(found)), 0.0, float(HALF))))


ENTRY = Entry(
    key="tensor_programs_vi/claim_55",
    kind="claim",
    title="Depth-muP is unique",
    source="Tensor Programs VI, claim 5.5",
    says="Exactly one point of the plane has every property.",
    statement=lambda: Equations((EVERY,)),
    assumptions=("a linear network", "width to infinity, then depth"),
    uses=("tensor_programs_vi/claim_51", "tensor_programs_vi/claim_52", "tensor_programs_vi/claim_53",
          "tensor_programs_vi/claim_54"),
    evidence=evidence,
)
