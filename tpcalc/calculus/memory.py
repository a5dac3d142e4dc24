"""What an optimizer remembers: trained matrices written through the initial one and the steps' outer products.

A program updates families of matrices (weights, and buffers such as a momentum) by combinations of their last
members and of outer products of the step. By linearity every member is rho_t W_0 + sum_{s < t} w_ts G_s, with
G_s the outer products of step s; rho and w obey the same update, which is where they come from. Where an update's
coefficients depend on the layer, or layers have updates of their own, rho and w have the layer as their last index.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp
from sympy.utilities.iterables import sift

from ..errors import NotCovered
from ..programs.algebra import multiplied_out
from ..programs.language import Family, Matrix, Outer, Scalar, Vector
from ..programs.program import Location
from .setting import Setting, solve_indices


@dataclass(frozen=True)
class Update:
    """An update of a matrix: ``target`` = multiples of matrices + outer products. others: indices beside the step."""

    target: Matrix
    others: tuple[sp.Expr, ...]
    multiples: tuple[tuple[sp.Expr, Matrix], ...]
    outers: sp.Expr
    location: Location

    def is_plain_sum(self, setting: Setting) -> bool:
        """Is it the last member plus outer products, so that nothing has to be remembered?"""
        return self.multiples == ((sp.Integer(1), setting.member(self.target, setting.time, self.others)),)

    def at(self, others: tuple[sp.Expr, ...]) -> dict[sp.Symbol, sp.Expr] | None:
        """The values of its loops' indices at which the update is that of a matrix with these indices, or None."""
        return solve_indices(self.others, others, set(self.location.indices))

    def may_reach(self, others: tuple[sp.Expr, ...]) -> bool:
        """Can it be an update of a matrix with these indices, at some values of their symbols?"""
        found = self.at(others)
        if found is None:
            return all((mine - theirs).is_zero is not False for mine, theirs in zip(self.others, others))
        ranges = {loop.index: loop.bounds for loop in self.location.loops}
        return not any((value - ranges[i][1]).is_positive or (ranges[i][0] - value).is_positive
                       for i, value in found.items())


def read_update(setting: Setting, location: Location) -> Update:
    """Split an update statement; raises ``ValueError`` where it is not linear, or reads matrices of other layers."""
    target, value = location.statement.target, multiplied_out(location.statement.value)
    others, said = setting.others(target), f"{target} := {location.statement.value}"
    multiples, outers = [], sp.Integer(0)
    for term in sp.Add.make_args(value):
        factors = sp.Mul.make_args(term)
        matrices = [f for f in factors if isinstance(f, Matrix)]
        if matrices:
            coefficient = sp.Mul(*(f for f in factors if f is not matrices[0]))
            if coefficient.has(Vector):
                raise NotCovered(f"{said}: the factor {coefficient} of {matrices[0]} is an average of vectors; "
                                 "expected numbers and scalars, so name it as a scalar first")
            if setting.others(matrices[0]) != others:
                raise NotCovered(f"{said}: it reads {matrices[0]}; expected matrices with the target's own indices "
                                 "beside the step")
            multiples.append((coefficient, matrices[0]))
        elif term.has(Outer):
            outers += term
        elif term != 0:
            raise NotCovered(f"{target} := {value}: {term} is neither a multiple of a matrix nor an outer product")
    return Update(target, others, tuple(multiples), outers, location)


def unrolled(setting: Setting, matrix: Matrix) -> sp.Expr:
    """A trained matrix W_t through W_0 and the outer products of the steps s < t. Raises ``ValueError`` where layers
    that it may stand for see different outer products."""
    if setting.clock is None:
        return _written_out(setting, matrix)
    memory = memory_of(setting, matrix)
    if memory is None:
        return matrix
    t, s, first = setting.time, setting.past, setting.clock.first
    step, others = setting.step_index(matrix), setting.others(matrix)
    last, start = step - 1, setting.member(matrix, first, others)
    gradient = memory.gradient_at(others).subs(t, s)
    given = any(matrix.same_family(m) for m in setting.program.matrices)
    if memory.is_plain_sum:
        updates = sp.Sum(gradient, (s, first, last)) if gradient != 0 else sp.Integer(0)
        return (start if given else sp.Integer(0)) + updates
    carried = memory.carried_of(others)
    rho, w = initial_weight_factor_of(matrix)[(step, *carried)], update_response_of(matrix)[(step, s, *carried)]
    return (rho * start if given else sp.Integer(0)) + (0 if gradient == 0 else sp.Sum(w * gradient, (s, first, last)))


