"""One step on one sample at infinite depth, where Depthwise Hyperparameter Transfer's (7), (92), (98) and (99) slip."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Callable

import mpmath
import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus import Derivation
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Proof, Slip, Witness
from tpcalc.ledger.entry import line

from ..._line import DEPTH_MUP, relative
from ..._rewriting import Rewriting
from ...tpcalc.reflection_form import substitute
from ._rules import L_, LAYER, LAYER_TIME, Q_, TAU, insert, variation_of_constants
from ._two_steps import ETA, F1, G0, G1, H0, H1, P, S, U, Y, by_layers, changes, kernel, unknowns
from .one_step_finite_depth import trained

RATE, TARGET = 0.75, 0.5  # of the witnesses


PRODUCT_RULE = Rewriting("product rule", "calculus", "algebra", lambda expression: sp.expand(expression.doit()))


@lru_cache(maxsize=None)
def derivation() -> tuple[Derivation, dict[sp.Expr, sp.Expr]]:
    steps, found, slopes = Derivation(), dict[sp.Expr, sp.Expr](), dict[sp.Expr, sp.Expr]()
    for one in unknowns():
        here, sign = one.function(TAU), 1 if one.forward else -1
        change = sign * (one.recurrence(steps) - one.before) / (Q_ - 1)
        slope = slopes[here.diff(TAU)] = steps.apply(LAYER_TIME, here.diff(TAU), change)
        value = steps.apply(insert(found), here, slope)
        found[here] = steps.apply(variation_of_constants(here, one.start, one.forward), here, value)
    changes(steps, found, TAU)
    found[F1] = steps.apply(insert(found), F1, -Y * P(TAU).subs(TAU, 1))
    found[H1(TAU).diff(TAU)] = _slope_of_the_kernel(steps, found, slopes)
    return steps, found


def _slope_of_the_kernel(steps: Derivation, found: dict[sp.Expr, sp.Expr], slopes: dict[sp.Expr, sp.Expr]) -> sp.Expr:
    """H_1' by H_1 itself and what is known."""
    whole = kernel(steps, True).subs(LAYER, TAU)
    left = H1(TAU).diff(TAU)
    value = steps.apply(PRODUCT_RULE, left, sp.Derivative(whole, TAU))
    for function in (S, P, G0):
        slope = function(TAU).diff(TAU)
        value = steps.apply(substitute(slope, slopes[slope], "its equation"), left, value)
    value = steps.apply(substitute(S(TAU), H1(TAU) - (whole - S(TAU)), "the kernel at a node"), left, value)
    return steps.apply(insert({f(TAU): found[f(TAU)] for f in (H0, G0, P)}), left, value)


def statement() -> Equations:
    found = derivation()[1]
    return Equations(tuple(Equation(target, found[target]) for target in (
        H0(TAU), G0(TAU), P(TAU), F1, H1(TAU).diff(TAU), H1(TAU) - H0(TAU), G1(TAU) - G0(TAU))))


def stated(target: sp.Expr) -> sp.Expr:
    """What the statement says that it is."""
    return next(one.value for one in statement().equations if one.target == target)


def number(target: sp.Expr, tau: float, eta: float, y: float, u: float = 0.0) -> float:
    return float(stated(target).subs({ETA: eta, Y: y, U: u}).subs(TAU, tau))


def _numbers(rng: np.random.Generator) -> float:
    times, worst = np.array([0.0, 0.3, 0.8, 1.0]), 0.0
    targets = (H0(TAU), G0(TAU), F1, H1(TAU) - H0(TAU), G1(TAU) - G0(TAU))
    for _ in range(3):
        eta, y = rng.uniform(0.1, 1), rng.uniform(0.2, 1)
        for target, theirs in zip(targets, trained(eta, y, tp.oo, times)):
            ours = [number(target, tau, eta, y) for tau in (times if len(theirs) > 1 else (1.0,))]
            worst = max(worst, relative(ours, theirs))
    return max(worst, _trained_read_in(rng))


def _trained_read_in(rng: np.random.Generator) -> float:
    """The recurrences against coefficients of the program that trains its ends; the limit against very many layers."""
    eta, y, depth = rng.uniform(0.1, 1), rng.uniform(0.2, 1), 3
    change = by_layers(Derivation(), U)[H1(LAYER) - H0(LAYER)]
    network = tp.program(tp.ResNet(train_embedding_readout=True), tp.SGD(eta), DEPTH_MUP)
    run = read_program_coefficients(network, {"T": 2, "L": depth}, {"xi": [1.0, 1.0], "y": [y, 0.0]})
    x = {str(vector): vector for vector in run.vectors}
    worst = 0.0
    for l in range(depth + 1):
        ours = change.subs({U: 1, ETA: eta, Y: y, Q_: 1 + sp.Rational(1, depth), L_: depth, LAYER: l})
        now, then = x[f"x[1, {l}]"], x[f"x[0, {l}]"]
        worst = max(worst, relative(float(ours), float(run.bracket(now, now) - run.bracket(then, then))))
    limit = stated(H1(TAU) - H0(TAU))
    with mpmath.workdps(60):
        many, tau, exact = mpmath.mpf(10)**14, mpmath.mpf("0.7"), (mpmath.mpf("0.6"), mpmath.mpf("0.5"))
        layers = sp.lambdify((U, ETA, Y, Q_, L_, LAYER), change, "mpmath")(*exact, 1, 1 + 1 / many, many, tau * many)
        worst = max(worst, float(abs(layers / sp.lambdify((U, ETA, Y, TAU), limit, "mpmath")(*exact, 1, tau) - 1)))
    return worst


