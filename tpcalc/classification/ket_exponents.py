"""The exponents of L that a verdict reads, from the terms of any network's ket equations."""

from __future__ import annotations

from fractions import Fraction

import sympy as sp

from ..calculus import KetEquations
from ..calculus.kets import Bracket, Ket
from ..calculus.setting import Product
from ..limits import Affine, Cell, Contribution, Exponent, KetTerms, Orders, Quantity, Sort, entrywise, join
from .sizes import Exponents


def read_exponents(equations: KetEquations, found: Orders, cell: Cell, phi: sp.Expr) -> Exponents:
    """Sizes of the stream, of what matrices make of it, and of their changes; phi: the activation, of one symbol."""
    return _KetReader(equations, found, cell).read(phi)


class _KetReader:
    """Sizes of kets, with every part that they have; what layers add to the stream is taken per layer."""

    def __init__(self, equations: KetEquations, found: Orders, cell: Cell) -> None:
        self.setting, self.equations, self.found, self.cell = equations.setting, equations, found, cell
        terms = KetTerms(equations)
        self.stream = min(terms.accumulating)
        self.size = len(found.parameters)
        born = next(one for one in self._to_stream(0) if one.rule == "independent layers" and not one.update)
        self.branch = born.weight - Affine.number(Fraction(1, 2), self.size)

    def read(self, phi: sp.Expr) -> Exponents:
        forward = [p for p in self.setting.products if not p.transposed]
        dx, df = self._of(Sort.CHANGE, 1, self.stream), self.cell.of("f", 1)
        if self.cell.explosions:  # what the first update does to features that were there before it
            dx = df = self._moved_family(self.stream)
        hidden = join(self._of(Sort.KET, 0, self.setting.family_number(p.matvec.vector)) for p in forward)
        changes = join(self._change(p, False) for p in forward)
        updates = join(self._change(p, True) for p in forward)
        bent = join(self._change(p, True) for p in forward if self._is_bent(p))
        error = bent.power(Fraction(3, 2) if entrywise.has_kinks(phi) else Fraction(2))
        adding = {rule: join(self.cell.weight(one) for one in self._to_stream(1) if one.rule == rule)
                  for rule in ("layers", "independent layers")}
        exploded = bool(self.cell.explosions) and self.cell.explosions[0][0].step == 0
        found = Exponents(
            x_init=self._of(Sort.KET, 0, self.stream), h_init=hidden, f_init=self.cell.of("f", 0), dx=dx,
            dh=changes.plus(dx), df=df, update=updates,
            noise=adding["independent layers"], drift=adding["layers"],
            linearisation=Exponent.single(self.branch).times(error),
            explosions=tuple((key.step, v) for key, v in self.cell.explosions), grows=self.cell.grows,
            exact=False).pruned(self.cell.region)
        return found.without_training() if exploded else found

    def _of(self, sort: Sort, t: int, family: int) -> Exponent:
        """The size of a ket, or of its change since the first step."""
        return join(e for key, e in self.cell.exponents.items()
                    if (key.sort, key.step, key.number) == (sort, t, family))

    @staticmethod
    def _is_change(key: Quantity, family: int) -> bool:
        """Is the quantity a change of the family in the second step?"""
        return (key.sort, key.step, key.number) == (Sort.CHANGE, 1, family)

    def _moved_family(self, family: int) -> Exponent:
        return join(self._moved(key, frozenset()) for key in dict.fromkeys(
            one.target for one in self.found.contributions if self._is_change(one.target, family)))

    def _moved(self, key: Quantity, seen: frozenset[Quantity]) -> Exponent:
        """A change in the second step, all that does not change as it was at the first; no way round a loop."""
        return join(self._moved_by(one, seen | {key}) for one in self.found.contributions if one.target == key)

    def _moved_by(self, one: Contribution, seen: frozenset[Quantity]) -> Exponent:
        found = Exponent.single(one.weight)
        for factor in one.factors:
            if factor.sort != Sort.CHANGE:
                found = found.times(self.cell.of(factor.at_step(0)))
            else:
                found = found.times(Exponent() if factor in seen else self._moved(factor, seen))
        return found

    def _to_stream(self, t: int) -> list[Contribution]:
        return [one for one in self.found.contributions
                if (one.target.sort, one.target.step, one.target.number) == (Sort.KET, t, self.stream)]

    def _change(self, product: Product, acts: bool) -> Exponent:
        """The change of W v in one layer; acts: only what updates of W do to v."""
        target = self.setting.family_number(product.place.statement.target)
        vector = self.setting.family_number(product.matvec.vector)
        found = [self._of(Sort.CHANGE, 1, vector)] if not acts and not self.cell.explosions else []
        for one in self.found.contributions:
            if one.update and self._is_change(one.target, target) and (one.term.has(Bracket) or not acts):
                gain = {"layers": Fraction(1), "independent layers": Fraction(1, 2)}.get(one.rule)
                inside = Affine.number(0, self.size) if gain is None else self.branch + Affine.number(gain, self.size)
                weight = self._moved_by(one, frozenset()) if self.cell.explosions else self.cell.weight(one)
                found.append(weight.times(Exponent.single(inside * -1)))
        return join(found)

    def _is_bent(self, product: Product) -> bool:
        """Is an entrywise function taken of what the product makes, that is not linear in it?"""
        made = product.place.statement.target
        for e in self.equations.equations:
            if isinstance(e.target, Ket) and e.place.loops == product.place.loops:
                kets = [k for k in e.value.atoms(Ket) if k.vector.same_family(made)]
                if any(sp.diff(e.value.xreplace({k: sp.Symbol("h")}), sp.Symbol("h"), 2) != 0 for k in kets):
                    return True
        return False
