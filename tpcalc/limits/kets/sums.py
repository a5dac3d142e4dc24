"""Sums over earlier steps: each term of a sum its own, with all factors inside."""

from __future__ import annotations

import sympy as sp

from ...calculus.kets import random_parts
from ...errors import NotCovered
from ...gaussian.variables import Expectation
from ...programs.algebra import multiplied_out


def total(value: sp.Expr, *limits: sp.Tuple) -> sp.Expr:
    """The sum, 0 of what is 0."""
    return sp.Sum(value, *limits) if value != 0 else sp.Integer(0)


def factors_inside(value: sp.Expr) -> sp.Expr:
    """Terms multiplied out, factors of a sum moved into it; of equal ones their number stands in front."""
    return sp.Add(*map(_inside, sp.Add.make_args(multiplied_out(value))))


def depth_power(term: sp.Expr, depth: sp.Symbol) -> sp.Expr:
    """The power of L among a term's factors."""
    return sp.Add(*(exponent for base, exponent in (f.as_base_exp() for f in sp.Mul.make_args(term)) if base == depth))


def terms_of(value: sp.Expr) -> tuple[sp.Expr, ...]:
    """Terms that differ, all factors of a sum inside of it."""
    return tuple(_inside(term) for term in sp.Add.make_args(factors_inside(value)) if term != 0)


def _inside(term: sp.Expr) -> sp.Expr:
    sums = [f for f in sp.Mul.make_args(term) if f.has(sp.Sum)]
    if not sums:
        return term
    if len(sums) > 1 or not isinstance(sums[0], sp.Sum):
        raise NotCovered(f"{term}: expected one sum over earlier steps in a term")
    one, = sums
    return total(one.function * (term / one), *one.limits)


def flattened(value: sp.Expr) -> sp.Expr:
    """Sums of sums as one sum, with all that is multiplied inside, such as those of a batch in those over steps."""
    def of_sums(e: sp.Basic) -> bool:
        return isinstance(e, sp.Sum) and e.function.has(sp.Sum)
    return factors_inside(value.replace(of_sums, _joined)) if any(map(of_sums, value.atoms(sp.Sum))) else value


def _joined(outer: sp.Sum) -> sp.Expr:
    found = sp.Integer(0)
    for term in terms_of(outer.function):
        inner = term.limits if isinstance(term, sp.Sum) else ()
        found += sp.Sum(term.function if inner else term, *inner, *outer.limits)
    return found


def collected(value: sp.Expr) -> sp.Expr:
    """Terms with the same means together, and means with the same factor; means stay as they are written."""
    names = {mean: sp.Dummy() for mean in value.atoms(Expectation)}
    whole = {name: mean for mean, name in names.items()}
    factors: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(sp.expand(value.xreplace(names))):
        means = sp.Mul(*(f for f in sp.Mul.make_args(term) if f.atoms(sp.Dummy) & whole.keys()))
        factors[means] = factors.get(means, sp.Integer(0)) + term / means
    groups: dict[sp.Expr, sp.Expr] = {}
    for means, factor in factors.items():
        number, rest = _signed(sp.factor(factor))
        groups[rest] = groups.get(rest, sp.Integer(0)) + number * means
    return sp.Add(*(rest * means.xreplace(whole) for rest, means in groups.items()))


def _signed(factor: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """(number, rest), a minus sign inside a sum where there is one."""
    number, rest = factor.as_coeff_Mul()
    several = next((f for f in sp.Mul.make_args(rest) if f.is_Add), None)
    if number.is_negative and several is not None:
        return -number, rest / several * sp.Add(*(-term for term in several.args))
    return number, rest


def regrouped(value: sp.Expr, depth: sp.Symbol) -> sp.Expr:
    """The value with one sum for each range and each random variable in it, powers of L in front."""
    groups: dict[tuple[tuple[sp.Tuple, ...], sp.Expr, sp.Expr], sp.Expr] = {}
    for term in terms_of(value):
        inside, limits = (term.function, term.limits) if isinstance(term, sp.Sum) else (term, ())
        power = depth_power(inside, depth)
        random = sp.Mul(*(f for f in sp.Mul.make_args(inside) if random_parts(f)))
        key = limits, power, random
        groups[key] = groups.get(key, sp.Integer(0)) + inside / depth**power / random
    found = sp.Integer(0)
    for (limits, power, random), number in groups.items():
        body = collected(number) * random
        found += depth**power * (sp.Sum(body, *limits) if limits else body)
    return found
