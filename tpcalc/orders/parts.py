"""A ket's size, taken apart by what it is random in.

A part is slow where it depends on the residual stream, which is common to many layers, and fresh in the hat-kets that
its own layer draws, matrix by matrix; it has no mean in any of them. Over the layers parts that are fresh in something
are independent and add up like the square root, others coherently. Different matrices' hat-kets are independent, so
in a product only what both factors are random in can have a mean. What may be averaged or not is kept as one part:
there would be 2^k parts of k such sources, all of one size.

A size is a sum of monomials: a power of L and quantities, whose exponents the order calculus finds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, Iterator, NamedTuple

from .affine import Affine
from .quantities import Label, Quantity


class BoundedMonomial(NamedTuple):
    """A power of L times quantities; bound: it is no smaller than what it stands for, perhaps larger."""

    weight: Affine
    factors: tuple[Quantity, ...] = ()
    bound: bool = False


Monomials = frozenset[BoundedMonomial]


@dataclass(frozen=True)
class Parts:
    """Monomials by label."""

    by_label: dict[Label, Monomials] = field(default_factory=dict)

    @classmethod
    def single(cls, label: Label, monomials: Monomials) -> "Parts":
        return cls({label: monomials} if monomials else {})

    def __iter__(self) -> Iterator[tuple[Label, Monomials]]:
        return iter(self.by_label.items())

    def mean(self) -> Monomials:
        """The monomials of parts that need not be random in anything."""
        return frozenset().union(*(m for label, m in self if not label.sources))

    def times(self, other: "Parts") -> "Parts":
        found: dict[Label, Monomials] = {}
        for one, a in self:
            for two, b in other:
                label = one.times(two)
                found[label] = found.get(label, frozenset()) | multiply(a, b)
        return Parts(found)

    def size(self) -> Monomials:
        """The monomials of all parts."""
        return frozenset().union(*self.by_label.values())

    def centered(self) -> "Parts":
        """Without means."""
        return total(Parts.single(part, m) for label, m in self for part in label.random())


def multiply(a: Monomials, b: Monomials) -> Monomials:
    return frozenset(BoundedMonomial(one.weight + two.weight, tuple(sorted((*one.factors, *two.factors))),
                                     one.bound or two.bound) for one in a for two in b)


def total(parts: Iterable[Parts]) -> Parts:
    found: dict[Label, Monomials] = {}
    for one in parts:
        for label, monomials in one:
            found[label] = found.get(label, frozenset()) | monomials
    return Parts(found)
