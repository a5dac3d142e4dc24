"""Which depth scalings keep the inputs of activations at order one."""

from __future__ import annotations

import sympy as sp

from tpcalc.ledger import Entry, Equations, Evidence

from ..._claims import QUARTER, Equivalence, growth
from ..._line import ALPHA, HALF

AT_INIT = Equivalence("faithful at initialization", lambda v: v.faithful_at_init, ALPHA >= HALF)
IN_TRAINING = Equivalence("faithful during training", lambda v: v.faithful_in_training,
                          sp.And(ALPHA >= HALF, ALPHA <= 1), lambda v: bool(v.output_stable and v.nontrivial))


def evidence() -> Evidence:
    steep = [growth((alpha, 1 - alpha), "change of h", max(alpha - 1, sp.Integer(0)))
             for alpha in (HALF, sp.Integer(1), 5 * QUARTER, 3 * HALF)]
    return Evidence((AT_INIT.agreement(), IN_TRAINING.agreement()), tuple(steep))


ENTRY = Entry(
    key="tensor_programs_vi/claim_53",
    kind="claim",
    title="faithfulness",
    source="Tensor Programs VI, claim 5.3; appendices G.4 and H.2",
    says="The second line is for scalings with $x$ and $f$ stable and nontrivial. Read as the source states it, among "
         "stable and nontrivial scalings, neither line says anything: stability at initialization is "
         "$\\alpha \\geq 1/2$ already, and stability of $h$ on $\\alpha + \\gamma = 1$ is $\\alpha \\leq 1$.",
    statement=lambda: Equations((AT_INIT, IN_TRAINING)),
    assumptions=("a linear network", "width to infinity, then depth"),
    uses=("tensor_programs_vi/claim_51", "tensor_programs_vi/claim_52"),
    evidence=evidence,
)
