"""The terms of ket equations as contributions, for programs of any activation.

Quantities: the parts (``parts.py``) of every ket, of its change since the first step, and of its derivatives in base
kets. An activation of h = fresh + small is expanded in what is small: its value on the fresh part is of order one (or
grows with it, where the activation does), its derivatives multiply the rest. Odd functions of the hat-kets have no
mean, nor has what the program centres; no other cancellation is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Iterator

import sympy as sp

from ..calculus.equations import KetEquation, KetEquations
from ..calculus.kets import Bracket, Hat, Ket, Mean, Response, random_parts
from ..programs.language import LossDerivative, Scal, Vec
from . import entrywise
from .affine import Affine
from .parts import MEAN, SLOW, STREAM, Key, Label, Monomials, Parts, is_fresh, multiply, total
from .terms import HERE, Contribution, Values, free_parameters, split

ONE = sp.Integer(1)
MOST_PARTS = 6


@dataclass(frozen=True)
class Base:
    """The base ket that derivatives are taken in: product b at step r (r = -1: initial vector b); own: of this layer."""

    step: int
    number: int
    own: bool = False


@dataclass(frozen=True)
class KetTerms:
    """Ket equations whose terms are to be counted in powers of L, perhaps with values for some parameters."""

    equations: KetEquations
    at: Values = ()

    @property
    def name(self) -> str:
        return self.equations.setting.program.name

    @cached_property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """The symbols in the exponents of L."""
        depth = self.equations.setting.depth
        if depth is None:
            raise ValueError(f"program {self.name} has no layers, so that nothing depends on the depth")
        return free_parameters([e.value for e in self.equations.equations], depth, self.at)

    def outputs(self, t: int) -> list[Key]:
        """The scalars that the program computes at step t."""
        return [(e.target.name, t) for e in self._scalars]

    @property
    def _time(self) -> sp.Symbol:
        return self.equations.setting.time

    @cached_property
    def _scalars(self) -> tuple[KetEquation, ...]:
        return tuple(e for e in self.equations.equations if isinstance(e.target, Scal))

    @cached_property
    def accumulating(self) -> frozenset[int]:
        """Families that a layer adds to: their equation contains them at the layer before, with coefficient one."""
        return frozenset(self.family(e.target.vector) for e in self.equations.equations
                         if isinstance(e.target, Ket) and any(self._is_stream(e, term) for term in split(e.value)))

    def of_step(self, t: int) -> tuple[Contribution, ...]:
        """All contributions to the quantities of training step t."""
        while True:  # which parts there are, then how large they are
            known = {key: set(labels) for key, labels in self._labels.items()}
            found = tuple(one for number, e in enumerate(self.equations.equations)
                          for one in self._of_equation(number, e, t))
            if self._labels == known:
                return found

    @cached_property
    def _labels(self) -> dict[Key, set[Label]]:
        """The parts that kets, changes and derivatives have been found to have: (head, step, family) -> labels."""
        return {}

    def family(self, vector: Vec) -> int:
        return self.equations.setting.family_number(vector)

    def _is_stream(self, equation: KetEquation, term: sp.Expr) -> bool:
        return isinstance(term, Ket) and term.vector.same_family(equation.target.vector)

    def _of_equation(self, number: int, e: KetEquation, t: int) -> Iterator[Contribution]:
        if isinstance(e.target, Scal):
            yield from self._of_scalar(number, e, t)
            return
        stream, layers = self.family(e.target.vector), bool(e.place.loops[1:])
        terms = [term for term in split(e.value) if not self._is_stream(e, term)]
        for term, centred in _paired(terms):
            update = isinstance(term, sp.Sum)
            for written in self._written(term, t):
                found = [("", None, self.parts(written, t)), ("change ", None, self.change(term, written, t))]
                slopes = self.slopes(written, t)
                found += [("d ", base, total(others.times(self._factor_derivative(factor, base))
                                             for others, factor in slopes)) for base in self._bases(t, layers)]
                for head, base, parts in found:
                    for label, monomials in parts.without(*[MEAN] if centred and base is None else []):
                        to, gain, rule = self._entering(label, stream, base, layers)
                        target = self.key(head, to, t, stream, base)
                        for weight, factors in monomials:
                            yield Contribution(target, weight + gain, factors, number, term, update, rule)

    def _entering(self, label: Label, family: int, base: Base | None, layers: bool) -> tuple[Label, Affine, str]:
        """Which part of a vector a part of a term enters, with what gain and why."""
        if family not in self.accumulating:
            return label, self._number(0), ""
        to = STREAM if is_fresh(label) else label
        if not layers:
            return to, self._number(0), ""
        if base is not None and base.own:
            return to, self._number(0), "born"
        if is_fresh(label):
            return to, self._number(1) * Fraction(1, 2), "independent layers"
        return to, self._number(1), "layers"

    def _of_scalar(self, number: int, e: KetEquation, t: int) -> Iterator[Contribution]:
        target: Key = (e.target.name, t)
        if e.value.has(LossDerivative):  # of order one in an output of order one, beyond that of the output's order
            output, = e.value.atoms(LossDerivative)
            yield Contribution(target, self._number(0), (), number, e.value, False, "loss")
            for weight, factors in self._numbers(output.args[0].subs(self._time, t), t):
                yield Contribution(target, weight, factors, number, e.value, False, "loss")
            return
        for term in split(e.value):
            for weight, factors in self._numbers(term.subs(self._time, t), t):
                yield Contribution(target, weight, factors, number, term, False, "")

    def key(self, head: str, label: Label, t: int, family: int, base: Base | None = None) -> Key:
        """The quantity of a family's part at a step; noted as one that there is."""
        base = self._kept(family, base)
        labels = self._labels.setdefault((head, t, family, base), set())
        labels.add(label)
        if len(labels) > MOST_PARTS:
            raise ValueError(f"vectors like {self.equations.setting.families[family]} of program {self.name} are random "
                             f"in more than {MOST_PARTS} ways at once; too many to count powers of L (gated blocks are)")
        name = head + _named(label)
        if base is None:
            return (name, t, -1, family)
        return (name, t, base.step, family, base.number, *((HERE,) if base.own else ()))

    def _bases(self, t: int, layers: bool) -> list[Base]:
        setting = self.equations.setting
        found = [Base(-1, b) for b in range(len(setting.program.vectors))]
        for r in range(t + 1):
            for b in range(len(setting.products)):
                found += [Base(r, b, own) for own in ((False, True) if layers else (False,))]
        return found

    @cached_property
    def _unit(self) -> Monomials:
        """Of order one."""
        return frozenset(((self._number(0), ()),))

    def _number(self, value: int) -> Affine:
        return Affine.number(value, len(self.parameters))

    def _written(self, term: sp.Expr, t: int) -> Iterator[sp.Expr]:
        """A term at step t, its sums over steps written out."""
        time = self._time
        if not isinstance(term, sp.Sum):
            yield term.subs(time, t)
            return
        (s, first, last), = term.limits
        for value in range(int(first.subs(time, t)), int(last.subs(time, t)) + 1):
            yield term.function.subs({s: value, time: t}, simultaneous=True)

    def parts(self, expression: sp.Expr, t: int) -> Parts:
        """The parts of a product of numbers and kets."""
        found, factors = Parts.single(MEAN, self._unit), _factors(expression)
        if sum(_grows(factor) for factor in factors) > 1:
            raise ValueError(f"{expression} grows faster than linearly in its kets; no rule for its order in L")
        for factor in factors:
            found = found.times(self._factor(factor, t))
        return found

    def _factor(self, factor: sp.Expr, t: int) -> Parts:
        if not random_parts(factor):
            return Parts.single(MEAN, self._numbers(factor, t))
        if isinstance(factor, Ket):
            return self._of_ket("", factor.vector)
        if isinstance(factor, Hat):
            return self._hat("", factor)
        return self._of_function(factor, t)

    def _hat(self, head: str, hat: Hat) -> Parts:
        """A hat-ket, as large as the vector that its matrix multiplies, fresh in the matrix."""
        return Parts.single(frozenset((self._group(hat),)), self._of_ket(head, hat.vector.vector).size())

    def _of_ket(self, head: str, vector: Vec, base: Base | None = None) -> Parts:
        initial = self.equations.setting.initial_number(vector)
        if initial is not None:
            alike = base is not None and base.step == -1 and base.number == initial
            return Parts.single(*(STREAM, self._unit) if head == "" else (MEAN, self._unit if alike else frozenset()))
        t, family = self._step(vector), self.family(vector)
        return Parts({label: frozenset(((self._number(0), (self.key(head, label, t, family, base),)),))
                      for label in self._labels.get((head, t, family, self._kept(family, base)), set())})

    def _kept(self, family: int, base: Base | None) -> Base | None:
        """The stream keeps no track of which layer's hat-ket is its own."""
        return Base(base.step, base.number) if base is not None and family in self.accumulating else base

    def _step(self, vector: Vec) -> int:
        return int(self.equations.setting.step(vector))

    def _of_function(self, function: sp.Expr, t: int) -> Parts:
        """An entrywise function of one ket: on the leading part of it, and its derivative times the rest."""
        ket, form = _one_ket(function)
        inner = self._of_ket("", ket.vector)
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
        return frozenset((self._group(hats[0]),))

    def _group(self, hat: Hat) -> int:
        """The matrix, and its orientation, that a hat-ket is fresh in."""
        products = self.equations.setting.products
        product, _ = self.equations.setting.product_like(hat.vector)
        return next(p.number for p in products if p.same_group(product))

    def _slope(self, form: sp.Expr, leading: Label) -> Parts:
        """The derivative of a function, at the leading part of its argument."""
        slope = entrywise.derivative(form)
        if slope == 0:
            return Parts()
        return total((Parts.single(MEAN, self._unit if entrywise.parity(slope) != -1 else frozenset()),
                      Parts.single(leading, frozenset() if slope.is_number else self._unit)))

    def slopes(self, expression: sp.Expr, t: int) -> list[tuple[Parts, sp.Expr]]:
        """The product rule: every random factor of a product, with the parts of what multiplies its derivative."""
        factors, found = _factors(expression), []
        for i, factor in enumerate(factors):
            if random_parts(factor):
                others = self._product([*factors[:i], *factors[i + 1:]], t)
                if not isinstance(factor, (Ket, Hat)):
                    ket, form = _one_ket(factor)
                    others, factor = others.times(self._local_slope(form, ket)), ket
                found.append((others, factor))
        return found

    def _product(self, factors: list[sp.Expr], t: int) -> Parts:
        return self.parts(sp.Mul(*factors, evaluate=False) if factors else ONE, t)

    def _factor_derivative(self, factor: Ket | Hat, base: Base) -> Parts:
        if isinstance(factor, Ket):
            return self._of_ket("d ", factor.vector, base)
        product, values = self.equations.setting.product_like(factor.vector)
        born = base.own and product.number == base.number and int(product.below[0].subs(values)) == base.step
        return Parts.single(MEAN, self._unit) if born else Parts()

    def _local_slope(self, form: sp.Expr, ket: Ket) -> Parts:
        """f'(h), expanded about the leading part of h."""
        inner = self._of_ket("", ket.vector)
        leading = self._leading(ket.vector)
        bend = self._slope(entrywise.derivative(form), leading)
        return total((self._slope(form, leading), bend.times(inner.without(leading))))

    def change(self, term: sp.Expr, written: sp.Expr, t: int) -> Parts:
        """The parts of a term's change since the first step on the same input; sums over earlier steps are new."""
        if t == 0:
            return Parts()
        if isinstance(term, sp.Sum):
            return self.parts(written, t)
        return total(others.times(self._of_ket("change ", factor.vector) if isinstance(factor, Ket) else
                                  self._hat("change ", factor)) for others, factor in self.slopes(written, t))

    def _numbers(self, expression: sp.Expr, t: int) -> Monomials:
        """The monomials of a number."""
        found = self._unit
        for factor in sp.Mul.make_args(expression):
            found = multiply(found, self._number_factor(factor, t))
        return found

    def _number_factor(self, factor: sp.Expr, t: int) -> Monomials:
        base, power = factor.as_base_exp()
        if base == self.equations.setting.depth:
            return frozenset(((Affine.of(power.subs(self.at), self.parameters), ()),))
        if isinstance(factor, Response):
            return self._response(factor)
        if isinstance(factor, Bracket):
            return self._bracket(factor)
        if isinstance(factor, Mean):
            return total(self.parts(term, t) for term in split(factor.args[0])).of(MEAN)
        if isinstance(factor, Scal) and any(factor.name == e.target.name for e in self._scalars):
            return frozenset(((self._number(0), ((factor.name, *map(int, factor.indices)),)),))
        if factor.is_number or isinstance(factor, Scal) or factor.subs(self.at).free_symbols <= set(self.parameters):
            return self._unit
        raise ValueError(f"{factor}: no rule for its order in L")

    def _response(self, response: Response) -> Monomials:
        """The mean of a derivative."""
        product, values = self.equations.setting.product_like(response.base.vector)
        layers = tuple(i.subs(values) for i in product.above)
        family = self.family(response.vector)
        own = family not in self.accumulating and response.vector.indices[-len(layers):] == layers
        base = Base(int(product.below[0].subs(values)), product.number, own)
        return self._of_ket("d ", response.vector, base).of(MEAN)

    def _bracket(self, bracket: Bracket) -> Monomials:
        for initial, other in (bracket.args, bracket.args[::-1]):
            number = self.equations.setting.initial_number(initial)
            if number is not None:  # Stein: <u|v> is the mean derivative of v in u
                return self._of_ket("d ", other, Base(-1, number)).of(MEAN)
        u, v = (self._of_ket("", vector) for vector in bracket.args)
        return u.times(v).of(MEAN)


