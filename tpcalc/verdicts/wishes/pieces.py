"""Where wishes are met together: a union of polytopes of exponents, one or more for every regime of eps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Iterable, Sequence

import sympy as sp

from ...orders import Affine
from ...orders.polytope import Polytope
from .boundaries import Bounded, at_least, bounded
from .settings import PowerCondition, EpsRegime, PowerSettings
from .sizes import AT_INIT, Form, PowerSizes, Reason
from .table import Clause, Wish, sizes_at_most


@dataclass(frozen=True)
class Piece:
    """A polytope of exponents on which wishes are met, and the regime of eps that it is of."""

    regime: EpsRegime
    part: Polytope


class Bounds:
    """Where the sizes of a network are of order one, whatever trains it; what several wishes need is found once."""

    def __init__(self, sizes: PowerSizes) -> None:
        self.sizes = sizes
        self.base, self.far = sizes.base, sizes.far
        self.reasons: dict[Affine, Reason] = {}
        self._bounded: dict[tuple[str, ...], Bounded] = {}
        self._least: dict[tuple[str, tuple[str, ...]], list[Form]] = {}

    # Sizes that are of order one at most.

    def bounded(self, names: Iterable[str]) -> Bounded:
        """Where these sizes are, and those at initialization, without which none else is counted."""
        asked = tuple(dict.fromkeys((*AT_INIT, *names)))
        if asked not in self._bounded:
            later = [name for name in asked if name not in AT_INIT]
            if later:
                before = self.bounded(())
                found = before if before.part.is_empty else bounded(self.sizes, later, before.part, self.base)
                found = Bounded(found.part, tuple(dict.fromkeys((*before.cuts, *found.cuts))), found.nowhere)
            else:
                found = bounded(self.sizes, asked, self.far, self.base)
            self._bounded[asked] = found
            for form in found.cuts:
                self.reasons.setdefault((form.affine * -1).scaled(), form.reason)
        return self._bounded[asked]

    # Sizes that are of order one at least.

    def least(self, name: str, names: Iterable[str]) -> list[Form]:
        """Forms of which one is at least 0 where a size is so large, among points where those of ``names`` are not
        larger."""
        location = name, tuple(names)
        if location not in self._least:
            self._least[location] = at_least(self.sizes, name, self.bounded(location[1]).part, self.base)
            for form in self._least[location]:
                self.reasons.setdefault(form.affine.scaled(), form.reason)
        return self._least[location]

    def alternatives(self, clause: Clause, names: Iterable[str]) -> list[Affine]:
        """Forms of which one is at least 0 where a clause holds."""
        return list(dict.fromkeys(form.affine for name in clause for form in self.least(name, names)))


class Pieces:
    """Pieces for any wishes of one network and optimizer."""

    def __init__(self, bounds: Bounds, settings: PowerSettings) -> None:
        self.sizes, self.settings, self.far = bounds.sizes, settings, bounds.far
        self.bounded, self.alternatives = bounds.bounded, bounds.alternatives
        self.reasons = dict[Affine, Reason]()
        self._known = bounds.reasons

    def of(self, wishes: Sequence[Wish], among: Sequence[str] | None = None) -> list[Piece]:
        """The pieces on which all wishes are met, none inside another; among: sizes of order one at most where those
        that are to be large are counted, default those of the wishes."""
        names = sizes_at_most(wishes)
        part = self.bounded(names).part
        if part.is_empty:
            return []
        clauses = list(chain.from_iterable(wish.at_least(self.sizes) for wish in wishes))
        found: list[Piece] = []
        for regime in self.settings.regimes:
            asked = self.asked(wishes, regime)
            if asked is None:
                continue
            parts = largest([part.where(chain.from_iterable(one.forms for one in asked))])
            for clause in clauses:
                if parts:
                    ways = self.alternatives(clause, names if among is None else among)
                    parts = largest(one.cut(way) for one in parts for way in ways)
            found += [Piece(regime, one) for one in parts]
        for piece in found:
            self.sizes.require_inside(piece.part)
        return found

    def asked(self, wishes: Iterable[Wish], regime: EpsRegime) -> list[PowerCondition] | None:
        """Conditions of a regime and of wishes for what is set; None where one cannot be met."""
        found = list(regime.conditions)
        for asked in dict.fromkeys(wish.settings for wish in wishes if wish.settings):
            conditions = self.settings.conditions(asked, regime)
            if conditions is None:
                return None
            found += conditions
        for condition in found:
            for form in condition.forms:
                self.reasons.setdefault(form.scaled(), condition.reason)
        return found

    def is_far(self, form: Affine) -> bool:
        """Is it a wall of the simplex that all is looked for in?"""
        return form in self.far.walls

    def reason(self, form: Affine) -> Reason:
        found = self._known.get(form.scaled()) or self.reasons.get(form.scaled())
        return Reason(sp.Integer(1), "of the search alone") if found is None else found


def largest(parts: Iterable[Polytope]) -> list[Polytope]:
    """Those that are not empty, and not part of another."""
    kept: list[Polytope] = []
    for part in parts:
        if part.is_empty or any(all(map(other.contains, part.corners)) for other in kept):
            continue
        kept = [other for other in kept if not all(map(part.contains, other.corners))] + [part]
    return kept
