"""Matrices that optimizers make of gradients entry by entry, as far as they are outer products again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy as sp

from ...programs.activations import H
from ...programs.language import NonlinearOuter, Outer
from .operators import Operator

if TYPE_CHECKING:
    from .reading import SizeReading


def entrywise_matrix(reading: "SizeReading", e: NonlinearOuter) -> Operator:
    """psi(u v^T)/n for a psi that is homogeneous: c |x|^k, perhaps times the sign of x, which goes through products.

    Raises ``ValueError`` for functions of several outer products, and for others of one.
    """
    outers = sorted(e.body.atoms(Outer), key=sp.default_sort_key)
    if len(outers) != 1:
        raise ValueError(f"{e}: no rule for a function of several outer products")
    entry = sp.Symbol("g", real=True, nonzero=True)
    body = sp.simplify(e.body.xreplace({outers[0]: entry}))
    scale = sp.Symbol("c", positive=True)
    if sp.simplify(body.subs(entry, scale * entry) - body) != 0 or sp.simplify(body + body.subs(entry, -entry)) != 0:
        raise ValueError(f"{e}: no rule for this function of an outer product; there is one for multiples of its sign")
    factor = sp.simplify(body.subs(entry, 1))
    u, v = (reading.functions.value(sp.sign(H), reading.total(side)) for side in outers[0].args)
    return Operator(outers=((reading.algebra.product(reading.total(factor), u), v),))
