"""Which updates are stable, and which learn."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters import run_program
from tpcalc.ledger import Entry, Equations, Erratum, Evidence, Slip, Witness

from ..._claims import QUARTER, Equivalence, Point, growth, measured, power
from ..._line import ALPHA, GAMMA, GENERAL, HALF, OPT

KAPPA = GENERAL.drift_exponent
STABLE = Equivalence("stable during training", lambda v: v.stable_in_training, sp.And(ALPHA + GAMMA >= 1, GAMMA >= 0),
                     lambda v: v.stable_at_init)
OUTPUTS = Equivalence("x and f stable during training", lambda v: v.output_stable, ALPHA + GAMMA >= 1,
                      lambda v: v.stable_at_init)
NONTRIVIAL = Equivalence("x and f stable, and nontrivial", lambda v: v.output_stable and v.nontrivial,
                         sp.Eq(ALPHA + GAMMA, 1), lambda v: v.stable_at_init)
STEEP: Point = (3 * HALF, -HALF)
BOUNDED = tp.DepthScaling(2, -1)
BOUNDED_DEPTHS = (8, 16, 32)


def evidence() -> Evidence:
    points: tuple[Point, ...] = ((HALF, HALF), (3 * QUARTER, QUARTER), STEEP, (HALF, sp.Integer(1)),
                                 (HALF, sp.Integer(0)), (sp.Integer(1), -HALF))
    rates = [growth(point, name, KAPPA.subs(dict(zip((ALPHA, GAMMA), point))))
             for point in points for name in ("change of f", "change of x")]
    return Evidence((STABLE.agreement(), OUTPUTS.agreement(), NONTRIVIAL.agreement()), tuple(rates))


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
                   float(powers[-1]), float(abs(powers[-1] - powers[-2])), 0.0, float(1 - BOUNDED.alpha))


ENTRY = Entry(
    key="tensor_programs_vi/claim_52",
    kind="claim",
    title="stability and nontriviality in training",
    source="Tensor Programs VI, claim 5.2; appendices G.4 and H.2",
    says="Among depth scalings that are stable at initialization, with $h$ counted as definition 5.2 does. Where "
         "$\\alpha + \\gamma < 1$ the outputs diverge, which counts as nontrivial in the source.",
    statement=lambda: Equations((STABLE, OUTPUTS, NONTRIVIAL)),
    assumptions=("a linear network", "width to infinity, then depth"),
    uses=("tensor_programs_vi/recursion_h3", "tensor_programs_vi/claim_51"),
    evidence=evidence,
    errata=(
        Erratum(Slip.FALSE, "claim 5.2 a", r"\text{stable during training} &\iff \alpha + \gamma \geq 1", STABLE.latex,
                preactivations),
        Erratum(Slip.INCOMPLETE, "claim 5.2 b, for a bounded activation and $\\alpha > 1$",
                r"\text{nontrivial} &\iff \alpha + \gamma \leq 1",
                lambda: rf"f_1 - f_0 &= O(L^{{{sp.latex(1 - ALPHA)}}}) \text{{ for bounded }} \phi", bounded)),
)
