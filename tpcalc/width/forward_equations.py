"""Tangent kernels and their first differentials of one real perceptron, layer by layer from the inputs on.

A layer adds its own parameters to what is known of the layer below, by the chain rule: (3.7), (4.2), (4.5), (4.8) of
Meta-Principled Family [meta_principled/forward_equations]. All outputs and inputs keep their indices; it is the second
way to what ``jets`` finds at equal ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from .._checks import finite_array
from .._types import Activation
from ..scaling.width import ParameterSizes
from .jets import smooth_derivatives


@dataclass(frozen=True)
class Differentials:
    """H and its differentials at one layer; indices of inputs d, e, ... first, then of neurons i, j, ...

    z: (D, n), preactivations. H: (D, D, n, n), the tangent kernel. dH: (D, D, D, n, n, n). ddH_I, ddH_II: (D,) * 4 +
    (n,) * 4. The first index is that of the function with the most derivatives, as in (2.12), (2.13), (2.15). Learning
    rates are those of the sizes, so that eta is within.
    """

    z: np.ndarray
    H: np.ndarray
    dH: np.ndarray
    ddH_I: np.ndarray
    ddH_II: np.ndarray


def forward_equations(weights: Sequence[Any], biases: Sequence[Any], sizes: ParameterSizes, inputs: Any,
                      phi: Activation = "tanh") -> Differentials:
    """Find the tangent kernel and its differentials at the output of one perceptron, from below.

    Parameters
    ----------
    weights, biases:
        arrays (n_l, n_(l-1)) and (n_l,), one of each a layer.
    sizes:
        learning rates, as ``tp.WidthScaling.sizes`` gives them; its standard deviations are not used.
    inputs:
        (D, n_0).
    phi:
        a smooth activation, as in tp.ResNet.

    Memory grows like (D n)^4. Raises ``ValueError`` for shapes that do not fit and activations with kinks.

    >>> import tpcalc as tp
    >>> sizes = tp.meta_principled(0, layers=2).sizes((1, 2, 1))
    >>> found = forward_equations([[[1], [-1]], [[1, 1]]], [[0, 0], [0]], sizes, [[0.5]])
    >>> found.H.shape, round(float(found.H.item()), 6)
    ((1, 1, 1, 1), 2.759802)
    """
    x = finite_array("inputs", inputs)
    pairs = [(finite_array("weights", w), finite_array("biases", b)) for w, b in zip(weights, biases)]
    chain = [x.shape[-1:], *(b.shape for _, b in pairs)]
    if x.ndim != 2 or len({len(weights), len(biases), len(sizes.weight_rate)}) > 1 or any(
            b.ndim != 1 or w.shape != (*b.shape, *below) for (w, b), below in zip(pairs, chain)):
        raise ValueError(f"weights, biases: got shapes {[w.shape for w, _ in pairs]} and {[b.shape for _, b in pairs]}"
                         f" with inputs {x.shape}; expected (n_l, n_(l-1)) and (n_l,) for "
                         f"{len(sizes.weight_rate)} layers, and (D, n_0)")
    derivatives = smooth_derivatives(phi, 3)
    (W, b), *others = pairs
    count, n = len(x), len(b)
    found = Differentials(x @ W.T + b, np.einsum("de,ij->deij", sizes.bias_rate[0] + sizes.weight_rate[0] * x @ x.T,
                                                 np.eye(n)),
                          np.zeros((count,) * 3 + (n,) * 3), *(np.zeros((count,) * 4 + (n,) * 4) for _ in range(2)))
    for (W, b), rate, bias_rate in zip(others, sizes.weight_rate[1:], sizes.bias_rate[1:]):
        found = _next(found, W, b, rate, bias_rate, [each(found.z) for each in derivatives])
    return found


def _next(below: Differentials, W: np.ndarray, b: np.ndarray, rate: float, bias_rate: float, phi: list[np.ndarray]
          ) -> Differentials:
    """One layer; phi: the activation and its derivatives at the preactivations below, (D, n) each.

    first, second, third: derivatives of phi(z_j) of input d along what trains outputs b, c, h at inputs e, f, g.
    """
    one, D = np.eye(len(W)), np.einsum("aj,dj->daj", W, phi[1])

    def sums(subscripts: str, *parts: np.ndarray) -> np.ndarray:
        return np.einsum(subscripts, *parts, optimize=True)

    A = sums("dejm,ebm->dejb", below.H, D)
    B = sums("defjmk,ebm,fck->defjbc", below.dH, D, D)
    C = sums("defgjmkl,ebm,fck,ghl->defgjbch", below.ddH_I, D, D, D)
    first = sums("dj,dejb->dejb", phi[1], A)
    second = sums("dj,defjbc->defjbc", phi[1], B) + sums("dj,dejb,dfjc->defjbc", phi[2], A, A)
    third = sums("dj,defgjbch->defgjbch", phi[1], C) + sums("dj,dejb,dfjc,dgjh->defgjbch", phi[3], A, A, A)
    for pair in ("dejb,dfgjch", "dfjc,degjbh", "dgjh,defjbc"):
        third += sums(f"dj,{pair}->defgjbch", phi[2], A, B)

    H = sums("ab,de->deab", one, bias_rate + rate * phi[0] @ phi[0].T) + sums("aj,dejb->deab", W, first)
    dH = sums("aj,defjbc->defabc", W, second)
    ddH = sums("aj,defgjbch->defgabch", W, third)
    for pair, single in (("ab", "ej,dfjc"), ("ac", "fj,dejb")):
        dH += rate * sums(f"{pair},{single}->defabc", one, phi[0], first)
    for pair, single in (("ab", "ej,dfgjch"), ("ac", "fj,degjbh"), ("ah", "gj,defjbc")):
        ddH += rate * sums(f"{pair},{single}->defgabch", one, phi[0], second)
    return Differentials(phi[0] @ W.T + b, H, dH, ddH, _type_two(below, W, D, A, rate, first, phi, sums))


def _type_two(below: Differentials, W: np.ndarray, D: np.ndarray, A: np.ndarray, rate: float, first: np.ndarray,
              phi: list[np.ndarray], sums: Any) -> np.ndarray:
    """Two gradients, of output a along c and of output b along h, in one product.

    moved: the derivative of W_aj phi'(z_j) along what trains output c; turned: H below, its first index moved.
    """
    one = np.eye(len(W))
    moved = rate * sums("ac,fj,dj->dfacj", one, phi[0], phi[1]) + sums("aj,dj,dfjc->dfacj", W, phi[2], A)
    turned = sums("defjkm,fcm->defjkc", below.dH, D)
    both = sums("defgjkml,fcm,ghl->defgjkch", below.ddH_II, D, D)
    return (rate * sums("ab,dfjc,egjh->defgabch", one, first, first)
            + sums("dfacj,egbhk,dejk->defgabch", moved, moved, below.H)
            + sums("dfacj,ebk,edgkjh->defgabch", moved, D, turned)
            + sums("daj,egbhk,defjkc->defgabch", D, moved, turned)
            + sums("daj,ebk,defgjkch->defgabch", D, D, both))
