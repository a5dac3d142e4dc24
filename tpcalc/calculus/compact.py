"""Covariances as papers write them: one sum over base kets, with initial vectors as those of step -1."""

from __future__ import annotations

from typing import Sequence

import sympy as sp

from .coefficients import B, Bases
from .kets import Covariance, Gamma
from .setting import Setting

FIRST = sp.Integer(-1)  # the step of initial vectors


def compact(value: sp.Expr, setting: Setting) -> sp.Expr:
    """The value of a covariance with its terms as one sum, where they are the terms of one.

    Terms that differ in the number b of their base kets alone, for all numbers there are, become a sum over b; that
    over initial vectors joins the one over hat-kets where it is that sum's term of step -1, as ``conventions`` say.
    Equal to ``value`` term by term; what is no such term stays as it is. Source: Tensor Programs VI, Lemma C.3
    [tensor_programs_vi/lemma_c3].
    """
    families: dict[sp.Expr, dict[int, sp.Expr]] = {}
    rest: list[sp.Expr] = []
    for term in sp.Add.make_args(value):
        numbers = {gamma.args[1] for gamma in term.atoms(Gamma)}
        if len(numbers) == 1 and next(iter(numbers)).is_Integer:
            number = next(iter(numbers))
            families.setdefault(_renumbered(term, number), {})[int(number)] = term
        else:
            rest.append(term)
    sums = {generic: members for generic, members in families.items()
            if len(members) > 1 and sorted(members) == list(range(_size(generic, setting)))}
    for generic, members in families.items():
        rest += [] if generic in sums else members.values()
    hats, vectors = ([g for g in sums if isinstance(g, sp.Sum) == summed] for summed in (True, False))
    for generic in hats:
        joined = next((v for v in vectors if len(sums[v]) <= len(sums[generic]) and _first_term(generic, setting) == v),
                      None)
        if joined is not None:
            vectors.remove(joined)
        rest.append(_summed(generic, len(sums[generic]), setting, joined is not None))
    rest += [sp.Sum(generic, (B, 0, len(sums[generic]) - 1)) for generic in vectors]
    return sp.Add(*rest)


def conventions(values: Sequence[sp.Expr], setting: Setting) -> list[tuple[sp.Expr, sp.Expr, sp.Expr]]:
    """What ``compact`` values mean by covariances of step -1: left sides, right sides, and conditions."""
    limits = {limit for value in values for total in value.atoms(sp.Sum) for limit in total.limits}
    if not any(len(limit) == 3 and limit[1] == FIRST for limit in limits):
        return []
    base = Bases(setting).generic()
    here, later = base.args[2], base.args[1][0]
    last = len(setting.program.vectors) - 1
    few = last + 1 < len(setting.products)
    initial, mixed = (Covariance(B, B, sp.Tuple(FIRST), sp.Tuple(step), here, here) for step in (FIRST, later))
    found = [(initial, sp.Integer(1), sp.Le(B, last) if few else sp.true), (mixed, sp.Integer(0), sp.Ge(later, 0))]
    return [*found, (initial, sp.Integer(0), sp.Gt(B, last))] if few else found


def _size(generic: sp.Expr, setting: Setting) -> int:
    """How many base kets a term stands for: of all products, or of all initial vectors."""
    return len(setting.products if isinstance(generic, sp.Sum) else setting.program.vectors)


def _renumbered(term: sp.Expr, number: sp.Expr) -> sp.Expr:
    """The term for generic base kets: with the symbol b in the place of their number."""
    names = {g: g.func(g.args[0], B, *g.args[2:]) for g in term.atoms(Gamma)}
    names |= {c: c.func(B, B, *c.args[2:]) for c in term.atoms(Covariance) if c.args[:2] == (number, number)}
    return term.xreplace(names)


def _first_term(total: sp.Sum, setting: Setting) -> sp.Expr | None:
    """What a sum over base kets would add at step -1 on both sides, or None where it has no such term. Coefficients of
    initial vectors do not depend on a layer, so that a sum over layers is their number."""
    layers = set(Bases(setting).generic().args[2])
    body, steps = total.function, []
    for index, first, last in total.limits:
        if index in layers:
            body = body.subs(index, 0) * (last - first + 1)
        elif first == 0:
            steps.append(index)
        else:
            return None
    if len(steps) != 2 or Bases(setting).below:  # samples beside the steps
        return None
    body = body.subs({index: FIRST for index in steps})
    zero = sp.Tuple(*(0 for _ in layers))
    return body.xreplace({Covariance(B, B, sp.Tuple(FIRST), sp.Tuple(FIRST), zero, zero): sp.Integer(1)})


def _summed(generic: sp.Sum, size: int, setting: Setting, from_first: bool) -> sp.Expr:
    """The sum over b and over base kets, its constant factor in front."""
    layers = set(Bases(setting).generic().args[2])
    limits = [(i, FIRST if from_first and i not in layers else first, last) for i, first, last in generic.limits]
    constant, body = generic.function.as_independent(Gamma, Covariance, as_Add=False)
    return sp.Mul(constant, sp.Sum(body, (B, 0, size - 1), *limits))
