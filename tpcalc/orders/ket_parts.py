"""The parts of kets, of their changes and derivatives, in equations of any activation.

An activation of h = fresh + small is expanded in what is small: its value on the fresh part is of order one (or grows
with it, where the activation does), its derivatives multiply the rest. Odd functions of hat-kets have no mean; no other
cancellation is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Callable

import sympy as sp

from ..calculus.equations import KetEquation, KetEquations
from ..calculus.kets import Bracket, Hat, Ket, Response, random_parts
from ..calculus.memory import decays, rho_of
from ..gaussian import Expectation
from ..programs.language import Scal, Vec
from .affine import Affine
from .growing_variable import Values, free_parameters, growing_variable
from .layer_functions import in_powers, leading, sign_of
from ..asymptotics.factors import factors_of, normalised, parity, squares
from .ket_functions import Functions
from .parts import Monomial, Monomials, Parts, multiply, total
from .monomials import counted_scalar
from .quantities import MEAN, STREAM, Base, Label, Quantity, Sort
from .terms import split

MOST_PARTS = 64


@dataclass(frozen=True)
class KetParts:
    """Reads the parts of expressions in kets; labels, the parts that there are, fills while expressions are read.

    A ket's parts are quantities with unknown exponents, named by ``key``. at: values for some parameters; growing: the
    variable whose powers are counted, the depth where none is given; saturated: bounded functions, by their BEND,
    that are taken to be where they do not grow any more.
    """

    equations: KetEquations
    at: Values = ()
    growing: sp.Symbol | None = None
    saturated: frozenset[Quantity] = frozenset()

    @property
    def name(self) -> str:
        return self.equations.setting.program.name

    @cached_property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """The symbols in the exponents of L."""
        return free_parameters([e.value for e in self.equations.equations], self.variable, self.at)

    @cached_property
    def variable(self) -> sp.Symbol:
        return growing_variable(self.equations.setting, self.growing)

    @cached_property
    def scalars(self) -> tuple[KetEquation, ...]:
        return tuple(e for e in self.equations.equations if isinstance(e.target, Scal))

    @cached_property
    def accumulating(self) -> frozenset[int]:
        """Families that a layer adds to: their equation contains them at the layer before, with coefficient one."""
        return frozenset(self.family(e.target.vector) for e in self.equations.equations
                         if isinstance(e.target, Ket) and any(self.is_stream(e, term) for term in split(e.value)))

    @cached_property
    def labels(self) -> dict[Quantity, set[Label]]:
        """The parts that kets, changes and derivatives have been found to have: the labels of each."""
        return {}

    @cached_property
    def functions(self) -> Functions:
        """The rules for entrywise functions."""
        return Functions(self)

    def family(self, vector: Vec) -> int:
        return self.equations.setting.family_number(vector)

    @cached_property
    def odd(self) -> frozenset[int]:
        """The families of odd functions of the base kets: neither they nor their changes have a mean."""
        terms: dict[int, list[sp.Expr]] = {}
        for e in self.equations.equations:
            if isinstance(e.target, Ket):
                parts = [term.function if isinstance(term, sp.Sum) else term for term in split(e.value)]
                terms.setdefault(self.family(e.target.vector), []).extend(
                    part for part in parts if not part.has(Expectation) or random_parts(part))
        signs: dict[int, int] = {}  # 1 of even functions; of none without a sign that fits is it known that it has one

        def sign(vector: Vec) -> int:
            is_initial = self.equations.setting.initial_number(vector) is not None
            return -1 if is_initial else signs.get(self.family(vector), 0)

        def read(family: int) -> set[int]:
            return {parity(term, sign) for term in terms[family]}

        while new := {family: found.pop() for family in terms if family not in signs and len(
                found := read(family) - {0}) == 1}:
            signs |= new
        while wrong := [family for family in signs if read(family) - {signs[family]}]:
            for family in wrong:
                del signs[family]
        return frozenset(family for family, found in signs.items() if found == -1)

    def is_stream(self, equation: KetEquation, term: sp.Expr) -> bool:
        return isinstance(term, Ket) and term.vector.same_family(equation.target.vector)

    def key(self, sort: Sort, label: Label, t: int, family: int, base: Base | None = None) -> Quantity:
        """The quantity of a family's part at a step; noted as one that there is."""
        whole = self._whole(sort, t, family, base)
        labels = self.labels.setdefault(whole, set())
        if label not in labels:
            self.functions.known.clear()  # what was read without this part
        labels.add(label)
        if len(labels) > MOST_PARTS:
            raise ValueError(f"vectors like {self.equations.setting.families[family]} of program {self.name} are "
                             f"random in more than {MOST_PARTS} ways at once; too many to count powers of L")
        return replace(whole, label=label)

    def _whole(self, sort: Sort, t: int, family: int, base: Base | None) -> Quantity:
        """All parts together; the stream keeps no track of which layer's hat-ket is its own."""
        if base is not None and family in self.accumulating:
            base = Base(base.step, base.number)
        return Quantity(sort, t, family, base)

    @cached_property
    def unit(self) -> Monomials:
        """The exponent of what is of order one."""
        return frozenset((Monomial(self.form(0)),))

    def form(self, value: int) -> Affine:
        """A power of L without parameters."""
        return Affine.number(value, len(self.parameters))

    def parts(self, expression: sp.Expr, t: int) -> Parts:
        """The parts of a product of numbers and kets."""
        found, factors = Parts.single(MEAN, self.unit), factors_of(expression)
        for ket, norm in normalised(factors, self._in_one):  # a vector over its own root mean square is of order one
            factors.remove(ket)
            factors.remove(norm)
            found = found.times(Parts({label: self.unit for label, _ in self.of_ket(Sort.KET, ket.vector)}))
        for factor in factors:
            found = found.times(self._factor(factor, t))
        return found

    def _in_one(self, ket: Ket, whole: Ket) -> bool:
        """Is a ket the other one, or what that one adds something to: a stream in the middle of a layer?"""
        if ket == whole:
            return True
        for e in self.equations.equations:
            if isinstance(e.target, Ket) and e.target.vector.same_family(whole.vector):
                there = dict(zip(e.target.vector.indices, whole.vector.indices))
                return any(isinstance(term, Ket) and term.subs(there, simultaneous=True) == ket
                           for term in split(e.value)) and all(i.is_Symbol for i in there)
        return False

    def _factor(self, factor: sp.Expr, t: int) -> Parts:
        if not random_parts(factor):
            return Parts.single(MEAN, self.numbers(factor, t))
        if isinstance(factor, Ket):
            return self.of_ket(Sort.KET, factor.vector)
        if isinstance(factor, Hat):
            return self._hat(Sort.KET, factor)
        return self.functions.value(factor)

    def _hat(self, sort: Sort, hat: Hat) -> Parts:
        """A hat-ket, as large as the vector that its matrix multiplies, fresh in the matrix."""
        return Parts.single(self.fresh(hat), self.of_ket(sort, hat.vector.vector).size())

    def of_ket(self, sort: Sort, vector: Vec, base: Base | None = None) -> Parts:
        initial = self.equations.setting.initial_number(vector)
        if initial is not None:
            if sort == Sort.KET:
                return Parts.single(STREAM, self.unit)
            alike = base is not None and base.is_initial and base.number == initial
            return Parts.single(MEAN, self.unit if alike else frozenset())
        t, family = self.step(vector), self.family(vector)
        whole = self._whole(sort, t, family, base)
        return Parts({label: frozenset((Monomial(self.form(0), (replace(whole, label=label),)),))
                      for label in self.labels.get(whole, set())})

    def step(self, vector: Vec) -> int:
        return int(self.equations.setting.step(vector))

    def fresh(self, hat: Hat) -> Label:
        """What a hat-ket is random in: its matrix, and the matrix's orientation."""
        products = self.equations.setting.products
        product, _ = self.equations.setting.product_like(hat.vector)
        return Label(fresh=(next(p.number for p in products if p.same_group(product)),))

    def slopes(self, expression: sp.Expr, t: int) -> list[tuple[Parts, sp.Expr]]:
        """The product rule: every random factor of a product, with the parts of what multiplies its change."""
        factors = factors_of(expression)
        return [(self._product([*factors[:i], *factors[i + 1:]], t), factor)
                for i, factor in enumerate(factors) if random_parts(factor)]

    def _product(self, factors: list[sp.Expr], t: int) -> Parts:
        return self.parts(sp.Mul(*factors, evaluate=False) if factors else sp.Integer(1), t)

    def derivative(self, factor: sp.Expr, base: Base) -> Parts:
        """The parts of a factor's derivative in a base ket."""
        if isinstance(factor, Ket):
            return self.of_ket(Sort.DERIVATIVE, factor.vector, base)
        if isinstance(factor, Hat):
            product, values = self.equations.setting.product_like(factor.vector)
            born = base.own and product.number == base.number and int(product.below[0].subs(values)) == base.step
            return Parts.single(MEAN, self.unit) if born else Parts()
        return self.functions.derivative(factor, base)

    def moved(self, factor: sp.Expr) -> Parts:
        """The parts of a factor's change since the first step."""
        if isinstance(factor, Ket):
            return self.of_ket(Sort.CHANGE, factor.vector)
        if isinstance(factor, Hat):
            return self._hat(Sort.CHANGE, factor)
        return self.functions.change(factor)

    def change(self, term: sp.Expr, written: sp.Expr, t: int) -> Parts:
        """The parts of a term's change since the first step on the same input; sums over earlier steps are new, and of
        a product with what decay leaves of an initial matrix a share of order one is gone."""
        if t == 0:
            return Parts()
        if isinstance(term, sp.Sum):
            return self.parts(written, t)
        moved = [others.times(self.moved(factor)) for others, factor in self.slopes(written, t)]
        return total(moved + [self.parts(written, t)] * self.shrinks(term))

    def shrinks(self, term: sp.Expr) -> bool:
        """Is the term a multiple of what weight decay leaves of an initial matrix?"""
        return any(one.name in self._left for one in term.atoms(Scal))

    @cached_property
    def _left(self) -> frozenset[str]:
        """The multiples of initial matrices that the first update changes, by name."""
        setting = self.equations.setting
        return frozenset(rho_of(matrix).name for matrix in setting.trained() if decays(setting, matrix))

    def numbers(self, expression: sp.Expr, t: int) -> Monomials:
        """The monomials of a number."""
        found = self.unit
        for factor in sp.Mul.make_args(expression):
            found = multiply(found, self._number_factor(factor, t))
        return found

    def _number_factor(self, factor: sp.Expr, t: int) -> Monomials:
        base, power = factor.as_base_exp()
        if base == self.variable:
            return frozenset((Monomial(Affine.of(power.subs(self.at), self.parameters)),))
        if factor.func in NUMBERS:
            return NUMBERS[factor.func](self, factor, t)
        if factor.is_Pow and power.is_Rational and factor.has(Bracket, Expectation):
            return self._root(base, power)
        if isinstance(factor, Scal) and any(factor.name == e.target.name for e in self.scalars):
            return frozenset((Monomial(self.form(0), (counted_scalar(factor),)),))
        fixed = factor.is_number or isinstance(factor, Scal) or base == self.equations.setting.depth
        if fixed or factor.subs(self.at).free_symbols <= set(self.parameters):
            return self.unit
        layer = next((i for i in self._layers if i in factor.free_symbols), None)
        if layer is None or factor.subs(self.at).free_symbols - {layer, self.variable, *self.parameters}:
            raise ValueError(f"{factor}: no rule for its order in L")
        return frozenset(Monomial(Affine.of(power, self.parameters))
                         for power, _ in in_powers(factor.subs(self.at), layer, self.variable))

    @cached_property
    def _layers(self) -> frozenset[sp.Symbol]:
        """The indices that run over layers, where their number is what grows."""
        setting = self.equations.setting
        roles = setting.program.index_roles()
        return frozenset(i for i, role in roles.items() if role == "layer" and self.variable == setting.depth)

    def sign(self, term: sp.Expr) -> int:
        """The sign of a number times a ket, 0 for other terms."""
        number, kets = sp.Integer(1), 0
        for factor in sp.Mul.make_args(term):
            if isinstance(factor, Ket):
                kets += 1
            else:
                number *= factor
        if kets != 1 or random_parts(number) or number.has(Response, Bracket, Expectation, Scal):
            return 0
        layer = next((i for i in self._layers if i in number.free_symbols), None)
        return sign_of(leading(number.subs(self.at), layer, self.variable))

    def _root(self, base: sp.Expr, power: sp.Rational) -> Monomials:
        """A power of a sum of squares, which nothing cancels in, a whole power of the root mean square.

        The root mean square stays away from zero, as that of the stream does, so that its inverse is at most of order
        one; where it grows with depth the inverse falls.
        """
        kets = squares(base)
        twice = 2 * power
        if not kets or not twice.is_Integer:
            raise ValueError(f"({base})**({power}): no rule for its order in L; there is one for half powers of sums "
                             "of squares")
        size = frozenset().union(*(self.parts(square, 0).size() for square in kets))
        if twice < 0:
            return self.functions.shrunk(size, f"({base})**({power})", int(twice))
        return reduce(multiply, [size] * int(twice), self.unit)

    def _expectation(self, mean: Expectation, t: int) -> Monomials:
        return total(self.parts(term, t) for term in split(mean.body)).mean()

    def _response(self, response: Response, t: int) -> Monomials:
        """The mean of a derivative."""
        return self.of_ket(Sort.DERIVATIVE, response.vector, self.base_of(response)).mean()

    def base_of(self, response: Response) -> Base:
        """The base ket that the derivative is in."""
        product, values = self.equations.setting.product_like(response.base.vector)
        layers = tuple(i.subs(values) for i in product.above)
        family = self.family(response.vector)
        own = family not in self.accumulating and response.vector.indices[-len(layers):] == layers
        return Base(int(product.below[0].subs(values)), product.number, own)

    def _is_held(self, vector: Vec) -> bool:
        """Is a function saturated at the step of a vector?"""
        if self.equations.setting.initial_number(vector) is not None:
            return False
        return any(bend.step == self.step(vector) for bend in self.saturated)

    def _bracket(self, bracket: Bracket, t: int) -> Monomials:
        for initial, other in (bracket.args, bracket.args[::-1]):
            number = self.equations.setting.initial_number(initial)
            if number is not None and self._is_held(other):  # the derivative is no guide to what stays bounded
                return self.of_ket(Sort.CHANGE, other).times(self.of_ket(Sort.KET, initial)).mean()
            if number is not None:  # Stein: <u|v> is the mean derivative of v in u
                return self.of_ket(Sort.DERIVATIVE, other, Base(-1, number)).mean()
        u, v = (self.of_ket(Sort.KET, vector) for vector in bracket.args)
        return u.times(v).mean()


NUMBERS: dict[type[sp.Expr], Callable[[KetParts, sp.Expr, int], Monomials]] = {
    Response: KetParts._response, Bracket: KetParts._bracket, Expectation: KetParts._expectation}
