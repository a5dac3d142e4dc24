"""The quantities whose powers of L are counted, each named by a typed, sortable value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations


class Sort(StrEnum):
    """The kinds of quantities whose powers of L are counted; their values are the words that are printed.

    BEND: what a bounded function would change by if it went on as it starts; SHRINK: a negative power of a size, at
    most of order one: of how often a large argument passes where a function lives, or of a root mean square; ARGUMENT:
    what a bounded function that is 0 at 0 acts on.
    """

    COEFFICIENT = "Gamma"
    COVARIANCE = "C"
    KET = "ket"
    CHANGE = "change"
    DERIVATIVE = "derivative"
    SCALAR = "scalar"
    BEND = "bend"
    SHRINK = "shrink"
    ARGUMENT = "argument"


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


@dataclass(frozen=True, order=True)
class Label:
    """What a part of a ket is random in: the stream (slow), and the hat-kets of its own layer, by matrix (fresh).

    A part with neither is a mean. maybe: sources in any of which the part may be random besides or not, -1 for the
    stream: as many parts of one size as these have subsets, in one.
    """

    slow: bool = False
    fresh: tuple[int, ...] = ()
    maybe: tuple[int, ...] = ()

    @property
    def sources(self) -> frozenset[int]:
        """What all its parts are random in: the matrices' numbers, and -1 for the stream."""
        return frozenset((*self.fresh, *([-1] if self.slow else [])))

    @property
    def possible(self) -> frozenset[int]:
        """What one of its parts is random in."""
        return self.sources.union(self.maybe)

    @classmethod
    def of(cls, sources: frozenset[int], maybe: frozenset[int] = frozenset()) -> "Label":
        return cls(-1 in sources, tuple(sorted(sources - {-1})), tuple(sorted(maybe - sources)))

    def times(self, other: "Label") -> "Label":
        """What a product is random in: a source that both factors may have can be averaged out, one of one cannot."""
        sure = (self.sources - other.possible) | (other.sources - self.possible)
        return Label.of(sure, self.possible | other.possible)

    def random(self, among: frozenset[int] | None = None) -> "list[Label]":
        """The parts that are random in one source at least, of some sources where these are given."""
        among = self.possible if among is None else among
        if self.sources & among:
            return [self]
        left, found = frozenset(self.maybe), []
        for source in sorted(left & among):  # apart from each other by the first source that they have
            left -= {source}
            found.append(Label.of(self.sources | {source}, left))
        return found

    def each(self) -> "list[Label]":
        """All its parts one by one."""
        return [Label.of(self.sources.union(some)) for size in range(len(self.maybe) + 1)
                for some in combinations(self.maybe, size)]

    def within(self, sources: frozenset[int]) -> "list[Label]":
        """The parts that are random in nothing else."""
        return [Label.of(self.sources, sources.intersection(self.maybe))] if self.sources <= sources else []

    def __str__(self) -> str:
        fresh, maybe = (", ".join(map(str, some)) for some in (self.fresh, self.maybe))
        said = (["slow"] if self.slow else []) + ([f"fresh in {fresh}"] if fresh else [])
        return " ".join(said or ["mean"]) + (f", perhaps in {maybe}" if maybe else "")


MEAN = Label()
STREAM = Label(slow=True)


@dataclass(frozen=True)
class Quantity:
    """A coefficient, a covariance, a part of a ket, of its change or of its derivative, or a scalar, at a step.

    number: of the vector family, or of a covariance's product; base: of a coefficient or a derivative, and the other
    hat-ket of a covariance; label: what a part of a ket is random in; name: of a scalar, or of a function.
    """

    sort: Sort
    step: int
    number: int = -1
    base: BaseQuantity | None = None
    label: Label = MEAN
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
        return (self.sort.value, self.step, self.name, self.number, base or (),
                (self.label.slow, self.label.fresh, self.label.maybe))

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

    def at_step(self, step: int) -> "Quantity":
        return replace(self, step=step)

    def __str__(self) -> str:
        if self.name:
            return f"{self.name}[{self.step}]"
        base = "" if self.base is None else f" over {self.base.number}[{self.base.step}]" + (
            " of its own layer" if self.base.own else "")
        label = "" if self.sort in (Sort.COEFFICIENT, Sort.COVARIANCE) else f", {self.label}"
        return f"{self.sort.value} {self.number}[{self.step}]{base}{label}"
