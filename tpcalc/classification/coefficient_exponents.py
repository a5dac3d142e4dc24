"""The exponents of L that a verdict reads, from the terms of a linear network's derived recursion."""

from __future__ import annotations

from fractions import Fraction
from typing import Callable, Iterable

from ..calculus import RecursionEquations
from ..calculus.setting import Product
from ..limits import Affine, Base, Cell, Contribution, Exponent, Orders, Quantity, Sort, Terms, join
from .sizes import Exponents


def read_exponents(recursion: RecursionEquations, found: Orders, cell: Cell) -> Exponents:
    """Sizes of vectors from those of their coefficients."""
    return _Reader(recursion, found, cell).read()


class _Reader:
    """Reads sizes of vectors off the terms of their coefficients, on one cell.

    A hat-ket brings its standard deviation; Gamma's factor sqrt(L) is made for hat-kets of all layers together, not
    for that of the own layer alone.
    """

    def __init__(self, recursion: RecursionEquations, found: Orders, cell: Cell) -> None:
        self.found, self.cell = found, cell
        self.setting = recursion.setting
        self.stream = min(Terms(recursion).accumulating)  # the first family that layers add to
        self.forward = [p for p in self.setting.products if not p.transposed]
        born = next(one for one in self._born(0))  # with eps sqrt(L)
        self.branch = born.weight - self._number(Fraction(1, 2))

    def read(self) -> Exponents:
        of = self.cell.of
        dx = self._largest(one for one in self._terms(1, self.stream) if one.update)
        changes, dh, update = {self.stream: dx}, Exponent(), Exponent()
        for p in self.forward:
            acted = self._of_product(p, lambda one: any(f.sort == Sort.COVARIANCE for f in one.factors))
            vector = self.setting.family_number(p.matvec.vector)
            changed = changes[vector].plus(self._of_product(p, lambda one: True))
            changes.setdefault(self._family(p), changed)
            dh, update = dh.plus(changed), update.plus(acted)
        start = join(self._in_vector(one.target, self.cell.weight(one)) for one in self._terms(0, self.stream))
        linear = Exponent.single(self.branch).times(update).times(update)
        found = Exponents(
            x_init=start.plus(self._boundary()),
            h_init=join(self._variance(0, p.number).power(Fraction(1, 2)) for p in self.forward),
            f_init=of("f", 0), dx=dx, dh=dh, df=of("f", 1), update=update,
            noise=self._largest(self._born(1)), drift=dx, linearisation=linear,
            explosions=tuple((key.step, v) for key, v in self.cell.explosions), grows=self.cell.grows)
        exploded = bool(self.cell.explosions) and self.cell.explosions[0][0].step == 0
        return found.without_training() if exploded else found.pruned(self.cell.region)

    def _number(self, value: Fraction | int) -> Affine:
        return Affine.number(value, len(self.found.parameters))

    def _born(self, t: int) -> list[Contribution]:
        """Where a step's own hat-kets enter the stream."""
        return [one for one in self._terms(t, self.stream) if one.rule == "born" and one.target.base
                and one.target.base.step == t]

    def _terms(self, t: int, family: int) -> list[Contribution]:
        return [one for one in self.found.contributions if one.target.sort == Sort.COEFFICIENT
                and one.target.step == t and one.target.number == family]

    def _family(self, product: Product) -> int:
        """The family that the product enters."""
        return self.setting.family_number(product.place.statement.target)

    def _of_product(self, product: Product, chosen: Callable[[Contribution], bool]) -> Exponent:
        """The size, in W v of one layer, of the chosen terms that updates bring to it."""
        family = self._family(product)
        found = Exponent()
        for one in self._terms(1, family):
            if one.update and chosen(one):
                gain = self._number(int(one.rule == "layers"))
                size = self.cell.weight(one) if family != self.stream else self.cell.weight(one).times(
                    Exponent.single((self.branch + gain) * -1))
                found = found.plus(self._in_vector(one.target, size))
        return found

    def _largest(self, terms: Iterable[Contribution]) -> Exponent:
        return join(self._in_vector(one.target, self.cell.weight(one)) for one in terms)

    def _in_vector(self, target: Quantity, size: Exponent) -> Exponent:
        """The size that a coefficient of this size gives its vector."""
        base = target.base
        assert base is not None
        if base.is_initial:
            return size
        lone = Exponent.single(self._number(Fraction(-1, 2) if base.own else 0))
        return size.times(self._variance(base.step, base.number).power(Fraction(1, 2))).times(lone)

    def _variance(self, step: int, product: int) -> Exponent:
        return self.cell.of(Quantity.covariance(product, step, product, step))

    def _boundary(self) -> Exponent:
        """The size of the stream's initial vectors."""
        return join(self.cell.of(Quantity.coefficient(self.stream, 0, Base(-1, b)))
                    for b in range(len(self.setting.program.vectors)))
