"""How alike the gradients of neighboring blocks are, in numbers: derived, and measured in particles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp

from .. import _checks
from ..action.between_layers import derive_gradient_correlation
from ..interpreters import LoweredParticles
from ..propagators.laws.pair_laws import compiled_pair_function
from ..models import ResNet
from ..programs.blocks import vector


@dataclass(frozen=True)
class GradientCorrelation:
    """The correlation of one matrix's gradients in neighboring layers.

    expression: in the symbol ``C_aa``, the variance of the stream; value: at the variance given.

    >>> import tpcalc as tp
    >>> tp.theory.gradient_correlation(tp.ResNet("relu"))
    {'W': GradientCorrelation(expression=1/2, value=0.5)}
    """

    expression: sp.Expr
    value: float


def gradient_correlation(net: ResNet, variance: float = 1.0) -> dict[str, GradientCorrelation]:
    """The correlation of the gradients of neighboring blocks, by matrix, at infinite width and depth.

    For two layers l != l' next to each other, one input, and alpha = gamma = 1/2: <G^l, G^l'> / <G^l, G^l> of the
    gradients G^l of a matrix of the block. 1: neighbors learn the same; 0: their gradients are orthogonal.
    variance: <x|x> of the stream, where the block is.

    It is derived from the block's statements (``tpcalc.action.between_layers``), closed where a closed form is
    found, by quadrature elsewhere. Raises ``ValueError`` for a variance that is not positive, and with the reason
    for blocks and activations that it cannot read. Source: Tensor Programs VI, appendix J
    [tensor_programs_vi/appendix_j].

    >>> import tpcalc as tp
    >>> round(tp.theory.gradient_correlation(tp.ResNet("relu"))["W"].value, 4)
    0.5
    """
    if not isinstance(net, ResNet):
        raise ValueError(f"net: got {net!r}; expected a tp.ResNet")
    at = _checks.positive_number("variance", variance)
    derived = derive_gradient_correlation(net)
    values = compiled_pair_function(tuple(derived.values()))(at, at, at, 1.0, 1.0, 1.0)
    return {name: GradientCorrelation(expression, float(value))
            for (name, expression), value in zip(derived.items(), values)}


def measured_correlation(run: LoweredParticles, names: tuple[str, ...], depth: int, step: int) -> np.ndarray:
    """The correlation of outer products of vectors, such as the gradient dh (x) x, in layers l and l + 1, mean over l.

    run: of the training of a network of that depth, one input a step, which kept its vectors; names: of the factors;
    that of layer l has the index l, the stream x, on which the layer acts, l - 1. Shape (batches of the run,).
    """
    found = []
    for batch in run.batches:
        factors = [np.array([batch.vectors[vector(name)[step, l - (name == "x")]] for l in range(1, depth + 1)])
                   for name in names]
        own, shared = (np.prod([np.mean(v[:depth - k] * v[k:], axis=1) for v in factors], axis=0) for k in (0, 1))
        found.append(np.mean(shared / np.sqrt(own[1:] * own[:-1])))
    return np.array(found)
