"""The claims for blocks of two matrices, linear and of relu."""

from __future__ import annotations

import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equations, Proof

from ..._line import ALPHA, GAMMA, HALF
from ._elsewhere import DESCENT, DIRECTIONS, LINE, Case, prove_cases, statement_of

LINEAR, RELU = (tp.ResNet(phi, "mlp") for phi in ("linear", "relu"))
TRAINS = sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1, GAMMA >= 0)
BOTH = sp.And(ALPHA >= HALF, ALPHA <= 1, LINE)
CASES = (
    Case("linear, SGD", LINEAR, DESCENT, TRAINS, BOTH),
    Case("relu, SGD", RELU, DESCENT, TRAINS, BOTH, sp.And(GAMMA < 0, ALPHA + GAMMA >= 1)),
    Case("relu, directions of order one", RELU, DIRECTIONS, sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1),
         sp.And(ALPHA >= HALF, LINE), first_alone=True),
)


def statement() -> Equations:
    return statement_of(CASES)


def derive() -> Proof:
    return prove_cases(CASES, statement())


ENTRY = Entry(
    key="tensor_programs_vi/claims_two_matrices",
    kind="claim",
    title="the claims for blocks of two matrices",
    source="Tensor Programs VI, claims 5.1 to 5.5 and G.1, of networks that it does not count",
    says="Updates of one matrix are larger than the matrix below $\\gamma = 0$, and the gradient of the other grows "
         "with them from step to step: $x$ and $f$ of linear blocks are not stable under gradient descent, where those "
         "of blocks of one matrix are, and stability of $h$ is no condition of its own. Of relu, upper bounds leave "
         "that open.",
    statement=statement,
    assumptions=("width to infinity, then depth",
                 "SGD after any number of updates, directions of order one after the first"),
    uses=("tensor_programs_vi/definitions_5", "tensor_programs_vi/appendix_h"),
    derive=derive,
)
