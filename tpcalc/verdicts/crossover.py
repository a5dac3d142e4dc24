"""From which depth on a statement on powers of L holds: where eps passes a gradient, from sizes of both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Iterable, Iterator

import sympy as sp

from .. import _checks
from ..scaling.parametrization import as_power
from .advice import BEST

SIZES = ("depth", "width", "eps", "gradient")
MOST_DIGITS = 4
ALLOWED = "expected None, or a dictionary of positive numbers by " + ", ".join(map(repr, SIZES))


def checked_sizes(sizes: object) -> dict[str, float]:
    """Sizes of one network as numbers, none where None is given; ``ValueError`` for other names and bad values."""
    if sizes is None:
        return {}
    if not isinstance(sizes, Mapping):
        raise ValueError(f"sizes: got {_checks.short(sizes)}; {ALLOWED}")
    for name in sizes:
        if name not in SIZES:
            raise ValueError(f"sizes: got {_checks.short(name)}; {ALLOWED}")
    whole = {name: _checks.positive_integer(f"sizes[{name!r}]", sizes[name]) for name in SIZES[:2] if name in sizes}
    real = {name: _checks.positive_number(f"sizes[{name!r}]", sizes[name]) for name in SIZES[2:] if name in sizes}
    return {name: float(value) for name, value in {**whole, **real}.items() if value is not None}


def crossover(sizes: Mapping[str, float], gradient: sp.Expr, eps: sp.Expr) -> float | None:
    """The depth at which eps is as large as the gradient, or None where a size is missing, or eps never outgrows it.

    sizes: of one network; gradient, eps: the powers of L that both go like. An infinity where it is more than floating
    point has.

    >>> crossover({"depth": 12, "width": 64, "eps": 1e-8, "gradient": 1e-7}, sp.Rational(-1, 2), sp.Integer(0))
    1200.0
    """
    if not eps > gradient or set(sizes) != set(SIZES):
        return None
    decades = (math.log10(sizes["gradient"]) - math.log10(sizes["eps"])) / float(eps - gradient)
    exponent = math.log10(sizes["depth"]) + decades
    return math.inf if exponent > 308 else float(f"{10.0 ** exponent:.12g}")


def since(sizes: Mapping[str, float], depth: float | None) -> str:
    """From which depth on eps is in charge, in words, or which sizes that takes."""
    missing = [name for name in SIZES if name not in sizes]
    if missing:
        listed = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        return f"from a depth on that is not known (not among sizes: {listed})"
    if depth is None:
        return "from a depth on that is not known (a decay enters the optimizer, which is in no size)"
    from_there = f"from depth {depth:.4g} on" if depth > sizes["depth"] else f"already at depth {sizes['depth']:.0f}"
    return f"{from_there}, at width {sizes['width']:.0f}"


def far_away(alpha: sp.Expr, gammas: Iterable[sp.Expr], decays: Iterable[sp.Expr] = ()) -> str:
    """How far away what is said of a depth scaling is, in words: of a stream that grows or does nothing, of updates
    that do, and of decays that die out; "" where none of this is, or powers are symbols."""
    kappas = (p for gamma in gammas for p in (1 - alpha - gamma, sp.Min(gamma, 0)))
    return slowly(iter((alpha - BEST.alpha, *kappas, *decays)))


def slowly(powers: Iterator[sp.Expr]) -> str:
    """How far away what is said of powers of L is, in words; "" where there are none.

    >>> print(slowly(iter([sp.Rational(1, 2), sp.Integer(0)])))  # doctest: +ELLIPSIS
    far away: L^(1/2) reaches 10 when the depth has grown 100 times; constant factors are not counted, so ...
    """
    found = sorted({abs(p) for p in powers if p.is_number and p.is_finite and p != 0})
    if not found:
        return ""
    said = ", ".join(f"L^({p}) reaches 10 when the depth has grown {_times(1 / p)} times" for p in found)
    return f"far away: {said}; constant factors are not counted, so the depth where it starts to matter is not known"


def _times(decades: sp.Expr) -> str:
    """10 to a power; as a number where it is a short one."""
    return str(10**decades) if decades.is_Integer and decades <= MOST_DIGITS else as_power(decades, "10")
