"""Gradients, kernels and products with initial matrices: what later statements are about."""

from __future__ import annotations

import sympy as sp

from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber

from .._fields import Slope, fields
from ._finite_network import L, N, STEPS, train
from ._network_numbers import letters_of_network, residual
from ._network_rules import G, Kx, Phi, W, Acts, Dot, Turned, chi, g, h, inputs, phi, r, width, x

t, s, ell = sp.symbols("t s ell", integer=True)
mu0 = sp.Symbol("mu_0")
f, = fields("f")

GRADIENT = Equation(g(t, ell), width * mu0 * Slope(f(t), h(t, ell)))
FEATURE_KERNEL = Equation(Phi(t, s, ell), Dot(phi(t, ell), phi(s, ell)) / width)
GRADIENT_KERNEL = Equation(G(t, s, ell), Dot(g(t, ell), g(s, ell)) / width)
INPUT_KERNEL = Equation(Kx(t, s, 0), Dot(x(t), x(s)) / inputs)
AHEAD = Equation(chi(t, ell + 1), Acts(W(0, ell), phi(t, ell)) / sp.sqrt(width))
BACK = Equation(r(t, ell), Acts(Turned(W(0, ell)), g(t, ell + 1)) / sp.sqrt(width))


def statement() -> Equations:
    return Equations((GRADIENT, FEATURE_KERNEL, GRADIENT_KERNEL, INPUT_KERNEL, AHEAD, BACK))


def evidence() -> Evidence:
    net = train(inputs=1)
    here = letters_of_network(net, {t: STEPS - 1, s: 1, ell: 3, mu0: net.mu0})
    return Evidence(tuple(MeasuredNumber(
        f"{one.target}, stated less that of a tanh network of width {N} and depth {L}, slopes by complex steps",
        residual(one, here), 1e-12, 0.0) for one in statement().equations))


ENTRY = Entry(
    key="depthwise_transfer/fields_and_kernels",
    kind="definition",
    title="gradients, kernels and products with initial matrices",
    source="Depthwise Hyperparameter Transfer, (4), (15), (16), (22), (25) and (128)",
    says="Of a network of width $N$ and the output multiplier $\\mu_0$: gradients $g$ are of order one, kernels are "
         "overlaps of features, of gradients and of inputs of two steps, $\\chi$ and $r$ are what the initial matrix "
         "of a block makes of features, and its transpose of gradients (the paper's $\\xi$).",
    statement=statement,
    uses=("depthwise_transfer/parametrization",),
    evidence=evidence,
)
