"""Where a layer may be linearized in its update."""

from __future__ import annotations

import sympy as sp

from tpcalc.ledger import Entry, Equations, Evidence, Proof

from ..._claims import QUARTER, growth, iff
from ..._line import ALPHA, GAMMA, HALF
from . import definitions_5 as defined
from ._derived import derived

LINEAR = iff(sp.And(defined.OUTPUTS, defined.NONTRIVIAL, defined.LINEAR),
             sp.And(ALPHA >= HALF, ALPHA < 1, sp.Eq(ALPHA + GAMMA, 1)))


def derive() -> Proof:
    return derived(LINEAR)


def evidence() -> Evidence:
    """The update of h, gamma = 1 - alpha; its square times the branch multiplier is what linearizing leaves out."""
    return Evidence(rates=tuple(
        growth((alpha, 1 - alpha), "update of h", alpha - 1) for alpha in (HALF, 3 * QUARTER, sp.Integer(1))))


ENTRY = Entry(
    key="tensor_programs_vi/claim_g1",
    kind="claim",
    title="layerwise linearization",
    source="Tensor Programs VI, claim G.1",
    says="Linearizing a smooth activation leaves out "
         "$L^{-\\alpha - 2\\gamma}$ a layer, which at $\\alpha = 1$ is just the $1/L$ that is not allowed.",
    statement=lambda: Equations((LINEAR,)),
    assumptions=("a smooth activation, with the sizes of a linear network", "width to infinity, then depth"),
    uses=("tensor_programs_vi/definitions_5", "tensor_programs_vi/appendix_h"),
    derive=derive,
    evidence=evidence,
)
