"""What an optimizer remembers: trained matrices written through the initial one and the steps' outer products.

A program updates families of matrices (weights, and buffers such as a momentum) by combinations of their last
members and of outer products of the step. By linearity every member is rho_t W_0 + sum_{s < t} w_ts G_s, with
G_s the outer products of step s; rho and w obey the same update, which is where they come from.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from ..programs.algebra import multiplied_out
from ..programs.language import Family, Mat, Outer, Scal
from ..programs.program import Place
from .setting import Setting


@dataclass(frozen=True)
class Update:
    """``target`` = sum of multiples of matrices + outer products, at a place."""

    target: Mat
    multiples: tuple[tuple[sp.Expr, Mat], ...]
    outers: sp.Expr
    place: Place

    def is_plain_sum(self, t: sp.Symbol) -> bool:
        """Is it the last member plus outer products, so that nothing has to be remembered?"""
        return self.multiples == ((sp.Integer(1), self.target.at(t, *self.target.indices[1:])),)


def read_update(place: Place) -> Update:
    """Split an update statement; raises ``ValueError`` where it is not linear."""
    target, value = place.statement.target, multiplied_out(place.statement.value)
    multiples, outers = [], sp.Integer(0)
    for term in sp.Add.make_args(value):
        factors = sp.Mul.make_args(term)
        matrices = [f for f in factors if isinstance(f, Mat)]
        if matrices:
            multiples.append((sp.Mul(*(f for f in factors if f is not matrices[0])), matrices[0]))
        elif term.has(Outer):
            outers += term
        elif term != 0:
            raise ValueError(f"{target} := {value}: {term} is neither a multiple of a matrix nor an outer product")
    return Update(target, tuple(multiples), outers, place)


def unrolled(setting: Setting, matrix: Mat) -> sp.Expr:
    """A trained matrix W_t through W_0 and the outer products of the steps s < t."""
    if setting.clock is None:
        return _written_out(setting, matrix)
    places = [p for p in setting.updates(matrix) if setting.clock in p.loops]
    if not places:
        return matrix
    place, = places
    update, t, s = read_update(place), setting.time, setting.past
    if update.target.indices[0] != t + 1:
        raise ValueError(f"{update.target} := ...: an update assigns the member of step {t} + 1")
    inner = dict(zip(update.target.indices[1:], matrix.indices[1:]))
    last = matrix.indices[0] - 1
    first = setting.clock.first
    start = matrix.at(first, *matrix.indices[1:])
    if update.is_plain_sum(t):
        gradient = update.outers.subs(inner, simultaneous=True).subs(t, s)
        return start + sp.Sum(gradient, (s, first, last))
    group = memory_of(setting, matrix)
    gradient = group.gradient.subs(inner, simultaneous=True).subs(t, s)
    rho, w = rho_of(matrix), w_of(matrix)
    return rho[matrix.indices[0]] * start + sp.Sum(w[matrix.indices[0], s] * gradient, (s, first, last))


def _written_out(setting: Setting, matrix: sp.Expr) -> sp.Expr:
    """Without a loop over steps: every assigned matrix replaced by what it was assigned."""
    values = {p.statement.target: p.statement.value for p in setting.program.places()
              if isinstance(p.statement.target, Mat)}
    while matrix.atoms(Mat) & set(values):
        matrix = matrix.xreplace(values)
    return matrix


@dataclass(frozen=True)
class Memory:
    """The families that a trained matrix is updated from, and the outer products they share."""

    updates: tuple[Update, ...]
    gradient: sp.Expr


def rho_of(matrix: Mat) -> Family:
    """The multiples of W_0 in a family of matrices, a scalar a step."""
    return Family(Scal, f"rho_{matrix.name}", rf"\rho^{{{matrix.args[1]}}}")


def w_of(matrix: Mat) -> Family:
    """Its multiples of the steps' outer products, a scalar for every pair of steps."""
    return Family(Scal, f"w_{matrix.name}", rf"w^{{{matrix.args[1]}}}")


def memory_of(setting: Setting, matrix: Mat) -> Memory:
    """The closure of the families that ``matrix`` is updated from."""
    found: dict[str, Update] = {}
    waiting = [matrix]
    while waiting:
        one = waiting.pop()
        if one.name in found:
            continue
        places = [p for p in setting.updates(one) if setting.clock in p.loops]
        if len(places) != 1:
            raise ValueError(f"{one}: updated {len(places)} times a step; allowed is once")
        found[one.name] = read_update(places[0])
        waiting += [m for _, m in found[one.name].multiples]
    updates = tuple(sorted(found.values(), key=lambda u: u.place.position))
    outers = [u.outers for u in updates if u.outers != 0]
    gradient = outers[0]
    for other in outers[1:]:
        if (other / gradient).simplify().has(Outer):
            raise ValueError(f"{matrix}: its buffers see different outer products, {gradient} and {other}; allowed are "
                             "multiples of one")
    return Memory(updates, gradient)


def memory_equations(setting: Setting, matrix: Mat) -> list[tuple[sp.Expr, sp.Expr, Place]]:
    """(member of rho or w, value, place) for every family of the memory of ``matrix``; none where plain sums do.

    w_{t+1,s} stands for all s <= t: the outer product of step t counts where s = t.
    """
    place = next((p for p in setting.updates(matrix) if setting.clock in p.loops), None)
    if place is None:
        return []
    update, t, s = read_update(place), setting.time, setting.past
    if update.is_plain_sum(t):
        return []
    group = memory_of(setting, matrix)
    found = []
    for one in group.updates:
        rho, w = rho_of(one.target), w_of(one.target)
        share = (one.outers / group.gradient).simplify() if one.outers != 0 else sp.Integer(0)
        kept = sum((c * rho_of(m)[m.indices[0]] for c, m in one.multiples), sp.Integer(0))
        seen = sum((c * w_of(m)[m.indices[0], s] for c, m in one.multiples), sp.Integer(0))
        found.append((rho[t + 1], kept, one.place))
        found.append((w[t + 1, s], seen + share * sp.KroneckerDelta(s, t), one.place))
    return found
