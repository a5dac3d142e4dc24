"""How large coefficients and brackets are."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus import Derivation
from tpcalc.interpreters import read_coefficients
from tpcalc.ledger import Entry, Equation, Equations, Evidence, Proof, Rate

from ..._claims import Size
from ..._line import DEPTH_MUP, GENERAL, HALF, OPT, recursion
from ..._rewriting import Rewriting

TASK = tp.Task([0.5, 0.4, -0.3], [0.5, -0.4, 0.2])
DEPTHS = tuple(2**k for k in range(4, 9))

HAT, INITIAL = Size("coefficient of a hat-ket"), Size("coefficient of U or nV")
BRACKET, COVARIANCE = Size("bracket of two kets"), Size("C")
GAMMA_HAT, GAMMA_INITIAL = (Size(f"Gamma over {what}") for what in ("a hat-ket", "U or nV"))
SIZES = tuple(Equation(size, power, relation=r"\leq") for size, power in (
    (HAT, -HALF), (INITIAL, sp.Integer(0)), (BRACKET, sp.Integer(0))))
NAMES = ("largest coefficient of an earlier hat-ket", "largest coefficient of U and nV", "largest bracket")

SUM = Rewriting("expansion", "a bracket is a sum over initial vectors, and one over the hat-kets of $L$ layers, which "
                "are independent from layer to layer", "Tensor Programs VI, lemma D.1 [tensor_programs_vi/lemma_d1]",
                lambda e: e.xreplace({BRACKET: sp.Max(1 + 2 * HAT + COVARIANCE, 2 * INITIAL)}))
UNITS = Rewriting("units", "$\\Gamma$ is $\\sqrt{L}$ times the coefficient of a hat-ket, and that of an initial vector "
                  "itself", "Tensor Programs VI, lemma D.1 [tensor_programs_vi/lemma_d1]",
                  lambda e: e.xreplace({HAT: GAMMA_HAT - HALF, INITIAL: GAMMA_INITIAL}))


def count(region: tp.theory.LimitRegion) -> dict[sp.Basic, sp.Expr]:
    """The largest power of L of each kind of quantity of a recursion, over all steps, vectors and base kets."""
    def largest(*kind: object) -> sp.Expr:
        return sp.Max(*(power for name, power in region.exponents.items() if name[:len(kind)] == kind))
    return {GAMMA_HAT: largest("Gamma", 0), GAMMA_INITIAL: largest("Gamma", -1), COVARIANCE: largest("C")}


def counted() -> dict[sp.Basic, sp.Expr]:
    region, = tp.depth_limit(recursion()).regions
    return count(region)


COUNT = Rewriting("count", "sums over layers, and what sweeps over layers accumulate, as powers of $L$; a step repeats "
                  "the powers of the one before, and so do all later ones", "orders of the recursion "
                  "[tensor_programs_vi/recursion_h3]", lambda e: e.xreplace(counted()))


def derive() -> Proof:
    derivation = Derivation()
    for one in SIZES:
        derivation.through((SUM, UNITS, COUNT), one.target, one.target)

    def numbers(rng: np.random.Generator) -> float:
        """As much from the recursion for all depth scalings, at random points with a limit and at one half."""
        everywhere, wrong = tp.depth_limit(recursion(GENERAL)), 0
        for alpha in (HALF, *(HALF + sp.Rational(int(rng.integers(1, 12)), 12) for _ in range(4))):
            numbers = {"alpha": alpha, "gamma": 1 - alpha}
            general = {k: v.subs({s: numbers[s.name] for s in v.free_symbols})
                       for k, v in count(everywhere.at(**numbers)).items()}
            there, = tp.depth_limit(recursion(tp.DepthScaling(alpha, 1 - alpha))).regions
            wrong += sum(general[k] != v for k, v in count(there).items())
            wrong += alpha == HALF and any(step.after.xreplace(general) != one.value for one in SIZES
                                           for step in derivation.steps if step.left == one.target
                                           and step.rule == UNITS.name)
        return float(wrong)

    return Proof(derivation.steps, numbers, "powers of $L$ counted from the recursion at $\\alpha = \\gamma = 1/2$, "
                 "and at other points of $\\alpha + \\gamma = 1$, against those counted for all scalings at once")


def sizes(depth: int) -> tuple[float, float, float]:
    """Largest coefficient of an earlier step's hat-kets; of U and nV; largest <y|y>."""
    run = read_coefficients(TASK, OPT, DEPTH_MUP, depth)
    hats = max(float(np.abs(hat[t, ..., :t]).max()) for hat in (run.x, run.delta) for t in range(1, TASK.steps))
    ends = max(float(np.abs(end).max()) for end in (run.x_outputs, run.delta_inputs))
    brackets = max(float(np.abs(run.node_covariance(forward)).max()) for forward in (True, False))
    return hats, ends, brackets


def evidence() -> Evidence:
    """Divided by their powers of L, they change less and less as the depth doubles."""
    units = [[depth ** float(one.value) for one in SIZES] for depth in DEPTHS]
    changes = np.abs(np.diff(np.array([sizes(depth) for depth in DEPTHS]) / units, axis=0)).T
    lengths = tuple(map(float, DEPTHS[2:]))
    return Evidence(rates=tuple(
        Rate(f"{name}, divided by L^({one.value}): change from L/2 to L", "L", 1.0, lengths,
             tuple(map(float, change[1:])), 0.1)
        for name, one, change in zip(NAMES, SIZES, changes)))


ENTRY = Entry(
    key="tensor_programs_vi/proposition_c2",
    kind="proposition",
    title="sizes of coefficients and brackets",
    source="Tensor Programs VI, proposition C.2",
    says="Of kets among all $x_t^l$ and $\\delta x_t^l$; $\\operatorname{ord}$ is a power of $L$. A bracket is at most "
         "the product of two norms, so the largest $\\langle y|y\\rangle$ is measured. A step's own hat-ket has the "
         "coefficient $L^{-1/2}$ from where it is born.",
    statement=lambda: Equations(SIZES),
    assumptions=("width to infinity, then depth", "$\\alpha = \\gamma = 1/2$", "one input and one output a step"),
    uses=("tensor_programs_vi/lemma_d1", "tensor_programs_vi/recursion_h3"),
    derive=derive,
    evidence=evidence,
)
