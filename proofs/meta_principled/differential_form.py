"""The form of all differentials of the tangent kernel of one hidden layer, by induction."""

from __future__ import annotations

import numpy as np
import sympy as sp

from tpcalc.ledger import Entry, Equation, Equations, Proof
from tpcalc.ledger.proof import Identity
from tpcalc.width.differentials import OUTPUT, DifferentialTerm, terms

K, U = sp.symbols("k u", integer=True, nonnegative=True)
START, START_KERNELS = sp.symbols("I_0 J_0")
HIDDEN, HIDDEN_KERNELS, WEIGHTS, WEIGHTS_KERNELS = sp.symbols("I_{k+1} J_{k+1} I'_{k+1} J'_{k+1}")


def invariant(term: DifferentialTerm) -> sp.Expr:
    return 2 * term.rates + term.weights


def balance(term: DifferentialTerm) -> sp.Expr:
    return term.rates + term.kernels


def general() -> DifferentialTerm:
    """A term after k operators, as the induction supposes it: 2 u + v = k + 1 and u + w = k."""
    return DifferentialTerm(U, K + 1 - 2 * U, K - U)


def statement() -> Equations:
    return Equations((
        Equation(START, sp.Integer(1), r"I = 2 u + v, \text{ of the output}"),
        Equation(START_KERNELS, sp.Integer(0), "J = u + w"),
        Equation(HIDDEN, K + 2, r"\text{by the first part of (A19)}"), Equation(HIDDEN_KERNELS, K + 1),
        Equation(WEIGHTS, K + 2, r"\text{by the second part}"), Equation(WEIGHTS_KERNELS, K + 1)))


def derive() -> Proof:
    hidden, weights = general().through_hidden(), general().through_weights()
    steps = (Identity(1, START, sp.Integer(invariant(OUTPUT)), sp.Integer(1)),
             Identity(2, START_KERNELS, sp.Integer(balance(OUTPUT)), sp.Integer(0)),
             Identity(3, HIDDEN, invariant(hidden), K + 2), Identity(4, HIDDEN_KERNELS, balance(hidden), K + 1),
             Identity(5, WEIGHTS, invariant(weights), K + 2), Identity(6, WEIGHTS_KERNELS, balance(weights), K + 1))

    def numbers(rng: np.random.Generator) -> float:
        """The monomials of a drawn number of derivatives of W phi(z), taken by sympy."""
        order = int(rng.integers(1, 8))
        return float(differentiated(order) != {(t.rates, t.weights, t.kernels) for t in terms(order)})

    return Proof(steps, numbers, "monomials of up to seven derivatives")


def differentiated(order: int) -> set[tuple[int, ...]]:
    """Powers (u, v, w) of rate, W and H in the operator (A19), applied to W phi(z) of one neuron by differentiation."""
    rate, weight, kernel = sp.symbols("c W H")
    phi = sp.symbols(f"phi_0:{order + 1}")  # derivatives of phi at z

    def in_z(polynomial: sp.Expr) -> sp.Expr:
        return sum((sp.diff(polynomial, phi[i]) * phi[i + 1] for i in range(order)), sp.Integer(0))

    found = weight * phi[0]
    for _ in range(order):
        found = sp.expand(weight * phi[1] * kernel * in_z(found) + rate * phi[0] * sp.diff(found, weight))
    return {tuple(map(int, powers)) for powers in sp.Poly(found, rate, weight, kernel).monoms()}


ENTRY = Entry(
    key="meta_principled/differential_form",
    kind="lemma",
    title="the form of all differentials",
    source="Meta-Principled Family, (A18), (A19)",
    says="After $k$ operators every term is $c^u \\sum_j W_j^v H^w F(z_j)$ with $2u + v = k + 1$ and $u + w = k$. "
         "Here $c$ is the learning rate of a weight of the last layer and $H$ the tangent kernel of the hidden one.",
    statement=statement,
    assumptions=("one hidden layer", "smooth activations"),
    derive=derive,
)
