"""The integral equations of Gamma and C at infinite depth."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Proof, Slip, Witness

from ..._continuum import CLimit, GammaLimit, Indicator, value
from ..._line import DEPTH_MUP, NET, OPT, recursion
from ._infinite_depth import LAYERS, LETTERS, STARTS, TIMES, TOGETHER, layer_by_layer

t, s = sp.symbols("t s", integer=True, nonnegative=True)
r, r1, b = sp.symbols("r r' b", integer=True)
p, q, p1 = sp.symbols("p q p'", real=True)


def gamma_equation(side: int) -> Equation:
    """The forward (0) or backward (1) coefficients get what the initial vectors, the hats and the past bring."""
    here = GammaLimit(t, r, side, b, p, q)
    born = Indicator(sp.Eq(t, r), sp.Eq(b, side), sp.Le(p, q) if side else sp.Ge(p, q))
    past = sp.Sum(GammaLimit(s, r, 1 - side, b, p1, q)
                  * (GammaLimit(t, s, side, 1 - side, p1, p1) - CLimit(t, s, side, p1)), (s, 0, t - 1))
    limits = (p1, p, 1) if side else (p1, 0, p)
    start = Indicator(sp.Eq(r, -1)) * GammaLimit(t, -1, side, b, side, side)
    return Equation(here, born + start + sp.Integral(past, limits))


def c_equation(side: int) -> Equation:
    """Both expansions over base kets, whose groups are independent."""
    body = GammaLimit(t, r1, side, b, p, q) * CLimit(r1, r, b, q) * GammaLimit(s, r, side, b, p, q)
    return Equation(CLimit(t, s, side, p), sp.Integral(sp.Sum(body, (b, 0, 1), (r, -1, s), (r1, -1, t)), (q, 0, 1)))


SIDES = (0, 1)
NAMES = ("the forward Gamma", "the backward Gamma", "the forward C", "the backward C")


FORWARD, BACKWARD = map(gamma_equation, SIDES)
EQUATIONS = Equations((FORWARD, BACKWARD, *map(c_equation, SIDES)))


def derivation() -> Derivation:
    """The equations between the ends of the network, from those of lemma D.1 in the same order."""
    found = Derivation()
    layered = [e for e in recursion().equations if e.location.loops[1:]]
    for one in EQUATIONS.equations:
        kind, side = ("Gamma", one.target.args[2]) if isinstance(one.target, GammaLimit) else ("C", one.target.args[2])
        equation, = (e for e in layered if e.kind == kind and e.target.args[0] == side)
        found.through((LAYERS, TIMES, STARTS, LETTERS, TOGETHER), one.target, equation.value)
    return found


def derive() -> Proof:
    return Proof(derivation().steps, layer_by_layer, "sums over layers passed against coefficients of a compiled "
                 "recursion at a small depth")


@lru_cache(maxsize=None)
def limit() -> tp.Run:
    return tp.train(NET, tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5]), OPT, DEPTH_MUP, tp.oo, keep_nodes="all")


def evidence() -> Evidence:
    """Residuals of the equations as stated, at random indices and layer times, in the solution by collocation."""
    rng, run, worst = np.random.default_rng(0), limit(), dict.fromkeys(NAMES, 0.0)
    for name, equation in zip(NAMES, EQUATIONS.equations):
        for step, other in ((0, 0), (1, 0), (2, 1), (2, 2)):
            for source in range(-1, step + 1) if isinstance(equation.target, GammaLimit) else (0,):
                x, y = rng.uniform(0.05, 1, 2)
                numbers = {t: step, s: other, r: source, b: int(rng.integers(2)), p: x, q: y}
                found = [value(part, numbers, run, (x, y)) for part in (equation.target, equation.value)]
                worst[name] = max(worst[name], abs(found[0] - found[1]))
    return Evidence(tuple(MeasuredNumber(f"largest residual, equation of {name}", found, 1e-12, 0.0)
                          for name, found in worst.items()))


def printed_start() -> float:
    """Gamma_{0,-1,0,0}(1/2, 1) where the term of the initial vectors is missing: nothing is left of it."""
    whole = gamma_equation(0).value
    without = whole - sp.Add(*(term for term in whole.args if term.has(Indicator) and term.has(GammaLimit)
                               and not term.has(sp.Integral)))
    return value(without, {t: 0, r: -1, b: 0, p: 0.5, q: 1.0}, limit())


def witness() -> Witness:
    corrected = value(FORWARD.value, {t: 0, r: -1, b: 0, p: 0.5, q: 1.0}, limit())
    return Witness("Gamma_{0,-1,0,0}(1/2, 1), the coefficient of U in x_0, which is xi_0", 1.0, 1e-12, printed_start(),
                   corrected)


ENTRY = Entry(
    key="tensor_programs_vi/proposition_c4",
    kind="proposition",
    title="integral equations at infinite depth",
    source="Tensor Programs VI, proposition C.4",
    says="As the depth grows, $\\Gamma$ and $C$ converge to the solution of these equations. Initial vectors are base "
         "kets of step $-1$, whose coefficients do not depend on $q$.",
    statement=lambda: EQUATIONS,
    assumptions=("width to infinity, then depth", "$\\alpha = \\gamma = 1/2$", "one input and one output a step"),
    uses=("tensor_programs_vi/lemma_c3",),
    derive=derive,
    evidence=evidence,
    errata=(Erratum(
        Slip.INCOMPLETE,
        "propositions C.4 and D.2: at $r = -1$ the value at the end of the network is missing",
        r"\Gamma_{t,r,0,b}(p,q) &= \mathbb{I}\left[t = r,\, b = 0,\, p \geq q\right] + \int_0^p \sum_{s=0}^{t-1} "
        r"\Gamma_{s,r,1,b}(p',q) \left(\Gamma_{t,s,0,1}(p',p') - C_{t,s,0}(p')\right) dp'",
        FORWARD.latex, witness),),
)
