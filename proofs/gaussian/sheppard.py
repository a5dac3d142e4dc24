"""The mean of the product of two signs."""

from __future__ import annotations

import numpy as np
import sympy as sp
from scipy.integrate import quad
from scipy.special import erf

from tpcalc.calculus import Derivation
from tpcalc.gaussian import ConditionOnForm, Gaussians, Linearity, Price, expectation
from tpcalc.ledger import Entry, Equation, Equations, Proof

from .._gaussian import A, B, C, MATRIX, U, V, VARIABLES, mean, random_covariance
from .._line import relative
from .._rewriting import Rewriting

SIGNS = sp.sign(U) * sp.sign(V)
SLOPE = sp.Derivative(mean(SIGNS), C)


def closed() -> sp.Expr:
    return expectation(SIGNS, Gaussians.from_matrix(VARIABLES, MATRIX))


def _slope_of_closed(expression: sp.Expr) -> sp.Expr:
    """Both are 0 at c = 0, so that the forms agree."""
    slope = closed().diff(C)
    if sp.simplify(expression - slope) != 0 or closed().subs(C, 0) != 0:
        raise ValueError(f"{expression} is not the slope of {closed()}")
    return slope


INTEGRATED = Rewriting("the slope of an arcsine", "both sides are 0 at $c = 0$, where $u$ and $v$ are independent and "
                       "signs have mean 0", "calculus", _slope_of_closed)


def statement() -> Equations:
    return Equations((Equation(SLOPE, closed().diff(C)),))


def derive() -> Proof:
    derivation = Derivation()
    derivation.through((Price(), Linearity(), ConditionOnForm(), ConditionOnForm(), INTEGRATED), SLOPE, SLOPE)

    def numbers(rng: np.random.Generator) -> float:
        """The mean over v given u is an error function; the mean over u by adaptive quadrature."""
        covariance = random_covariance(rng)
        a, b, c = covariance[0, 0], covariance[1, 1], covariance[0, 1]
        slope = c / np.sqrt(2 * (a * b - c**2))  # of v's mean given u, in standard deviations
        half, _ = quad(lambda x: np.exp(-x**2 / 2) / np.sqrt(2 * np.pi) * erf(slope * x), 0, 12, epsabs=1e-14,
                       epsrel=1e-13)
        return relative(2 * half, float(closed().subs({A: a, B: b, C: c})))

    return Proof(derivation.steps, numbers, "the mean itself, by adaptive quadrature")


ENTRY = Entry(
    key="gaussian/sheppard",
    kind="theorem",
    title="the mean of two signs is an arcsine",
    source="W. F. Sheppard, On the application of the theory of error to cases of normal distribution and normal "
           "correlation (1899)",
    says="$E[\\mathrm{sign}(u)\\, \\mathrm{sign}(v)] = (2 / \\pi) \\arcsin(c / \\sqrt{a b})$: its slope in $c$ is that "
         "of Price's theorem, and at $c = 0$ it is 0.",
    statement=statement,
    assumptions=("the covariance is positive definite",),
    uses=("gaussian/price", "gaussian/conditioning"),
    derive=derive,
)
