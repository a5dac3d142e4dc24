"""The quantities whose powers of L are counted, what stands before them, products of both, and their names in refusals.

Each is a typed, sortable value. A coefficient is a sum of powers of L times functions of layer time. Products are read
once, with symbols for steps and families, and filled in with numbers often. A refusal speaks of the program: what a
derived recursion calls Gamma[t,s,0,3](l; l') is, for who wrote it, a coefficient of the vector x.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import product
from typing import AbstractSet, Iterable, Iterator, Mapping

import sympy as sp

from ..calculus.coefficients import Bases
from ..calculus.kets import Covariance, Gamma
from ..calculus.setting import Setting
from ..errors import NotCovered
from ..programs.language import LossDerivative, Scalar


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


Values = tuple[tuple[sp.Symbol, sp.Expr], ...]  # of some parameters


def growing_variable(setting: Setting) -> sp.Symbol:
    """The depth; raises ``ValueError`` for a program without layers."""
    if setting.depth is None:
        raise NotCovered(f"program {setting.program.name} has no layers, so that nothing depends on the depth")
    return setting.depth


def free_parameters(values: Iterable[sp.Expr], growing: sp.Expr, at: Values) -> tuple[sp.Symbol, ...]:
    """The symbols in the exponents of the growing variable, with numbers in front of it too, that have no value."""
    powers = {p.exp for value in values for p in value.atoms(sp.Pow) if p.base.free_symbols == {growing}}
    return tuple(sorted(set().union(*(p.free_symbols for p in powers)) - {symbol for symbol, _ in at}, key=str))


LAYER_TIME = sp.Symbol("p", real=True)
GRID = tuple(sp.Rational(k, 8) for k in range(9))


@lru_cache(maxsize=1024)
def in_powers(coefficient: sp.Expr, layer: sp.Symbol | None, depth: sp.Symbol) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
    """A coefficient as pairs (exponent, c) of a sum of L^exponent c(p), with p = l/L; what falls like 1/L^2 and faster
    beside the largest is left out of rational functions that are no polynomials in 1/L.

    layer: the index that runs over layers, if there is one. Raises ``ValueError`` for a coefficient that is no
    product of powers of L and rational functions of l/L, or is not bounded on [0, 1], naming it.
    """
    terms: dict[sp.Expr, sp.Expr] = {}
    here = coefficient if layer is None else coefficient.subs(layer, LAYER_TIME * depth)
    for term in sp.Add.make_args(sp.expand(here, power_base=True)):
        exponent, rest = sp.Integer(0), sp.Integer(1)
        for factor in sp.Mul.make_args(sp.factor(term) if term.has(LAYER_TIME) else term):
            base, power = factor.as_base_exp()
            if base == depth and not power.has(depth):
                exponent += power
            else:
                rest *= factor
        for own, value in _expanded(rest, depth):
            key = sp.expand(exponent + own)
            terms[key] = terms.get(key, sp.Integer(0)) + value
    found = tuple((e, sp.factor_terms(c)) for e, c in terms.items() if c != 0)
    for _, c in found:
        _require_bounded(coefficient, c)
    return found


def _expanded(rest: sp.Expr, depth: sp.Symbol) -> list[tuple[sp.Expr, sp.Expr]]:
    """A rational function of L in powers of L: its two leading ones."""
    if not rest.has(depth):
        return [(sp.Integer(0), rest)]
    small = sp.Dummy("small", positive=True)
    over, under = sp.fraction(sp.together(rest.subs(depth, 1 / small)))
    try:
        over, under = sp.Poly(over, small), sp.Poly(under, small)
    except sp.PolynomialError:
        raise NotCovered(f"{rest}: no rule for its order in {depth}; expected powers of {depth} and rational "
                         f"functions of the layer over {depth}") from None
    lead = [min(m[0] for m in poly.monoms()) for poly in (over, under)]
    power = lead[0] - lead[1]
    a, b = ([poly.coeff_monomial(small ** (low + k)) for k in range(2)] for poly, low in zip((over, under), lead))
    first = sp.cancel(a[0] / b[0])
    second = sp.cancel((a[1] - first * b[1]) / b[0])
    return [(sp.Integer(-power - k), value) for k, value in enumerate((first, second)) if value != 0]


def leading(coefficient: sp.Expr, layer: sp.Symbol | None, depth: sp.Symbol) -> sp.Expr:
    """The function of layer time in front of the largest power of L."""
    first, *others = in_powers(coefficient, layer, depth)
    for exponent, function in others:
        if sp.expand(exponent - first[0]).is_positive:
            first = exponent, function
    return first[1]


def _require_bounded(coefficient: sp.Expr, function: sp.Expr) -> None:
    _, under = sp.fraction(sp.together(function))
    if under.free_symbols == {LAYER_TIME} and under.is_polynomial(LAYER_TIME):
        singular = any(0 <= root <= 1 for root in sp.Poly(under, LAYER_TIME).real_roots())
    else:
        singular = any(under.subs(LAYER_TIME, p) == 0 for p in (0, 1))
    if singular:
        raise NotCovered(f"{coefficient}: goes like {function} with p = l/L, which is not bounded on [0, 1]; no rule "
                         "for its sums over layers")


@lru_cache(maxsize=1024)
def sign_on_layers(function: sp.Expr) -> int:
    """1 or -1 where a function of layer time keeps this sign on [0, 1], 0 where that is not known."""
    values = [function.subs(LAYER_TIME, p) for p in GRID]
    if all(v.is_positive for v in values):
        return 1
    return -1 if all(v.is_negative for v in values) else 0


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


COEFFICIENT = re.compile(r"Gamma\[[^\]]*?(\d+),[^,\]]*\](\([^()]*\))?")
COVARIANCE = re.compile(r"\bC\[[^\]]*?(\d+)(-\d+)?\](\([^()]*\))?")
SORTS = {sort.value: {Sort.COEFFICIENT: "coefficient", Sort.COVARIANCE: "covariance"}.get(sort, sort.value)
         for sort in Sort}
QUANTITY = re.compile(rf"\b({'|'.join(SORTS)}) (\d+)\[(-?\d+)\](?: over (-?\d+)\[(-?\d+)\])?")


@contextmanager
def in_names_of(setting: Setting) -> Iterator[None]:
    """What is refused inside is refused in the program's names."""
    try:
        yield
    except NotCovered as refusal:
        said = in_program_names(str(refusal), setting)
        if said == str(refusal):
            raise
        raise type(refusal)(said) from refusal


