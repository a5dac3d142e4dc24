"""The limit of Gamma, C and f, with the ends of the network, and how fast it is reached."""

from __future__ import annotations

from itertools import product

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Evidence, Proof, Rate
from tpcalc.programs.language import Family, LossDerivative, Scalar

from ..._continuum import GammaLimit, value
from ..._line import DEPTH_MUP, NET, OPT, random_task, recursion, relative
from . import proposition_c4 as limit
from ._infinite_depth import INITIAL, LETTERS, LOSS, TIMES, layer_by_layer

DEPTHS = tuple(2**k for k in range(5, 11))
GRID = (0.25, 0.5, 0.75, 1.0)


def statement() -> Equations:
    t, b = limit.t, limit.b
    xi, f = Family(Scalar, "xi", r"\xi"), Family(Scalar, "f")
    ends = (Equation(GammaLimit(t, -1, 0, b, 0, 0), sp.KroneckerDelta(0, b) * xi[t]),
            Equation(f[t], GammaLimit(t, -1, 0, 1, 1, 1)),
            Equation(GammaLimit(t, -1, 1, b, 1, 1), sp.KroneckerDelta(1, b) * LossDerivative(f[t], t)))
    return Equations((*ends, *limit.EQUATIONS.equations))


def with_data(side: sp.Expr, step: int, run: tp.Run) -> sp.Expr:
    """A side of an equation at a step, with numbers for inputs, outputs and the derivative of the loss f - y."""
    data = {"xi": run.task.inputs, "f": run.outputs}
    target = sp.Float(run.task.targets[step, 0, 0])
    found = side.replace(LossDerivative, lambda output, _: output - target)
    return found.xreplace({one: sp.Float(data[one.name][step, 0, 0]) for one in found.atoms(Scalar)})


def derive() -> Proof:
    """Steps to the ends, from lemma D.1; what is between is proposition C.4."""
    found = limit.derivation()
    first, output, last = statement().equations[:3]
    ends = {e.target.args[0]: e for e in recursion().equations if e.kind == "Gamma" and not e.location.loops[1:]}
    found.through((INITIAL,), first.target, ends[0].value)
    found.through((TIMES, LETTERS), output.target,
                  next(e.value for e in recursion().equations if e.target == output.target))
    found.through((INITIAL, LOSS), last.target, ends[1].value)

    def numbers(rng: np.random.Generator) -> float:
        """Besides, the ends in the limit of a random training."""
        run, worst = tp.train(NET, random_task(rng, 3), OPT, DEPTH_MUP, tp.oo, keep_nodes="all"), 0.0
        for one in statement().equations[:3]:
            for step, base in product(range(run.task.steps), (0, 1)):
                at = {limit.t: step, limit.b: base}
                worst = max(worst, relative(*(value(with_data(side, step, run), at, run)
                                              for side in (one.target, one.value))))
        return max(worst, layer_by_layer(rng))

    return Proof(found.steps, numbers, "the ends at infinite depth, in a random training; sums over layers passed "
                 "against coefficients of a compiled recursion at a small depth")


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
    derive=derive,
    evidence=evidence,
    errata=limit.ENTRY.errata,
)
