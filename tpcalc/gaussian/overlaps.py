"""Expectations of functions of one or two jointly Gaussian variables, by their covariances."""

from __future__ import annotations

import sympy as sp

from ..models.activations import H as H
from .closed_forms import Moments
from .rules import Parity
from .scalar_functions import DerivativeAt
from .variables import Expectation

U, V = sp.symbols("u v", real=True)


def overlap(f: sp.Expr, g: sp.Expr, j: int, k: int, c: sp.Expr, p: sp.Expr, q: sp.Expr) -> sp.Expr:
    """E[f^(j)(u) g^(k)(v)] of Gaussian u, v without mean: an ``Expectation``, or its value for polynomials f and g.

    f, g: in the symbol ``H``; c: Cov(u, v); p, q: the variances. Its derivatives in what c, p and q depend on are such
    expectations again. Source: Price (1958) [gaussian/price].

    >>> c, p, q = sp.symbols("c p q", real=True)
    >>> overlap(sp.tanh(H), sp.tanh(H), 0, 0, c, p, q).diff(c)
    E[(d_u tanh(u))*(d_v tanh(v))]
    >>> overlap(H**2, H**2, 0, 0, c, p, q)
    2*c**2 + p*q
    """
    body = DerivativeAt(f, j, U) * DerivativeAt(g, k, V)
    return _of(body, (U, V), sp.Matrix([[p, c], [c, q]]))


def gaussian_mean(f: sp.Expr, j: int, p: sp.Expr) -> sp.Expr:
    """E[f^(j)(u)] of a Gaussian u without mean and of variance p: an ``Expectation``, or its value for polynomials f,
    and 0 where f^(j) is odd.

    >>> gaussian_mean(sp.cos(H), 0, sp.Symbol("p")), gaussian_mean(sp.cos(H), 1, sp.Symbol("p"))
    (E[cos(u)], 0)
    """
    return _of(DerivativeAt(f, j, U), (U,), sp.Matrix([[p]]))


def _of(body: sp.Expr, variables: tuple[sp.Symbol, ...], covariance: sp.Matrix) -> sp.Expr:
    """Polynomials are closed at once; numbers do not stay inside, and nothing is left of what is odd."""
    if all(f.is_polynomial(H) for f in (node.args[0] for node in body.atoms(DerivativeAt))):
        return Moments().apply(Expectation(body.doit(), variables, covariance))
    return Parity().apply(Expectation(body, variables, covariance))