def in_program_names(text: str, setting: Setting) -> str:
    """A sentence on a derived recursion or on ket equations as one on their program.

    >>> import tpcalc as tp
    >>> setting = tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling())).setting
    >>> in_program_names("Gamma[t,s,0,1](l; m)*rho_W[t]", setting), in_program_names("Gamma 0[1] over 1[0]", setting)
    ('coefficient(x)*memory(W)', 'coefficient of x at step 1 and of a product with W at step 0')
    """
    families = [v.name for v in setting.families]
    matrices = [p.matrix.name for p in setting.products]

    def of(names: list[str], number: str) -> str:
        return names[int(number)] if int(number) < len(names) else "an initial vector"

    def quantity(found: re.Match[str]) -> str:
        names = matrices if found[1] == Sort.COVARIANCE.value else families
        said = f"{SORTS[found[1]]} of {of(names, found[2])} at step {found[3]}"
        if found[4] is None:
            return said
        return f"{said} and of a product with {of(matrices, found[4])} at step {found[5]}" if int(found[5]) >= 0 else (
            f"{said} and of an initial vector")

    for matrix in sorted({m.name for m in setting.trained()}, key=len, reverse=True):
        text = re.sub(rf"\b(rho|w)_{re.escape(matrix)}\[[^\]]*\]", f"memory({matrix})", text)
    text = COEFFICIENT.sub(lambda found: f"coefficient({of(families, found[1])})", text)
    text = COVARIANCE.sub(lambda found: f"covariance({of(matrices, found[1])})", text)
    bases = Bases(setting)
    indices = {str(i) for i in (*bases.generic().free_symbols, *bases.below, *bases.above, setting.past)}
    primed = re.compile(rf"\b({'|'.join(map(re.escape, indices))})'+(?=\W|$)")
    return primed.sub(r"\1", QUANTITY.sub(quantity, text))


@lru_cache(maxsize=4096)
def additive_terms(value: sp.Expr) -> tuple[sp.Expr, ...]:
    """Additive terms, sums taken apart too: each is a product, or a sum over steps or layers of one."""
    found: list[sp.Expr] = []
    for term in sp.Add.make_args(sp.expand(value)):
        sums = [f for f in sp.Mul.make_args(term) if isinstance(f, sp.Sum)]
        if not sums:
            found.append(term)
            continue
        total, = sums
        front = sp.Mul(*(f for f in sp.Mul.make_args(term) if f is not total))
        found += [sp.Sum(front * part, *total.limits) for part in sp.Add.make_args(sp.expand(total.function))]
    return tuple(found)
