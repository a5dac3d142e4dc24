"""The width scaling (p, q, r): initial variances, learning rates and the global rate as powers of the width."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np
import sympy as sp

from .._types import Number
from .._checks import exponent, positive_integer, positive_number, short
from ..errors import NotCovered


@dataclass(frozen=True)
class ParameterSizes:
    """What a width scaling asks for at given widths, one number a layer: standard deviations and learning rates.

    weight_std, bias_std: standard deviations of initial entries, for order-one constants C = 1. weight_rate, bias_rate:
    learning rates of gradient descent, global rate included, for order-one constants lambda = eta_0 = 1.
    """

    weight_std: tuple[float, ...]
    bias_std: tuple[float, ...]
    weight_rate: tuple[float, ...]
    bias_rate: tuple[float, ...]


@dataclass(frozen=True)
class WidthScaling:
    """A scaling strategy of a perceptron of L layers in its width n: exponents p_l, q_l of every layer, and r.

    Weights of layer l start with variance n^-p_l / n_(l-1) and biases with n^-p_l, where n_(l-1) is the layer's fan-in;
    their learning rates are n^-q_l / n_(l-1) and n^-q_l times the global rate n^r. The output is the L-th layer.

    Parameters
    ----------
    p, q:
        sequences of length L >= 2 of numbers or real sympy expressions, read as in tp.DepthScaling.
    r:
        one more of them. (q + g, r + g) is the same strategy for every g; ``==`` compares entry by entry, so compare
        ``canonical()`` where that must not matter.

    Raises ``ValueError`` for sequences of different lengths or fewer than two layers, and for exponents that are not
    real and finite.

    Source: Meta-Principled Family, (2.4), (2.6) to (2.8) [meta_principled/translation].

    >>> WidthScaling([0, 1], [0, 1], 1).abc()
    ((0, 1), (0, 0), -1)
    """

    p: Sequence[sp.Expr]
    q: Sequence[sp.Expr]
    r: sp.Expr

    def __post_init__(self) -> None:
        for name in ("p", "q"):
            object.__setattr__(self, name, _exponents(name, getattr(self, name)))
        object.__setattr__(self, "r", exponent("r", self.r))
        _same_length("p", self.p, "q", self.q)
        if len(self.p) < 2:
            raise ValueError(f"p: got {len(self.p)} layers; expected at least 2, for one layer alone has no "
                             "width to scale")

    @property
    def layers(self) -> int:
        """L, the number of layers that have weights, the output layer among them."""
        return len(self.p)

    def abc(self) -> tuple[tuple[sp.Expr, ...], tuple[sp.Expr, ...], sp.Expr]:
        """The abc-parametrization of Tensor Programs IV: weights n^-a_l w, w of variance n^-2 b_l, rate n^-c."""
        fan_in = (0,) + (1,) * (self.layers - 1)  # the input's dimension is not a power of n
        return (tuple((q + one) / 2 for q, one in zip(self.q, fan_in)),
                tuple((p - q) / 2 for p, q in zip(self.p, self.q)), -self.r)

    def bias_abc(self) -> tuple[tuple[sp.Expr, ...], tuple[sp.Expr, ...], sp.Expr]:
        """What ``abc`` is for biases, which have no fan-in: n^-a_l b, b of variance n^-2 b_l."""
        return tuple(q / 2 for q in self.q), tuple((p - q) / 2 for p, q in zip(self.p, self.q)), -self.r

    @classmethod
    def from_abc(cls, a: Sequence[Number], b: Sequence[Number], c: Number) -> "WidthScaling":
        """The strategy that an abc-parametrization is; a, b: of length L, where Tensor Programs IV counts L + 1 layers.

        >>> WidthScaling.from_abc([0, 1 / 2], [0, 0], 0)
        WidthScaling(p=(0, 0), q=(0, 0), r=0)
        """
        a, b = _exponents("a", a), _exponents("b", b)
        _same_length("a", a, "b", b)
        fan_in = (0,) + (1,) * (len(a) - 1)
        return cls([2 * x + 2 * y - one for x, y, one in zip(a, b, fan_in)],
                   [2 * x - one for x, one in zip(a, fan_in)], -exponent("c", c))

    def shifted(self, g: Number) -> "WidthScaling":
        """A strategy is itself in another gauge: q + g, r + g."""
        shift = exponent("g", g)
        return WidthScaling(self.p, [sp.expand(q + shift) for q in self.q], sp.expand(self.r + shift))

    def canonical(self) -> "WidthScaling":
        """The strategy is written in the gauge in which q_1 = 0."""
        return self.shifted(-self.q[0])

    def sizes(self, widths: Sequence[int], base_width: float = 1) -> ParameterSizes:
        """The standard deviation and the learning rate of every parameter of a network with these widths.

        Parameters
        ----------
        widths:
            n_0 (inputs), n_1, ..., n_L (outputs). Every layer divides by its own fan-in n_(l-1); the n of n^-p_l,
            n^-q_l and n^r is the last hidden width.
        base_width:
            the last hidden width at which those three powers are 1.

        Raises ``ValueError`` for another number of widths, widths that are no whole numbers of at least 1, exponents
        with symbols in them, and sizes that no float holds.

        >>> WidthScaling([0, 1], [0, 1], 1).sizes([3, 4, 1]).weight_std[1]
        0.25
        """
        if not isinstance(widths, (list, tuple, range, np.ndarray)) or len(np.shape(widths)) != 1:
            raise ValueError(f"widths: got {short(widths)}; expected {self.layers + 1} whole numbers")
        found = [positive_integer("widths", width) for width in widths]
        if len(found) != self.layers + 1:
            raise ValueError(f"widths: got {short(widths)}; expected {self.layers + 1}, from the inputs to the "
                             f"outputs of {self.layers} layers")
        width = float(found[-2] or 1) / positive_number("base_width", base_width)
        variance = [_power(width, -p, "p") for p in self.p]
        rate = [_power(width, self.r - q, "q") for q in self.q]
        fan_in = [float(n or 1) for n in found[:-1]]
        return ParameterSizes(tuple(math.sqrt(v / n) for v, n in zip(variance, fan_in)),
                              tuple(map(math.sqrt, variance)), tuple(v / n for v, n in zip(rate, fan_in)), tuple(rate))


def _exponents(name: str, values: Any) -> tuple[sp.Expr, ...]:
    if not isinstance(values, (list, tuple, range, sp.Tuple)) and not (isinstance(values, np.ndarray)
                                                                       and values.ndim == 1):
        raise ValueError(f"{name}: got {short(values)}; expected a sequence of exponents, one a layer")
    return tuple(exponent(f"{name}[{i}]", value) for i, value in enumerate(values))


def _same_length(one: str, ours: Sequence[Number], other: str, theirs: Sequence[Number]) -> None:
    if len(ours) != len(theirs):
        raise ValueError(f"{one}, {other}: got {short(list(ours))} and {short(list(theirs))}, {len(ours)} and "
                         f"{len(theirs)} exponents; expected as many in both")


def _power(width: float, power: sp.Expr, name: str) -> float:
    if not power.is_number:
        raise ValueError(f"{name}: got the exponent {short(power)}; expected a number")
    logarithm = float(power) * math.log(width)
    if not abs(logarithm) < -math.log(sys.float_info.min):
        raise ValueError(f"{name}: got the exponent {short(power)} at n = {width:g}; expected one with which "
                         f"n^{short(power)} is what floats hold")
    return float(width ** float(power))


def gradient_power(scaling: WidthScaling, role: str) -> sp.Expr:
    """g, where derivatives in the entries of an effective matrix go like n^-g, losses' derivatives of order one:
    entries of what it acts on times those of the readout, but for the readout itself.

    >>> from tpcalc.scaling import width_recipe
    >>> gradient_power(width_recipe("muP", 3), "hidden"), gradient_power(width_recipe("NTP", 3), "input")
    (1, 1/2)
    """
    if any(scaling.p[:-1]):
        raise NotCovered(f"scaling: got {scaling!r}; expected critical ones, with p = 0 but for the last")
    return sp.Integer(0) if role == "output" else sp.expand((1 + scaling.p[-1]) / 2)
