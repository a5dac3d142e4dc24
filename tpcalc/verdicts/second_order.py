"""What updates of a block's matrices do to the block together: how large products of two of them are."""

from __future__ import annotations

from functools import lru_cache
from typing import Mapping

import sympy as sp

from ..scaling import DepthScaling
from ..optimizers import SGD
from .counted import Judged, counted_program
from .layer_jet import SMOOTH, Jet, layer_jet


def pair_power(how: str, one: sp.Expr, other: sp.Expr) -> sp.Expr:
    """The power of L of what two updates do together, when one does L^one and the other L^other by themselves.

    A smooth function has the product. One that is straight but for a kink has the smaller change, where the larger one
    crosses the kink: with its root in mean square, which is what counts.
    """
    return one + other if how == SMOOTH else sp.Min(one, other) + sp.Max(one, other) / 2


@lru_cache(maxsize=64)
def block_jet(net: Judged) -> Jet:
    """The expansion of what a layer of a network adds to its streams; the program that says it is written once."""
    return layer_jet(counted_program(net, SGD(), DepthScaling()))


def second_order(jet: Jet, updates: Mapping[str, sp.Expr]) -> dict[str, tuple[sp.Expr, tuple[str, ...]]]:
    """For every matrix the power of L of the ratio of the second-order to the first-order part of its effect on the
    block, -oo where there is none, as where nothing moves it, and the matrices with whose updates it has it.

    jet: the block's; updates: powers of L of what updates do to what their matrix acts on. Source: Tensor Programs VI,
    appendix K [tensor_programs_vi/appendix_k].
    """
    found = {}
    for name in updates:
        ratios = {(set(pair) - {name} or {name}).pop(): pair_power(how, *(updates[w] for w in pair)) - updates[name]
                  for pair, how in jet.second.items() if name in pair and updates[name] != -sp.oo}
        most = max(ratios.values(), default=-sp.oo)
        found[name] = (most, tuple(sorted(w for w, ratio in ratios.items() if ratio == most)))
    return found
