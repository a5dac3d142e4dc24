"""The exponents of L that a verdict reads, from the terms of a network's derived recursion."""

from __future__ import annotations

from dataclasses import Field, dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Callable, Iterable, Sequence

import sympy as sp

from ..calculus import kets
from ..calculus.recursion import RecursionEquations, derive_recursion
from ..calculus.setting import Product
from ..limits import (EXPLODES, HERE, Affine, Cell, Contribution, Exponent, Key, Orders, Region, Terms,
                      point_of, settled_orders)
from ..parametrizations import DepthScaling
from ..programs import SGD, ResNet
from ..programs.builders import program

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)


@dataclass(frozen=True)
class Exponents:
    """Powers of L on a region of the plane: -oo where a quantity vanishes, +oo where it explodes.

    x_init, h_init, f_init: sizes at initialisation; dx, dh, df: their changes after one step on the same
    input; update: of the weight update's action on x, in h; noise, drift: what a piece of the network of
    length eps adds to x, the former times eps^(1/2), the latter times eps; linearisation: the error in x of
    one layer when a smooth activation is linearised in the update. explosions: training steps and v of what grows
    like exp(L^v), the first one first; grows: exponents grow from one training step to the next.
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
    linearisation: Exponent
    explosions: tuple[tuple[int, Exponent], ...] = ()
    grows: bool = False

    def pruned(self, region: Region) -> "Exponents":
        """Without affine forms that are nowhere on the region the largest."""
        return replace(self, **{f.name: getattr(self, f.name).pruned(region) for f in self.sizes()})

    def at(self, point: Sequence[Any]) -> dict[str, sp.Expr]:
        """Values at (alpha, gamma), by name."""
        return {f.name: getattr(self, f.name).at(point) for f in self.sizes()}

    @classmethod
    def sizes(cls) -> list[Field]:
        """The fields that are exponents."""
        return [f for f in fields(cls) if f.name not in ("explosions", "grows")]


@lru_cache(maxsize=8)
def exponents_of(net: ResNet) -> tuple[tuple[Region, Exponents], ...]:
    """The exponents of a linear network's training by SGD on regions that cover the (alpha, gamma) plane.

    Raises ``ValueError`` for a network whose kets close on no recursion.
    """
    recursion = derive_recursion(kets(program(net, SGD(), DepthScaling(ALPHA, GAMMA))))
    return tuple((cell.region, _Reader(recursion, found, cell).read()) for found in (settled_orders(recursion),)
                 for cell in found.cells)


def region_of(net: ResNet, alpha: sp.Expr, gamma: sp.Expr) -> tuple[Region, Exponents]:
    """The region that a point lies in, and the exponents there."""
    point = point_of({ALPHA: alpha, GAMMA: gamma}, (ALPHA, GAMMA))
    return next((region, found) for region, found in exponents_of(net) if region.contains(point))


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
        born = [one for one in self._terms(1, self.stream) if one.rule == "born" and one.target[2] == 1]
        self.branch = next(iter(born)).weight - Affine.number(Fraction(1, 2), 2)  # eps sqrt(L) where a hat-ket is born
        self.born = born

    def read(self) -> Exponents:
        of = self.cell.of
        dx = self._largest(one for one in self._terms(1, self.stream) if one.update)
        changes, dh, update = {self.stream: dx}, Exponent(), Exponent()
        for p in self.forward:
            acted = self._of_product(p, lambda one: any(f[0] == "C" for f in one.factors))
            vector = self.setting.family_number(p.matvec.vector)
            changed = changes[vector].plus(self._of_product(p, lambda one: True))
            changes.setdefault(self._family(p), changed)
            dh, update = dh.plus(changed), update.plus(acted)
        start = self._join(self._in_vector(one.target, self.cell.weight(one)) for one in self._terms(0, self.stream))
        if self.cell.explosions and self.cell.explosions[0][0][1] == 0:
            dx = dh = update = EXPLODES  # training has nothing to start from
        linear = Exponent.single(self.branch).times(update).times(update)
        found = Exponents(
            x_init=start.plus(self._boundary()), h_init=self._join(of("C", 0, 0, p.number).power(Fraction(1, 2))
                                                                   for p in self.forward),
            f_init=of("f", 0), dx=dx, dh=dh, df=dx if dx.explodes else of("f", 1), update=update,
            noise=dx if dx.explodes else self._largest(self.born), drift=dx, linearisation=linear,
            explosions=tuple((int(key[1]), v) for key, v in self.cell.explosions), grows=self.cell.grows)
        return found.pruned(self.cell.region)

    def _terms(self, t: int, family: int) -> list[Contribution]:
        return [one for one in self.found.contributions if one.target[:2] == ("Gamma", t) and one.target[3] == family]

    def _family(self, product: Product) -> int:
        """The family that the product enters."""
        return self.setting.family_number(product.place.statement.target)

    def _of_product(self, product: Product, chosen: Callable[[Contribution], bool]) -> Exponent:
        """The size, in W v of one layer, of the chosen terms that updates bring to it."""
        family = self._family(product)
        found = Exponent()
        for one in self._terms(1, family):
            if one.update and chosen(one):
                gain = Affine.number(1, 2) if one.rule == "layers" else Affine.number(0, 2)
                size = self.cell.weight(one) if family != self.stream else self.cell.weight(one).times(
                    Exponent.single((self.branch + gain) * -1))
                found = found.plus(self._in_vector(one.target, size))
        return found

    def _largest(self, terms: Iterable[Contribution]) -> Exponent:
        return self._join(self._in_vector(one.target, self.cell.weight(one)) for one in terms)

    def _in_vector(self, target: Key, size: Exponent) -> Exponent:
        """The size that a coefficient of this size gives its vector."""
        r, b = target[2], target[4]
        if r < 0:
            return size
        lone = Exponent.single(Affine.number(Fraction(-1, 2) if HERE in target else 0, 2))
        return size.times(self.cell.of("C", r, r, b).power(Fraction(1, 2))).times(lone)

    def _boundary(self) -> Exponent:
        """The size of the stream's initial vectors."""
        return self._join(self.cell.of("Gamma", 0, -1, self.stream, b)
                          for b in range(len(self.setting.program.vectors)))

    @staticmethod
    def _join(exponents: Iterable[Exponent]) -> Exponent:
        found = Exponent()
        for one in exponents:
            found = found.plus(one)
        return found
