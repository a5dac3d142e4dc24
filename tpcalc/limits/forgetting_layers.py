"""Layers that keep nothing of what they find: does all that enters them vanish with what they find, and faster?"""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy as sp

from ..programs.algebra import multiplied_out
from ..programs.by_position import HeadTurn
from ..programs.language import HeadSum, MatVec, Mean, Vector
from .layer_map import Sweep

NEAR_ZERO = (sp.Float("1e-3"), sp.Float("1e-6"))
STEEPEST = 1e2  # what a function may multiply a small argument by


@dataclass(frozen=True)
class Size:
    """A bound on an expression: at most of order L^power, times what a layer finds where ``vanishes``."""

    power: sp.Expr = sp.Integer(0)
    vanishes: bool = False


@dataclass(frozen=True)
class Entering:
    """Bounds on what enters a sweep's vectors; a bound that is not known is None."""

    sweep: Sweep
    known: dict[Vector, Size | None] = field(default_factory=dict)

    def foreign(self) -> sp.Expr | None:
        """A term that enters and is no small multiple of what the layer finds, or None where there is none."""
        for target in self.sweep.carried:
            for term in sp.Add.make_args(multiplied_out(self.sweep.entering(target))):
                size = self.size(term)
                if term != 0 and (size is None or not size.vanishes or not size.power.is_negative):
                    return term
        return None

    def size(self, e: sp.Expr) -> Size | None:
        if not e.has(self.sweep.depth, Vector):
            return Size()
        through = {MatVec: 1, Mean: 0, HeadSum: 0, HeadTurn: 0, sp.Sum: 0}.get(e.func)  # linear in this part
        if through is not None:
            return self.size(e.args[through])
        of_class = {self.sweep.depth.func: lambda _: Size(sp.Integer(1)), Vector: self._of_vector,
                    sp.Pow: self._of_power}
        return of_class.get(e.func, self._of_parts)(e)

    def _of_power(self, e: sp.Pow) -> Size | None:
        return Size(e.exp) if e.base == self.sweep.depth else self._of_parts(e)

    def _of_parts(self, e: sp.Expr) -> Size | None:
        inside = e.atoms(Vector) if isinstance(e, sp.Piecewise) else e.args
        parts = [self.size(part) for part in inside]
        sizes = [part for part in parts if part is not None]
        if len(sizes) < len(parts):
            return None
        if e.is_Mul:
            return Size(sp.Add(*(s.power for s in sizes)), any(s.vanishes for s in sizes))
        if e.is_Add:
            return Size(sp.Max(*(s.power for s in sizes)), all(s.vanishes for s in sizes))
        if e.is_Pow and e.exp.is_Integer and e.exp.is_positive:
            return Size(e.exp * sizes[0].power, sizes[0].vanishes)
        return self._of_function(e, sizes)

    def _of_vector(self, v: Vector) -> Size | None:
        target = self.sweep.assigned(v)
        if target is None:
            return Size()
        if target in self.sweep.carried:
            return Size(vanishes=True)
        if target not in self.known:
            self.known[target] = self.size(next(a.value for a in self.sweep.assignments if a.target == target))
        return self.known[target]

    def _of_function(self, e: sp.Expr, sizes: list[Size]) -> Size | None:
        """A function of what is of order one is of order one; of what vanishes it vanishes where it has no constant
        and is not too steep at 0."""
        if any(s.power.is_positive is not False for s in sizes):
            return None
        vectors = [v for v in e.atoms(Vector)]
        if len(vectors) != 1 or not any(s.vanishes for s in sizes):
            return None if e.is_Pow and sizes[0].vanishes else Size()
        size = self.size(vectors[0])
        at_zero = e.subs(vectors[0], 0)
        slopes = [e.subs(vectors[0], sign * h) / h for h in NEAR_ZERO for sign in (1, -1)]
        if not at_zero.is_finite or not all(s.is_number and s.is_finite for s in slopes):
            return None
        steep = any(abs(float(s)) > STEEPEST for s in slopes)
        return size if at_zero == 0 and not steep and size is not None else Size()
