"""The claims for relu with one matrix a block, trained by gradient descent, and by directions of order one."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equations, Evidence, Proof, Rate

from ..._line import ALPHA, GAMMA, HALF
from ._elsewhere import DESCENT, DIRECTIONS, LINE, Case, prove_cases, statement_of

NET = tp.ResNet("relu")
OPEN = sp.And(GAMMA < 0, ALPHA + 2 * GAMMA >= 1)
BOTH = sp.And(ALPHA >= HALF, LINE)
HELD = sp.Or(sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1, GAMMA >= 0), sp.And(ALPHA + GAMMA >= 1, ALPHA + 2 * GAMMA < 1))
CASES = (
    Case("SGD", NET, DESCENT, HELD, BOTH, OPEN),
    Case("directions of order one", NET, DIRECTIONS, sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1), BOTH,
         first_alone=True),
)
DEPTHS, WIDTH, SEEDS = (8, 16, 32, 64), 128, 8


def statement() -> Equations:
    return statement_of(CASES)


def derive() -> Proof:
    return prove_cases(CASES, statement())


def measured(opt: tp.SGD | tp.SignSGD, gamma: sp.Expr) -> Rate:
    """Real networks at alpha = 1/2: how far an output moves in a step, a root mean square over seeds."""
    task, scale = tp.Task([1.0, 1.0], [-1.0, -1.0]), tp.DepthScaling(HALF, gamma)
    moved = []
    for depth in DEPTHS:
        runs = [tp.train(NET, task, opt, scale, depth, width=WIDTH, seed=seed).outputs.ravel() for seed in range(SEEDS)]
        moved.append(float(np.sqrt(np.mean([(after - before)**2 for before, after in runs]))))
    return Rate(f"change of f by {type(opt).__name__} at (1/2, {gamma})", "L", float(HALF + gamma - 1),
                tuple(map(float, DEPTHS)), tuple(moved), 0.1)


def evidence() -> Evidence:
    return Evidence(rates=tuple(measured(opt, sp.Integer(n) / 2) for opt in (tp.SGD(1.0), tp.SignSGD(1.0))
                                for n in range(3)))


ENTRY = Entry(
    key="tensor_programs_vi/claims_relu",
    kind="claim",
    title="the claims for relu",
    source="Tensor Programs VI, claims 5.1 to 5.5 and G.1, of networks that it does not count",
    says="All but claim 5.2 on $x$ and $f$ is as it is for linear networks. Below $\\gamma = 0$ updates are larger "
         "than what they update, and where $\\alpha + 2 \\gamma \\geq 1$ upper bounds leave open whether later steps "
         "of gradient descent keep $x$ and $f$ stable. Directions of order one, as those of Adam, SignSGD and "
         "Muon, meet gradients of order one at first: what is said of them is said of the first update.",
    statement=statement,
    assumptions=("width to infinity, then depth",
                 "SGD after any number of updates, directions of order one after the first"),
    uses=("tensor_programs_vi/definitions_5", "tensor_programs_vi/appendix_h"),
    derive=derive,
    evidence=evidence,
)
