"""Convergence of Gamma and C when L = 2^k."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Rate, OrderBound, Slip, Witness

from ..._claims import iff
from ..._line import ALPHA, DEPTH_MUP, GENERAL, NET, OPT
from ._induction import PRINTED_C1, c, counted, logarithms, one_by_one, t, tower
from ._printed import PrintedRecursion

TASK = tp.Task([0.5, 0.4, -0.3, 0.5], [0.5, -0.4, 0.2, 0.5])
DEPTHS = tuple(2**k for k in range(2, 9))
OWN_DEPTHS = (64, 128, 256)
ABOVE = tp.DepthScaling(sp.Rational(3, 4), sp.Rational(1, 4))
SCALES = (DEPTH_MUP, ABOVE, tp.DepthScaling(1, 0), tp.DepthScaling(2, -1))


@lru_cache(maxsize=None)
def observed(scale: tp.DepthScaling = DEPTH_MUP) -> tp.studies.CauchyDifferences:
    return tp.studies.cauchy_differences(NET, TASK, OPT, scale, DEPTHS)


def rate(scale: tp.DepthScaling) -> sp.Expr:
    """r of the changes L^-r on the line alpha + gamma = 1: above one half the noise, L eps^2, has to die too."""
    noise = scale.noise_exponent
    return sp.Integer(1) if noise == 0 else sp.Min(1, -noise)


def proven() -> list[sp.Expr]:
    """ln c of the proof after each step, its parts counted; the start is what step 0 needs."""
    found = observed()
    chi = found.outputs[-1] - TASK.targets
    return logarithms(float(found.constants()[0]), TASK.inputs.ravel().tolist(), chi.ravel().tolist(), C1.value)


CHANGES = (r"\left|\Gamma^{L/2}_{t,s,a,b}(p,q) - \Gamma^{L}_{t,s,a,b}(p,q)\right|",
           r"\left|C^{L/2}_{t,s,a}(p) - C^{L}_{t,s,a}(p)\right|")
AT_ONE_HALF = OrderBound(CHANGES, -rate(DEPTH_MUP), r"\alpha = \gamma = \tfrac12")
BEYOND = OrderBound(CHANGES, -rate(GENERAL), r"\alpha > \tfrac12,\; \gamma = 1 - \alpha")


def stated(scale: tp.DepthScaling) -> float:
    """r of the changes L^-r, as it is stated."""
    return -float((AT_ONE_HALF if scale == DEPTH_MUP else BEYOND).power.subs(ALPHA, scale.alpha))


def evidence() -> Evidence:
    rates = []
    for scale in SCALES:
        found, expected = observed(scale), stated(scale)
        for name, change in (("Gamma", found.gamma.change), ("C", found.c.change),
                             ("f", np.diff(found.outputs, axis=0))):
            rates.append(_rate(f"(A) change of {name} from L/2 to L at alpha = {scale.alpha}", expected, change))
    found = observed()
    for name, sides in (("(B) bounds", (found.gamma.size, found.c.size)),
                        ("(C) slopes", (found.gamma.slope, found.c.slope)), ("(D) steps", (found.crossing,))):
        largest = np.max([_largest(side) for side in sides], axis=0)
        rates.append(_rate(f"{name}: distance of their suprema at L/2 and L", 1.0, np.diff(largest)))
    rates.append(Rate("second difference of Gamma_{1,0,0,1} at p = 1/2 + 2/L, q = 3/4", "L", 2.0,
                      tuple(map(float, OWN_DEPTHS)), tuple(second_differences(0.75)), 0.1))
    constants = found.constants()
    holds = [sp.log(sp.Float(ours)) <= theirs for ours, theirs in zip(constants, proven())]
    return Evidence((MeasuredNumber(
        f"steps after which (A) to (D) hold at L = {DEPTHS[0]} to {DEPTHS[-1]} with the proof's c, which is "
        f"{', '.join(map(tower, proven()))}; the smallest c that will do is "
        f"{', '.join(f'{ours:.4g}' for ours in constants)}", float(sum(map(bool, holds))), 0.0, float(TASK.steps)),),
        tuple(rates))


def _largest(values: np.ndarray) -> np.ndarray:
    return np.nan_to_num(np.abs(values)).reshape(len(values), -1).max(axis=1)


def _rate(what: str, expected: float, change: np.ndarray) -> Rate:
    """From the last three changes; the next power of L is still felt."""
    return Rate(what, "L", expected, tuple(map(float, DEPTHS[-3:])), tuple(map(float, _largest(change)[-3:])), 0.1)


class _Diagonals(PrintedRecursion):
    """Which C_{r,r,b} the bracket C_{t,s,a}, t > s, multiplies by what is not 0: all (t, s, a, r)."""

    def __init__(self, task: tp.Task, depth: int) -> None:
        self.entered: set[tuple[int, int, int, int]] = set()
        super().__init__(task.inputs.ravel().tolist(), task.targets.ravel().tolist(), depth)

    def _bracket(self, t: int, s: int, a: int, node: int) -> Fraction:
        self.bracket = t, s, a
        return super()._bracket(t, s, a, node)

    def _covariance(self, r: int, r2: int, b: int, m: int) -> Fraction:
        if r == r2 >= 0 and self.bracket[0] > self.bracket[1]:
            self.entered.add((*self.bracket, r))
        return super()._covariance(r, r2, b, m)


later, earlier, own = sp.symbols("t s r", integer=True, nonnegative=True)
ENTERS = iff(sp.Symbol(r"C_{r,r,b} \text{ for some } b \text{ enters } C_{t,s,a},\; t > s,"),
             sp.And(own <= earlier, own <= later - 2))
C1 = Equation(sp.Symbol("c_1"), counted())
SECOND = (r"\left|\Gamma^{L}(p,q) - \Gamma^{L}(p - \tfrac2L,q) - \Gamma^{L/2}(p,q) + "
          r"\Gamma^{L/2}(p - \tfrac2L,q)\right|")
OWN_LAYER = OrderBound((SECOND,), sp.Integer(-1), r"p - \tfrac2L < q \leq p")


def diagonal() -> Witness:
    """The remark would have none of them enter."""
    steps = range(TASK.steps)
    stated = sum(bool(ENTERS.value.subs({later: t, earlier: s, own: r}))
                 for t in steps for s in range(t) for r in steps for a in (0, 1))
    return Witness(f"pairs of a C_{{t,s,a}}, t > s, and an r of which a C_{{r,r,b}} enters it, in {TASK.steps} steps",
                   float(len(_Diagonals(TASK, 3).entered)), 0.0, 0.0, float(stated))


def sum_of_parts() -> Witness:
    """A larger c_1 than printed is needed already at small numbers."""
    step, constant = 2, 3
    numbers = {t: step, c: constant}
    return Witness(f"c_1 that the parts of (A1) ask for at t = {step}, c = {constant}",
                   float(one_by_one(step, constant)), 1e-12, float(PRINTED_C1.subs(numbers)),
                   float(C1.value.subs(numbers)))


def second_differences(source: float | None = None) -> list[float]:
    """Second differences of Gamma_{1,0,0,1}, p just behind the middle, at a q or, by default, at q = p: at depth L/2
    that source is born two places later."""
    seconds = []
    for depth in OWN_DEPTHS:
        p, back = 0.5 + 2 / depth, 0.5
        q = p if source is None else source
        fine, coarse = (tp.train(NET, TASK, OPT, DEPTH_MUP, L, keep_nodes="all") for L in (depth, depth // 2))
        ours, theirs = (run.gamma(1, 0, 0, 1, p, q) - run.gamma(1, 0, 0, 1, back, q) for run in (fine, coarse))
        seconds.append(abs(ours - theirs))
    return seconds


def own_layer() -> Witness:
    orders = -np.diff(np.log2(second_differences()))
    return Witness("r of L^-r, of the second difference of Gamma_{1,0,0,1} at p = q = 1/2 + 2/L", float(orders[-1]),
                   float(abs(orders[1] - orders[0])), 2.0, -float(OWN_LAYER.power))


ENTRY = Entry(
    key="tensor_programs_vi/theorem_d3",
    kind="theorem",
    title="convergence of $\\Gamma$ and $C$ when $L = 2^k$",
    source="Tensor Programs VI, theorem D.3; appendix H.3",
    says="$\\Gamma$ ($s < t$) and $C$ ($s \\le t$) are Cauchy sequences in $k$. Above $\\alpha = 1/2$ hat-kets count "
         "in units of $L^{-\\alpha}$.",
    statement=lambda: Equations((AT_ONE_HALF, BEYOND)),
    assumptions=("width to infinity at fixed depth and number of steps", "$L = 2^k$",
                 "$\\alpha + \\gamma = 1$, $\\alpha \\ge 1/2$"),
    uses=("tensor_programs_vi/lemma_d1", "tensor_programs_vi/recursion_h3"),
    evidence=evidence,
    errata=(
        Erratum(Slip.FALSE, "theorem D.3, the remark that only $r < s$ matters", r"C_{s,s,a} &\text{ is never used}",
                ENTERS.latex, diagonal),
        Erratum(Slip.FALSE, "appendix D.3.2, the sum of the four parts, without the numbers of their terms",
                rf"c_1 &= {sp.latex(sp.expand(PRINTED_C1))}", C1.latex, sum_of_parts),
        Erratum(Slip.INCOMPLETE, "appendix D.3.2, second differences of $\\Gamma$: it holds where the source is not "
                "born between", rf"{SECOND} &= O(L^{{-2}})", OWN_LAYER.latex, own_layer)),
)
