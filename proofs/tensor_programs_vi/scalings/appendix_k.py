"""Blocks of two matrices: what is diverse becomes linear in a block's updates, and what does not is redundant."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus import Derivation
from tpcalc.verdicts.counting import Counting
from tpcalc.verdicts.exponents import alone_by_regions
from tpcalc.verdicts.layer_jet import block_jet, second_order
from tpcalc.interpreters.vectors import run_program
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof, Rate
from tpcalc.orders import Affine
from tpcalc.programs.language import MatVec

from ..._claims import Size
from ..._line import HALF
from ..._rewriting import Rewriting

NET, NAMES = tp.ResNet("linear", "mlp"), ("W1", "W2")
GAMMAS = sp.symbols("gamma_1 gamma_2", real=True)
DEPTHS, WIDTH, SEEDS = (6, 18, 54), 192, 3


def scaling(alpha: sp.Expr) -> tp.Parametrization:
    """Update exponents of both matrices as symbols, at one branch multiplier."""
    return tp.Parametrization(depth={"alpha": alpha, **dict(zip(NAMES, GAMMAS))})


EFFECTS = {name: Size(f"effect of Delta {name} on its block") for name in NAMES}
RATIOS = {name: Size(f"effect of both updates together, over that of Delta {name} alone") for name in NAMES}
INTERACTIONS = (Equation(RATIOS["W1"], -GAMMAS[1]), Equation(RATIOS["W2"], -GAMMAS[0]))


def expanded(ratio: sp.Expr) -> sp.Expr:
    """The second-order over the first-order part of what the block's expansion in its updates has."""
    parts = second_order(block_jet(NET), EFFECTS)
    return ratio.xreplace({RATIOS[name]: parts[name][0] for name in NAMES})


@lru_cache(maxsize=None)
def effects() -> dict[sp.Basic, sp.Expr]:
    """Powers of L of what an update of each matrix alone does to its block: one form wherever it has one."""
    terms, sizes = Counting.of(tp.program(NET, tp.SGD(), scaling(HALF))), {}
    for name in NAMES:
        form, = {form for found in alone_by_regions(terms, name) for form in found.update.forms}
        sizes[EFFECTS[name]] = form.expression(GAMMAS)
    return sizes


EXPAND = Rewriting("expansion", "two updates of a linear block act together as their product",
                   "Tensor Programs VI, K.2", expanded)
COUNT = Rewriting("count", "powers of $L$ of the derived equations, with updates of one matrix alone",
                  "exponents by regions [tensor_programs_vi/appendix_h]", lambda e: e.xreplace(effects()))


def derive() -> Proof:
    derivation = Derivation()
    for one in INTERACTIONS:
        derivation.through((EXPAND, COUNT), one.target, one.target)

    def numbers(rng: np.random.Generator) -> float:
        wrong = 0
        for _ in range(12):
            alpha, *own = (sp.Rational(int(rng.integers(low, 18)), 12) for low in (6, -6, -6))
            scale = tp.Parametrization(depth={"alpha": alpha, **dict(zip(NAMES, own))})
            found = tp.classify(scale, NET).matrices
            wrong += sum(found[name].second_order != one.value.subs(dict(zip(GAMMAS, own)))
                         for name, one in zip(NAMES, INTERACTIONS))
        return float(wrong)

    return Proof(derivation.steps, numbers, "what tp.classify counts matrix by matrix at 12 random scalings")


@lru_cache(maxsize=None)
def admissible(alpha: sp.Expr) -> tuple[tp.verdicts.phases.PhaseRegion, ...]:
    """Regions of the plane of both update exponents that are stable, faithful and nontrivial: nothing is sampled."""
    flags = ("stable_in_training", "faithful_at_init", "faithful_in_training", "nontrivial")
    return tuple(one for one in tp.phase_diagram(NET, scaling(alpha)).regions if all(one.flags[f] for f in flags))


def keeps(region: tp.verdicts.phases.PhaseRegion) -> bool:
    """Does a matrix keep a second-order part anywhere on the region?"""
    return any(not region.region.never(Affine.of(one.value, GAMMAS), ">=") for one in INTERACTIONS)


def counted(alpha: sp.Expr, what: str, found: int, expected: int) -> MeasuredNumber:
    return MeasuredNumber(f"of the stable, faithful, nontrivial regions of update exponents at alpha = {alpha}: {what}",
                          float(found), 0.0, float(expected))


def measured(scale: tp.DepthScaling, expected: sp.Expr) -> Rate:
    """Real networks after one step: Delta W2 Delta W1 x over Delta W2 W1 x + W2 Delta W1 x, a quarter of all layers."""
    program, task = tp.program(NET, tp.SGD(1.0), scale), {"xi": [1.0, 1.0], "y": [3.0, 3.0]}
    first, last = program.matrices
    x = next(p.statement.target for p in program.locations() if p.statement.target.name == "x")
    found = []
    for depth in DEPTHS:
        alone = together = 0.0
        for seed in range(SEEDS):
            run = run_program(program, {"T": 2, "L": depth}, task, WIDTH, seed)
            for layer in range(1, depth + 1, depth // 4):
                now, before = (MatVec(first.at(step, layer), x.at(1, layer - 1)) for step in (1, 0))
                one, two, both, none = (run.vector(MatVec(last.at(step, layer), inner)) for step, inner in (
                    (0, now), (1, before), (1, now), (0, before)))
                alone += float(np.sum((one + two - 2 * none)**2))
                together += float(np.sum((both - one - two + none)**2))
        found.append((together / alone)**0.5)
    return Rate(f"second over first order of a block's change at ({scale.alpha}, {scale.gamma})", "L", float(expected),
                tuple(map(float, DEPTHS)), tuple(found), 0.1)


def evidence() -> Evidence:
    diverse, drifting = admissible(HALF), admissible(sp.Integer(1))
    return Evidence((
        counted(HALF, "redundant", sum(bool(one.flags["redundant"]) for one in diverse), 0),
        counted(HALF, "with a second-order part that stays", sum(map(keeps, diverse)), 0),
        counted(sp.Integer(1), "not redundant", sum(not one.flags["redundant"] for one in drifting), 0),
        counted(sp.Integer(1), "without a second-order part that stays", sum(not keeps(one) for one in drifting), 0),
        MeasuredNumber("regions at both", float(len(diverse) * len(drifting) > 0), 0.0, 1.0)),
        (measured(tp.DepthScaling(HALF, HALF), HALF), measured(tp.DepthScaling(1, 0), sp.Integer(0))))


ENTRY = Entry(
    key="tensor_programs_vi/appendix_k",
    kind="claim",
    title="blocks of two matrices that are diverse are linear in their updates",
    source="Tensor Programs VI, appendices K.2 and K.3",
    says="The updates of a block's two matrices interact with each other, as their product, and with nothing else in "
         "the block. Stable, faithful and nontrivial scalings with $\\alpha = 1/2$ are diverse, and have an update "
         "exponent of at least $1/2$ for both matrices, so that the interaction vanishes with depth, like $L^{-1/2}$ "
         "at $(1/2, 1/2)$. At $\\alpha = 1$ one update at least is as large as its matrix, and the other's effect "
         "keeps a second-order part, at $(1, 0)$ both; these scalings are redundant.",
    statement=lambda: Equations(INTERACTIONS),
    assumptions=("a linear network, plain gradient descent", "width to infinity, then depth",
                 "update exponents of both matrices apart"),
    uses=("tensor_programs_vi/definitions_5", "tensor_programs_vi/appendix_h"),
    derive=derive,
    evidence=evidence,
)
