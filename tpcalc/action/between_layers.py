"""How alike the gradients of neighboring blocks are, derived from the statements a block writes.

The stream x and its gradient are continuous in layer time, so that two neighboring layers see the same ones; what a
block makes with its matrices is fresh in every layer. Matrices of two layers have covariance 0 where a matrix has
rho_a rho_b with itself at two steps. So what the gradients of two layers share is theta at rho_ab = 0: overlaps of
functions of fresh products become products of means, and a gradient that has come back through a matrix of the block
shares nothing.
"""

from __future__ import annotations

import sympy as sp

from ..models import ResNet
from ..programs.blocks import block_name
from .at_initialization import AtInitialization
from .block_kernels import C, P, Q, R, RP, RQ
from ..gaussian import Expectation, IndependentFactors
from ..gaussian.expectations import closed
from ..gaussian.rules import U, V

VARIANCE = P  # of the stream, in the expressions given


def derive_gradient_correlation(net: ResNet) -> dict[str, sp.Expr]:
    """By matrix, the correlation of its gradients in neighboring layers, for one input in the limit of
    alpha = gamma = 1/2.

    Expressions in ``VARIANCE``, with an ``Expectation`` where there is no closed form. They hold at every step
    for blocks whose first operation is a fresh random matrix, and wherever the stream cancels; elsewhere, for blocks
    that act on the stream first, at initialization, where it is Gaussian.

    Raises ``ValueError`` as ``derive_block_kernels``, except for acting on the stream first. Source: Tensor Programs
    VI, appendix J [tensor_programs_vi/appendix_j], whose argument this is for phi'.
    """
    reading = AtInitialization(block_name(net.block))
    tangents = reading.tangents(reading.read_block(net))
    here = {C: P, Q: P, RP: sp.Integer(1), RQ: sp.Integer(1)}
    found = {}
    for name, theta in tangents.items():
        shared, own = (_closed(theta.xreplace({**here, R: rho})) for rho in (sp.S.Zero, sp.S.One))
        nodes = {node: sp.Dummy(real=True) for node in (shared / own).atoms(Expectation)}  # as they are
        found[name] = sp.simplify((shared / own).xreplace(nodes)).xreplace({v: k for k, v in nodes.items()})
    return found


def _closed(e: sp.Expr) -> sp.Expr:
    """With closed forms, where there are any; of independent variables there are means of one."""
    return closed(IndependentFactors().apply(e).replace(lambda node: isinstance(node, Expectation),
                                                        lambda node: node.renamed(U, V)))
