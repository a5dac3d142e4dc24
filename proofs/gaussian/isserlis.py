"""Moments of Gaussian variables."""

from __future__ import annotations

import numpy as np
import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.gaussian import Expectation, Moments, Stein
from tpcalc.ledger import Entry, Equation, Equations, Proof

from .._gaussian import exact_mean, random_covariance
from .._line import relative

VARIABLES = sp.symbols("u1:5", real=True)
MATRIX = sp.ImmutableMatrix(4, 4, lambda i, j: sp.Symbol(f"c{min(i, j) + 1}{max(i, j) + 1}", real=True))
FOURTH = Expectation(sp.Mul(*VARIABLES), VARIABLES, MATRIX)


def statement() -> Equations:
    return Equations((Equation(FOURTH, Moments().apply(FOURTH)),))


def derive() -> Proof:
    derivation = Derivation()
    value = derivation.through(map(Stein, VARIABLES[:3]), FOURTH, FOURTH)

    def numbers(rng: np.random.Generator) -> float:
        covariance = random_covariance(rng, 4)
        pairs = value.subs(dict(zip(MATRIX[:], covariance.ravel())))
        return relative(exact_mean(FOURTH.body, covariance, VARIABLES), float(pairs))

    return Proof(derivation.steps, numbers, "four correlated variables, by exact quadrature")


ENTRY = Entry(
    key="gaussian/isserlis",
    kind="theorem",
    title="moments are sums over pairings",
    source="L. Isserlis, On a formula for the product-moment coefficient of any order of a normal frequency "
           "distribution in any number of variables (1918)",
    says="The mean of a product of centered Gaussian variables is the sum, over all ways to pair them, of the products "
         "of the pairs' covariances; here for four. Every higher moment follows in the same way, two factors at a "
         "time.",
    statement=statement,
    uses=("gaussian/stein",),
    derive=derive,
)