def _named(label: Label) -> str:
    fresh = ", ".join(map(str, sorted(label - STREAM)))
    return " ".join((["slow"] if SLOW in label else []) + ([f"fresh in {fresh}"] if fresh else [])) or "mean"


def _factors(expression: sp.Expr) -> list[sp.Expr]:
    """Factors of a product, functions of one ket together."""
    plain, functions = [], {}
    for factor in sp.Mul.make_args(expression):
        base, power = factor.as_base_exp()
        if isinstance(base, (Ket, Hat)) and power.is_Integer and power > 0:
            plain += [base] * int(power)
        elif random_parts(factor):
            parts = frozenset(random_parts(factor))
            functions[parts] = functions.get(parts, ONE) * factor
        else:
            plain.append(factor)
    return [*plain, *functions.values()]


def _grows(factor: sp.Expr) -> bool:
    """Does a factor grow with its ket, linearly?"""
    if isinstance(factor, (Ket, Hat)) or not random_parts(factor):
        return bool(random_parts(factor))
    return bool(entrywise.growth(_one_ket(factor)[1]))


def _one_ket(function: sp.Expr) -> tuple[Ket, sp.Expr]:
    """The ket that a function depends on, and the function of a symbol."""
    kets = random_parts(function)
    if len(kets) != 1 or not isinstance(next(iter(kets)), Ket):
        raise ValueError(f"{function}: no rule for the order of a function of several kets; name its argument")
    ket, = kets
    if function.has(Mean, Bracket):
        raise ValueError(f"{function}: no rule for the order of a function of averages")
    return ket, entrywise.in_one_symbol(function, ket)


def _paired(terms: list[sp.Expr]) -> Iterator[tuple[sp.Expr, bool]]:
    """Terms; True for those from which the program takes the mean away, which is left out."""
    means = {term for term in terms if term.has(Mean) and not random_parts(term)}
    for term in [term for term in terms if term not in means]:
        kets = random_parts(term)
        opposite = {-term.xreplace({k: Mean(k)}) for k in kets} if not isinstance(term, sp.Sum) else set()
        centred = bool(opposite & means)
        means -= opposite
        yield term, centred
    for term in means:
        yield term, False