def derive() -> Proof:
    return Proof(derivation()[0].steps, _numbers, "kernels at 4 layer times and $f_1$, by the solver at infinite "
                 "depth, for 3 random learning rates and targets; with a trained read-in the recurrences against "
                 "coefficients of the program, and the limit against $10^{14}$ layers")


def printed_gradient_kernel(tau: float) -> float:
    return math.exp(-tau) + 1 - math.exp(-1)


def printed_change(tau: float, eta: float, y: float) -> float:
    """The change of H_1 is printed in (7); (99) is (7) with y = 1 in it."""
    bracket = (1 + math.exp(-1)) * (tau**2 * math.exp(tau) - tau * math.exp(tau) + math.exp(tau) - 1)
    return 2 * eta**2 * y**2 * math.exp(tau) * (tau**3 / 3 + tau**2 / 2 + bracket)


def gradient_kernel_witness() -> Witness:
    half = trained(RATE, TARGET, tp.oo, [0.5])[1][0]
    return Witness("G_0 at layer time 1/2", float(half), 1e-10, printed_gradient_kernel(0.5),
                   number(G0(TAU), 0.5, RATE, TARGET))


def slope_witness() -> Witness:
    """The slope of the solver's kernel, by Chebyshev interpolation; its value is put into the printed equation."""
    times = (1 - np.cos(np.pi * (np.arange(17) + 0.5) / 17)) / 2
    before, _, _, change, _ = trained(RATE, TARGET, tp.oo, times)
    curve = np.polynomial.Chebyshev.fit(times, before + change, 16, domain=[0, 1])
    half, learnt = float(curve(0.5)), (0.5**2 + 0.5) * 2 * (RATE * TARGET)**2 * math.e
    corrected = stated(H1(TAU).diff(TAU)).subs({U: 0, ETA: RATE, Y: TARGET}).subs(H1(TAU), half)
    return Witness("the slope of H_1 at layer time 1/2", float(curve.deriv()(0.5)), 1e-8,
                   half + learnt * printed_gradient_kernel(0.5), float(corrected.subs(TAU, 0.5)))


def change_witness(printed: Callable[[float, float, float], float], case: str) -> Witness:
    truth = trained(RATE, TARGET, tp.oo, [1.0])[3][0]
    return Witness(f"H_1 - H_0 at layer time 1, {case}", float(truth), 1e-10, printed(1.0, RATE, TARGET),
                   number(H1(TAU) - H0(TAU), 1.0, RATE, TARGET))


def _corrected(target: sp.Expr) -> str:
    """The paper's read-in is frozen."""
    return line(target, stated(target).subs(U, 0))


BRACKET = (r"\left[\tfrac{1}{3}\tau^3 + \tfrac{1}{2}\tau^2 + (1 + e^{-1})\left(\tau^2 e^{\tau} - \tau e^{\tau} + "
           r"e^{\tau} - 1\right)\right]")

ENTRY = Entry(
    key="depthwise_transfer/one_step",
    kind="proposition",
    title="one step on one sample, infinite depth",
    source="Depthwise Hyperparameter Transfer, section 4.3.2 and appendix G.2.2",
    says="One update of learning rate $\\eta$ on one input with $|\\xi| = 1$ and target $y$, squared loss, "
         "$\\alpha = \\gamma = 1/2$, in layer time $\\tau = l / L$: $H$ and $G$ are the kernels of features and of the "
         "output's gradients, $P$ the entry of the reflection form that joins the two rows. The read-in is trained "
         "too, $u$ times as fast ($u = 0$: frozen; $P = -u \\eta$ at $\\tau = 0$). The paper's $\\eta_0 \\mu_0$ is "
         "$\\eta$, its response $A$ is $-y P / \\eta$, which is (94).",
    statement=statement,
    assumptions=("width to infinity, then depth", "frozen read-out", "plain gradient descent"),
    uses=("tpcalc/reflection_form",),
    derive=derive,
    errata=(
        Erratum(Slip.FALSE, "(92): the gradient kernel falls towards the output from $e$ to 1",
                r"G_0(\tau) &= e^{-\tau} + 1 - e^{-1}", lambda: _corrected(G0(TAU)), gradient_kernel_witness),
        Erratum(Slip.FALSE, "(98): with that kernel",
                r"\partial_\tau H(\tau) &= H(\tau) + 2 \eta_0^2 \mu_0^2 y^2 e^{2\tau} "
                r"[e^{-\tau} + 1 - e^{-1}] [\tau^2 + \tau]", lambda: _corrected(H1(TAU).diff(TAU)), slope_witness),
        Erratum(Slip.FALSE, "(7): with that kernel, and $1 + e^{-1}$ where its own integral has $1 - e^{-1}$",
                r"H_1(\tau) &= e^{\tau} H_1(0) + 2 \eta_0^2 \mu_0^2 y^2 e^{\tau} " + BRACKET,
                lambda: _corrected(H1(TAU) - H0(TAU)), lambda: change_witness(printed_change, "by (7)")),
        Erratum(Slip.FALSE, "(99): as (7), and without $y^2$",
                r"H(\tau) &= e^{\tau} H(0) + 2 \eta_0^2 \mu_0^2 e^{\tau} " + BRACKET,
                lambda: _corrected(H1(TAU) - H0(TAU)),
                lambda: change_witness(lambda tau, eta, y: printed_change(tau, eta, 1.0), "by (99)")),
    ),
)
