"""What training changes in hidden layers, and what a width scaling does to a perceptron, as powers of n."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Mapping, Sequence

import sympy as sp

from .._checks import instance
from .._shown import Short
from ..errors import NotCovered
from ..scaling import WidthScaling
from .counting import contraction, own_gradients, preactivations
from .principles import critical
from .sizes.verdict import FEATURES, KERNEL, TRIVIAL, UNSTABLE


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


VANISHING = "vanishing at the start"
OUTPUT, OWN, PASSED, HIDDEN = ("output", "the output, by its own weights", "the output, by hidden layers",
                               "hidden layers")
HALF = sp.Rational(1, 2)


@dataclass(frozen=True, repr=False)
class WidthRegime(Short):
    """What becomes of a perceptron at infinite width, from counted powers.

    name: "unstable", "trivial", "kernel regime", "feature learning", or "vanishing at the start" where a hidden layer
    does, in which case what training does was not counted. said: is it stable, nontrivial, feature learning? None
    where that was not counted or, of what is unstable, means nothing. exponents: the counted powers of n, by what they
    are of. where: the point of a plane, in words, empty without one.
    """

    grows: ClassVar[str] = "n"

    name: str
    said: Mapping[str, bool | None]
    exponents: Mapping[str, sp.Expr]
    where: str = ""


def counted_powers(scaling: WidthScaling) -> dict[str, sp.Expr]:
    """Powers of n of a perceptron's layers at the start, and of what a few steps change, by what they are of.

    The output changes by what its own weights learn, and by what the last hidden layer learns, seen through these
    weights as they start. Powers of changes suppose that hidden layers start at order one, and derivatives of the loss
    in the outputs are of order one. They are maxima of affine forms in the exponents of ``scaling``.
    Source: Tensor Programs IV, section 3, counted as (3.2) and (3.7) of the Meta-Principled Family.

    >>> from tpcalc.scaling import width_recipe
    >>> for what, power in counted_powers(width_recipe("NTP", 2)).items():
    ...     print(what, power)
    layer 1 0
    output 0
    the output, by its own weights 0
    the output, by hidden layers 0
    hidden layers -1/2
    """
    instance("scaling", scaling, WidthScaling)
    *hidden, p = scaling.p
    *rates, q = scaling.q
    features = feature_power(p, rates, q, scaling.r)
    return {**{f"layer {i}": HALF * preactivations(one) for i, one in enumerate(hidden, 1)},
            OUTPUT: HALF * preactivations(p), OWN: sp.expand(scaling.r + own_gradients(q)),
            PASSED: features + contraction(p, q, weights=1, sums=1), HIDDEN: features}


def width_regime(scaling: WidthScaling) -> WidthRegime:
    """Name what a width scaling does, from ``counted_powers``.

    Where hidden layers start at order one ``width_verdict`` reads a program for the same answer. Raises ``ValueError``
    for what is no tp.WidthScaling, and for symbols in the counted powers.

    >>> from tpcalc.scaling import width_recipe
    >>> [width_regime(width_recipe(name, 3)).name for name in ("SP", "NTP", "muP")]
    ['unstable', 'kernel regime', 'feature learning']
    """
    powers = counted_powers(scaling)
    if not all(power.is_number for power in powers.values()):
        raise NotCovered(f"scaling: got {scaling!r}; numbers are needed to tell what grows")
    starts = [power for what, power in powers.items() if what.startswith("layer")]
    start = next((power for power in starts if power != 0), sp.Integer(0))
    changes, features = max(powers[OWN], powers[PASSED]), powers[HIDDEN]
    if start < 0:
        return WidthRegime(VANISHING, _said(None, None, None), powers)
    if max(start, powers[OUTPUT], changes, features) > 0:
        return WidthRegime(UNSTABLE, _said(False, None, None), powers)
    learns = bool(features == 0)
    name = TRIVIAL if changes < 0 else FEATURES if learns else KERNEL
    return WidthRegime(name, _said(True, bool(changes == 0), learns), powers)


def _said(stable: bool | None, nontrivial: bool | None, learning: bool | None) -> dict[str, bool | None]:
    return {"stable": stable, "nontrivial": nontrivial, "feature_learning": learning}
