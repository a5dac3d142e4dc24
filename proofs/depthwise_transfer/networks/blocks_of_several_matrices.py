"""Blocks of several matrices, and the gradients of what is within them: what later statements are about."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber

from .._fields import Slope
from ._block_network import L, MU0, N, STEPS, K as MATRICES, Network, letters_of_blocks
from ._network_numbers import residual
from ._network_rules import Phik, W, Acts, Dot, Turned, chik, depth, g, gk, h, hk, phi, phik, width, xik
from .fields_and_kernels import ell, f, mu0, s, t

k, last = sp.symbols("k K", integer=True)

FIRST_WITHIN = Equation(hk(t, ell, 1), Acts(W(t, ell, 0), phi(t, ell)) / sp.sqrt(width))
WITHIN = Equation(hk(t, ell, k + 1), Acts(W(t, ell, k), phik(t, ell, k)) / sp.sqrt(width))
AFTER = Equation(h(t, ell + 1), h(t, ell) + hk(t, ell, last) / sp.sqrt(depth))
GRADIENT = Equation(g(t, ell), width * mu0 * Slope(f(t), h(t, ell)))
GRADIENT_WITHIN = Equation(gk(t, ell, k), width * mu0 * sp.sqrt(depth) * Slope(f(t), hk(t, ell, k)))
KERNEL = Equation(Phik(t, s, ell, k), Dot(phik(t, ell, k), phik(s, ell, k)) / width)
AHEAD = Equation(chik(t, ell, k), Acts(W(0, ell, k), phik(t, ell, k)) / sp.sqrt(width))
BACK = Equation(xik(t, ell, k), Acts(Turned(W(t, ell, k)), gk(t, ell, k + 1)) / sp.sqrt(width))


def statement() -> Equations:
    return Equations((FIRST_WITHIN, WITHIN, AFTER, GRADIENT, GRADIENT_WITHIN, KERNEL, AHEAD, BACK))


@lru_cache(maxsize=None)
def network() -> Network:
    return Network(np.random.default_rng(2))


def evidence() -> Evidence:
    here = letters_of_blocks(network(), {t: STEPS - 1, s: 0, ell: 3, k: 1, mu0: MU0})  # no two are one number
    own = [network().by_difference(0, number, 3) - network().gradients[0][1][0, number, 3] for number in (1, 2)]
    where = f"a tanh network of width {N} with {L} blocks of {MATRICES} matrices"
    return Evidence((
        MeasuredNumber(f"gradients within a block by differences of outputs, less those of backward passes, {where}",
                       max(map(abs, own)), 1e-7, 0.0),
        *(MeasuredNumber(f"{one.target}, stated less that of {where}, slopes by complex steps", residual(one, here),
                         1e-12, 0.0) for one in statement().equations)))


ENTRY = Entry(
    key="depthwise_transfer/blocks_of_several_matrices",
    kind="definition",
    title="a network whose blocks have several matrices",
    source="Depthwise Hyperparameter Transfer, appendix K.2, (120) and (122)",
    says="A block has $K$ matrices, numbered from 0. Of block $\\ell$, $\\tilde h^{\\ell, k}$ are the fields within, "
         "$\\tilde h^{\\ell, 0} = h^\\ell$, and $\\tilde g^{\\ell, k}$ their gradients, of order one. $\\tilde\\chi$ "
         "is what an initial matrix makes of features, $\\tilde\\xi$ what the present one makes of gradients.",
    statement=statement,
    uses=("depthwise_transfer/parametrization",),
    evidence=evidence,
)
