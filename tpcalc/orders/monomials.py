"""Products of quantities in which steps and families are symbols, read once and filled in with numbers often."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import AbstractSet, Iterator, Mapping

import sympy as sp

from ..calculus.kets import Covariance, Gamma
from ..errors import NotCovered
from ..programs.language import LossDerivative, Scalar
from .quantities import BaseQuantity, Quantity

Numbers = Mapping[sp.Symbol, int]


@dataclass(frozen=True)
class Index:
    """An index of a quantity: a symbol, or none, and a whole number."""

    symbol: sp.Symbol | None
    shift: int

    @classmethod
    def of(cls, index: sp.Expr) -> "Index":
        """Raises ``ValueError`` for an index that is no symbol with a shift."""
        symbol = next(iter(index.free_symbols), None)
        shift = index if symbol is None else index - symbol
        if not shift.is_Integer:
            raise NotCovered(f"{index}: no rule for the order in L of what has this index; expected numbers and "
                             "training steps or families with a number added")
        return cls(symbol, int(shift))

    def at(self, numbers: Numbers) -> int:
        """The index at numbers for steps and families; raises ``ValueError`` where it is neither."""
        if self.symbol is None:
            return self.shift
        if self.symbol not in numbers:
            raise NotCovered(f"{self.symbol}: no rule for the order in L of what has this index; expected training "
                             "steps and families")
        return numbers[self.symbol] + self.shift


@dataclass(frozen=True)
class Named:
    """A coefficient, covariance or computed scalar whose steps and families are symbols.

    own: is the base ket of a coefficient of the layer of its vector, and the vector no stream?
    """

    kind: type
    name: str
    indices: tuple[Index, ...]
    own: bool = False

    @classmethod
    def of(cls, quantity: sp.Expr, accumulating: AbstractSet[int]) -> "Named":
        if isinstance(quantity, Gamma):
            a, b, t, r, layers, base = quantity.args
            own = bool(base) and layers == base and int(a) not in accumulating
            return cls(Gamma, "", tuple(map(Index.of, (a, b, t[0], r[0]))), own)
        if isinstance(quantity, Covariance):
            b, c, t, s = quantity.args[:4]
            return cls(Covariance, "", tuple(map(Index.of, (b, c, t[0], s[0]))))
        if len(quantity.indices) != 1:
            raise NotCovered(f"{quantity}: no rule for its order in L; a scalar with one index, the training step, "
                             "has one")
        return cls(Scalar, quantity.name, (Index.of(quantity.indices[0]),))

    def at(self, numbers: Numbers) -> Quantity:
        """The quantity at numbers for its symbols."""
        values = [index.at(numbers) for index in self.indices]
        if self.kind is Gamma:
            a, b, t, r = values
            return Quantity.coefficient(a, t, BaseQuantity(r, b, self.own and r >= 0))
        if self.kind is Covariance:
            b, c, t, s = values
            return Quantity.covariance(b, t, c, s)
        return Quantity.scalar(self.name, values[0])


@dataclass(frozen=True)
class Monomial:
    """A product: of quantities, of derivatives of losses in outputs, and of a number, where steps or families agree.

    equal: pairs of indices that agree, where the product is not zero; number: what is left, of which ``symbols`` are
    steps and families.
    """

    quantities: tuple[Named, ...]
    outputs: tuple[Named, ...]
    equal: tuple[tuple[Index, Index], ...]
    number: sp.Expr
    symbols: tuple[sp.Symbol, ...]

    @classmethod
    def of(cls, term: sp.Expr, computed: AbstractSet[str], accumulating: AbstractSet[int],
           counted: AbstractSet[sp.Symbol], given: sp.Expr) -> "Monomial":
        """A term, read.

        computed: names of scalars that are quantities, ``given`` stands for others; counted: the symbols of steps and
        families.
        """
        quantities, outputs, equal, numbers = [], [], [], []

        def read_scalar(scalar: Scalar) -> None:
            if scalar.name in computed:
                quantities.append(Named.of(scalar, accumulating))
            else:
                numbers.append(given)

        def read_delta(delta: sp.KroneckerDelta) -> None:
            if delta.free_symbols <= counted:
                equal.append((Index.of(delta.args[0]), Index.of(delta.args[1])))
            else:
                numbers.append(delta)

        readers = {Scalar: read_scalar, sp.KroneckerDelta: read_delta,
                   LossDerivative: lambda chi: outputs.append(Named.of(chi.args[0], accumulating))}
        for factor in sp.Mul.make_args(term):
            base, power = factor.as_base_exp()
            if isinstance(base, (Gamma, Covariance)):
                quantities += [Named.of(base, accumulating)] * int(power)
            else:
                readers.get(factor.func, numbers.append)(factor)
        number = sp.Mul(*numbers)
        symbols = tuple(sorted(number.free_symbols & counted, key=str))
        return cls(tuple(quantities), tuple(outputs), tuple(equal), number, symbols)

    def is_zero(self, numbers: Numbers) -> bool:
        return any(one.at(numbers) != other.at(numbers) for one, other in self.equal)

    def number_at(self, numbers: Numbers) -> sp.Expr:
        """The number at numbers for its steps and families."""
        return self.number.xreplace({s: sp.Integer(numbers[s]) for s in self.symbols}) if self.symbols else self.number


@dataclass(frozen=True)
class Summand:
    """A term of an equation: products of quantities, summed over ranges of steps and families.

    term: as it stands in the equation; products: each with by how many powers of L sums over layers raise it, and the
    rule by which they do.
    """

    term: sp.Expr
    ranges: tuple[tuple[sp.Symbol, Index, Index], ...]
    products: tuple[tuple[Monomial, int, str], ...]

    def values(self, numbers: Numbers) -> Iterator[dict[sp.Symbol, int]]:
        """Numbers for all symbols at one for those of the equation; bound ones shadow others of their name."""
        try:
            steps = [range(lo.at(numbers), hi.at(numbers) + 1) for _, lo, hi in self.ranges]
        except NotCovered:
            raise unknown_range(self.term) from None
        for values in product(*steps):
            yield {**numbers, **{v: value for (v, _, _), value in zip(self.ranges, values)}}


def unknown_range(term: sp.Expr) -> NotCovered:
    return NotCovered(f"{term}: a sum whose range is not that of steps, families or base kets' layers, as of a matrix "
                      "that all layers share; no rule for its order in L")


def counted_scalar(scalar: Scalar) -> Quantity:
    """The quantity that a scalar at a step is; raises ``ValueError`` for a scalar with other indices."""
    return Named.of(scalar, frozenset()).at({})
