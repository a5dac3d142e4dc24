"""Symbols of the meta-principled family's statements."""

from __future__ import annotations

import math

import numpy as np
import sympy as sp

from tpcalc.scaling import WidthScaling

P, P_BELOW, Q, Q_BELOW, R = sp.symbols("p_{l+1} p_l q_{l+1} q_l r", real=True)
S, T = sp.symbols("s t", real=True)
LAYER, LAYERS = sp.symbols("l L", integer=True, positive=True)
WIDTHS = (3, 64, 64, 64, 1), (3, 128, 128, 128, 1)


def random_scaling(rng: np.random.Generator) -> WidthScaling:
    """A scaling of four layers with exponents in [-1, 1], of a denominator of 16."""
    one = [sp.Rational(int(k), 16) for k in rng.integers(-16, 17, 9)]
    return WidthScaling(one[:4], one[4:8], one[8])


def slope(values: tuple[float, float]) -> float:
    """The power of n between both networks of ``WIDTHS``."""
    return math.log2(values[1] / values[0])
