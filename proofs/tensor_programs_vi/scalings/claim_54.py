"""Above one half, neighboring layers do the same."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters import read_coefficients
from tpcalc.ledger import Entry, Equations, Erratum, Evidence, Rate, Slip, Witness
from tpcalc.studies.convergence import fit_order

from ..._claims import Equivalence
from ..._line import ALPHA, DEPTH_MUP, GENERAL, HALF, NET, OPT

TASK = tp.Task([1.0, 1.0], [-1.0, -1.0])
REDUNDANT = Equivalence("redundant", lambda v: v.redundant, sp.And(ALPHA > HALF, ALPHA <= 1),
                        lambda v: bool(v.output_stable and v.nontrivial and v.faithful_in_training))
DEPTH, PIECES = 512, (4, 8, 16, 32)
ABOVE = tp.DepthScaling(sp.Rational(3, 4), sp.Rational(1, 4))


@lru_cache(maxsize=None)
def differences(scale: tp.DepthScaling) -> tuple[float, ...]:
    """|x^m - x^l| of step 1, l in the middle, m further by every number of layers."""
    run = read_coefficients(TASK, OPT, scale, DEPTH)
    found = []
    for layers in PIECES:
        hat = run.x[1, DEPTH // 2 + layers] - run.x[1, DEPTH // 2]
        ends = run.x_outputs[1, DEPTH // 2 + layers] - run.x_outputs[1, DEPTH // 2]
        found.append(float(np.sqrt(np.einsum("dmr,dmrs,dms->", hat, run.covariance, hat) + ends @ ends)))
    return tuple(found)


def piece(scale: tp.DepthScaling, expected: float) -> Rate:
    """Falls like (1/eps)^-(1 - exponent)."""
    ratios = tuple(float(DEPTH / layers) for layers in PIECES)
    return Rate(f"difference of features at t = 1 over a piece eps of {DEPTH} layers, alpha = {scale.alpha}", "(1/eps)",
                expected, ratios, differences(scale), 0.06)


def evidence() -> Evidence:
    return Evidence((REDUNDANT.agreement(),), (piece(DEPTH_MUP, 0.5), piece(tp.DepthScaling(1, 0), 1.0)))


def at_initialization() -> Witness:
    """At t = 0 there is nothing but noise, which dies."""
    depths = np.array([2**k for k in range(9, 14)])
    start = tp.Task(TASK.inputs[:1], TASK.targets[:1])
    sizes = []
    for depth in depths:
        run = tp.train(NET, start, OPT, ABOVE, int(depth), keep_nodes=[0.5, 1.0])
        middle, last = run.forward_covariance[:, 0, 0]
        sizes.append(np.sqrt(last - middle))  # increments have mean 0 given what came before
    every, deeper = fit_order(depths, np.array(sizes)), fit_order(depths[2:], np.array(sizes[2:]))
    return Witness(f"power of L of the difference of features at t = 0, alpha = {ABOVE.alpha}, 0 for any exponent",
                   -deeper.order, abs(every.order - deeper.order) + deeper.uncertainty, 0.0,
                   float(ABOVE.noise_exponent / 2))


ENTRY = Entry(
    key="tensor_programs_vi/claim_54",
    kind="claim",
    title="redundancy",
    source="Tensor Programs VI, definition 5.6 and claim 5.4; appendix H.2",
    says="Among scalings with $x$ and $f$ stable, nontrivial, and faithful during training; at steps $t \\geq 1$ and "
         "generic layer times.",
    statement=lambda: Equations((REDUNDANT,)),
    assumptions=("a linear network", "width to infinity, then depth"),
    uses=("tensor_programs_vi/recursion_h3", "tensor_programs_vi/claim_53"),
    evidence=evidence,
    errata=(Erratum(
        Slip.INCOMPLETE,
        "definition 5.6 and claim 5.4, where all times include $t = 0$",
        r"\left\| x_t^{(\lambda + \epsilon) L} - x_t^{\lambda L} \right\| / \sqrt{n} &= \Omega(\epsilon) \text{ for "
        r"all } t",
        lambda: r"\left\| x_0^{(\lambda + \epsilon) L} - x_0^{\lambda L} \right\| / \sqrt{n} &\sim L^{"
                + sp.latex(GENERAL.noise_exponent / 2) + r"} \text{ at } t = 0", at_initialization),),
)
