"""How an expectation changes with the covariance."""

from __future__ import annotations

import numpy as np
import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.gaussian import Price
from tpcalc.ledger import Entry, Equation, Equations, Proof

from .._gaussian import (A, C, F, MATRIX, P, PARTS, READ, U, V, Integral, exact_mean, mean, of_density,
                         random_covariance, random_polynomial)
from .._line import relative

HEAT = "the Gaussian density solves the heat equation in its covariance"
CASES = ((C, (U, V), sp.Integer(1)), (A, (U, U), sp.Rational(1, 2)))


def statement() -> Equations:
    slopes = [sp.Derivative(mean(F), parameter) for parameter, _, _ in CASES]
    return Equations(tuple(Equation(slope, Price().apply(slope)) for slope in slopes))


def derive() -> Proof:
    derivation = Derivation()
    for parameter, (u, v), share in CASES:
        left = sp.Derivative(mean(F), parameter)
        value = Integral(P.diff(parameter) * F)  # F does not know the covariance
        derivation.through((of_density(P.diff(parameter), share * P.diff(u, v), HEAT), PARTS, READ), left, value)

    def numbers(rng: np.random.Generator) -> float:
        """The mean of a polynomial of degree 4 is quadratic in the covariance: central differences are exact."""
        covariance, polynomial = random_covariance(rng) + np.eye(2), random_polynomial(rng)
        worst = 0.0
        for parameter, (u, v), share in CASES:
            half = np.array(MATRIX.diff(parameter), dtype=float) / 2
            slope = exact_mean(polynomial, covariance + half) - exact_mean(polynomial, covariance - half)
            worst = max(worst, relative(slope, float(share) * exact_mean(polynomial.diff(u, v), covariance)))
        return worst

    return Proof(derivation.steps, numbers, "a random polynomial of two correlated variables, by differences and "
                 "quadrature that are exact for it")


ENTRY = Entry(
    key="gaussian/price",
    kind="theorem",
    title="Price's theorem",
    source="R. Price, A useful theorem for nonlinear devices having Gaussian inputs (1958)",
    says="The derivative of an expectation in the covariance $c$ of $u$ and $v$, and in the variance $a$ of $u$.",
    statement=statement,
    assumptions=("$F$ does not depend on the covariance, and it and its derivatives grow at most polynomially",
                 "the covariance is positive definite"),
    derive=derive,
)
