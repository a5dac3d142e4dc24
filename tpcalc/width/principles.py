"""Principles as equations and inequalities between exponents, and the family of width scalings that solves them.

Criticality, learning-rate equivalence and nontrivial learning are equations, one a layer; outputs that do not explode
and differentials that do not are inequalities. None is written by hand: each says that a counted power of n is 0, or at
most 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import sympy as sp

from .._checks import whole_number
from ..orders.affine import Affine, Region
from ..scaling import WidthScaling
from .counting import own_gradients, passed_gradients, preactivations
from .differentials import term_powers

CRITICALITY = "criticality"
EQUIVALENCE = "learning-rate equivalence"
LEARNING = "nontrivial learning"
OUTPUTS = "bounded outputs"
DIFFERENTIALS = "bounded differentials"
COUNTED_ORDERS = range(2, 8)  # of differentials; that the others add nothing is the induction in the ledger

S = sp.Symbol("s", real=True)
GAUGE = sp.Symbol("t", real=True)


@dataclass(frozen=True)
class Requirement:
    """One principle at one layer: a power of n that is to be 0, or at most 0 where ``at_most``; what: its quantity."""

    principle: str
    layer: int
    power: sp.Expr
    at_most: bool
    what: str

    @property
    def relation(self) -> sp.Basic:
        return sp.Le(self.power, 0) if self.at_most else sp.Eq(self.power, 0)

    @property
    def allowed(self) -> str:
        """The powers of n that are allowed."""
        return "at most n^0" if self.at_most else "n^0"

    def holds(self, values: dict[sp.Symbol, sp.Expr]) -> bool | None:
        """Is it met by these exponents? None where that depends on what symbols among them stand for."""
        power = sp.expand(self.power.subs(values, simultaneous=True))
        met = power.is_nonpositive if self.at_most else power.is_zero
        return None if met is None else bool(met)


@dataclass(frozen=True)
class Principles:
    """All requirements on a perceptron of L layers.

    unknowns: the symbols p_1, ..., p_L, q_1, ..., q_L, r in this order. scaling: the width scaling that they make up.
    """

    scaling: WidthScaling
    requirements: tuple[Requirement, ...]

    @property
    def unknowns(self) -> tuple[sp.Symbol, ...]:
        return (*self.scaling.p, *self.scaling.q, self.scaling.r)

    @property
    def equations(self) -> tuple[Requirement, ...]:
        return tuple(r for r in self.requirements if not r.at_most)

    @property
    def inequalities(self) -> tuple[Requirement, ...]:
        return tuple(r for r in self.requirements if r.at_most)

    @property
    def kernel(self) -> tuple[sp.Matrix, ...]:
        """A basis of the exponents that meet all equations, as columns in the order of the unknowns."""
        matrix, right = sp.linear_eq_to_matrix([r.power for r in self.equations], *self.unknowns)
        assert right.is_zero_matrix, "no principle has a constant in it"
        return tuple(matrix.nullspace())

    def solve(self) -> WidthScaling:
        """The solution of the equations, in s = p_L and the gauge t = q_1."""
        last, first = self.scaling.p[-1], self.scaling.q[0]
        others = [x for x in self.unknowns if x not in (last, first)]
        found, = sp.linsolve([r.power for r in self.equations], *others)
        values = {**dict(zip(others, found)), last: last, first: first}
        named = {last: S, first: GAUGE}
        p, q = ([sp.expand(values[x].subs(named)) for x in row] for row in (self.scaling.p, self.scaling.q))
        return WidthScaling(p, q, sp.expand(values[self.scaling.r].subs(named)))

    def interval(self) -> Region:
        """The values of s that meet the inequalities as well, as an exact region without redundant conditions."""
        solution = self.solve()
        values = dict(zip(self.unknowns, (*solution.p, *solution.q, solution.r)))
        region = Region(1)
        for requirement in self.inequalities:
            power = sp.expand(requirement.power.subs(values, simultaneous=True))
            region = region.where(Affine.of(power, (S,)), "<=")
        return region.reduced()


def principles(layers: int) -> Principles:
    """The principles for a perceptron of ``layers`` layers, counted on symbols.

    Raises ``ValueError`` for fewer than two layers. Source: Meta-Principled Family, section III.

    >>> [str(one.relation) for one in principles(2).equations]
    ['Eq(-p_1, 0)', 'Eq(p_2 + q_1 - q_2, 0)', 'Eq(-q_2 + r, 0)']
    >>> len(principles(4).kernel), principles(4).interval().expressions([S])
    (2, (s >= 0, s <= 1))
    """
    count = whole_number("layers", layers, 2)
    p, q = (sp.symbols(f"{name}_1:{count + 1}", real=True) for name in "pq")
    scaling = WidthScaling(p, q, sp.Symbol("r", real=True))
    return Principles(scaling, requirements(scaling, [own_gradients(power) for power in q]))


def requirements(scaling: WidthScaling, kernels: Sequence[sp.Expr]) -> tuple[Requirement, ...]:
    """The requirements on the exponents of ``scaling``, in layers' order within each principle.

    kernels: the power of the tangent kernel of every layer. Where all principles hold it is what the layer's own
    gradients make it. Each requirement is counted as if criticality held.
    """
    p, q, last = scaling.p, scaling.q, scaling.layers
    found = [critical(p[i], i + 1) for i in range(last - 1)]
    found += [equivalent(p[i], q[i], kernels[i - 1], i + 1) for i in range(1, last)]
    found.append(learning(kernels[-1], scaling.r, last))
    found.append(Requirement(OUTPUTS, last, preactivations(p[-1]), True, "the variance of outputs at initialization"))
    for order in COUNTED_ORDERS:
        for insert in (False, True):
            for power in sorted(term_powers(order, scaling, kernels[-2], insert), key=str):
                found.append(Requirement(DIFFERENTIALS, last, power, True,
                                         f"E[{'z ' * insert}eta^{order} d^{order - 1} H]"))
    return tuple(found)


def critical(p: sp.Expr, layer: int) -> Requirement:
    """Criticality of a hidden layer: preactivations of order one [meta_principled/criticality]."""
    return Requirement(CRITICALITY, layer, preactivations(p), False, f"the variance of preactivations of layer {layer}")


def equivalent(p: sp.Expr, q: sp.Expr, kernel: sp.Expr, layer: int) -> Requirement:
    """Equivalence of learning rates: both terms of (3.7) are of one order [meta_principled/learning_rate_equivalence].

    kernel: the power of the tangent kernel of the layer below.
    """
    power = sp.expand(own_gradients(q) - passed_gradients(p, kernel))
    return Requirement(EQUIVALENCE, layer, power, False, f"what layer {layer} adds to its kernel, over what those "
                       "below do")


def learning(kernel: sp.Expr, r: sp.Expr, layer: int) -> Requirement:
    """Nontrivial learning: eta H is of order one at the output [meta_principled/family]."""
    return Requirement(LEARNING, layer, sp.expand(r + kernel), False, "eta H, the change of outputs in a step")
