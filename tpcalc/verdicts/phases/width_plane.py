"""The plane of two exponents of n of a perceptron, as ``phase_plane`` is that of exponents of L."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterator, Mapping

import sympy as sp

from ..._checks import short, symbolic
from ...errors import NotCovered
from ...orders import Affine, NotAffine, Region
from ...scaling import WidthScaling
from ...width.regimes import WidthRegime, counted_powers, width_regime
from .plane import plain


@dataclass(frozen=True)
class WidthPlane:
    """A width scaling that has two symbols, which the plane is of, in the order in which the scaling names them.

    Raises ``ValueError`` for other numbers of symbols, and for exponents that are not maxima of affine forms in them.
    """

    scale: WidthScaling
    symbols: tuple[sp.Symbol, ...]
    of_depth_scalings = False
    limits = ()

    @classmethod
    def of(cls, scale: WidthScaling) -> WidthPlane:
        found = tuple(dict.fromkeys(s for e in _exponents(scale) for s in sorted(e.free_symbols, key=str)))
        if len(found) != 2:
            raise ValueError(f"scale: got {short(scale)}, with {len(found)} symbols ({', '.join(map(str, found))}); "
                             "expected two, of which the plane is")
        plane = cls(_substituted(scale, dict(zip(found, plain(found)))), plain(found))
        try:
            tuple(plane.decisive())
        except NotAffine:
            raise NotCovered(f"scale: got {short(scale)}; expected exponents that are affine forms in "
                             f"{', '.join(map(str, found))} with rational coefficients") from None
        return plane

    def decisive(self) -> Iterator[Affine]:
        """Forms whose signs say what the regime at a point is."""
        for power in counted_powers(self.scale).values():
            yield from (Affine.of(choice, self.symbols) for choice in _choices(power))

    def judged(self, face: Region) -> WidthRegime:
        """The regime at a point inside a face."""
        point = face.point()
        assert point is not None
        values = dict(zip(self.symbols, map(symbolic, point)))
        where = ", ".join(f"{symbol} = {value}" for symbol, value in values.items())
        return replace(width_regime(_substituted(self.scale, values)), where=where)


def _choices(power: sp.Expr) -> set[sp.Expr]:
    """What a power is where each maximum in it is one of its arguments; it vanishes only where one of these does."""
    extrema = power.atoms(sp.Max, sp.Min)
    if not extrema:
        return {sp.expand(power)}
    one = min(extrema, key=sp.default_sort_key)
    return set().union(*(_choices(power.xreplace({one: choice})) for choice in one.args))


def _substituted(scale: WidthScaling, values: Mapping[sp.Expr, sp.Expr]) -> WidthScaling:
    p, q = ([symbolic(e).xreplace(values) for e in row] for row in (scale.p, scale.q))
    return WidthScaling(p, q, symbolic(scale.r).xreplace(values))


def _exponents(scale: WidthScaling) -> tuple[sp.Expr, ...]:
    return (*scale.p, *scale.q, scale.r)
