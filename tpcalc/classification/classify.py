"""``classify``: what a depth scaling (alpha, gamma) does."""

from __future__ import annotations

from typing import Any


from .._checks import exponent, short
from ..parametrizations import DepthScaling
from ..programs import ResNet
from ..programs.program import Program
from .exponents import region_of
from .verdict import Verdict, judge


def classify(alpha: Any, gamma: Any = None, net: ResNet | Program | None = None) -> Verdict:
    """The verdict on branch multipliers L^-alpha and updates L^-gamma, from the derived recursion's exponents.

    alpha, gamma: real numbers (0.1 means 1/10), or a ``tp.DepthScaling`` in the place of both. net:
    default the linear residual network; a tp.ResNet is trained by plain SGD, a tp.Program by what it says, with its
    symbols alpha and gamma as the depth scaling.

    Raises ``ValueError`` for anything that is not a real number, and for a network that no rule covers, naming what and
    why. Source: Tensor Programs VI, section 5 and appendix H.

    >>> import tpcalc as tp
    >>> tp.classify(1, 0).name
    'ODE limit'
    >>> tp.classify(tp.DepthScaling(1, 0)).name
    'ODE limit'
    """
    if isinstance(alpha, DepthScaling):
        if gamma is not None:
            raise ValueError(f"alpha, gamma: {short(alpha)}, {short(gamma)} given; a tp.DepthScaling has both, allowed "
                             "is nothing beside it")
        alpha, gamma = alpha.alpha, alpha.gamma
    net = ResNet() if net is None else net
    if not isinstance(net, (ResNet, Program)):
        raise ValueError(f"net: {short(net)} given; allowed is a tp.ResNet, a tp.Program or None")
    a, g = exponent("alpha", alpha), exponent("gamma", gamma)
    for name, value in (("alpha", a), ("gamma", g)):
        if not value.is_number:
            raise ValueError(f"{name}: {value} given; allowed is a real number")
    return judge(a, g, *region_of(net, a, g))
