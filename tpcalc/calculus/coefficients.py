"""The rules that turn ket equations into recursions for coefficients and covariances."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Callable, Iterable

import sympy as sp
from sympy.utilities.iterables import sift

from ..derivations.derivation import NodeRule
from .._checks import short
from ..errors import NotCovered
from ..programs.algebra import multiplied_out
from ..programs.language import Vector
from .kets import Base, Bracket, Covariance, Gamma, Hat, Ket, Response
from .setting import Product, Setting

Limits = tuple[sp.Symbol, sp.Expr, sp.Expr]  # an index, and the first and last value that a sum gives it
R, B = sp.Symbol("r", integer=True), sp.Symbol("b", integer=True)


@dataclass(frozen=True)
class Bases:
    """The generic base ket of a program: number b, step r and samples below, layers above. Products that stand in
    fewer loops than others have the remaining indices 0."""

    setting: Setting

    @cached_property
    def below(self) -> tuple[sp.Symbol, ...]:
        """Loop indices of samples, in order of appearance."""
        return tuple(dict.fromkeys(i for product in self.setting.products for i in product.below[1:]))

    @cached_property
    def above(self) -> tuple[sp.Symbol, ...]:
        """Loop indices of layers."""
        return tuple(dict.fromkeys(i for product in self.setting.products for i in product.above))

    def generic(self, prime: str = "") -> Base:
        """beta_{r, j, b}^{m}, with a prime on every index if wanted."""
        free = [sp.Symbol(_FREE.get(str(i), f"{i}_0") + prime, integer=True) for i in self.below + self.above]
        cut = len(self.below)
        base: Base = Base(sp.Symbol("b" + prime, integer=True),
                          sp.Tuple(sp.Symbol("r" + prime, integer=True), *free[:cut]), sp.Tuple(*free[cut:]))
        return base

    def location(self, product: Product, values: dict[sp.Expr, sp.Expr]) -> tuple[sp.Tuple, sp.Tuple]:
        """The indices of one of a product's hat-kets among those of the generic base ket."""
        known = dict(zip(product.indices, product.indices))
        step = product.below[0]
        below = [step.subs(values)] + [known.get(i, sp.Integer(0)).subs(values) for i in self.below]
        return sp.Tuple(*below), sp.Tuple(*(known.get(i, sp.Integer(0)).subs(values) for i in self.above))

    def _indices(self, base: Base) -> dict[sp.Symbol, sp.Expr]:
        """The indices of a base ket by those of the loops."""
        return dict(zip(self.below + self.above, (*base.args[1][1:], *base.args[2])))

    def ranges(self, product: Product, base: Base, last: sp.Expr) -> list[Limits]:
        """What the indices of a product's base kets run over, steps until ``last``, and which are fixed."""
        free = self._indices(base)
        limits: list[Limits] = []
        for loop in product.location.loops:
            if loop is not self.setting.clock and loop.index in product.indices:
                limits.append((free[loop.index], *loop.bounds))
        if self.setting.clock is not None and self.setting.time in product.indices:
            limits.append((base.args[1][0], self.setting.clock.first, last))
        return limits

    def fixed(self, product: Product, base: Base) -> dict[sp.Expr, sp.Expr]:
        """Values of the generic indices that a product does not have, and its number."""
        found: dict[sp.Expr, sp.Expr] = {here: sp.Integer(0) for i, here in self._indices(base).items()
                                         if i not in product.indices}
        if self.setting.time not in product.indices:
            found[base.args[1][0]] = product.below[0]
        return {**found, base.number: sp.Integer(product.number)}

    def initial(self) -> tuple[sp.Tuple, sp.Tuple]:
        """The indices of an initial vector: step -1."""
        return (sp.Tuple(-1, *(0 for _ in self.below)), sp.Tuple(*(0 for _ in self.above)))


_FREE = {"l": "m", "i": "j"}  # the letters of the field


