"""The quantities whose powers of L are counted, each named by a typed, sortable value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class Sort(StrEnum):
    """What a quantity is; the values are what it is printed as."""

    COEFFICIENT = "Gamma"
    COVARIANCE = "C"
    SCALAR = "scalar"


@dataclass(frozen=True, order=True)
class BaseQuantity:
    """A base ket: the hat-ket of product ``number`` at a step, or initial vector ``number`` (step -1).

    own: it belongs to the layer of the vector that is derived in it, or expanded in it.
    """

    step: int
    number: int
    own: bool = False

    @property
    def is_initial(self) -> bool:
        return self.step < 0


@dataclass(frozen=True)
class Quantity:
    """A coefficient, a covariance or a scalar, at a step.

    number: of the vector family, or of a covariance's product; base: of a coefficient, and the other hat-ket of a
    covariance; name: of a scalar.
    """

    sort: Sort
    step: int
    number: int = -1
    base: BaseQuantity | None = None
    name: str = ""

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: "Quantity") -> bool:
        return self._order < other._order

    @cached_property
    def _hash(self) -> int:
        """The hash, kept, for quantities are what every table is sorted by."""
        return hash(self._order)

    @cached_property
    def _order(self) -> tuple:
        base = None if self.base is None else (self.base.step, self.base.number, self.base.own)
        return (self.sort.value, self.step, self.name, self.number, base or ())

    @classmethod
    def scalar(cls, name: str, step: int) -> "Quantity":
        return cls(Sort.SCALAR, int(step), name=name)

    @classmethod
    def coefficient(cls, family: int, step: int, base: BaseQuantity) -> "Quantity":
        return cls(Sort.COEFFICIENT, int(step), int(family), base)

    @classmethod
    def covariance(cls, product: int, step: int, other: int, past: int) -> "Quantity":
        """The covariance of two products' hat-kets, the later step first."""
        (later, one), (earlier, two) = sorted(((int(step), int(product)), (int(past), int(other))), reverse=True)
        return cls(Sort.COVARIANCE, later, one, BaseQuantity(earlier, two))

    def __str__(self) -> str:
        if self.name:
            return f"{self.name}[{self.step}]"
        base = "" if self.base is None else f" over {self.base.number}[{self.base.step}]" + (
            " of its own layer" if self.base.own else "")
        return f"{self.sort.value} {self.number}[{self.step}]{base}"
