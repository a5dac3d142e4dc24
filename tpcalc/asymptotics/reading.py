"""What ket equations say before anything is evaluated: families, streams, terms, what hat-kets are random in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Iterator

import sympy as sp

from ..errors import NotCovered
from ..calculus.equations import KetEquation, KetEquations
from ..calculus.kets import Bracket, Hat, Ket, Response, random_parts
from ..calculus.memory import decays, initial_weight_factor_of
from ..calculus.setting import Product
from ..gaussian import Expectation
from ..gaussian.scalar_functions import H
from ..orders.affine import Affine
from ..orders.quantities import (BaseQuantity, additive_terms, free_parameters, growing_variable, in_powers, leading,
                                 sign_on_layers)
from ..programs.language import LossDerivative, Matrix, Scalar, Vector
from .functions import argument_of, centered_pairs, factors_of, gathered, parity, squares
from .parts import SHIFT


@dataclass(frozen=True)
class EquationReader:
    """Ket equations, read."""

    equations: KetEquations

    def __post_init__(self) -> None:
        self.variable  # refused where there are no layers
        if len(self._groups) > SHIFT - 2:
            raise NotCovered(f"program {self.name}: {len(self._groups)} matrices and transposes given that multiply "
                             f"vectors; expected at most {SHIFT - 2}")

    @property
    def name(self) -> str:
        return self.equations.setting.program.name

    @cached_property
    def variable(self) -> sp.Symbol:
        return growing_variable(self.equations.setting)

    @cached_property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """The symbols in the exponents of L."""
        return free_parameters([e.value for e in self.equations.equations], self.variable, ())

    @cached_property
    def scalars(self) -> dict[str, tuple[int, KetEquation]]:
        return {e.target.name: (number, e) for number, e in enumerate(self.equations.equations)
                if isinstance(e.target, Scalar)}

    @cached_property
    def of_family(self) -> dict[int, list[tuple[int, KetEquation]]]:
        """The equations of a family of vectors, with their numbers."""
        found: dict[int, list[tuple[int, KetEquation]]] = {}
        for number, e in enumerate(self.equations.equations):
            if isinstance(e.target, Ket):
                found.setdefault(self.family(e.target.vector), []).append((number, e))
        return found

    @cached_property
    def accumulating(self) -> frozenset[int]:
        """Families that a layer adds to: their equation contains them at the layer before, with coefficient one."""
        return frozenset(self.family(e.target.vector) for e in self.equations.equations
                         if isinstance(e.target,
                                       Ket) and any(self.is_stream(e, term) for term in additive_terms(e.value)))

    @cached_property
    def stream(self) -> int:
        """The stream that numbers are averages of, the first of all where none is read."""
        read = {self.family(v) for _, e in self.scalars.values() for mean in e.value.atoms(Bracket, Expectation)
                for v in mean.atoms(Vector) if self.initial(v) is None}
        return min(self.accumulating & read or self.accumulating)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of the scalars that a loss is taken of."""
        losses = [one for e in self.equations.equations for one in e.value.atoms(LossDerivative)]
        return tuple(dict.fromkeys(f.name for one in sorted(losses, key=sp.default_sort_key) for f in one.outputs))

    @cached_property
    def forward(self) -> frozenset[int]:
        """Families that a step makes before it knows its loss."""
        before = takewhile(lambda e: not e.value.has(LossDerivative), self.equations.equations)
        return frozenset(self.family(e.target.vector) for e in before if isinstance(e.target, Ket))

    @cached_property
    def readouts(self) -> frozenset[int]:
        """The numbers of initial vectors that the forward pass does not read."""
        initial, read = set(), set()
        for e in self.equations.equations:
            numbers = {self.initial(v) for v in e.value.atoms(Vector)}
            initial |= numbers
            read |= numbers if isinstance(e.target, Ket) and self.family(e.target.vector) in self.forward else set()
        return frozenset(number for number in initial - read if number is not None)

    def family(self, vector: Vector) -> int:
        return self.equations.setting.family_number(vector)

    def step(self, vector: Vector) -> int:
        return int(self.equations.setting.step(vector))

    def initial(self, vector: Vector) -> int | None:
        return self.equations.setting.initial_number(vector)

    def is_stream(self, equation: KetEquation, term: sp.Expr) -> bool:
        return isinstance(term, Ket) and term.vector.same_family(equation.target.vector)

    @cached_property
    def odd(self) -> frozenset[int]:
        """The families of odd functions of the base kets: neither they nor their changes have a mean."""
        terms: dict[int, list[sp.Expr]] = {}
        for e in self.equations.equations:
            if isinstance(e.target, Ket):
                parts = [term.function if isinstance(term, sp.Sum) else term for term in additive_terms(e.value)]
                terms.setdefault(self.family(e.target.vector), []).extend(
                    part for part in parts if not part.has(Expectation) or random_parts(part))
        signs: dict[int, int] = {}  # 1 of even functions; of none without a sign that fits is it known that it has one

        def sign(vector: Vector) -> int:
            return -1 if self.initial(vector) is not None else signs.get(self.family(vector), 0)

        def read(family: int) -> set[int]:
            return {parity(term, sign) for term in terms[family]}

        while new := {family: found.pop() for family in terms if family not in signs and len(
                found := read(family) - {0}) == 1}:
            signs |= new
        while wrong := [family for family in signs if read(family) - {signs[family]}]:
            for family in wrong:
                del signs[family]
        return frozenset(family for family, found in signs.items() if found == -1)

    def terms(self, number: int) -> list[tuple[sp.Expr, bool]]:
        """The terms of an equation but the stream itself; True for those that the program centers."""
        if number not in self._terms:
            e = self.equations.equations[number]
            self._terms[number] = list(centered_pairs(gathered(
                [_in_front(term, self.variable) for term in additive_terms(e.value) if not self.is_stream(e, term)])))
        return self._terms[number]

    @cached_property
    def _terms(self) -> dict[int, list[tuple[sp.Expr, bool]]]:
        return {}

    def written(self, term: sp.Expr, t: int) -> tuple[sp.Expr, ...]:
        """A term at step t, its sums over steps written out."""
        if (term, t) not in self._written:
            self._written[term, t] = tuple(self._write(term, t))
            if any(one.has(sp.Sum) for one in self._written[term, t]):
                raise NotCovered(f"{term}: a sum over layers, as of a matrix that all layers share; no rule for its "
                                 "order in L")
        return self._written[term, t]

    @cached_property
    def _written(self) -> dict[tuple[sp.Expr, int], tuple[sp.Expr, ...]]:
        return {}

    def _write(self, term: sp.Expr, t: int) -> Iterator[sp.Expr]:
        now = self.at(t)
        if not isinstance(term, sp.Sum):
            yield term.xreplace(now)
            return
        if len(term.limits) != 1:
            over = ", ".join(str(limit[0]) for limit in term.limits)
            raise NotCovered(f"{term}: a sum over {over}, as of a matrix that all layers share; no rule for its "
                             "order in L")
        (s, first, last), = term.limits
        for value in range(int(first.xreplace(now)), int(last.xreplace(now)) + 1):
            yield term.function.xreplace({s: sp.Integer(value), **now})

    def at(self, t: int) -> dict[sp.Symbol, sp.Expr]:
        """What stands for the step at step t; in terms this is no index of a sum, so that nothing else is renamed."""
        return {self.equations.setting.time: sp.Integer(t)}

    def source(self, hat: Hat) -> int:
        """The bit, as in ``parts.py``, of what a hat-ket is random in: a matrix has one, its transpose another."""
        product, _ = self.equations.setting.product_like(hat.vector)
        return 2 << self._groups.index(next(n for n in self._groups if self._products[n].same_group(product)))

    @property
    def _products(self) -> tuple:
        return tuple(self.equations.setting.products)

    @cached_property
    def _groups(self) -> tuple[int, ...]:
        """A product of every matrix in every orientation, by its place."""
        return tuple(n for n, p in enumerate(self._products)
                     if not any(q.same_group(p) for q in self._products[:n]))

    @cached_property
    def sources(self) -> dict[int, str]:
        """The names of the bits."""
        return {2 << location: f"{self._products[n].matrix.name}{'.T' if self._products[n].transposed else ''}"
                for location, n in enumerate(self._groups)}

    def base_of(self, response: Response) -> BaseQuantity:
        """The base ket that the derivative is in."""
        product, values = self.equations.setting.product_like(response.base.vector)
        layers = tuple(i.xreplace(values) for i in product.above)
        family = self.family(response.vector)
        own = family not in self.accumulating and response.vector.indices[-len(layers):] == layers
        return BaseQuantity(int(product.below[0].xreplace(values)), product.number, own)

    @cached_property
    def layers(self) -> frozenset[sp.Symbol]:
        """The indices that run over layers."""
        return self.equations.setting.program.layers

    def is_of_now(self, term: sp.Expr, written: sp.Expr, t: int) -> bool:
        """Is what is written of a term no part of a sum over earlier steps? A matrix that comes back transposed in its
        own step adds one of these, and one of now, to a sum over both."""
        time = self.equations.setting.time
        if not isinstance(term, sp.Sum):
            return True
        (s, _, last), = term.limits
        return bool(last == time and term.has(Response) and written == term.function.xreplace(
            {s: sp.Integer(t), **self.at(t)}))

    @cached_property
    def divides_by_norms(self) -> bool:
        """Is anything divided by a root mean square?"""
        return any(power.exp.is_negative and squares(power.base)
                   for e in self.equations.equations for power in e.value.atoms(sp.Pow))

    def bent(self, product: Product) -> list[sp.Expr]:
        """The functions, not linear ones, that are taken of what a product makes; found once."""
        if product.number not in self._bent:
            self._bent[product.number] = self._functions_of(product)
        return self._bent[product.number]

    @cached_property
    def _bent(self) -> dict[int, list[sp.Expr]]:
        return {}

    def _functions_of(self, product: Product) -> list[sp.Expr]:
        made, found = product.location.statement.target, []
        for e in self.equations.equations:
            if isinstance(e.target, Ket) and e.location.loops == product.location.loops:
                factors = [factor for term in additive_terms(e.value) if not isinstance(term, sp.Sum)
                           for factor in factors_of(term) if any(k.vector.same_family(made) for k in factor.atoms(Ket))]
                forms = [argument_of(f)[1] for f in factors if not isinstance(f, (Ket, Hat)) and random_parts(f)]
                square = [H**2] if len(factors) != len(set(factors)) else []
                found += [form for form in (*forms, *square) if sp.diff(form, H, 2) != 0]
        return found

    def shrinks(self, term: sp.Expr) -> bool:
        """Is the term a multiple of what weight decay leaves of an initial matrix?"""
        return any(one.name in self._left for one in term.atoms(Scalar))

    def decays(self, matrix: Matrix) -> bool:
        """Does weight decay take a share of a matrix?"""
        return initial_weight_factor_of(matrix).name in self._left

    @cached_property
    def _left(self) -> frozenset[str]:
        """The multiples of initial matrices that the first update changes, by name."""
        setting = self.equations.setting
        return frozenset(initial_weight_factor_of(matrix).name for matrix in setting.trained()
                         if decays(setting, matrix))

    def powers_of(self, term: sp.Expr) -> list[Affine]:
        """The powers of L in front of a term."""
        found = [Affine.number(0, len(self.parameters))]
        for factor in sp.Mul.make_args(term.function if isinstance(term, sp.Sum) else term):
            base, power = factor.as_base_exp()
            layer = next((i for i in self.layers if i in factor.free_symbols), None)
            powers = []
            if base == self.variable:
                powers = [power]
            elif layer is not None and not factor.has(Ket, Hat, Bracket, Expectation, Scalar, Vector):
                powers = [power for power, _ in in_powers(factor, layer, self.variable)]
            found = [form + Affine.of(power, self.parameters) for form in found for power in powers] or found
        return found

    def sign(self, number: sp.Expr) -> int:
        """The sign of a number in front, 0 where it is not known."""
        if random_parts(number) or number.has(Response, Bracket, Expectation, Scalar):
            return 0
        layer = next((i for i in self.layers if i in number.free_symbols), None)
        return sign_on_layers(leading(number, layer, self.variable))

    def within(self, ket: Ket, whole: Ket) -> bool:
        """Is a ket the other one, or what that one adds something to: a stream in the middle of a layer?"""
        if ket == whole:
            return True
        if self.initial(ket.vector) is None and self.family(ket.vector) not in self.accumulating:
            return False
        for e in self.equations.equations:
            if isinstance(e.target, Ket) and e.target.vector.same_family(whole.vector):
                there = dict(zip(e.target.vector.indices, whole.vector.indices))
                return any(isinstance(term, Ket) and term.xreplace(there) == ket
                           for term in additive_terms(e.value)) and all(i.is_Symbol for i in there)
        return False

    def passes_stream(self, ket: Ket) -> bool:
        """Is it a stream, or one in the middle of a layer: a stream that something is added to?"""
        family = self.family(ket.vector)
        terms = (term for _, e in self.of_family.get(family, []) for term in additive_terms(e.value))
        added = (term.vector for term in terms if isinstance(term, Ket) and self.initial(term.vector) is None)
        return family in self.accumulating or any(self.family(one) in self.accumulating for one in added)

    def share_of(self, product: sp.Expr, whole: Ket) -> tuple[sp.Expr, sp.Expr] | None:
        """A number and a term of a vector that is made in a layer, whose product a product is; None where none is."""
        family = self.family(whole.vector) if self.initial(whole.vector) is None else -1
        if family in self.accumulating:
            return None
        t = self.step(whole.vector)
        for equation, e in self.of_family.get(family, []):
            there = {i: to for i, to in zip(e.target.vector.indices, whole.vector.indices) if i.is_Symbol}
            for term, _ in self.terms(equation):
                for written in self.written(term, t):
                    one = written.xreplace({i: to for i, to in there.items() if i != self.equations.setting.time})
                    number = product / one
                    if not random_parts(number) and not number.has(Ket, Hat, Bracket, Response, Expectation, Scalar):
                        return number, one
        return None


def _in_front(term: sp.Expr, variable: sp.Symbol) -> sp.Expr:
    """A term with powers of a variable in front of inverses of sums, into which expansion takes them."""
    return term.replace(lambda e: e.is_Pow and e.base.is_Add and e.exp.is_negative and e.base.has(variable)
                        and bool(random_parts(e)), lambda e: sp.powsimp(sp.factor_terms(e.base)) ** e.exp)
