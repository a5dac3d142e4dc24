"""A region of the exponents' parameters, with the powers of L of all quantities there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterable, Sequence

import sympy as sp

from ..errors import NotCovered
from .exponent import Exponent
from .quantities import Quantity, Sort
from .region import Region
from .terms import Contribution


@dataclass(frozen=True)
class Cell:
    """A region on which the same guards hold, and the exponents of all quantities there.

    explosions: (quantity, v) of sweeps that grow like exp(L^v), the first first; all that comes after counts as +oo.
    grows: a positive exponent exceeds that of the training step before; contributions: the terms that were counted.
    forgotten: (quantity, v) of those that forget what is older than L^(1 - v) layers.
    """

    region: Region
    exponents: dict[Quantity, Exponent]
    explosions: tuple[tuple[Quantity, Exponent], ...] = ()
    grows: bool = False
    contributions: tuple[Contribution, ...] = ()
    forgotten: tuple[tuple[Quantity, Exponent], ...] = ()

    def on(self, region: Region) -> "Cell":
        """The cell on a part of its region."""
        exponents = {key: exponent.pruned(region) for key, exponent in self.exponents.items()}
        return replace(self, region=region.reduced(), exponents=exponents)

    def require_forgotten(self, parameters: Sequence[sp.Symbol]) -> None:
        """Raise ``ValueError`` where something forgets where it started, and not all that there is vanishes with it.

        What a sweep forgets still stands in the L^(1 - v) layers next to its start, as gradients do next to the output;
        no rule counts its products with what does not vanish there.
        """
        if self.forgotten and not self.explosions and not all(
                exponent.vanishes for q, exponent in self.exponents.items() if q.sort == Sort.COVARIANCE
                or q.sort == Sort.COEFFICIENT and q.base is not None and q.base.is_initial):
            quantity, rate = self.forgotten[0]
            raise NotCovered(f"{quantity} forgets what is older than L^({1 - rate.expression(parameters)}) layers and "
                             "is fed by what does not; no rule for what these layers add where it starts")

    def is_bounded(self, keys: Sequence[Quantity]) -> bool:
        """Does every one of the quantities stay of order one, or vanish, with growing depth, everywhere on the cell?"""
        return not any(self.of(key).explodes for key in keys) and not self.has_powers(keys)

    def has_powers(self, keys: Sequence[Quantity]) -> bool:
        """Does any of the quantities grow like a power of the depth, somewhere on the cell?"""
        return any(self.region.sign(form) not in ("<", "=", "<=") for key in keys for form in self.of(key).forms)

    def of(self, quantity: Quantity | str, step: int = 0) -> Exponent:
        """The exponent of a quantity, or of the scalar of a name at a step; -oo where it vanishes."""
        key = Quantity.scalar(quantity, step) if isinstance(quantity, str) else quantity
        return self.exponents.get(key, Exponent())

    def weight(self, one: Contribution) -> Exponent:
        """The exponent of a term."""
        return product_of(one, (self.exponents.get(f, Exponent()) for f in one.factors)).pruned(self.region)


def product_of(one: Contribution, factors: Iterable[Exponent]) -> Exponent:
    value = Exponent.single(one.weight)
    for factor in factors:
        value = value.times(factor)
    return value
