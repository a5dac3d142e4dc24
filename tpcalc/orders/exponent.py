"""Exponents of L: maxima of affine forms, with -oo for what vanishes and +oo for what explodes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Iterable, Sequence

import sympy as sp

from .._checks import symbolic
from .affine import Affine
from .region import Region


@dataclass(frozen=True)
class Exponent:
    """The largest of some affine forms; no forms: -oo; explodes: +oo, faster than every power of L."""

    forms: frozenset[Affine] = frozenset()
    explodes: bool = False

    @classmethod
    def single(cls, form: Affine) -> "Exponent":
        return cls(frozenset((form,)))

    @property
    def vanishes(self) -> bool:
        return not self.forms and not self.explodes

    def times(self, other: "Exponent") -> "Exponent":
        """The exponent of a product."""
        if self.vanishes or other.vanishes:
            return Exponent()
        if self.explodes or other.explodes:
            return EXPLODES
        return Exponent(frozenset(f + g for f in self.forms for g in other.forms))

    def plus(self, other: "Exponent") -> "Exponent":
        """The exponent of a sum in which nothing cancels."""
        return EXPLODES if self.explodes or other.explodes else Exponent(self.forms | other.forms)

    def power(self, factor: Fraction) -> "Exponent":
        """The exponent of a positive power."""
        return Exponent(frozenset(f * factor for f in self.forms), self.explodes)

    def pruned(self, region: Region) -> "Exponent":
        """Without the forms that are nowhere on the region larger than all others."""
        if len(self.forms) < 2:
            return self
        if not region.size:  # numbers
            return Exponent(frozenset((max(self.forms),)), self.explodes)
        return Exponent(_pruned(self.forms, region), self.explodes)

    def at(self, point: Sequence[Fraction]) -> sp.Expr:
        """The value at a point, exact, -oo or oo."""
        if self.explodes:
            return sp.oo
        value = max((f.at(point) for f in self.forms), default=None)
        return -sp.oo if value is None else symbolic(value)

    def expression(self, parameters: Sequence[sp.Symbol]) -> sp.Expr:
        """The exponent as a sympy expression."""
        if self.explodes:
            return sp.oo
        return sp.Max(*(f.expression(parameters) for f in self.forms)) if self.forms else -sp.oo


@lru_cache(maxsize=4096)
def _pruned(forms: frozenset[Affine], region: Region) -> frozenset[Affine]:
    kept: list[Affine] = []
    for form in sorted(forms):  # first against one other form each, which is cheap
        if not any(region.never(form - other, ">") for other in kept):
            kept = [other for other in kept if not region.never(other - form, ">")] + [form]
    for form in list(kept) if len(kept) > 2 else ():
        part = region
        for other in kept:
            part = part if other == form else part.where(form - other, ">")
        if part.is_empty:
            kept.remove(form)
    return frozenset(kept)


EXPLODES = Exponent(explodes=True)


def join(exponents: Iterable[Exponent]) -> Exponent:
    """The exponent of a sum."""
    found = Exponent()
    for one in exponents:
        found = found.plus(one)
    return found
