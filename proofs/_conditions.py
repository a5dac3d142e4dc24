"""Conditions on (alpha, gamma) as polyhedra of the plane: exact, and simplified by nothing but its faces."""

from __future__ import annotations

from fractions import Fraction
from typing import Mapping, Sequence

import sympy as sp
from sympy.core.relational import Relational

from tpcalc.orders import Affine, Region
from tpcalc.verdicts.phases.regions import Signs, faces, joined_faces, lines_of, needed

from ._line import ALPHA, GAMMA

PLANE = (ALPHA, GAMMA)


def at(condition: sp.Basic, point: Sequence[Fraction | sp.Expr]) -> bool:
    """Does a condition hold at a point, its coordinates exact?"""
    return bool(condition.subs({s: sp.Rational(x) for s, x in zip(PLANE, point)}))


def simplest(condition: sp.Basic) -> sp.Basic:
    """An equal set of points with as few relations as its polyhedra have.

    The lines of a condition divide the plane into faces, on each of which no relation in it changes: one point of each
    decides. Raises ``NotAffine`` for relations that have no line as their boundary.

    >>> simplest((ALPHA >= 1) & (ALPHA + GAMMA >= 1) & (GAMMA >= 0))
    (alpha >= 1) & (gamma >= 0)
    """
    lines = lines_of(Affine.of(r.lhs - r.rhs, PLANE) for r in condition.atoms(Relational))
    return joined(lines, {signs: at(condition, face.point() or ()) for signs, face in faces(lines).items()})


def joined(lines: Sequence[Affine], inside: Mapping[Signs, bool]) -> sp.Basic:
    """The union of the faces of these lines that are inside, as the fewest polyhedra found."""
    kept, kinds = needed(lines, inside)
    return sp.Or(*(written(region) for region, members in joined_faces(kept, kinds) if kinds[members[0]]))


def union(regions: Sequence[Region]) -> sp.Basic:
    """The condition under which a point lies in one of the regions."""
    return simplest(sp.Or(*(sp.And(*region.expressions(PLANE)) for region in regions)))


def written(region: Region) -> sp.Basic:
    """A polyhedron as equations, solved for gamma first, and as inequalities in what these leave free, each with 1 as
    its first coefficient."""
    equations = [form.expression(PLANE) for form in region.equations]
    solved = sp.solve(equations, PLANE[::-1], dict=True)[0] if equations else {}
    left = Region(len(PLANE))
    for one in region.conditions:
        form = Affine.of(one.form.expression(PLANE).subs(solved), PLANE)
        left = left if form.is_constant else left.where(form, ">" if one.strict else ">=")
    found = [_relation(Affine.of(symbol - value, PLANE), sp.Eq) for symbol, value in solved.items()]
    return sp.And(*found, *(_relation(one.form, sp.Gt if one.strict else sp.Ge) for one in left.reduced().conditions))


def _relation(form: Affine, relation: type[Relational]) -> Relational:
    """``form`` in relation to 0, its constant on the right, its first coefficient 1."""
    first = next(slope for slope in form.slopes if slope)
    scaled = form * (1 / first)
    kind = relation if first > 0 else {sp.Gt: sp.Lt, sp.Ge: sp.Le, sp.Eq: sp.Eq}[relation]
    linear = Affine(scaled.slopes, Fraction(0)).expression(PLANE)
    return kind(linear, -Affine((), scaled.constant).expression(()))
