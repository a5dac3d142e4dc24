"""The parts of kets, of their changes and derivatives, in equations of any activation.

An activation of h = fresh + small is expanded in what is small: its value on the fresh part is of order one (or grows
with it, where the activation does), its derivatives multiply the rest. Odd functions of hat-kets have no mean; no other
cancellation is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import sympy as sp

from ..calculus.equations import KetEquation, KetEquations
from ..calculus.kets import Bracket, Hat, Ket, Mean, Response, random_parts
from ..programs.language import Scal, Vec
from . import entrywise
from .affine import Affine
from .ket_factors import factors_of, grows, one_ket, parity
from .parts import Monomials, Parts, multiply, total
from .quantities import MEAN, STREAM, Base, Label, Quantity, Sort
from .terms import Values, counted_scalar, free_parameters, split

MOST_PARTS = 6


@dataclass(frozen=True)
class KetParts:
    """Reads the parts of expressions in kets; labels, the parts that there are, fills while expressions are read.

    A ket's parts are quantities with unknown exponents, named by ``key``. at: values for some parameters; growing: the
    variable whose powers are counted, the depth where none is given.
    """

    equations: KetEquations
    at: Values = ()
    growing: sp.Symbol | None = None

    @property
    def name(self) -> str:
        return self.equations.setting.program.name

    @cached_property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """The symbols in the exponents of L."""
        return free_parameters([e.value for e in self.equations.equations], self.variable, self.at)

    @cached_property
    def variable(self) -> sp.Symbol:
        """The growing variable."""
        found = self.equations.setting.depth if self.growing is None else self.growing
        if found is None:
            raise ValueError(f"program {self.name} has no layers, so that nothing depends on the depth")
        return found

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

    def family(self, vector: Vec) -> int:
        return self.equations.setting.family_number(vector)

    @cached_property
    def is_odd(self) -> bool:
        """Do all vectors change sign with the initial vectors? Then none of them, nor of their changes, has a mean."""
        terms = [term.function if isinstance(term, sp.Sum) else term for e in self.equations.equations
                 if isinstance(e.target, Ket) for term in split(e.value) if random_parts(term)]
        return all(parity(term) == -1 for term in terms)

    def is_stream(self, equation: KetEquation, term: sp.Expr) -> bool:
        return isinstance(term, Ket) and term.vector.same_family(equation.target.vector)

    def key(self, sort: Sort, label: Label, t: int, family: int, base: Base | None = None) -> Quantity:
        """The quantity of a family's part at a step; noted as one that there is."""
        whole = self._whole(sort, t, family, base)
        labels = self.labels.setdefault(whole, set())
        labels.add(label)
        if len(labels) > MOST_PARTS:
            raise ValueError(f"vectors like {self.equations.setting.families[family]} of program {self.name} are "
                             f"random in more than {MOST_PARTS} ways at once; too many to count powers of L (gated "
                             "blocks are)")
        return replace(whole, label=label)

    def _whole(self, sort: Sort, t: int, family: int, base: Base | None) -> Quantity:
        """All parts together; the stream keeps no track of which layer's hat-ket is its own."""
        if base is not None and family in self.accumulating:
            base = Base(base.step, base.number)
        return Quantity(sort, t, family, base)

    @cached_property
    def _unit(self) -> Monomials:
        """Of order one."""
        return frozenset(((self.form(0), ()),))

    def form(self, value: int) -> Affine:
        """A power of L without parameters."""
        return Affine.number(value, len(self.parameters))

    def parts(self, expression: sp.Expr, t: int) -> Parts:
        """The parts of a product of numbers and kets."""
        found, factors = Parts.single(MEAN, self._unit), factors_of(expression)
        if sum(grows(factor) for factor in factors) > 1:
            raise ValueError(f"{expression} grows faster than linearly in its kets, as gated blocks do; no rule for "
                             "its order in L")
        for factor in factors:
            found = found.times(self._factor(factor, t))
        return found

    def _factor(self, factor: sp.Expr, t: int) -> Parts:
        if not random_parts(factor):
            return Parts.single(MEAN, self.numbers(factor, t))
        if isinstance(factor, Ket):
            return self._of_ket(Sort.KET, factor.vector)
        if isinstance(factor, Hat):
            return self._hat(Sort.KET, factor)
        return self._of_function(factor, t)

    def _hat(self, sort: Sort, hat: Hat) -> Parts:
        """A hat-ket, as large as the vector that its matrix multiplies, fresh in the matrix."""
        return Parts.single(self._fresh(hat), self._of_ket(sort, hat.vector.vector).size())

    def _of_ket(self, sort: Sort, vector: Vec, base: Base | None = None) -> Parts:
        initial = self.equations.setting.initial_number(vector)
        if initial is not None:
            if sort == Sort.KET:
                return Parts.single(STREAM, self._unit)
            alike = base is not None and base.is_initial and base.number == initial
            return Parts.single(MEAN, self._unit if alike else frozenset())
        t, family = self._step(vector), self.family(vector)
        return Parts({label: frozenset(((self.form(0), (self.key(sort, label, t, family, base),)),))
                      for label in self.labels.get(self._whole(sort, t, family, base), set())})

    def _step(self, vector: Vec) -> int:
        return int(self.equations.setting.step(vector))

    def _of_function(self, function: sp.Expr, t: int) -> Parts:
        """An entrywise function of one ket: on the leading part of it, and its derivative times the rest."""
        ket, form = one_ket(function)
        inner = self._of_ket(Sort.KET, ket.vector)
        leading = self._leading(ket.vector)
        size = inner.of(leading) if entrywise.growth(form) else self._unit if inner.of(leading) else frozenset()
        value = total((Parts.single(leading, size), Parts.single(MEAN, size if entrywise.parity(form) != -1 else
                                                                 frozenset())))
        return total((value, self._slope(form, leading).times(inner.without(leading))))

    def _leading(self, vector: Vec) -> Label:
        """The part of order one: the hat-ket that the vector is made of, or the stream."""
        family = self.family(vector)
        if family in self.accumulating:
            return STREAM
        equation = next(e for e in self.equations.equations
                        if isinstance(e.target, Ket) and e.target.vector.same_family(vector))
        hats = [part for part in random_parts(sp.Add(*(term for term in split(equation.value)
                                                       if not isinstance(term, sp.Sum)))) if isinstance(part, Hat)]
        if len(hats) != 1:
            raise ValueError(f"a function of |{vector}>: no rule for its order, since {len(hats)} hat-kets are in it; "
                             "allowed is one, or the residual stream")
        return self._fresh(hats[0])

    def _fresh(self, hat: Hat) -> Label:
        """What a hat-ket is random in: its matrix, and the matrix's orientation."""
        products = self.equations.setting.products
        product, _ = self.equations.setting.product_like(hat.vector)
        return Label(fresh=(next(p.number for p in products if p.same_group(product)),))

    def _slope(self, form: sp.Expr, leading: Label) -> Parts:
        """The derivative of a function, at the leading part of its argument."""
        slope = entrywise.derivative(form)
        if slope == 0:
            return Parts()
        return total((Parts.single(MEAN, self._unit if entrywise.parity(slope) != -1 else frozenset()),
                      Parts.single(leading, frozenset() if slope.is_number else self._unit)))

    def slopes(self, expression: sp.Expr, t: int) -> list[tuple[Parts, Ket | Hat]]:
        """The product rule: every random factor of a product, with the parts of what multiplies its derivative."""
        factors = factors_of(expression)
        found: list[tuple[Parts, Ket | Hat]] = []
        for i, factor in enumerate(factors):
            if random_parts(factor):
                others = self._product([*factors[:i], *factors[i + 1:]], t)
                if not isinstance(factor, (Ket, Hat)):
                    ket, form = one_ket(factor)
                    others, factor = others.times(self._local_slope(form, ket)), ket
                found.append((others, factor))
        return found

    def _product(self, factors: list[sp.Expr], t: int) -> Parts:
        return self.parts(sp.Mul(*factors, evaluate=False) if factors else sp.Integer(1), t)

    def derivative(self, factor: Ket | Hat, base: Base) -> Parts:
        if isinstance(factor, Ket):
            return self._of_ket(Sort.DERIVATIVE, factor.vector, base)
        product, values = self.equations.setting.product_like(factor.vector)
        born = base.own and product.number == base.number and int(product.below[0].subs(values)) == base.step
        return Parts.single(MEAN, self._unit) if born else Parts()

    def _local_slope(self, form: sp.Expr, ket: Ket) -> Parts:
        """f'(h), expanded about the leading part of h."""
        inner = self._of_ket(Sort.KET, ket.vector)
        leading = self._leading(ket.vector)
        bend = self._slope(entrywise.derivative(form), leading)
        return total((self._slope(form, leading), bend.times(inner.without(leading))))

    def change(self, term: sp.Expr, written: sp.Expr, t: int) -> Parts:
        """The parts of a term's change since the first step on the same input; sums over earlier steps are new."""
        if t == 0:
            return Parts()
        if isinstance(term, sp.Sum):
            return self.parts(written, t)
        return total(others.times(self._of_ket(Sort.CHANGE, factor.vector) if isinstance(factor, Ket) else
                                  self._hat(Sort.CHANGE, factor)) for others, factor in self.slopes(written, t))

    def numbers(self, expression: sp.Expr, t: int) -> Monomials:
        """The monomials of a number."""
        found = self._unit
        for factor in sp.Mul.make_args(expression):
            found = multiply(found, self._number_factor(factor, t))
        return found

    def _number_factor(self, factor: sp.Expr, t: int) -> Monomials:
        base, power = factor.as_base_exp()
        if base == self.variable:
            return frozenset(((Affine.of(power.subs(self.at), self.parameters), ()),))
        if isinstance(factor, Response):
            return self._response(factor)
        if isinstance(factor, Bracket):
            return self._bracket(factor)
        if isinstance(factor, Mean):
            return total(self.parts(term, t) for term in split(factor.args[0])).of(MEAN)
        if isinstance(factor, Scal) and any(factor.name == e.target.name for e in self.scalars):
            return frozenset(((self.form(0), (counted_scalar(factor),)),))
        fixed = factor.is_number or isinstance(factor, Scal) or base == self.equations.setting.depth
        if fixed or factor.subs(self.at).free_symbols <= set(self.parameters):
            return self._unit
        raise ValueError(f"{factor}: no rule for its order in L")

    def _response(self, response: Response) -> Monomials:
        """The mean of a derivative."""
        product, values = self.equations.setting.product_like(response.base.vector)
        layers = tuple(i.subs(values) for i in product.above)
        family = self.family(response.vector)
        own = family not in self.accumulating and response.vector.indices[-len(layers):] == layers
        base = Base(int(product.below[0].subs(values)), product.number, own)
        return self._of_ket(Sort.DERIVATIVE, response.vector, base).of(MEAN)

    def _bracket(self, bracket: Bracket) -> Monomials:
        for initial, other in (bracket.args, bracket.args[::-1]):
            number = self.equations.setting.initial_number(initial)
            if number is not None:  # Stein: <u|v> is the mean derivative of v in u
                return self._of_ket(Sort.DERIVATIVE, other, Base(-1, number)).of(MEAN)
        u, v = (self._of_ket(Sort.KET, vector) for vector in bracket.args)
        return u.times(v).of(MEAN)
