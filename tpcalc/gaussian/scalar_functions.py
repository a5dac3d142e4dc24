"""What the order calculus asks of an entrywise function: its growth, whether it is odd or even, its kinks."""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from .asymptotics import H, Asymptote, asymptotes

POINTS = [sp.Rational(*pair) for pair in ((1, 7), (3, 5), (9, 8), (17, 9), (31, 9))]  # parity is tested on


def in_one_symbol(function: sp.Expr, argument: sp.Expr) -> sp.Expr:
    """The function of ``argument`` as one of a symbol."""
    return function.xreplace({argument: H})


@lru_cache(maxsize=256)
def derivative(function: sp.Expr) -> sp.Expr:
    """The derivative, kinks as jumps, jumps as delta functions."""
    return sp.diff(function.rewrite(sp.Heaviside).replace(sp.Abs, lambda h: h * sp.sign(h)), H).replace(
        lambda e: isinstance(e, sp.Mul) and e.has(sp.DiracDelta), _point).rewrite(sp.Heaviside)


def _point(product: sp.Expr) -> sp.Expr:
    """h delta(h) = 0."""
    product = product.expand(diracdelta=True, wrt=H)
    deltas = [f for f in sp.Mul.make_args(product) if isinstance(f, sp.DiracDelta)]
    rest = sp.Mul(*(f for f in sp.Mul.make_args(product) if f not in deltas))
    if len(deltas) == 1 and deltas[0].args == (H,):
        return rest.subs(H, 0) * deltas[0]
    return product


@lru_cache(maxsize=256)
def parity(function: sp.Expr) -> int:
    """1 for even, -1 for odd, 0 for neither."""
    smooth = function.replace(sp.DiracDelta, lambda a, *_: sp.exp(-a**2))  # even, like a narrow bump
    values = [[smooth.subs(H, sign * point).evalf(30) for point in POINTS] for sign in (1, -1)]
    for sign in (1, -1):
        if all(abs(a - sign * b) <= 1e-20 * (1 + abs(a)) for a, b in zip(*values)):
            return sign
    return 0


@lru_cache(maxsize=256)
def growth(function: sp.Expr) -> int:
    """The power of its argument that a function grows with, 0 where it stays bounded.

    Raises ``ValueError`` for growth faster than every power, or like a fraction of one.
    """
    power = max(end.power for end in _ends(function))
    if power is sp.oo or power > 0 and not power.is_Integer:
        how = "faster than every power" if power is sp.oo else f"like the power {power}"
        raise ValueError(f"an entrywise function {function} grows {how} of its argument; there is a rule for its order "
                         "in L where it grows like a whole power")
    return max(int(power), 0) if power != -sp.oo else 0


@lru_cache(maxsize=256)
def decays(function: sp.Expr) -> bool:
    """Does the function go to zero at both ends, so fast that its square can be integrated?"""
    return all(end.power < -1 for end in _ends(function))


@lru_cache(maxsize=256)
def vanishes(function: sp.Expr) -> bool:
    """Does the function go to zero at both ends?"""
    return all(end.decays for end in _ends(function))


def _ends(function: sp.Expr) -> tuple[Asymptote, Asymptote]:
    try:
        return asymptotes(function)
    except ValueError as problem:
        raise ValueError(f"an entrywise function {function}: {problem}, so that its order in L is not known") from None


@lru_cache(maxsize=256)
def has_kinks(function: sp.Expr) -> bool:
    """Does the derivative jump?"""
    return derivative(derivative(function)).has(sp.DiracDelta)
