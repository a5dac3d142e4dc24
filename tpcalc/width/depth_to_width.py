"""The size of the kernel's change in a network of width n and depth L: L / n^(1 - s), and what gives it a value."""

from __future__ import annotations

import math
from typing import Any

from .._types import Number
from .._checks import positive_number, real_number, short
from .hierarchy import ntk_exponent
from .principles import S


class DepthToWidthRatio(float):
    """A number found by ``depth_to_width_ratio``, with L / n beside it, which ``repr`` shows."""

    depth_to_width: float

    def __new__(cls, value: float, depth_to_width: float) -> "DepthToWidthRatio":
        made = super().__new__(cls, value)
        made.depth_to_width = depth_to_width
        return made

    def __getnewargs__(self) -> tuple[float, float]:  # type: ignore[override]
        return float(self), self.depth_to_width

    def __repr__(self) -> str:
        return f"{float(self)!r} (L / n = {self.depth_to_width:.6g})"


def depth_to_width_ratio(n: Number | None = None, L: Number | None = None, s: Number | None = None,
                         target: Number | None = None) -> DepthToWidthRatio:
    """The one of n, L, s and target that is None, so that target = L / n^(1 - s).

    Parameters
    ----------
    n, L:
        the width and the depth, positive.
    s:
        the metaparameter, a real number.
    target:
        the paper's gamma, (1.1): the size of what a step changes in the tangent kernel.

    Returns a float, not rounded to whole widths or depths, with L / n as its ``depth_to_width``: for s > 0 fluctuations
    over initializations, which are of that size, are smaller than what is learned. The power 1 - s is the one with
    which E[eta^3 d^2 H] falls in n, as ``ntk_exponent(3, s)`` counts it; the one power of L is that of the source,
    which takes it from The Principles of Deep Learning Theory for critical networks whose activations are not linear.

    Raises ``ValueError`` unless exactly one is None, for what is not positive, and where no number, or every one,
    solves the equation: n at s = 1, s at n = 1.

    >>> depth_to_width_ratio(n=1024, L=32, s=0.5)
    1.0 (L / n = 0.03125)
    >>> depth_to_width_ratio(n=1024, s=0, target=0.25)
    256.0 (L / n = 0.25)
    """
    given = {"n": n, "L": L, "s": s, "target": target}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) != 1:
        raise ValueError(f"n, L, s, target: got {', '.join(map(short, given.values()))}, {len(missing)} of them "
                         "None; expected exactly one, which is returned")
    read: dict[str, Any] = {name: value if value is None else real_number(name, value) if name == "s"
                            else positive_number(name, value) for name, value in given.items()}
    return DepthToWidthRatio(*_solved(missing[0], **read))


def _solved(unknown: str, n: Any, L: Any, s: Any, target: Any) -> tuple[float, float]:
    """log target = log L + power(s) log n, whose power is affine in s, solved for the unknown."""
    power = ntk_exponent(3, S)
    slope, constant = float(power.coeff(S)), float(power.subs(S, 0))
    falls: Any = None if s is None else constant + slope * s
    if unknown == "n" and falls == 0:
        raise ValueError(f"n: got None at s = {s}, where L / n^(1 - s) = L has no n in it; expected other s")
    if unknown == "s" and n == 1:
        raise ValueError("s: got None at n = 1, where L / n^(1 - s) = L has no s in it; expected widths above 1")
    try:
        if unknown == "n":
            n = value = math.exp(math.log(target / L) / falls)
        elif unknown == "s":
            value = (math.log(target / L) / math.log(n) - constant) / slope
        elif unknown == "L":
            L = value = target / n**falls
        else:
            value = L * n**falls
        ratio = L / n
    except (OverflowError, ZeroDivisionError):
        value = ratio = math.inf
    if not (math.isfinite(value) and math.isfinite(ratio) and (unknown == "s" or value > 0)):
        raise ValueError(f"{unknown}: what solves target = L / n^(1 - s) at "
                         + ", ".join(f"{k} = {v:g}" for k, v in (("n", n), ("L", L), ("s", s), ("target", target))
                                     if v is not None and k != unknown) + " is beyond what floats hold")
    return value, ratio
