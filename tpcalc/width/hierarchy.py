"""The hierarchy of differentials of the tangent kernel in the meta-principled family, as powers of the width."""

from __future__ import annotations


import sympy as sp

from .._types import Number
from .differentials import differential_exponent
from .family import meta_principled


def ntk_exponent(order: int, s: Number, insert_output: bool = False) -> sp.Expr:
    """The power of the width in E[eta^k d^(k-1) H], k = order, of the meta-principled scaling s.

    Parameters
    ----------
    order:
        k = 1 is the tangent kernel H itself, k = 2 its first differential, and so on.
    s:
        the metaparameter, a number or a symbol; 0 is the neural-tangent scaling and 1 the maximal-update one. Numbers
        outside [0, 1] are counted too.
    insert_output:
        take the expectation with one more factor, the output z.

    Returns an exact expression in s, or -oo where the expectation vanishes. It is counted from the operators (A1),
    (A19) at initialization, for one hidden layer, smooth activations and n at fixed depth [meta_principled/hierarchy];
    the exponents for k = 2 and 3 hold at any depth [meta_principled/differentials_in_width].
    Raises ``ValueError`` for an order below 1 and for s that is not real.

    >>> s = sp.Symbol("s", real=True)
    >>> [ntk_exponent(k, s) for k in (1, 3, 5)]
    [0, s - 1, 2*s - 2]
    >>> ntk_exponent(2, s), ntk_exponent(2, s, insert_output=True)
    (-oo, -1)
    """
    return differential_exponent(order, meta_principled(s, layers=2), insert_output)
