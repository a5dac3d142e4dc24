"""Gaussian integration by parts."""

from __future__ import annotations

import numpy as np
import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.gaussian import Stein
from tpcalc.ledger import Entry, Equation, Equations, Proof

from .._gaussian import (BY_DENSITY, F, MATRIX, P, PARTS, READ, U, V, exact_mean, mean, of_density, random_covariance,
                         random_polynomial)
from .._line import relative

LEFT = mean(U * F)


def statement() -> Equations:
    return Equations((Equation(LEFT, Stein(U).apply(LEFT)),))


def derive() -> Proof:
    derivation = Derivation()
    slopes = -sum((MATRIX[0, j] * P.diff(v) for j, v in enumerate((U, V))), sp.Integer(0))
    score = of_density(U * P, slopes, "the gradient of the logarithm of the density is -(inverse covariance) (u, v)")
    derivation.through((BY_DENSITY, score, PARTS, READ), LEFT, LEFT)

    def numbers(rng: np.random.Generator) -> float:
        covariance, polynomial = random_covariance(rng), random_polynomial(rng)
        right = sum(covariance[0, j] * exact_mean(polynomial.diff(v), covariance) for j, v in enumerate((U, V)))
        return relative(exact_mean(U * polynomial, covariance), right)

    return Proof(derivation.steps, numbers, "a random polynomial of two correlated variables, by exact quadrature")


ENTRY = Entry(
    key="gaussian/stein",
    kind="lemma",
    title="Stein's lemma",
    source="C. Stein, Estimation of the mean of a multivariate normal distribution (1981), lemma 2",
    says="For centered Gaussian $u$, $v$ with covariances $a$ of $u$, $c$ of $u$ and $v$: a factor $u$ becomes "
         "derivatives. More variables bring one such term each.",
    statement=statement,
    assumptions=("$F$ is differentiable, and it and its derivatives grow at most polynomially",
                 "the covariance is positive definite"),
    derive=derive,
)
