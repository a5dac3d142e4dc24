"""Which branch multipliers are stable at initialization."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equations, Evidence, MeasuredNumber, Proof

from ..._claims import QUARTER, growth, iff
from ..._line import ALPHA, GENERAL, HALF, NET
from ._derived import derived
from .definitions_5 import STARTS

STABLE = iff(STARTS, ALPHA >= HALF)
DEPTH = 2**12


def derive() -> Proof:
    return derived(STABLE)


def evidence() -> Evidence:
    below = [growth((alpha, sp.Integer(1)), "log of x at initialization", GENERAL.noise_exponent.subs(ALPHA, alpha))
             for alpha in (QUARTER, 3 * QUARTER / 2)]
    start = tp.Task([1.0], [1.0])
    run = tp.train(NET, start, tp.SGD(0.0), tp.DepthScaling(HALF, HALF), DEPTH, keep_nodes=[1.0])
    size = float(run.forward_covariance[0, 0, 0])  # (1 + 1/L)^L
    at_half = MeasuredNumber(f"<x|x> of the last layer at alpha = 1/2, L = {DEPTH}, beside e", size, np.e / DEPTH, np.e)
    return Evidence((at_half,), tuple(below))


ENTRY = Entry(
    key="tensor_programs_vi/claim_51",
    kind="claim",
    title="stability at initialization",
    source="Tensor Programs VI, claim 5.1; appendix H.1",
    says=rf"Below $\alpha = 1/2$ the network explodes like $\exp(L^{{{sp.latex(GENERAL.noise_exponent)}}})$. "
         "Other activations than one-homogeneous ones may differ: a bounded one grows like a power of $L$.",
    statement=lambda: Equations((STABLE,)),
    assumptions=("a linear network", "width to infinity, then depth"),
    uses=("tensor_programs_vi/definitions_5", "tensor_programs_vi/appendix_h"),
    derive=derive,
    evidence=evidence,
)
