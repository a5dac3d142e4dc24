"""A ket's size, taken apart by what it is random in.

A part is slow where it depends on the residual stream, which is common to many layers, and fresh in the hat-kets that
its own layer draws, matrix by matrix; it has no mean in any of them. Over the layers parts that are fresh in something
are independent and add up like the square root, others coherently. Different matrices' hat-kets are independent, so
in a product only what both factors are random in can have a mean.

A size is a sum of monomials: a power of L and quantities, whose exponents the order calculus finds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Iterable, Iterator, NamedTuple

from .affine import Affine
from .quantities import Label, Quantity


class Monomial(NamedTuple):
    """A power of L times quantities; bound: it is no smaller than what it stands for, perhaps larger."""

    weight: Affine
    factors: tuple[Quantity, ...] = ()
    bound: bool = False


Monomials = frozenset[Monomial]


@dataclass(frozen=True)
class Parts:
    """Monomials by label."""

    by_label: dict[Label, Monomials] = field(default_factory=dict)

    @classmethod
    def single(cls, label: Label, monomials: Monomials) -> "Parts":
        return cls({label: monomials} if monomials else {})

    def __iter__(self) -> Iterator[tuple[Label, Monomials]]:
        return iter(self.by_label.items())

    def of(self, label: Label) -> Monomials:
        return self.by_label.get(label, frozenset())

    def times(self, other: "Parts") -> "Parts":
        found: dict[Label, Monomials] = {}
        for one, a in self:
            for two, b in other:
                product, either = multiply(a, b), one.sources | two.sources
                shared = sorted(one.sources & two.sources)
                for size in range(len(shared) + 1):
                    for averaged in combinations(shared, size):
                        label = Label.of(either - frozenset(averaged))
                        found[label] = found.get(label, frozenset()) | product
        return Parts(found)

    def size(self) -> Monomials:
        """The monomials of all parts."""
        return frozenset().union(*self.by_label.values())

    def without(self, *labels: Label) -> "Parts":
        return Parts({label: m for label, m in self if label not in labels})


def multiply(a: Monomials, b: Monomials) -> Monomials:
    return frozenset(Monomial(one.weight + two.weight, tuple(sorted((*one.factors, *two.factors))),
                              one.bound or two.bound) for one in a for two in b)


def subsets(sources: frozenset[int]) -> list[Label]:
    """All labels of some of these sources, and the mean."""
    return [Label.of(frozenset(some)) for size in range(len(sources) + 1)
            for some in combinations(sorted(sources), size)]


def total(parts: Iterable[Parts]) -> Parts:
    found: dict[Label, Monomials] = {}
    for one in parts:
        for label, monomials in one:
            found[label] = found.get(label, frozenset()) | monomials
    return Parts(found)
