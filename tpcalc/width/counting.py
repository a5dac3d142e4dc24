"""Powers of the width n in a perceptron's forward pass and tangent kernel, term by term.

A term is counted by what it is a product of: entries of W (n^-(1+p)/2 each), learning rates of weights (n^-(1+q) each)
and sums over neurons (n each) that are left when entries of W, which are centered and independent, are paired.
"""

from __future__ import annotations

import sympy as sp


def contraction(p: sp.Expr, q: sp.Expr, weights: int = 0, rates: int = 0, sums: int = 0) -> sp.Expr:
    """The power of n of a product of a layer's weights and rates, summed over neurons; p, q: the layer's exponents."""
    return sp.expand(sums - weights * (1 + p) / 2 - rates * (1 + q))


def preactivations(p: sp.Expr) -> sp.Expr:
    """The power of n of E[z^2] in a layer whose inputs are of order one: the bias, and the weights, by (3.2).

    The two weights of z_i z_i are paired, so that of two sums over neurons one is left [meta_principled/criticality].
    """
    return sp.Max(-p, contraction(p, sp.Integer(0), weights=2, sums=1))


def own_gradients(q: sp.Expr) -> sp.Expr:
    """The power of n that a layer's own parameters add to its tangent kernel: the first term of (3.7).

    Its inputs are of order one. The bias has one learning rate, n^-q; the weights have one rate and one sum over
    neurons [meta_principled/learning_rate_equivalence].
    """
    return sp.Max(-q, contraction(sp.Integer(0), q, rates=1, sums=1))


def passed_gradients(p: sp.Expr, kernel: sp.Expr) -> sp.Expr:
    """The power of n of the second term of (3.7): the tangent kernel of the layer below, seen through two weights.

    kernel: the power of the layer below, whose activations have derivatives of order one.
    """
    return contraction(p, sp.Integer(0), weights=2, sums=1) + kernel
