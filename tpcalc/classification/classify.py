"""``classify``: what a depth scaling (alpha, gamma) does."""

from __future__ import annotations

from typing import Any

from .._checks import exponent
from ..programs import ResNet
from .exponents import region_of
from .verdict import Verdict, judge


def classify(alpha: Any, gamma: Any, net: ResNet | None = None) -> Verdict:
    """The verdict on branch multipliers L^-alpha and updates L^-gamma, from the derived recursion's exponents.

    alpha, gamma: real numbers (0.1 means 1/10). net: default the linear residual network. Raises
    ``ValueError`` for anything that is not a real number. Source: paper B, section 5 and appendix H.
    """
    net = ResNet() if net is None else net
    if not isinstance(net, ResNet):
        raise ValueError(f"net: {net!r} given; allowed is a tp.ResNet or None")
    a, g = exponent("alpha", alpha), exponent("gamma", gamma)
    for name, value in (("alpha", a), ("gamma", g)):
        if not value.is_number:
            raise ValueError(f"{name}: {value} given; allowed is a real number")
    return judge(a, g, *region_of(net, a, g))
