"""Differentials of the tangent kernel in powers of the width: terms, the operators that make them, and their sizes.

The operator (A1), the derivative along the gradient of the output, makes d^(k-1) H from the output by k applications
[meta_principled/generated_differentials]. In a network of one hidden layer every term is a sum over one neuron j (A18):
neighbors never mix, because the tangent kernel of the first layer is diagonal in the neurons and an entry of W belongs
to one neuron [meta_principled/type_one_differentials].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from .._types import Count
from .._checks import flag, whole_number
from ..errors import NotCovered
from ..scaling import WidthScaling
from .counting import contraction


@dataclass(frozen=True)
class DifferentialTerm:
    """rate^u sum_j W_j^v H^w F(z_j): learning rates and weights of the last layer, tangent kernels of the hidden one.

    F is of order one. The form is (A18) [meta_principled/differential_form]. The numbers may be symbols.
    """

    rates: Count
    weights: Count
    kernels: Count

    def through_hidden(self) -> "DifferentialTerm":
        """The first part of (A19): a derivative in z_j, which brings one more W_j and one more kernel."""
        return DifferentialTerm(self.rates, self.weights + 1, self.kernels + 1)

    def through_weights(self) -> "DifferentialTerm":
        """The second part of (A19): a derivative in W_j, which takes one W_j away and brings a learning rate."""
        return DifferentialTerm(self.rates + 1, self.weights - 1, self.kernels)

    def power(self, scaling: WidthScaling, hidden: sp.Expr, inserted: int = 0) -> sp.Expr:
        """The power of n of the expectation, without global learning rates; the pairing of weights must be possible.

        hidden: the power of the hidden layer's tangent kernel. inserted: 1 where the term is multiplied by the output,
        whose one weight must then be the one of neuron j, so that its sum disappears.
        """
        return sp.expand(contraction(scaling.p[-1], scaling.q[-1], self.weights + inserted, self.rates, 1)
                         + hidden * self.kernels)


OUTPUT = DifferentialTerm(0, 1, 0)  # f = sum_j W_j phi(z_j)


@lru_cache(maxsize=None)
def terms(order: int) -> frozenset[DifferentialTerm]:
    """The terms of d^(order - 1) H, of all types: what ``order`` applications of (A19) make of the output.

    >>> sorted((t.rates, t.weights, t.kernels) for t in terms(1))
    [(0, 2, 1), (1, 0, 0)]
    """
    if order == 0:
        return frozenset({OUTPUT})
    found = set()
    for term in terms(order - 1):
        found.add(term.through_hidden())
        if term.weights:
            found.add(term.through_weights())
    return frozenset(found)


def term_powers(order: int, scaling: WidthScaling, hidden: sp.Expr, insert_output: bool = False) -> set[sp.Expr]:
    """The powers of n of the terms of E[eta^k d^(k-1) H], k = order, whose expectation does not vanish.

    A product of an odd number of weights, which are centered, has expectation 0; the output, where it is inserted,
    brings one more.
    """
    inserted = int(insert_output)
    return {sp.expand(order * scaling.r + term.power(scaling, hidden, inserted)) for term in terms(order)
            if (term.weights + inserted) % 2 == 0}


def differential_exponent(order: int, scaling: WidthScaling, insert_output: bool = False) -> sp.Expr:
    """The power of n of E[eta^k d^(k-1) H], k = order, for any width scaling of a network of one hidden layer.

    The exponents p, q, r need not be meta-principled. The result is -oo where the expectation vanishes. Raises
    ``ValueError`` for more layers than two, for a first layer whose preactivations are not of order one, and for an
    order below 1.

    >>> import tpcalc as tp
    >>> tp.width.differential_exponent(1, tp.meta_principled(0, 2))
    0
    """
    count = whole_number("order", order, 1)
    if scaling.layers != 2:
        raise NotCovered(f"scaling: got {scaling.layers} layers; expected 2, the network of one hidden layer in "
                         "which (A19) was counted")
    if sp.expand(scaling.p[0]) != 0:
        raise NotCovered(f"scaling: got p_1 = {scaling.p[0]}; expected 0, for else preactivations are not of order "
                         "one and activations have derivatives of unknown size")
    powers = term_powers(count, scaling, -scaling.q[0], flag("insert_output", insert_output))
    return sp.Max(*powers) if powers else -sp.oo
