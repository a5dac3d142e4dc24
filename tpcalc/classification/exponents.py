"""The exponents of L of a network's training, on regions of the (alpha, gamma) plane or at a point."""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from ..calculus import KetEquations, RecursionEquations, kets
from ..calculus.recursion import derive_recursion
from ..limits import Region, Values, point_of, settled_orders
from ..parametrizations import DepthScaling
from ..programs import SGD, ResNet
from ..programs.builders import program
from . import coefficient_exponents, ket_exponents
from .sizes import Exponents

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)


def exponents_of(net: ResNet, at: Values = ()) -> tuple[tuple[Region, Exponents], ...]:
    """The exponents of a network's training by SGD on regions that cover the (alpha, gamma) plane.

    Linear networks are read off their recursion, others off their ket equations, whose exponents are upper bounds,
    reached unless something cancels that no rule knows. at: values of alpha and gamma; then there is one region.
    Raises ``ValueError`` for a network with a statement that no rule covers, naming it.
    """
    return _exponents_of(net, tuple(at))


@lru_cache(maxsize=256)
def _exponents_of(net: ResNet, at: Values) -> tuple[tuple[Region, Exponents], ...]:
    equations = general_equations(net)
    found = settled_orders(equations, at=at)
    if isinstance(equations, RecursionEquations):
        return tuple((cell.region, coefficient_exponents.read_exponents(equations, found, cell))
                     for cell in found.cells)
    return tuple((cell.region, ket_exponents.read_exponents(equations, cell)) for cell in found.cells)


def require_frozen_ends(net: ResNet) -> None:
    """Raise ``ValueError`` for trained ends: no depth scaling touches their updates, f moves whatever it is."""
    if net.train_ends:
        raise ValueError(f"net: {net!r} given; allowed is a net with frozen ends")


@lru_cache(maxsize=16)
def general_equations(net: ResNet) -> KetEquations | RecursionEquations:
    """The recursion of a network's training by SGD where it is linear, its ket equations else."""
    require_frozen_ends(net)
    equations = kets(program(net, SGD(), DepthScaling(ALPHA, GAMMA)))
    return derive_recursion(equations) if net.is_linear else equations


def region_of(net: ResNet, alpha: sp.Expr, gamma: sp.Expr) -> tuple[Region, Exponents]:
    """The region that a point lies in, and the exponents there; of a rational point, the point itself."""
    if not net.is_linear and alpha.is_Rational and gamma.is_Rational:
        (only,) = exponents_of(net, ((ALPHA, alpha), (GAMMA, gamma)))
        return only
    point = point_of({ALPHA: alpha, GAMMA: gamma}, (ALPHA, GAMMA))
    return next((region, found) for region, found in exponents_of(net) if region.contains(point))
