"""Which depth scalings keep the inputs of activations at order one."""

from __future__ import annotations

import sympy as sp

from tpcalc.ledger import Entry, Equations, Evidence, Proof

from ..._claims import QUARTER, growth, iff
from ..._line import ALPHA, GAMMA, HALF
from ._derived import derived
from .definitions_5 import FAITHFUL, FAITHFUL_AT_FIRST, NONTRIVIAL, OUTPUTS, STABLE

AT_INIT = iff(FAITHFUL_AT_FIRST, ALPHA >= HALF)
IN_TRAINING = iff(sp.And(OUTPUTS, NONTRIVIAL, FAITHFUL), sp.And(ALPHA >= HALF, ALPHA <= 1, sp.Eq(ALPHA + GAMMA, 1)))
VACUOUS = iff(sp.And(STABLE, NONTRIVIAL), IN_TRAINING.value)


def derive() -> Proof:
    return derived(AT_INIT, IN_TRAINING, VACUOUS)


def evidence() -> Evidence:
    steep = [growth((alpha, 1 - alpha), "change of h", max(alpha - 1, sp.Integer(0)))
             for alpha in (HALF, sp.Integer(1), 5 * QUARTER, 3 * HALF)]
    return Evidence(rates=tuple(steep))


ENTRY = Entry(
    key="tensor_programs_vi/claim_53",
    kind="claim",
    title="faithfulness",
    source="Tensor Programs VI, claim 5.3; appendices G.4 and H.2",
    says="Read as the source states it, among stable and nontrivial scalings, neither line says anything, by the last: "
         "stability at initialization is $\\alpha \\geq 1/2$ already, and stability of $h$ on $\\alpha + \\gamma = 1$ "
         "is $\\alpha \\leq 1$.",
    statement=lambda: Equations((AT_INIT, IN_TRAINING, VACUOUS)),
    assumptions=("a linear network", "width to infinity, then depth"),
    uses=("tensor_programs_vi/definitions_5", "tensor_programs_vi/appendix_h"),
    derive=derive,
    evidence=evidence,
)
