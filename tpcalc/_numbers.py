"""Numbers as their users mean them: floats as simple fractions, text as fractions, never as code."""

from __future__ import annotations

import math
import re
from fractions import Fraction

NEAR = Fraction(1, 2**52)  # two floats in [0, 2) that differ by rounding alone are no farther apart
LONGEST = 400              # of a decimal power in text: 10 to it is beyond all floats

_POWER = re.compile(r"[eE]([-+]?[\d_]+)\s*$")


def least_denominator(value: Fraction, within: Fraction = NEAR) -> Fraction:
    """The fraction of least denominator in [value - within, value + within], the nearest one of several.

    It is found along the continued fraction, whose whole parts are what both ends of the interval share.

    >>> least_denominator(Fraction(2 / 3)), least_denominator(1 - Fraction(2 / 3))
    (Fraction(2, 3), Fraction(1, 3))
    """
    denominator = _simplest(value - within, value + within).denominator
    return Fraction(round(value * denominator), denominator)


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction of least denominator in [low, high], low < high."""
    whole = math.ceil(low)
    if whole <= high:
        return Fraction(whole)
    below = whole - 1
    return below + 1 / _simplest(1 / (high - below), 1 / (low - below))


def from_text(text: str) -> Fraction:
    """The number that a text spells as ``fractions.Fraction`` has it: "1/2", "0.1", "1e-3".

    Raises ``ValueError`` for any other text, and for decimal powers beyond all floats, which would take all memory.

    >>> from_text("0.1")
    Fraction(1, 10)
    """
    power = _POWER.search(text)
    if power and (len(power[1]) > 9 or abs(int(power[1])) > LONGEST):
        raise ValueError(f"{text[:40]!r} is beyond all floats")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError(f"{text!r} has the denominator 0") from None
