"""One branch exponent for every block, 1/2 or 1: which wish decides, blocks of one matrix or of two."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equations, Evidence, OrderBound, Rate
from tpcalc.verdicts import Verdict

from .._claims import QUARTER
from .._line import ALPHA, GAMMA, HALF
from ._equivalence import Equivalence
from ._networks import PHI, PlainNetwork

NETS = {1: tp.ResNet("linear"), 2: tp.ResNet("linear", "mlp")}
# the line on which updates add up to order one, and points around it
GRID = tuple((i * QUARTER, 1 - i * QUARTER + j * QUARTER) for i in range(1, 6) for j in (-1, 0, 1))
DEPTHS, WIDTH, SEEDS = (8, 16, 32, 64), 48, 20


@lru_cache(maxsize=None)
def of_one(alpha: sp.Expr, gamma: sp.Expr) -> Verdict:
    return tp.classify(alpha, gamma, NETS[1])


@lru_cache(maxsize=None)
def of_two(alpha: sp.Expr, gamma: sp.Expr) -> Verdict:
    return tp.classify(alpha, gamma, NETS[2])


def learns(v: Verdict) -> bool:
    """Stable, nontrivial and faithful, and it learns features: what both parties ask for."""
    return bool(v.stable_at_init and v.stable_in_training and v.nontrivial and v.faithful_in_training
                and v.feature_learning)


def diverse(v: Verdict) -> bool:
    return v.diversity_exponent == HALF


LEARNS = tuple(Equivalence(f"feature learning, blocks of {matrices}", learns,
                           sp.And(sp.Eq(ALPHA + GAMMA, 1), ALPHA >= HALF, ALPHA <= 1), judge=judge, points=GRID)
               for matrices, judge in ((1, of_one), (2, of_two)))
DIVERSE = tuple(Equivalence(f"diverse, blocks of {matrices}", diverse, sp.Eq(ALPHA, HALF), judge, GRID, learns)
                for matrices, judge in ((1, of_one), (2, of_two)))
COMPLETE = Equivalence("complete, blocks of 2", lambda v: v.complete_in_feature_learning, sp.Eq(ALPHA, 1), of_two, GRID,
                       learns)
SECOND = OrderBound((r"\text{second over first order of } W_2 \phi(W_1 x) \text{ in the updates}",), -GAMMA)


@lru_cache(maxsize=None)
def orders(depth: int, gamma: float) -> float:
    """The ratio of root mean squares, over layers of real networks with tanh, at the inputs that the layers have."""
    found = []
    for seed in range(SEEDS):
        network = PlainNetwork(depth, WIDTH, 1 - gamma, (gamma, gamma), "tanh", seed=seed)
        start, moved, nodes = network.draws[2], network.updates, network.forward(network.draws[2])[0]

        def blocks(matrices: np.ndarray) -> np.ndarray:
            inner = np.einsum("lij,lj->li", matrices[:, 0], nodes[:-1])
            return np.asarray(np.einsum("lij,lj->li", matrices[:, 1], PHI["tanh"][0](inner)))
        up, here, down = blocks(start + moved), blocks(start), blocks(start - moved)
        found.append([np.mean((up + down - 2 * here)**2) / 4, np.mean((up - down)**2) / 4])
    second, first = np.mean(found, axis=0)
    return float(np.sqrt(second / first))


def evidence() -> Evidence:
    """Verdicts on a grid, and the ratio of orders in real networks on the line."""
    rates = tuple(Rate(f"second over first order in {SEEDS} networks of width {WIDTH}, gamma = {gamma}", "L",
                       0.0 - float(SECOND.power.subs(GAMMA, gamma)), DEPTHS,
                       tuple(orders(depth, float(gamma)) for depth in DEPTHS), allowance=0.05)
                  for gamma in (sp.Integer(0), QUARTER, HALF))
    return Evidence(tuple(one.agreement() for one in (*LEARNS, *DIVERSE, COMPLETE)), rates)


ENTRY = Entry(
    key="contested/one_branch_exponent",
    kind="claim",
    title="1/2 and 1 grant different wishes, and no exponent both",
    source="in our words, 1/2 as in arXiv:2310.02244 and marin #5178, 1 as in arXiv:2505.01618 and arXiv:2603.00541",
    says="It was said that the branches of every block need $L^{-1/2}$, and that those of two matrices or more need "
         "$L^{-1}$. Feature learning that is stable, nontrivial and faithful needs neither: it has all of "
         "$1/2 \\leq \\alpha \\leq 1$ with $\\gamma = 1 - \\alpha$, for blocks of one matrix and of two alike. Only "
         "$\\alpha = 1/2$ is diverse (a piece of the network differs by the root of its size), only $\\alpha = 1$ is "
         "complete (updates of a block interact at first order), and a block of one linear matrix is linear in its "
         "updates whatever the exponent is. So the wish decides, not the block, and no exponent grants both.",
    statement=lambda: Equations((*LEARNS, *DIVERSE, COMPLETE, SECOND)),
    assumptions=("linear networks for verdicts, tanh for what is measured", "embedding and readout are not trained"),
    uses=("tensor_programs_vi/claim_54", "tensor_programs_vi/claim_55", "depthwise_transfer/several_matrices"),
    evidence=evidence,
)
