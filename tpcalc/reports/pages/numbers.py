"""Numbers as people read them; None and NaN are a dash."""

from __future__ import annotations

import math
from typing import Any

DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


def missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def split_power(value: float, digits: int = 3, always: bool = False) -> tuple[str, int | None]:
    """``value`` with ``digits`` digits as mantissa and power of ten.

    No power of ten between 0.01 and 10000, unless ``always``.
    """
    if value == 0 or not math.isfinite(value):
        return ("0" if value == 0 else str(value)), None
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    if not always and -2 <= int(power) <= 3:
        return f"{value:.{max(0, digits - 1 - int(power))}f}", None
    return mantissa, int(power)


def math_number(value: float | None, digits: int = 3) -> str:
    """The number as a formula in marked-up text."""
    if value is None or missing(value):
        return DASH
    mantissa, power = split_power(value, digits)
    return f"${mantissa}$" if power is None else rf"${mantissa} \times 10^{{{power}}}$"


def with_uncertainty(value: float | None, uncertainty: float | None, digits: int = 3, name: str = "") -> str:
    """``name = value +- uncertainty`` as a formula, with enough places to show the uncertainty."""
    name = f"{name} = " if name else ""
    if value is None or missing(value):
        return f"${name}$ {DASH}" if name else DASH
    if uncertainty is None or not math.isfinite(uncertainty):
        return f"${name}{value:.{digits}f}$"
    locations = digits if uncertainty == 0 else max(digits, min(6, 1 - math.floor(math.log10(uncertainty))))
    return rf"${name}{value:.{locations}f} \pm {uncertainty:.{locations}f}$"
