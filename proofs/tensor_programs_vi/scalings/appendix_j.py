"""An even activation decorrelates the gradients of neighboring blocks."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus import Derivation
from tpcalc.gaussian import IndependentFactors, Parity
from tpcalc.gaussian.variables import Expectation
from tpcalc.interpreters import particles
from tpcalc.interpreters.training import Training as Job
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof
from tpcalc.studies.between_layers import measured_correlation

from ..._gaussian import A, B, U, V, VARIABLES, exact_mean, random_polynomial

F = sp.Function("F", real=True)
MATRIX = sp.ImmutableMatrix([[A, 0], [0, B]])  # of two layers: independent


def odd(f: sp.Expr, u: sp.Symbol) -> sp.Expr:
    """The derivative of an even function."""
    return f - f.subs(u, -u)


SLOPES = Expectation(odd(F(U), U) * odd(F(V), V), VARIABLES, MATRIX)
DEPTH, BATCHES = 32, 4


def derive() -> Proof:
    derivation = Derivation()
    derivation.through((IndependentFactors(), Parity()), SLOPES, SLOPES)

    def numbers(rng: np.random.Generator) -> float:
        polynomial = random_polynomial(rng, 5)
        covariance = np.diag(rng.uniform(0.2, 2, 2))
        f, g = (odd(polynomial.subs(v, 1), u) for u, v in ((U, V), (V, U)))
        return abs(exact_mean(f * g, covariance)) / np.sqrt(exact_mean(f**2, covariance) * exact_mean(g**2, covariance))

    return Proof(derivation.steps, numbers, "odd polynomials of independent variables, by exact quadrature")


def correlation(phi: str) -> MeasuredNumber:
    """Changes of h in layers l and l + 1 after an update are correlated in particles by this number, a mean over l."""
    task = tp.Task([1.0, 0.8], [1.0, -0.7])
    job = Job(tp.ResNet(phi), task, tp.SGD(1.0), tp.DepthScaling(sp.Rational(1, 2), sp.Rational(1, 2)), DEPTH)
    run = particles(job.program(), job.sizes(), job.data(), samples=1024, batches=BATCHES, keep=("dh",))
    found = measured_correlation(run, ("dh",), DEPTH, 1)
    error = float(np.std(found, ddof=1)) / BATCHES**0.5
    return MeasuredNumber(f"correlation of dh in neighboring layers, {phi}, depth {DEPTH}, with 1/L as part of the "
                          f"error",
                          float(np.mean(found)), error + 1 / DEPTH,
                          tp.theory.gradient_correlation(tp.ResNet(phi))["W"].value)


def evidence() -> Evidence:
    return Evidence((correlation("abs"), correlation("relu")))


ENTRY = Entry(
    key="tensor_programs_vi/appendix_j",
    kind="claim",
    title="even activations decorrelate gradients of neighboring blocks",
    source="Tensor Programs VI, appendix J.3",
    says="In the limit $\\delta h^l = \\phi'(h^l)\\, \\delta x^l$, with $\\delta x$ continuous in layer time and $h$ "
         "independent from layer to layer: gradients share the factor $E \\phi'(u) \\phi'(v)$, $u$ and $v$ "
         "independent, and $\\phi'$ is odd where $\\phi$ is even. That *features* are then as diverse as can be does "
         "not follow: updates meet $\\phi'$ once more in the forward pass, and add $E \\phi'(u_t) \\phi'(u_s)$ of the "
         "same direction in every layer.",
    statement=lambda: Equations((Equation(SLOPES, sp.Integer(0)),)),
    assumptions=("$\\alpha = \\gamma = 1/2$, width to infinity, then depth", "one matrix a block, $\\phi$ after it",
                 "$\\phi'$ is any odd function, here $F(u) - F(-u)$, of finite mean"),
    uses=("tensor_programs_vi/master_theorem",),
    derive=derive,
    evidence=evidence,
)
