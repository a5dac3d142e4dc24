"""How alike the gradients of neighbouring blocks are, derived from the statements a block writes.

The stream x and its gradient are continuous in layer time, so that two neighbouring layers see the same ones; what a
block makes with its matrices is fresh in every layer. Matrices of two layers have covariance 0 where a matrix has
rho_a rho_b with itself at two steps. So what the gradients of two layers share is theta at rho_ab = 0: overlaps of
functions of fresh products become products of means, and a gradient that has come back through a matrix of the block
shares nothing.
"""

from __future__ import annotations

import sympy as sp

from ..programs import ResNet
from ..programs.blocks import block_name
from .at_initialisation import AtInitialisation
from .block_kernels import C, P, Q, R, RP, RQ
from ..gaussian import Expectation, Gaussians, expectation
from ..gaussian.overlaps import H, Mean, Overlap, U

VARIANCE = P  # of the stream, in the expressions given


def derive_gradient_correlation(net: ResNet) -> dict[str, sp.Expr]:
    """By matrix, the correlation of its gradients in neighbouring layers, for one input in the limit of
    alpha = gamma = 1/2.

    Expressions in ``VARIANCE``, with ``Overlap`` and ``Mean`` where there is no closed form. They hold at every step
    for blocks whose first operation is a fresh random matrix, and wherever the stream cancels; elsewhere, for blocks
    that act on the stream first, at initialisation, where it is Gaussian.

    Raises ``ValueError`` as ``derive_block_kernels``, except for acting on the stream first. Source: Tensor Programs
    VI, appendix J [tensor_programs_vi/appendix_j], whose argument this is for phi'.
    """
    reading = AtInitialisation(block_name(net.block))
    tangents = reading.tangents(reading.read_block(net))
    here = {C: P, Q: P, RP: sp.Integer(1), RQ: sp.Integer(1)}
    found = {}
    for name, theta in tangents.items():
        shared, own = (_closed(_independent(theta.xreplace({**here, R: rho}))) for rho in (sp.S.Zero, sp.S.One))
        found[name] = sp.simplify(shared / own)
    return found


def _independent(e: sp.Expr) -> sp.Expr:
    """Overlaps of independent variables as products of means."""
    return e.replace(lambda o: isinstance(o, Overlap) and o.args[4] == 0,
                     lambda o: Mean(o.args[0], o.args[2], o.args[5]) * Mean(o.args[1], o.args[3], o.args[6]))


def _closed(e: sp.Expr) -> sp.Expr:
    """With closed forms for means of one variable, where there are any."""
    if not e.has(Overlap, Mean):
        return e
    args = [_closed(a) for a in e.args]
    if isinstance(e, Overlap) and args[4] == args[5] == args[6]:
        f, g, j, k, _, _, p = args
        return _mean(f.diff(H, j) * g.diff(H, k), p, e.func(*args))
    if isinstance(e, Mean):
        f, j, p = args
        return _mean(f.diff(H, j), p, e.func(*args))
    return e.func(*args)


def _mean(f: sp.Expr, variance: sp.Expr, otherwise: sp.Expr) -> sp.Expr:
    name = sp.Symbol("p", positive=True)
    form = expectation(f.xreplace({H: U}), Gaussians({(U, U): name}))
    return otherwise if form.has(Expectation) else form.xreplace({name: variance})
