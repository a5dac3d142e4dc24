"""The exponents of L that a verdict reads."""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields, replace
from fractions import Fraction
from typing import Sequence

import sympy as sp

from .._types import Fields
from ..orders import EXPLODES, Exponent, Region

AT_START = ("x_init", "h_init", "f_init")


@dataclass(frozen=True)
class Exponents:
    """Powers of L on a region of the plane: -oo where a quantity vanishes, +oo where it explodes.

    x_init, h_init, f_init: sizes at initialization; dx, dh, df: their changes after one step on the same
    input; update: of the weight update's action on x, in h; noise, drift: what a piece of the network of
    length eps adds to x, the former times eps^(1/2), the latter times eps; linearization: the error in x of
    one layer when a smooth activation is linearized in the update. explosions: training steps and v of what grows
    like exp(L^v), the first one first; grows: exponents grow from one training step to the next; exact: these two
    are no upper bounds; bounds: the names of the exponents that are upper bounds. at_first, f_at_first: what updates do
    to x and f where all else is as at initialization, where that is asked for and known by more than a bound: if it
    grows, x does, and f does not stay where it was, however bounded functions hold back what has grown. after: how
    many updates they are after; updates: how many were counted; settled: does the last of these have the exponents of
    the one before, so that all later ones have them?
    """

    x_init: Exponent
    h_init: Exponent
    f_init: Exponent
    dx: Exponent
    dh: Exponent
    df: Exponent
    update: Exponent
    noise: Exponent
    drift: Exponent
    linearization: Exponent
    explosions: tuple[tuple[int, Exponent], ...] = ()
    grows: bool = False
    exact: bool = True
    bounds: frozenset[str] = frozenset()
    at_first: Exponent = Exponent()
    f_at_first: Exponent = Exponent()
    after: int = field(default=1, compare=False)
    updates: int = field(default=1, compare=False)
    settled: bool = field(default=False, compare=False)

    def pruned(self, region: Region) -> "Exponents":
        """Without affine forms that are nowhere on the region the largest."""
        sizes: Fields = {f.name: getattr(self, f.name).pruned(region) for f in self.sizes()}
        return replace(self, **sizes)

    def without_training(self) -> "Exponents":
        """Where the network explodes at initialization, training has nothing to start from.

        Where its gradient alone does, bounded functions may hold what updates do: the exponents are upper bounds then.
        """
        forward = any(getattr(self, name).explodes for name in AT_START)
        sizes: Fields = dict.fromkeys(self.of_updates(), EXPLODES)
        return replace(self, **sizes, bounds=self.bounds if forward else self.bounds | self.of_updates())

    def at(self, point: Sequence[sp.Expr]) -> dict[str, sp.Expr]:
        """Values at (alpha, gamma), by name."""
        return {f.name: getattr(self, f.name).at(point) for f in self.sizes()}

    def known_at(self, point: Sequence[sp.Expr], directions: Sequence[Sequence[Fraction]] = ()) -> "Exponents":
        """These, or where it is undecided what updates do, others that say nothing of updates.

        It is where training explodes by upper bounds alone, from a stable start, though no update is large directly.
        directions: along which the point is thought of as moved a little, those before first.
        """
        if self.exact or not (self.explosions or self.grows):
            return self
        sizes = [getattr(self, name) for name in (*AT_START, "dx", "df")]
        along = [[form.at(point), *(form.rise(direction) for direction in directions)]
                 for one in sizes for form in one.forms]
        if any(one.explodes for one in sizes) or any(values > [Fraction(0)] * len(values) for values in along):
            return self
        return replace(self.unknown(), at_first=Exponent(), f_at_first=Exponent())

    def unknown(self) -> "Exponents":
        """Others that say nothing of updates but what they do at first."""
        sizes: Fields = dict.fromkeys(self.of_updates(), EXPLODES)
        return replace(self, **sizes, explosions=(), grows=False, bounds=self.bounds | self.of_updates())

    @classmethod
    def common(cls, several: Sequence["Exponents"]) -> "Exponents | None":
        """What holds wherever one of several does that know no more of updates than upper bounds; None of others."""
        one, *others = (each.unknown() for each in several)
        alike = all(each.bounds >= cls.of_updates() for each in several) and all(other == one for other in others)
        return one if alike else None

    @classmethod
    def of_updates(cls) -> frozenset[str]:
        """The names of the exponents that training has, not its start."""
        return frozenset(f.name for f in cls.sizes() if f.name not in AT_START)

    @classmethod
    def sizes(cls) -> list[Field]:
        """The fields that are exponents."""
        return [f for f in fields(cls) if f.name not in (
            "explosions", "grows", "exact", "bounds", "at_first", "f_at_first", "after", "updates", "settled")]
