"""The exponents of L that a verdict reads, from the terms of a linear network's derived recursion."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Callable, Iterable

import sympy as sp

from ..calculus import RecursionEquations
from ..calculus.kets import Covariance, Gamma
from ..calculus.memory import decays
from ..calculus.setting import Product
from ..orders import Affine, Cell, Contribution, Exponent, Orders, Quantity, Sort, Terms, join
from ..orders.terms import is_carried, additive_terms
from ..limits.outputs import outputs_of
from .sizes import Exponents

HALF = Fraction(1, 2)


def exponents_of_coefficients(recursion: RecursionEquations, found: Orders, cell: Cell) -> Exponents:
    """Sizes of vectors from those of their coefficients."""
    return _Reader(recursion, found, cell).read()


class _Reader:
    """Reads sizes of vectors off the terms of their coefficients, on one cell.

    A hat-ket brings its standard deviation; Gamma's factor sqrt(L) is made for hat-kets of all layers together, not
    for that of the own layer alone. Streams are the families that layers add to on the way forward, h what matrices
    make on the way, f the outputs that a loss is taken of.
    """

    def __init__(self, recursion: RecursionEquations, found: Orders, cell: Cell) -> None:
        self.recursion, self.found, self.cell = recursion, found, cell
        self.setting = recursion.setting
        self.forward = [p for p in self.setting.products if not _is_backward(p)]

    @cached_property
    def streams(self) -> frozenset[int]:
        """The families that layers add to on the way forward: those that outputs read, or all where they read none."""
        upward = Terms(self.recursion).accumulating & {
            int(e.target.args[0]) for e in self.recursion.equations if e.kind == "Gamma"
            and any(is_carried(e, term) for term in additive_terms(e.value)) and not e.location.loops[-1].descending}
        read = {int(g.args[0]) for e in self.recursion.equations if e.kind == "scalar" and e.target.name in self.outputs
                for g in e.value.atoms(Gamma)}
        return upward & read or upward

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        return outputs_of(self.recursion.equations)

    def read(self) -> Exponents:
        changes = self._changes()
        dx = join(changes[family] for family in sorted(self.streams))
        dh, update = Exponent(), Exponent()
        for p in self.forward:
            acted = self._of_product(p, lambda one: any(f.sort == Sort.COVARIANCE for f in one.factors))
            made = self._of_product(p, lambda one: True)
            dh = dh.plus(changes[self.setting.family_number(p.matvec.vector)]).plus(made)
            if self._decays(p):
                dh = dh.plus(self._variance(0, p.number).power(HALF))
            update = update.plus(acted)
        start = join(self._in_vector(key, size) for key, size in self.cell.exponents.items()
                     if key.sort == Sort.COEFFICIENT and key.step == 0 and key.number in self.streams)
        linear = join(Exponent.single(branch) for p in self.forward for family in sorted(self.streams)
                      if (branch := self._branch(p, family)) is not None)
        found = Exponents(
            x_init=start,
            h_init=join(self._variance(0, p.number).power(HALF) for p in self.forward),
            f_init=self._output(0), dx=dx, dh=dh, df=self._output(1), update=update,
            noise=self._largest(one for family in self.streams for one in self._born(1, family)), drift=dx,
            linearization=linear.times(update).times(update),
            explosions=tuple((key.step, v) for key, v in self.cell.explosions), grows=self.cell.grows)
        exploded = bool(self.cell.explosions) and self.cell.explosions[0][0].step == 0
        return found.without_training() if exploded else found.pruned(self.cell.region)

    def _output(self, t: int) -> Exponent:
        return join(self.cell.of(Quantity.scalar(name, t)) for name in self.outputs)

    def _number(self, value: Fraction | int) -> Affine:
        return Affine.number(value, len(self.found.parameters))

    def _changes(self) -> dict[int, Exponent]:
        """What a step changes every forward family by: through updates, and through what it is made of."""
        families = {int(e.target.args[0]): e for e in self.recursion.equations if e.kind == "Gamma"}
        changes = {a: Exponent() for a in families}
        own = {a: self._largest(one for one in self._terms(1, a) if one.update) for a in families}
        for _ in families:  # longer chains of vectors than there are families do not exist
            before = dict(changes)
            for a in families:
                changes[a] = join([own[a], *self._carried_to(a, before)]).pruned(self.cell.region)
            if changes == before:
                break
        return changes

    def _carried_to(self, family: int, changes: dict[int, Exponent]) -> Iterable[Exponent]:
        """What a family takes over of the changes of others: as they are, or through matrices that did not change."""
        for one in self._terms(1, family):
            if not one.update and len(one.factors) == 1 and one.factors[0].sort == Sort.COEFFICIENT:
                source = one.factors[0].number
                if source != family:
                    yield changes[source].times(Exponent.single(one.weight))
        for product in self.setting.products:
            branch = self._branch(product, family)
            if branch is not None:
                layers = HALF if family in self.streams else 0
                vector = self.setting.family_number(product.matvec.vector)
                changed = changes[vector]
                if self._decays(product):  # what the initial matrix made is scaled
                    changed = changed.plus(self._variance(0, product.number).power(HALF))
                yield changed.times(Exponent.single(branch + self._number(layers)))

    def _decays(self, product: Product) -> bool:
        """Does the first update leave less, or more, of a product's initial matrix?"""
        return decays(self.setting, product.matrix)

    def _born(self, t: int, family: int) -> list[Contribution]:
        """Where a step's own hat-kets enter a family."""
        return [one for one in self._terms(t, family) if one.rule == "born" and not one.factors and one.target.base
                and one.target.base.step == t]

    def _terms(self, t: int, family: int) -> list[Contribution]:
        return self._by_family.get((t, family), [])

    @cached_property
    def _by_family(self) -> dict[tuple[int, int], list[Contribution]]:
        found: dict[tuple[int, int], list[Contribution]] = {}
        for one in self.found.contributions:
            if one.target.sort == Sort.COEFFICIENT:
                found.setdefault((one.target.step, one.target.number), []).append(one)
        return found

    def _branch(self, product: Product, family: int | None = None) -> Affine | None:
        """The power of L in front of a product where it enters a family, or any forward family; None if it does not."""
        families = self.streams | {self._family(product)} if family is None else {family}
        found = [one.weight - self._number(HALF) for a in sorted(families) for one in self._born(0, a)
                 if one.target.base is not None and one.target.base.number == product.number]
        return max(found, key=lambda form: form.at(self.cell.region.point() or ()), default=None)

    def _family(self, product: Product) -> int:
        """The family that the product is made for."""
        return self.setting.family_number(product.location.statement.target)

    def _of_product(self, product: Product, chosen: Callable[[Contribution], bool]) -> Exponent:
        """The size, in W v of one layer, of the chosen terms that updates of W, and what v owes to W, bring to it."""
        found = Exponent()
        for family in sorted({self._family(product), *self.streams}):
            branch = self._branch(product, family)
            for one in self._terms(1, family) if branch is not None else ():
                if one.update and self._is_of(one.term, product) and chosen(one):
                    gain = self._number(int(one.rule == "layers"))
                    size = self.cell.weight(one).times(Exponent.single((branch + gain) * -1))  # type: ignore[operator]
                    found = found.plus(self._in_vector(one.target, size))
        return found

    def _is_of(self, term: sp.Expr, product: Product) -> bool:
        """Is the term there because of the product: an update of its matrix, or a response to its transpose?"""
        setting = self.setting
        numbers = {int(n) for c in term.atoms(Covariance) for n in c.args[:2] if n.is_Integer}
        bases = {int(g.args[1]) for g in term.atoms(Gamma) if g.args[1].is_Integer and g.args[3] and g.args[3][0] != -1}
        return any(p.matrix.same_family(product.matrix) and (
            p.number in numbers and p.transposed == product.transposed
            or p.number in bases and p.transposed != product.transposed) for p in setting.products)

    def _largest(self, terms: Iterable[Contribution]) -> Exponent:
        return join(self._in_vector(one.target, self.cell.weight(one)) for one in terms)

    def _in_vector(self, target: Quantity, size: Exponent) -> Exponent:
        """The size that a coefficient of this size gives its vector."""
        base = target.base
        assert base is not None
        if base.is_initial:
            return size
        lone = Exponent.single(self._number(Fraction(-1, 2) if base.own else 0))
        return size.times(self._variance(base.step, base.number).power(HALF)).times(lone)

    def _variance(self, step: int, product: int) -> Exponent:
        """The size of a product's hat-ket, squared."""
        return self.cell.of(Quantity.covariance(product, step, product, step))


def _is_backward(product: Product) -> bool:
    """Does the product belong to a sweep from the last layer to the first?"""
    return bool(product.location.loops) and product.location.loops[-1].descending
