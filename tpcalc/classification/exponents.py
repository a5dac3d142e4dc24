"""The exponents of L that a verdict reads, from the terms of a network's derived recursion."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from ..calculus import kets
from ..calculus.recursion import RecursionEquations, derive_recursion
from ..limits import Contribution, Orders, orders
from ..parametrizations import DepthScaling
from ..programs import SGD, ResNet
from ..programs.builders import program

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)


@lru_cache(maxsize=8)
def general_recursion(net: ResNet) -> RecursionEquations:
    """The recursion of a network's training by SGD, for symbolic (alpha, gamma)."""
    return derive_recursion(kets(program(net, SGD(), DepthScaling(ALPHA, GAMMA))))


@dataclass(frozen=True)
class Exponents:
    """Powers of L at one (alpha, gamma): -oo where a quantity vanishes, +oo where it explodes.

    x_init, h_init, f_init: sizes at initialisation; dx, dh, df: their changes after one step on the same
    input; update: of the weight update's action on x, in h; noise, drift: what a piece of the network of
    length eps adds to x, the former times eps^(1/2), the latter times eps; linearisation: the error in x of
    one layer when a smooth activation is linearised in the update; explosion: v of exp(L^v), or None.
    """

    x_init: sp.Expr
    h_init: sp.Expr
    f_init: sp.Expr
    dx: sp.Expr
    dh: sp.Expr
    df: sp.Expr
    update: sp.Expr
    noise: sp.Expr
    drift: sp.Expr
    linearisation: sp.Expr
    explosion: sp.Expr | None


def exponents_at(net: ResNet, alpha: sp.Expr, gamma: sp.Expr) -> Exponents:
    """Read the exponents off the terms of the recursion of ``net`` at the first two steps."""
    recursion = general_recursion(net)
    found = orders(recursion, {ALPHA: alpha, GAMMA: gamma})
    stream = 0  # the first family assigned is the residual stream x, its product the first
    born = [one for one in found.contributions if one.target[0] == "Gamma" and one.target[3] == stream
            and not one.coherent and one.target[2] >= 0]
    first, later = ([one for one in born if one.target[1] == t] for t in (0, 1))
    multiplier = max(one.weight for one in first) - sp.Rational(1, 2)  # eps sqrt(L) is where a hat-ket is born
    updates = [one for one in found.contributions if one.target[:2] == ("Gamma", 1) and one.target[3] == stream
               and one.update]
    acts = [one for one in updates if any(f[0] == "C" for f in one.factors)]
    dx = max(_in_stream(found, one) for one in updates)
    in_h = [_in_stream(found, one) - 1 - multiplier for one in updates]
    update = max(_in_stream(found, one) - 1 - multiplier for one in acts)
    noise = max(_in_stream(found, one) for one in later)
    if found.explosion is not None:  # nothing that has met all layers has a power of L
        return Exponents(sp.oo, sp.oo, found.of("f", 0), sp.oo, sp.oo, sp.oo, update, sp.oo, sp.oo, sp.oo,
                         found.explosion)
    size = found.of("C", 0, 0, stream) / 2
    return Exponents(
        x_init=size, h_init=size, f_init=found.of("f", 0), dx=dx, dh=max(dx, *in_h), df=found.of("f", 1),
        update=update, noise=noise, drift=dx, linearisation=multiplier + 2 * update, explosion=None)


def _in_stream(found: Orders, one: Contribution) -> sp.Expr:
    """The size in x of a term of a coefficient: a hat-ket's coefficients carry its standard deviation."""
    r, b = one.target[2], one.target[4]
    deviation = found.of("C", r, r, b) / 2 if r >= 0 else sp.Integer(0)
    return found.weight(one) + deviation
