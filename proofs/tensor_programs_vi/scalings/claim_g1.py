"""Where a layer may be linearized in its update."""

from __future__ import annotations

import sympy as sp

from tpcalc.ledger import Entry, Equations, Evidence

from ..._claims import QUARTER, Equivalence, growth
from ..._line import ALPHA, HALF

LINEAR = Equivalence("layerwise linear", lambda v: v.layerwise_linear, sp.And(ALPHA >= HALF, ALPHA < 1),
                     lambda v: bool(v.output_stable and v.nontrivial))


def evidence() -> Evidence:
    """The update of h, gamma = 1 - alpha; its square times the branch multiplier is what linearizing leaves out."""
    return Evidence((LINEAR.agreement(),), tuple(
        growth((alpha, 1 - alpha), "update of h", alpha - 1) for alpha in (HALF, 3 * QUARTER, sp.Integer(1))))


ENTRY = Entry(
    key="tensor_programs_vi/claim_g1",
    kind="claim",
    title="layerwise linearization",
    source="Tensor Programs VI, definition G.1 and claim G.1",
    says="Among scalings with $x$ and $f$ stable and nontrivial. Linearizing a smooth activation leaves out "
         "$L^{-\\alpha - 2\\gamma}$ a layer, which at $\\alpha = 1$ is just the $1/L$ that is not allowed.",
    statement=lambda: Equations((LINEAR,)),
    assumptions=("a smooth activation, with the sizes of a linear network", "width to infinity, then depth"),
    uses=("tensor_programs_vi/recursion_h3", "tensor_programs_vi/claim_52"),
    evidence=evidence,
)
