"""What training changes in hidden layers, as a power of the width."""

from __future__ import annotations

from typing import Sequence

import sympy as sp

from ..errors import NotCovered
from ..scaling import WidthScaling
from .counting import contraction, own_gradients
from .principles import critical


def feature_exponent(scaling: WidthScaling) -> sp.Expr:
    """The power of n by which a few steps of gradient descent change the last hidden layer's preactivations.

    It is 0 where features are learned at infinite width and fixed depth, and negative in the kernel regime. Derivatives
    of the loss in the outputs are of order one. Raises ``ValueError`` for scalings whose hidden layers do not start at
    order one. Source: Tensor Programs IV, as translated in the meta-principled paper, footnote 15, corrected
    [meta_principled/feature_learning].

    >>> from tpcalc.scaling import width_recipe
    >>> feature_exponent(width_recipe("NTP", 3)), feature_exponent(width_recipe("muP", 3))
    (-1/2, 0)
    """
    for layer, p in enumerate(scaling.p[:-1], 1):
        if critical(p, layer).holds({}) is not True:
            raise NotCovered(f"scaling: got p_{layer} = {p}; expected 0 in hidden layers, for else preactivations "
                             "are not of order one")
    return feature_power(scaling.p[-1], scaling.q[:-1], scaling.q[-1], scaling.r)


def feature_power(p: sp.Expr, hidden: Sequence[sp.Expr], q: sp.Expr, r: sp.Expr) -> sp.Expr:
    """The power of n that ``feature_exponent`` is made of; p, q: of the last layer, hidden: the q of hidden layers.

    A hidden layer moves by its rate and own kernel times the gradient in its preactivations, which is an entry of the
    last layer's weights: as it starts, or as steps move it, whichever is larger.
    """
    entry = sp.Max(contraction(p, q, weights=1), r + contraction(p, q, rates=1))
    return sp.Max(*(r + own_gradients(one) for one in hidden)) + entry