@dataclass(frozen=True)
class Differentiate:
    """The derivative of both sides in the generic base ket beta."""

    setting: Setting
    name = "differentiate"
    reason = "linearity; a base ket has derivative 1 in itself and 0 in the others"
    source = "Tensor Programs VI, appendix C.3 [tensor_programs_vi/lemma_c3]"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return sp.Add(*(self._term(term) for term in sp.Add.make_args(multiplied_out(expression)) if term != 0))

    def _term(self, term: sp.Expr) -> sp.Expr:
        random, numbers = sift(sp.Mul.make_args(term), lambda f: f.has(Ket, Hat) and f.func != Response, binary=True)
        derivative = {sp.Sum: self._of_sum, Hat: self._of_hat, Ket: self._of_ket}
        if len(random) != 1 or random[0].func not in derivative:
            raise NotCovered(f"{short(term)} is not linear in kets; expected kets with numbers in "
                             "front, as linear activations and sums of gradients make them")
        return sp.Mul(*numbers) * derivative[random[0].func](random[0])

    def _of_sum(self, one: sp.Sum) -> sp.Expr:
        return sp.Sum(self.apply(one.function), *one.limits)

    def _of_hat(self, one: Hat) -> sp.Expr:
        bases = Bases(self.setting)
        beta, (product, values) = bases.generic(), self.setting.product_like(one.vector)
        below, above = bases.location(product, values)
        return _deltas((product.number, *below, *above), (beta.number, *beta.args[1], *beta.args[2]))

    def _of_ket(self, one: Ket) -> sp.Expr:
        number = self.setting.initial_number(one.vector)
        if number is not None:
            return sp.KroneckerDelta(-1, R) * sp.KroneckerDelta(number, B)
        return Response(one.vector, Bases(self.setting).generic())


def _deltas(left: Iterable[sp.Expr], right: Iterable[sp.Expr]) -> sp.Expr:
    return sp.Mul(*(sp.KroneckerDelta(a, b) for a, b in zip(left, right)))


@dataclass(frozen=True)
class NameCoefficients(NodeRule):
    """Write responses as Gamma: sqrt(L) times them for hat-kets, times 1 for initial vectors.

    summed: the generic base ket runs over all hat-kets in a sum, so that every response brings 1/sqrt(L).
    Otherwise it is free on both sides of an equation, which is multiplied by its scale: that shows only
    where a base ket is born, so that it is a hat-ket.
    """

    setting: Setting
    summed: bool = False
    kind = Response
    name = "name the coefficients"
    reason = "they are the derivatives, times the root of the depth for hat-kets"
    source = "Tensor Programs VI, appendix C.3 [tensor_programs_vi/lemma_c3]"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        if not self.summed:
            born = [d for d in expression.atoms(sp.KroneckerDelta) if R in d.args and -1 not in d.args]
            expression = expression.subs({d: self._root * d for d in born}, simultaneous=True)
        return super().apply(expression)

    @property
    def _root(self) -> sp.Expr:
        return sp.Integer(1) if self.setting.depth is None else sp.sqrt(self.setting.depth)

    def rewrite(self, response: Response) -> sp.Expr:
        rules: dict[object, tuple[Callable[..., tuple[sp.Expr, ...]], sp.Expr]] = {
            Base: (lambda base: base.args, self._root if self.summed else 1), Hat: (self._hat, self._root),
            Ket: (self._initial, 1)}
        location, scale = rules[response.base.func]
        return gamma_coefficient(self.setting, response.vector, *location(response.base)) / scale

    def _hat(self, hat: Hat) -> tuple[sp.Expr, sp.Tuple, sp.Tuple]:
        product, values = self.setting.product_like(hat.vector)
        return product.number, *Bases(self.setting).location(product, values)

    def _initial(self, ket: Ket) -> tuple[sp.Expr, sp.Tuple, sp.Tuple]:
        return self.setting.program.vectors.index(ket.vector), *Bases(self.setting).initial()


def gamma_coefficient(setting: Setting, v: Vector, b: sp.Expr, below: sp.Tuple, above: sp.Tuple) -> sp.Expr:
    """Gamma of a vector, or what it is for an initial vector."""
    number = setting.initial_number(v)
    assigned = any(v.same_family(w) for w in setting.families)
    if number is not None and not assigned:
        return sp.KroneckerDelta(-1, below[0]) * sp.KroneckerDelta(number, b)
    cut = len(v.indices) - int(v.args[2])
    return Gamma(setting.family_number(v), b, sp.Tuple(*v.indices[:cut]), below, sp.Tuple(*v.indices[cut:]), above)


@dataclass(frozen=True)
class NameCovariances(NodeRule):
    """Write <v_t | v_s> of two products' vectors, of one matrix, as the covariance C of their hat-kets."""

    setting: Setting
    kind = Bracket
    name = "name the covariances"
    reason = "hat-kets of one matrix have the covariance of the vectors it multiplies"
    source = "Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1]"

    def rewrite(self, bracket: Bracket) -> sp.Expr:
        (u, v), bases = bracket.args, Bases(self.setting)
        for first in self.setting.products:
            for second in self.setting.products:
                if not (first.same_group(second) and first.matvec.vector.same_family(u)
                        and second.matvec.vector.same_family(v)):
                    continue
                one, two = first.indices_of(u), second.indices_of(v)
                if one is None or two is None:
                    continue
                if first.matrix.subs(one, simultaneous=True) == second.matrix.subs(two, simultaneous=True):
                    (b1, a1), (b2, a2) = bases.location(first, one), bases.location(second, two)
                    return Covariance(first.number, second.number, b1, b2, a1, a2)
        return bracket