def _written_out(setting: Setting, matrix: sp.Expr) -> sp.Expr:
    """Without a loop over steps: every assigned matrix replaced by what it was assigned."""
    values = {p.statement.target: p.statement.value for p in setting.program.locations()
              if isinstance(p.statement.target, Matrix)}
    while matrix.atoms(Matrix) & set(values):
        matrix = matrix.xreplace(values)
    return matrix


@dataclass(frozen=True)
class MemoryPart:
    """One update of a memory, with the factor ``share`` of its outer products and ``shown``, which gives them at other
    indices."""

    update: Update
    share: sp.Expr
    shown: "Shown"


@dataclass(frozen=True)
class Shown:
    """Outer products as a function of the indices beside the step: those of ``update``, less what may vanish."""

    update: Update
    gradient: sp.Expr

    def at(self, others: tuple[sp.Expr, ...]) -> sp.Expr | None:
        """The outer products at other indices; None where the update is of one fixed matrix, not of these."""
        values = self.update.at(others)
        return None if values is None else self.gradient.subs(values, simultaneous=True)


@dataclass(frozen=True)
class Memory:
    """The updates that a trained matrix is made by: of its own family and of those that it is updated from.

    carried: which of the indices beside the step rho and w have: those that coefficients depend on, or all where a
    family has several updates; is_plain_sum: is nothing to be remembered but the sum?; starts: multiples of the
    initial matrix that buffers start at.
    """

    matrix: Matrix
    parts: tuple[MemoryPart, ...]
    carried: tuple[int, ...]
    is_plain_sum: bool
    starts: tuple[Update, ...]

    def carried_of(self, others: tuple[sp.Expr, ...]) -> tuple[sp.Expr, ...]:
        return tuple(others[i] for i in self.carried)

    def gradient_at(self, others: tuple[sp.Expr, ...]) -> sp.Expr:
        """The outer products that a matrix with these indices sees in a step."""
        reach = [part for part in self.parts if part.share != 0 and part.update.may_reach(others)]
        found = list(dict.fromkeys(part.shown.at(others) for part in reach))
        if len(found) > 1 or None in found:
            statements = "; ".join(f"{p.update.target} := {p.update.location.statement.value}" for p in reach)
            raise NotCovered(f"{self.matrix}: its updates {statements} see different outer products; expected "
                             "multiples of one, as a function of the layer")
        return found[0] if found else sp.Integer(0)


def initial_weight_factor_of(matrix: Matrix) -> Family:
    """The scalars rho of a trained matrix, one a step (and a layer where they differ): how often W_0 is in it."""
    return Family.made(Scalar, f"rho_{matrix.name}", rf"\rho^{{{matrix.args[1]}}}")


def update_response_of(matrix: Matrix) -> Family:
    """The scalars w of a trained matrix, one for two steps (and a layer): how often the second's update is in it."""
    return Family.made(Scalar, f"w_{matrix.name}", rf"w^{{{matrix.args[1]}}}")


