"""Text as a number, never as code; the shell reads it so before anything is imported that computes."""

from __future__ import annotations

import re
from fractions import Fraction

LONGEST = 400  # of a decimal power in text: 10 to it is beyond all floats

_POWER = re.compile(r"[eE]([-+]?[\d_]+)\s*$")


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
