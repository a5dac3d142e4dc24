"""The limit of Gamma, C and f, with the ends of the network, and how fast it is reached."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Evidence, Rate
from tpcalc.programs.language import Family, LossDerivative, Scalar

from ..._continuum import GammaLimit
from ..._line import DEPTH_MUP, NET, OPT
from . import proposition_c4 as limit

DEPTHS = tuple(2**k for k in range(5, 11))
GRID = (0.25, 0.5, 0.75, 1.0)


def statement() -> Equations:
    t, q, b = limit.t, limit.q, limit.b
    xi, f, chi = Family(Scalar, "xi", r"\xi"), Family(Scalar, "f"), Family(Scalar, "chi", r"\chi")
    ends = (Equation(GammaLimit(t, -1, 0, b, 0, q), sp.KroneckerDelta(b, 0) * xi[t]),
            Equation(f[t], GammaLimit(t, -1, 0, 1, 1, 1)),
            Equation(chi[t], LossDerivative(f[t], t)),
            Equation(GammaLimit(t, -1, 1, b, 1, q), sp.KroneckerDelta(b, 1) * chi[t]))
    return Equations((ends[0], limit.gamma_equation(0), *ends[1:], limit.gamma_equation(1), limit.c_equation()))


def _numbers(run: tp.Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All Gamma with p != q on a grid, all C, all f."""
    steps = range(run.task.steps)
    gamma = [run.gamma(t, r, a, b, p, q) for t in steps for r in range(-1, t + 1) for a in (0, 1) for b in (0, 1)
             for p in GRID for q in GRID if p != q]
    c = [run.c(t, s, a, p) for t in steps for s in range(t + 1) for a in (0, 1) for p in GRID]
    return np.array(gamma), np.array(c), run.outputs.ravel()


def evidence() -> Evidence:
    task, goal = limit.limit().task, _numbers(limit.limit())
    found = [_numbers(tp.train(NET, task, OPT, DEPTH_MUP, depth, keep_nodes="all")) for depth in DEPTHS]
    return Evidence(rates=tuple(
        Rate(f"largest distance of {name} from its limit", "L", 1.0, tuple(map(float, DEPTHS)),
             tuple(float(np.abs(ours[i] - goal[i]).max()) for ours in found))
        for i, name in enumerate(("Gamma", "C", "f"))))


ENTRY = Entry(
    key="tensor_programs_vi/proposition_d2",
    kind="proposition",
    title="training at infinite depth",
    source="Tensor Programs VI, proposition D.2",
    says="The equations of $\\Gamma$ and $C$ close with the ends of the network and the derivative of the loss; the "
         "distance at depth $L$ falls like $1/L$.",
    statement=statement,
    assumptions=limit.ENTRY.assumptions,
    uses=("tensor_programs_vi/lemma_d1", "tensor_programs_vi/proposition_c4"),
    evidence=evidence,
    errata=limit.ENTRY.errata,
)
