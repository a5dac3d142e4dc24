"""The exponents of L of a network's training, on regions of the (alpha, gamma) plane or at a point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Mapping, Union

import sympy as sp

from .._types import Fields
from ..calculus import KetEquations, RecursionEquations, kets
from ..calculus.recursion import derive_recursion
from ..calculus.memory import decays
from ..calculus.setting import Setting
from ..errors import NotCovered
from ..orders import EXPLODES, Affine, Exponent, Hypotheses, Region, Values, point_of, settled_orders
from ..limits.eigenspaces import NoStreams
from ..limits.slow_streams import normal_form
from ..limits.uncounted import require_no_explosion
from ..parametrizations import DepthScaling, Parametrization
from ..programs import SGD, ResNet, Transformer
from ..programs.blocks import is_linear_in_vectors
from ..programs.builders import program
from ..programs.language import NonlinearOuter, Vector
from ..programs.program import Assign, Program, mapped
from . import coefficient_exponents, ket_exponents
from .sizes import Exponents

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
Network = Union[ResNet, Program]


def exponents_of(net: Network, at: Values = ()) -> tuple[tuple[Region, Exponents], ...]:
    """The exponents of a network's training on regions that cover the (alpha, gamma) plane.

    Linear networks are read off their recursion, others off their ket equations, whose exponents are upper bounds,
    reached unless something cancels that no rule knows. at: values of alpha and gamma; then there is one region.
    Raises ``ValueError`` for a network with a statement that no rule covers, naming it.
    """
    return _exponents_of(net, tuple(at))


@lru_cache(maxsize=256)
def _exponents_of(net: Network, at: Values) -> tuple[tuple[Region, Exponents], ...]:
    equations = general_equations(net, at)
    if isinstance(equations, DepthIndependentRegime):
        size = 0 if at else 2
        return ((Region(size), equations.exponents(size)),)
    found = settled_orders(equations, at=at)
    for cell in found.cells:
        cell.require_forgotten(found.parameters)
    if isinstance(equations, RecursionEquations):
        return tuple((cell.region, coefficient_exponents.exponents_of_coefficients(equations, found, cell))
                     for cell in found.cells)
    require_no_explosion(_program(net), found.cells)
    return tuple((cell.region, ket_exponents.exponents_of_kets(equations, cell, found.contributions))
                 for cell in found.cells)


def require_frozen_embedding_readout(net: Network | Transformer) -> None:
    """Raise ``ValueError`` for trained ends: no depth scaling touches their updates, f moves whatever it is."""
    trained = [v for v in net.vectors if any(v.same_family(p.statement.target) for p in net.locations())] if isinstance(
        net, Program) else net.train_embedding_readout
    if trained:
        raise NotCovered(f"net: got {net!r}; expected a net with frozen ends")
    if not isinstance(net, Program):
        net.require_counted()


@dataclass(frozen=True)
class DepthIndependentRegime:
    """What layers do of themselves, whatever the depth scaling: they explode, or keep nothing of what they find."""

    explodes: bool

    def exponents(self, size: int) -> Exponents:
        """exp(L) or exp(-L) for all that there is."""
        everything: Fields = {f.name: EXPLODES if self.explodes else Exponent() for f in Exponents.sizes()}
        rate = Exponent.single(Affine.number(1, size))
        return Exponents(**everything, explosions=((0, rate),) if self.explodes else ())


@lru_cache(maxsize=64)
def general_equations(net: Network, at: Values = ()) -> KetEquations | RecursionEquations | DepthIndependentRegime:
    """The recursion of a network's training where it is linear, its ket equations else, in normal form.

    A ResNet is trained by plain SGD. at: values of alpha and gamma, which some layers need to be judged at all.
    """
    require_frozen_embedding_readout(net)
    one = _with_numbers(_program(net), at)
    depth = Setting.of(one).depth
    if depth is None:
        raise NotCovered(f"program {one.name} has no layers, so that nothing depends on the depth")
    found = normal_form(one, depth)
    if found.explodes or found.forgets:
        return DepthIndependentRegime(bool(found.explodes))
    equations = kets(found.program)
    if is_linear_program(found.program):
        return derive_recursion(equations)
    for matrix in equations.setting.trained():
        if decays(equations.setting, matrix):
            raise NotCovered(f"program {one.name}: updates scale {matrix}, as weight decay does, and with it what an "
                             "activation acts on; sizes of nonlinear networks are counted without decay")
    return equations


def _program(net: Network) -> Program:
    """A ResNet is trained by plain SGD."""
    return net if isinstance(net, Program) else program(net, SGD(), DepthScaling(ALPHA, GAMMA))


def is_linear_program(one: Program) -> bool:
    """Are all vectors linear in vectors and matrices, and all updates in outer products?"""
    return all(is_linear_in_vectors(p.statement.value) if isinstance(p.statement.target,
                                                                     Vector) and p.statement.value != 0
               else not p.statement.value.has(NonlinearOuter) for p in one.locations())


def _with_numbers(one: Program, at: Values) -> Program:
    """The program with its symbols alpha and gamma as ours, or as numbers."""
    names = {s: ours for s in set().union(*(p.statement.value.free_symbols for p in one.locations()))
             for ours in (ALPHA, GAMMA) if s.name == ours.name}
    values = {s: dict(at).get(ours, ours) for s, ours in names.items()}

    if all(s == v for s, v in values.items()):
        return one
    return replace(one, body=mapped(one.body, lambda s: [Assign(s.target, s.value.subs(values))]))


def region_of(net: Network, alpha: sp.Expr, gamma: sp.Expr) -> tuple[Region, Exponents]:
    """The region that a point lies in, and the exponents there; of a rational point, the point itself."""
    at: Values = ((ALPHA, alpha), (GAMMA, gamma))
    whole = isinstance(net, ResNet) and net.is_linear and isinstance(net.block, str)  # the plane, divided once
    if not whole and alpha.is_Rational and gamma.is_Rational:
        (only,) = exponents_of(net, at)
        return only
    try:
        regions = exponents_of(net)
    except NoStreams:  # what the layers do may depend on alpha
        (only,) = exponents_of(net, at)
        return only
    point = point_of({ALPHA: alpha, GAMMA: gamma}, (ALPHA, GAMMA))
    return next((region, found) for region, found in regions if region.contains(point))


def exponents_by_matrix(net: ResNet, alpha: sp.Expr, gammas: Mapping[str, sp.Expr]) -> Exponents:
    """The exponents of a nonlinear network whose matrices have rational update exponents of their own.

    Terms are counted once, in symbols, for all exponents that are asked for. Raises ``ValueError`` as ``exponents_of``.
    """
    counted, names = _in_symbols(net)
    found = settled_orders(counted.there({names["alpha"]: alpha, **{names[m]: g for m, g in gammas.items()}}))
    cell, = found.cells
    cell.require_forgotten(())
    assert isinstance(counted.program, KetEquations)
    return ket_exponents.exponents_of_kets(counted.program, cell, found.contributions)


@lru_cache(maxsize=8)
def _in_symbols(net: ResNet) -> tuple[Hypotheses, dict[str, sp.Symbol]]:
    names = {"alpha": ALPHA, **{m: sp.Symbol(f"gamma_{m}", real=True) for m in net.trained_of_block}}
    equations = general_equations(program(net, SGD(), Parametrization(depth=names)))
    if not isinstance(equations, KetEquations):
        raise NotCovered(f"net: got {net!r}; expected nonlinear ones, whose layers do not explode by themselves")
    return Hypotheses(equations), names
