"""``classify``: what a depth scaling (alpha, gamma) does."""

from __future__ import annotations


from .._types import Number
from .._checks import exponent
from ..programs import ResNet
from ..programs.program import Program
from .exponents import region_of
from .verdict import Verdict, judge


def classify(alpha: Number, gamma: Number, net: ResNet | Program | None = None) -> Verdict:
    """The verdict on branch multipliers L^-alpha and updates L^-gamma, from the derived recursion's exponents.

    alpha, gamma: real numbers (0.1 means 1/10). net: default the linear residual network; a tp.ResNet is trained by
    plain SGD, a tp.Program by what it says, with its symbols alpha and gamma as the depth scaling.

    Raises ``ValueError`` for anything that is not a real number, and for a network that no rule covers, naming what and
    why. Source: paper B, section 5 and appendix H.

    >>> import tpcalc as tp
    >>> tp.classify(1, 0).name
    'ODE limit'
    """
    net = ResNet() if net is None else net
    if not isinstance(net, (ResNet, Program)):
        raise ValueError(f"net: {net!r} given; allowed is a tp.ResNet, a tp.Program or None")
    a, g = exponent("alpha", alpha), exponent("gamma", gamma)
    for name, value in (("alpha", a), ("gamma", g)):
        if not value.is_number:
            raise ValueError(f"{name}: {value} given; allowed is a real number")
    return judge(a, g, *region_of(net, a, g))