def memory_of(setting: Setting, matrix: Matrix) -> Memory | None:
    """The closure of the families that ``matrix`` is updated from; None for one without updates in the loop over steps.

    Raises ``ValueError`` for updates that skip a step, and for buffers that start at anything but multiples of W_0.
    """
    assert setting.clock is not None
    found: dict[str, list[Update]] = {}
    starts: list[Update] = []
    waiting = [matrix]
    while waiting:
        one = waiting.pop()
        if one.name in found:
            continue
        locations = setting.updates(one)
        found[one.name] = [read_update(setting, location) for location in locations if setting.clock in location.loops]
        starts += [_start(setting, matrix, location) for location in locations if setting.clock not in location.loops]
        waiting += [m for update in found[one.name] for _, m in update.multiples]
        if not one.same_family(matrix) and any(one.same_family(m) for m in setting.program.matrices):
            raise NotCovered(f"{matrix}: it is updated from {one}, another initial matrix; expected buffers that "
                             "start at 0 or at multiples of its own initial matrix")
    updates = sorted((u for several in found.values() for u in several), key=lambda u: u.location.position)
    if not found[matrix.name]:
        return None
    for update in updates:
        if setting.step_index(update.target) != setting.time + 1:
            raise NotCovered(f"{update.target} := ...: an update assigns the member of step {setting.time} + 1")
    parts = _parts(updates)
    several = any(len(one) > 1 for one in found.values())
    plain = all(u.is_plain_sum(setting) for u in updates) and len({part.share for part in parts}) == 1
    if several:
        carried = tuple(range(len(parts[0].update.others)))
    else:
        carried = tuple(sorted({i for part in parts for i, index in enumerate(part.update.others)
                                for c in (part.share, *(c for c, _ in part.update.multiples))
                                if c.free_symbols & index.free_symbols - set(setting.program.sizes)}))
    return Memory(matrix, parts, carried, plain, tuple(start for start in starts if start.multiples))


def _start(setting: Setting, matrix: Matrix, location: Location) -> Update:
    """What a buffer holds before the first step: 0, or multiples of the initial matrix."""
    assert setting.clock is not None
    start = read_update(setting, location)
    first = setting.member(matrix, setting.clock.first, start.others)
    if start.outers != 0 or any(m != first for _, m in start.multiples):
        raise NotCovered(f"{start.target} := {location.statement.value}: a buffer that {matrix} is updated from; "
                         f"expected starts are 0 and multiples of {first}")
    return start


def _parts(updates: list[Update]) -> tuple[MemoryPart, ...]:
    """Updates with the outer products that they share; those of whole loops are looked at first."""
    seeing = [u for u in updates if u.outers != 0]
    if len(seeing) < 2:  # nothing to share: coefficients stay where they are written
        shown = Shown(seeing[0], seeing[0].outers) if seeing else Shown(updates[0], sp.Integer(0))
        return tuple(MemoryPart(u, sp.Integer(int(u.outers != 0)), shown) for u in updates)
    classes: list[Shown] = []
    found: dict[int, MemoryPart] = {}
    for update in sorted(seeing, key=lambda u: (not all(i.free_symbols & set(u.location.indices) for i in u.others),
                                                u.location.position)):
        front, rest = _what_may_vanish(update.outers)
        for shown in classes:
            there = shown.at(update.others)
            ratio = None if there is None else _ratio(rest, there)
            if ratio is not None:
                found[update.location.position] = MemoryPart(update, sp.simplify(front * ratio), shown)
                break
        else:
            classes.append(Shown(update, rest))
            found[update.location.position] = MemoryPart(update, front, classes[-1])
    return tuple(found.get(u.location.position, MemoryPart(u, sp.Integer(0), classes[0])) for u in updates)


def _weights(outers: sp.Expr) -> dict[sp.Expr, sp.Expr]:
    """The coefficients of a sum of outer products, and of sums of them over a batch."""
    found: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(multiplied_out(outers)):
        (one,), numbers = sift(sp.Mul.make_args(term), lambda f: f.has(Outer), binary=True)
        front = sp.Mul(*numbers)
        if one.func == sp.Sum:
            bound = {limit[0] for limit in one.limits}
            fixed, inside = sift(sp.Mul.make_args(one.function), binary=True,
                                 keyfunc=lambda f: not f.has(Outer) and not f.free_symbols & bound)
            front *= sp.Mul(*fixed)
            one = sp.Sum(sp.Mul(*inside), *one.limits)
        found[one] = found.get(one, sp.Integer(0)) + front
    return found


