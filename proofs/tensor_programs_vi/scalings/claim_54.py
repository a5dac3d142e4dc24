"""Above one half, neighboring layers do the same."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters import read_coefficients
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, Proof, Rate, Slip, Witness
from tpcalc.studies.convergence import fit_order

from ..._claims import iff
from ..._line import ALPHA, DEPTH_MUP, GAMMA, GENERAL, HALF, NET, OPT
from . import definitions_5 as defined
from ._derived import derived

TASK = tp.Task([1.0, 1.0], [-1.0, -1.0])
REDUNDANT = iff(sp.And(defined.OUTPUTS, defined.NONTRIVIAL, defined.FAITHFUL, defined.REDUNDANT),
                sp.And(ALPHA > HALF, ALPHA <= 1, sp.Eq(ALPHA + GAMMA, 1)))
L = sp.Symbol("L", positive=True)
AT_START = Equation(sp.Symbol(r"{\left\| x_0^{(\lambda + \epsilon) L} - x_0^{\lambda L} \right\| / \sqrt{n}}"),
                    L**(GENERAL.noise_exponent / 2), r"t = 0", r"\sim")
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


def derive() -> Proof:
    return derived(REDUNDANT)


def evidence() -> Evidence:
    return Evidence(rates=(piece(DEPTH_MUP, 0.5), piece(tp.DepthScaling(1, 0), 1.0)))


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
                   float(sp.log(AT_START.value.subs({L: 2, ALPHA: ABOVE.alpha}), 2)
                         - sp.log(AT_START.value.subs({L: 1, ALPHA: ABOVE.alpha}), 2)))


ENTRY = Entry(
    key="tensor_programs_vi/claim_54",
    kind="claim",
    title="redundancy",
    source="Tensor Programs VI, definition 5.6 and claim 5.4; appendix H.2",
    says="At steps $t \\geq 1$ and generic layer times.",
    statement=lambda: Equations((REDUNDANT,)),
    assumptions=("a linear network", "width to infinity, then depth"),
    uses=("tensor_programs_vi/definitions_5", "tensor_programs_vi/appendix_h"),
    derive=derive,
    evidence=evidence,
    errata=(Erratum(
        Slip.INCOMPLETE,
        "definition 5.6 and claim 5.4, where all times include $t = 0$",
        r"\left\| x_t^{(\lambda + \epsilon) L} - x_t^{\lambda L} \right\| / \sqrt{n} &= \Omega(\epsilon) \text{ for "
        r"all } t",
        AT_START.latex, at_initialization),),
)
