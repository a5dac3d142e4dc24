"""The exponents of L that a verdict reads, from the terms of any network's ket equations."""

from __future__ import annotations

from fractions import Fraction
from typing import Iterable

import sympy as sp

from ..calculus import KetEquations
from ..calculus.kets import Bracket, Hat, random_parts
from ..calculus.setting import Product
from ..limits import Affine, Cell, Contribution, Exponent, KetTerms, Orders, entrywise, join
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
        entering = [one for one in self._to_stream(1, "") if one.rule == "independent layers"]
        self.entering = [one for one in entering if not one.update]
        self.branch = self.entering[0].weight - Affine.number(Fraction(1, 2), self.size)

    def read(self, phi: sp.Expr) -> Exponents:
        forward = [p for p in self.setting.products if not p.transposed]
        dx = self._of("change ", 1, self.stream)
        hidden = join(self._of("", 0, self.setting.family_number(p.matvec.vector)) for p in forward)
        changes = join(self._change(p, False) for p in forward)
        updates = join(self._change(p, True) for p in forward)
        bent = join(self._change(p, True) for p in forward if self._is_bent(p))
        error = bent.power(Fraction(3, 2) if entrywise.has_kinks(phi) else Fraction(2))
        coherent = [one for one in self._to_stream(1, "") if one.rule == "layers"]
        return Exponents(
            x_init=self._of("", 0, self.stream), h_init=hidden, f_init=self.cell.of("f", 0), dx=dx,
            dh=changes, df=self.cell.of("f", 1), update=updates,
            noise=join(self.cell.weight(one) for one in self._to_stream(1, "") if one.rule == "independent layers"),
            drift=join(self.cell.weight(one) for one in coherent),
            linearisation=Exponent.single(self.branch).times(error),
            explosions=tuple((int(key[1]), v) for key, v in self.cell.explosions), grows=self.cell.grows,
        ).pruned(self.cell.region)

    def _of(self, head: str, t: int, family: int) -> Exponent:
        """The size of a ket, or of its change since the first step."""
        return join(e for key, e in self.cell.exponents.items()
                    if len(key) == 4 and key[1:] == (t, -1, family) and str(key[0]).startswith("change ") == bool(head))

    def _to_stream(self, t: int, head: str) -> Iterable[Contribution]:
        return [one for one in self.found.contributions if len(one.target) == 4
                and one.target[1:] == (t, -1, self.stream) and one.target[0] in (head + "slow", head + "mean")]

    def _change(self, product: Product, acts: bool) -> Exponent:
        """The change of W v in one layer; acts: only what updates of W do to v."""
        target = self.setting.family_number(product.place.statement.target)
        found = [] if acts else [self._of("change ", 1, self.setting.family_number(product.matvec.vector))]
        for one in self.found.contributions:
            if (one.update and one.target[1:] == (1, -1, target) and str(one.target[0]).startswith("change ")
                    and (one.term.has(Bracket) or not acts)):
                gain = {"layers": 1, "independent layers": Fraction(1, 2)}.get(one.rule)
                inside = Affine.number(0, self.size) if gain is None else self.branch + Affine.number(gain, self.size)
                found.append(self.cell.weight(one).times(Exponent.single(inside * -1)))
        return join(found)

    def _is_bent(self, product: Product) -> bool:
        """Is an entrywise function, not a linear one, taken of what the product makes?"""
        made = product.place.statement.target
        for e in self.equations.equations:
            for factor in e.value.atoms(sp.Function) if e.place.position <= self._last_forward else ():
                if any(not isinstance(k, Hat) and k.vector.same_family(made) for k in random_parts(factor)):
                    return True
        return False