def _what_may_vanish(outers: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Outer products as (a factor that can be 0 at some step or layer, the rest): nothing is divided by the first."""
    weights = {one: sp.factor_terms(front) for one, front in _weights(outers).items()}
    first = next(iter(weights.values()))
    front = sp.Mul(*(f for f in sp.Mul.make_args(first) if not _never_zero(f)))
    rest = {one: sp.cancel(weight / front) for one, weight in weights.items()}
    if not all(map(_never_zero, rest.values())):
        return sp.Integer(1), outers
    return front, sp.Add(*(weight * one for one, weight in rest.items()))


def _never_zero(factor: sp.Expr) -> bool:
    return bool(factor.is_nonzero) or bool(factor.as_base_exp()[0].is_positive)


def _ratio(outers: sp.Expr, shown: sp.Expr) -> sp.Expr | None:
    """The number c with outers = c shown, for two sums of outer products; None where there is none."""
    ours, theirs = _weights(outers), _weights(shown)
    if set(ours) != set(theirs):
        return None
    ratios = {sp.simplify(front / theirs[one]) for one, front in ours.items()}
    return ratios.pop() if len(ratios) == 1 else None


def memory_equations(setting: Setting, matrix: Matrix) -> list[tuple[sp.Expr, sp.Expr, Location]]:
    """Recursions of the scalars rho and w of a trained matrix, as (scalar, value, location); none where plain sums do.
    w_{t+1,s} stands for all s <= t: the outer product of step t counts where s = t."""
    memory = memory_of(setting, matrix) if setting.clock is not None else None
    if memory is None or memory.is_plain_sum:
        return []
    _require_names(setting, memory)
    t, s = setting.time, setting.past
    found = []
    for start in memory.starts:
        at = (setting.step_index(start.target), *memory.carried_of(start.others))
        found.append((initial_weight_factor_of(start.target)[at], sp.Add(*(c for c, _ in start.multiples)),
                      start.location))
    for part in memory.parts:
        one = part.update
        rho, w = initial_weight_factor_of(one.target), update_response_of(one.target)
        carried = memory.carried_of(one.others)
        steps = [(c, m, setting.step_index(m)) for c, m in one.multiples]
        kept = sp.Add(*(c * initial_weight_factor_of(m)[(step, *carried)] for c, m, step in steps))
        seen = sp.Add(*(c * update_response_of(m)[(step, s, *carried)] for c, m, step in steps))
        if part.share.has(Vector):
            raise NotCovered(f"{one.target} := {one.location.statement.value}: the factor {part.share} of its outer "
                             "products is an average of vectors; name it as a scalar first")
        found.append((rho[(t + 1, *carried)], kept, one.location))
        found.append((w[(t + 1, s, *carried)], seen + part.share * sp.KroneckerDelta(s, t), one.location))
    return found


def _require_names(setting: Setting, memory: Memory) -> None:
    """Raise ``NotCovered`` for scalars of a program by the names of what its optimizer remembers."""
    scalars = {v.name for p in setting.program.locations() for e in p.statement.expressions for v in e.atoms(Scalar)}
    ours = {family(part.update.target).name for part in memory.parts
            for family in (initial_weight_factor_of, update_response_of)}
    if clash := sorted(scalars & ours):
        raise NotCovered(f"program {setting.program.name}: it has scalars {', '.join(clash)}, the names of what its "
                         f"optimizer remembers of {memory.matrix}; expected other names")


def decays(setting: Setting, matrix: Matrix) -> bool:
    """Does the first update leave less, or more, of an initial matrix than there was, as weight decay does?"""
    trained = next((m for m in setting.trained() if m.same_family(matrix)), None)
    if trained is None or setting.clock is None:
        return False
    first, known = {setting.time: setting.clock.first}, dict[sp.Expr, sp.Expr]()
    given = {initial_weight_factor_of(m).name: sp.Integer(1) for m in setting.program.matrices}
    for target, value, _ in memory_equations(setting, trained):
        if not target.has(setting.past):
            value = value.subs(first)
            value = value.xreplace({s: known.get(s, given.get(s.name, sp.Integer(0))) for s in value.atoms(Scalar)})
            known[target.subs(first)] = value
            if target.name == initial_weight_factor_of(matrix).name and sp.simplify(value - 1) != 0:
                return True
    return False
