"""Products of kets taken apart into what the order calculus has rules for."""

from __future__ import annotations

from typing import Iterator

import sympy as sp

from ..calculus.kets import Bracket, Hat, Ket, Mean, random_parts
from . import entrywise


def factors_of(expression: sp.Expr) -> list[sp.Expr]:
    """Factors of a product, functions of one ket together."""
    plain: list[sp.Expr] = []
    functions: dict[frozenset[sp.Expr], sp.Expr] = {}
    for factor in sp.Mul.make_args(expression):
        base, power = factor.as_base_exp()
        if isinstance(base, (Ket, Hat)) and power.is_Integer and power > 0:
            plain += [base] * int(power)
        elif random_parts(factor):
            parts = frozenset(random_parts(factor))
            functions[parts] = functions.get(parts, sp.Integer(1)) * factor
        else:
            plain.append(factor)
    return [*plain, *functions.values()]


def grows(factor: sp.Expr) -> bool:
    """Does a factor grow with its ket, linearly?"""
    if isinstance(factor, (Ket, Hat)) or not random_parts(factor):
        return bool(random_parts(factor))
    return bool(entrywise.growth(one_ket(factor)[1]))


def parity(product: sp.Expr) -> int:
    """1 where a product keeps its sign when all kets change theirs, -1 where it changes it too, 0 for neither."""
    found = 1
    for factor in factors_of(product):
        if isinstance(factor, (Ket, Hat)):
            found = -found
        elif random_parts(factor):
            found *= entrywise.parity(one_ket(factor)[1])
    return found


def one_ket(function: sp.Expr) -> tuple[Ket, sp.Expr]:
    """The ket that a function depends on, and the function of a symbol."""
    kets = random_parts(function)
    if len(kets) != 1 or not isinstance(next(iter(kets)), Ket):
        raise ValueError(f"{function}: no rule for the order of a function of several kets; name its argument")
    ket, = kets
    if function.has(Mean, Bracket):
        raise ValueError(f"{function}: no rule for the order of a function of averages")
    return ket, entrywise.in_one_symbol(function, ket)


def centred_pairs(terms: list[sp.Expr]) -> Iterator[tuple[sp.Expr, bool]]:
    """Terms; True for those from which the program takes the mean away, which is left out."""
    means = {term for term in terms if term.has(Mean) and not random_parts(term)}
    for term in [term for term in terms if term not in means]:
        kets = random_parts(term)
        opposite = {-term.xreplace({k: Mean(k)}) for k in kets} if not isinstance(term, sp.Sum) else set()
        centred = bool(opposite & means)
        means -= opposite
        yield term, centred
    for term in means:
        yield term, False
