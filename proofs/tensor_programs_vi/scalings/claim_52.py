"""Which updates are stable, and which learn."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters import run_program
from tpcalc.ledger import Entry, Equations, Erratum, Evidence, OrderBound, Proof, Slip, Witness

from ..._claims import Point, growth, iff, measured, power
from ..._line import ALPHA, GAMMA, GENERAL, HALF, OPT
from ._derived import derived
from .definitions_5 import NONTRIVIAL, OUTPUTS, STABLE

KAPPA = GENERAL.drift_exponent
TRAINS = iff(STABLE, sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1, GAMMA >= 0))
CONVERGES = iff(OUTPUTS, sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1))
MOVES = iff(NONTRIVIAL, sp.And(ALPHA >= HALF, ALPHA + GAMMA <= 1))
BOTH = iff(sp.And(OUTPUTS, NONTRIVIAL), sp.And(ALPHA >= HALF, sp.Eq(ALPHA + GAMMA, 1)))
STEEP: Point = (3 * HALF, -HALF)
HELD = OrderBound(("f_1 - f_0",), 1 - ALPHA, r"\phi \text{ bounded}")
BOUNDED = tp.DepthScaling(2, -1)
BOUNDED_DEPTHS = (8, 16, 32)


def derive() -> Proof:
    return derived(TRAINS, CONVERGES, MOVES, BOTH)


def evidence() -> Evidence:
    points: tuple[Point, ...] = (STEEP, (HALF, sp.Integer(1)), (sp.Integer(1), -HALF))
    return Evidence(rates=tuple(growth(point, "change of f", KAPPA.subs(dict(zip((ALPHA, GAMMA), point))))
                                for point in points))


def preactivations() -> Witness:
    """alpha + gamma = 1, and h is not O(1)."""
    truth, error = power(STEEP, "change of h")
    return Witness(f"power of L of the change of h at {STEEP}, at most 0 if stable", truth, error, 0.0,
                   float(measured(*STEEP)["change of h"].derived))


def bounded() -> Witness:
    """Real networks with tanh: a layer moves x by no more than L^-alpha, whatever gamma is."""
    program = tp.program(tp.ResNet("tanh"), OPT, BOUNDED)
    changes = []
    for depth in BOUNDED_DEPTHS:
        run = run_program(program, {"T": 2, "L": depth}, {"xi": [1.0, 1.0], "y": [-1.0, -1.0]}, width=128)
        before, after = (float(f) for f in run.series("f"))
        changes.append(abs(after - before))
    powers = np.diff(np.log2(changes))
    return Witness(f"power of L of the change of f for tanh at ({BOUNDED.alpha}, {BOUNDED.gamma}), 0 if nontrivial",
                   float(powers[-1]), float(abs(powers[-1] - powers[-2])), 0.0,
                   float(HELD.power.subs(ALPHA, BOUNDED.alpha)))


ENTRY = Entry(
    key="tensor_programs_vi/claim_52",
    kind="claim",
    title="stability and nontriviality in training",
    source="Tensor Programs VI, claim 5.2; appendices G.4 and H.2",
    says="With $h$ counted as definition 5.2 does. Where $\\alpha + \\gamma < 1$ the outputs diverge, which counts as "
         "nontrivial.",
    statement=lambda: Equations((TRAINS, CONVERGES, MOVES, BOTH)),
    assumptions=("a linear network", "width to infinity, then depth"),
    uses=("tensor_programs_vi/definitions_5", "tensor_programs_vi/appendix_h"),
    derive=derive,
    evidence=evidence,
    errata=(
        Erratum(Slip.FALSE, "claim 5.2 a", r"\text{stable during training} &\iff \alpha + \gamma \geq 1", TRAINS.latex,
                preactivations),
        Erratum(Slip.INCOMPLETE, "claim 5.2 b, for a bounded activation and $\\alpha > 1$",
                r"\text{nontrivial} &\iff \alpha + \gamma \leq 1",
                HELD.latex, bounded)),
)
