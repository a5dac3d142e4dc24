"""The integral equations of Gamma and C at infinite depth."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Slip, Witness

from ..._continuum import CLimit, GammaLimit, Indicator, value
from ..._line import DEPTH_MUP, NET, OPT

t, r, s, b, a = sp.symbols("t r s b a", integer=True)
t1, s1 = sp.symbols("t' s'", integer=True)
p, q, p1 = sp.symbols("p q p'", real=True)


def gamma_equation(side: int) -> Equation:
    """The forward (0) or backward (1) coefficients get what the initial vectors, the hats and the past bring."""
    end = side
    here = GammaLimit(t, r, side, b, p, q)
    born = Indicator(sp.Eq(t, r), sp.Eq(b, side), sp.Le(p, q) if side else sp.Ge(p, q))
    past = sp.Sum(GammaLimit(s, r, 1 - side, b, p1, q)
                  * (GammaLimit(t, s, side, 1 - side, p1, p1) - CLimit(t, s, side, p1)), (s, 0, t - 1))
    limits = (p1, p, 1) if side else (p1, 0, p)
    start = Indicator(sp.Eq(r, -1)) * GammaLimit(t, -1, side, b, end, q)
    return Equation(here, born + start + sp.Integral(past, limits))


def c_equation() -> Equation:
    """Both expansions over base kets, whose groups are independent."""
    body = sp.Integral(GammaLimit(t, t1, a, b, p, q) * CLimit(t1, s1, b, q) * GammaLimit(s, s1, a, b, p, q), (q, 0, 1))
    return Equation(CLimit(t, s, a, p), sp.Sum(body, (b, 0, 1), (s1, -1, s), (t1, -1, t)))


def statement() -> Equations:
    return Equations((gamma_equation(0), gamma_equation(1), c_equation()))


@lru_cache(maxsize=None)
def limit() -> tp.Run:
    return tp.train(NET, tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5]), OPT, DEPTH_MUP, tp.oo, keep_nodes="all")


def evidence() -> Evidence:
    """Residuals of the equations as stated, at random indices and layer times, in the solution by collocation."""
    rng, run = np.random.default_rng(0), limit()
    worst = [0.0, 0.0, 0.0]
    forward, backward, covariance = (statement().equations[i] for i in range(3))
    for step in (0, 1, 2, 2):
        for side, equation in enumerate((forward, backward)):
            for source in range(-1, step + 1):
                x, y = rng.uniform(0.05, 1, 2)
                numbers = {t: step, r: source, b: int(rng.integers(2)), p: x, q: y}
                found = [value(part, numbers, run, (x, y)) for part in (equation.target, equation.value)]
                worst[side] = max(worst[side], abs(found[0] - found[1]))
    for step, other, side in ((0, 0, 1), (1, 1, 0), (2, 1, 1), (2, 0, 0)):
        x = rng.uniform(0.05, 1)
        numbers = {t: step, s: other, a: side, p: x}
        found = [value(part, numbers, run, (x,)) for part in (covariance.target, covariance.value)]
        worst[2] = max(worst[2], abs(found[0] - found[1]))
    names = ("equation of the forward Gamma", "equation of the backward Gamma", "equation of C")
    return Evidence(tuple(MeasuredNumber(f"largest residual, {name}", found, 1e-12, 0.0) for name,
                          found in zip(names, worst)))


def printed_start() -> float:
    """Gamma_{0,-1,0,0}(1/2, 1) where the term of the initial vectors is missing: nothing is left of it."""
    whole = gamma_equation(0).value
    without = whole - sp.Add(*(term for term in whole.args if term.has(Indicator) and term.has(GammaLimit)
                               and not term.has(sp.Integral)))
    return value(without, {t: 0, r: -1, b: 0, p: 0.5, q: 1.0}, limit())


def witness() -> Witness:
    corrected = value(gamma_equation(0).value, {t: 0, r: -1, b: 0, p: 0.5, q: 1.0}, limit())
    return Witness("Gamma_{0,-1,0,0}(1/2, 1), the coefficient of U in x_0, which is xi_0", 1.0, 1e-12, printed_start(),
                   corrected)


ENTRY = Entry(
    key="tensor_programs_vi/proposition_c4",
    kind="proposition",
    title="integral equations at infinite depth",
    source="Tensor Programs VI, proposition C.4",
    says="As the depth grows, $\\Gamma$ and $C$ converge to the solution of",
    statement=statement,
    assumptions=("width to infinity, then depth", "$\\alpha = \\gamma = 1/2$", "one input and one output a step"),
    uses=("tensor_programs_vi/lemma_c3",),
    evidence=evidence,
    errata=(Erratum(
        Slip.INCOMPLETE,
        "propositions C.4 and D.2: at $r = -1$ the value at the end of the network is missing",
        r"\Gamma_{t,r,0,b}(p,q) &= \mathbb{I}\left[t = r,\, b = 0,\, p \geq q\right] + \int_0^p \sum_{s=0}^{t-1} "
        r"\Gamma_{s,r,1,b}(p',q) \left(\Gamma_{t,s,0,1}(p',p') - C_{t,s,0}(p')\right) dp'",
        lambda: gamma_equation(0).latex(), witness),),
)
