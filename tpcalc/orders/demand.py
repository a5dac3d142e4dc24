"""Which derivatives of kets in base kets are read, in so many training steps: others need not be counted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import sympy as sp

from ..calculus.kets import Bracket, Ket, Response
from ..programs.language import Vector
from .quantities import BaseQuantity
from .terms import additive_terms

if TYPE_CHECKING:
    from .ket_terms import KetTerms

Derivative = tuple[int, int, BaseQuantity]  # of a family, at a step, in a base ket


def demanded(terms: KetTerms, last: int) -> frozenset[Derivative]:
    """The derivatives that the equations of steps 0 to ``last`` read, and those that these are made of."""
    reading, found = terms.reading, set()
    written: dict[tuple[int, int], list[sp.Expr]] = {}
    waiting: list[Derivative] = []

    def want(vector: Vector, base: BaseQuantity) -> None:
        if reading.equations.setting.initial_number(vector) is not None:
            return
        family = reading.family(vector)
        one = family, reading.step(vector), base_for(terms, family, base)
        if one not in found:
            found.add(one)
            waiting.append(one)

    for t in range(last + 1):
        for e in reading.equations.equations:
            parts = [one for term in additive_terms(e.value) if not (isinstance(e.target,
                                                                                Ket) and reading.is_stream(e, term))
                     for one in terms.written(term, t)]
            if isinstance(e.target, Ket):
                written.setdefault((reading.family(e.target.vector), t), []).extend(parts)
            for response in set().union(*(part.atoms(Response) for part in parts)):
                want(response.vector, reading.base_of(response))
            for bracket in set().union(*(part.atoms(Bracket) for part in parts)):
                for initial, other in (bracket.args, bracket.args[::-1]):
                    number = reading.equations.setting.initial_number(initial)
                    if number is not None:
                        want(other, BaseQuantity(-1, number))
    while waiting:
        family, t, base = waiting.pop()
        streams = family in terms.accumulating and not base.is_initial  # what its own layer adds is read with its own
        for part in written.get((family, t), ()):
            for ket in part.atoms(Ket):
                for one in (base, replace(base, own=True)) if streams else (base,):
                    want(ket.vector, one)
    return frozenset(found)


def base_for(terms: KetTerms, family: int, base: BaseQuantity) -> BaseQuantity:
    """The base ket that a family's derivative is named by: a stream has no layer of its own."""
    return replace(base, own=False) if family in terms.accumulating else base