@dataclass(frozen=True)
class Expand(NodeRule):
    """A bracket is expanded over base kets on both sides: bilinearity. Pairs that are independent are not written.

    primes: of the indices summed over on the two sides; they differ from indices that the equation has free.
    """

    setting: Setting
    primes: tuple[str, str] = ("", "'")
    kind = Bracket
    name = "bilinearity"
    reason = "both kets are linear combinations of base kets; pairs that are independent bring nothing"
    source = "Tensor Programs VI, appendix C.2 [tensor_programs_vi/ket_equations]"

    def rewrite(self, bracket: Bracket) -> sp.Expr:
        if not bracket.of(Vector):
            return bracket
        one, other = (self._combination(w, prime) for w, prime in zip(bracket.args, self.primes))
        pairs = ((c1 * c2 * Bracket(k1, k2), (*r1, *r2)) for c1, k1, r1 in one for c2, k2, r2 in other
                 if not are_independent(self.setting, k1, k2))
        return sp.Add(*(sp.Sum(term, *ranges) if ranges else term for term, ranges in pairs))

    def _combination(self, v: Vector, prime: str) -> list[tuple[sp.Expr, sp.Expr, list[Limits]]]:
        """|v> as (coefficient, base ket, ranges of its sums): initial vectors, and the hat-kets of every product."""
        setting = self.setting
        assigned = any(v.same_family(w) for w in setting.families)
        if setting.initial_number(v) is not None and not assigned:
            return [(sp.Integer(1), Ket(v), [])]
        terms: list[tuple[sp.Expr, sp.Expr, list[Limits]]] = [
            (Response(v, Ket(u)), Ket(u), []) for u in setting.program.vectors]
        bases = Bases(setting)
        generic = bases.generic(prime)
        for product in setting.products:
            base = generic.subs(bases.fixed(product, generic))
            terms.append((Response(v, base), base, bases.ranges(product, generic, setting.step(v))))
        return terms


@dataclass(frozen=True)
class IndependentKets(NodeRule):
    """Base kets of different matrices, of a matrix and its transpose, and initial vectors are independent."""

    setting: Setting
    kind = (Bracket, sp.Sum)
    name = "independence"
    reason = "hat-kets correlate only with hat-kets of the same matrix; initial vectors are orthonormal"
    source = "Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1]"

    def rewrite(self, node: sp.Expr) -> sp.Expr:
        if node.func == sp.Sum:
            return contract_deltas(node)
        if not node.of(Base, Ket):
            return node
        u, v = node.args
        if are_independent(self.setting, u, v):
            return sp.Integer(0)
        if not node.of(Base):
            return sp.Integer(1)
        first, second = (self.setting.products[int(k.number)] for k in (u, v))
        matrices = []
        bases = Bases(self.setting)
        for product, k in ((first, u), (second, v)):
            values = dict(zip((self.setting.time, *bases.below, *bases.above), (*k.args[1], *k.args[2])))
            matrices.append(product.matrix.subs(values, simultaneous=True))
        return _deltas(matrices[0].indices, matrices[1].indices) * Covariance(
            first.number, second.number, u.args[1], v.args[1], u.args[2], v.args[2])


def are_independent(setting: Setting, u: sp.Expr, v: sp.Expr) -> bool:
    """Are two base kets independent at all their indices: other initial vectors, or hat-kets of no common matrix?"""
    if not (isinstance(u, Base) and isinstance(v, Base)):
        return bool(u != v)
    first, second = (setting.products[int(k.number)] for k in (u, v))
    return not first.same_group(second)


def contract_deltas(total: sp.Sum) -> sp.Expr:
    """Carry out the sums over an index that a Kronecker delta ties to another one with the same range."""
    body, limits = total.function, list(total.limits)
    if body == 0:
        return sp.Integer(0)
    for delta in [f for f in sp.Mul.make_args(body) if f.func == sp.KroneckerDelta]:
        ranges = {limit[0]: limit[1:] for limit in limits}
        kept, dropped = sorted(delta.args, key=lambda i: len(str(i)))
        if dropped in ranges and (kept not in ranges or ranges[kept] == ranges[dropped]):
            body = (body / delta).subs(dropped, kept)
            limits = [limit for limit in limits if limit[0] != dropped]
    return sp.Sum(body, *limits) if limits else body
