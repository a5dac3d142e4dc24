"""The claims for tanh with one matrix a block, trained by gradient descent, and by directions of order one."""

from __future__ import annotations

import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equations, Proof

from ..._line import ALPHA, GAMMA, HALF
from ._elsewhere import DESCENT, DIRECTIONS, LINE, Case, prove_cases, statement_of

NET = tp.ResNet("tanh")
OPEN = sp.And(GAMMA < 0, ALPHA + 2 * GAMMA >= 1)
BOTH = sp.Or(sp.And(ALPHA >= HALF, ALPHA <= 1, LINE), sp.And(sp.Eq(ALPHA, 1), GAMMA < 0))
HELD = sp.Or(sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1, GAMMA >= 0), sp.And(ALPHA >= 1, ALPHA + 2 * GAMMA < 1))
FIRST = sp.Or(sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1), sp.And(ALPHA >= 1, ALPHA + GAMMA < 1))
CASES = (
    Case("SGD", NET, DESCENT, HELD, BOTH, OPEN),
    Case("directions of order one", NET, DIRECTIONS, FIRST, BOTH, first_alone=True),
)


def statement() -> Equations:
    return statement_of(CASES)


def derive() -> Proof:
    return prove_cases(CASES, statement())


ENTRY = Entry(
    key="tensor_programs_vi/claims_tanh",
    kind="claim",
    title="the claims for tanh",
    source="Tensor Programs VI, claims 5.1 to 5.5 and G.1, of networks that it does not count",
    says="A layer moves $x$ by $L^{-\\alpha}$ at most, so that at $\\alpha \\geq 1$ outputs are stable however large "
         "updates are, and beyond $\\alpha = 1$ they are trivial for any $\\gamma$: claim 5.2 is another one. At "
         "$\\alpha = 1$, $\\gamma < 0$ outputs move and $h$ grows. All that asks for faithfulness or for stability of "
         "$h$ is as it is for linear networks.",
    statement=statement,
    assumptions=("width to infinity, then depth",
                 "SGD after any number of updates, directions of order one after the first"),
    uses=("tensor_programs_vi/definitions_5", "tensor_programs_vi/appendix_h"),
    derive=derive,
)
