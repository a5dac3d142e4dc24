"""Kets: the random variables that the coordinates of a program's vectors become at infinite width.

A ket is a real random variable, so kets add and multiply as ordinary commuting expressions; what has rules of its own
is written with the classes below, and a mean as an ``Expectation`` without a law. Source: Tensor Programs VI,
Definition C.1 [tensor_programs_vi/definition_c1] and appendices E, F.

The support of a ket is the training steps whose base kets can have a coefficient in it.
"""

from __future__ import annotations

from functools import singledispatch

import sympy as sp
from sympy.core.sorting import default_sort_key
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.printer import Printer

from .._checks import symbolic
from .._text import OuterText, ProductText
from ..derivations.printing import KetPrinter
from ..gaussian.variables import Expectation
from ..programs.algebra import multiplied_out
from ..programs.language import MatVec, Mean, Outer, Real, Vector, kind
from .setting import Setting


class _Printed(Real):
    """A node that is printed by the formats ``text`` and ``tex``, of its arguments."""

    text = tex = ""
    latex_precedence = PRECEDENCE["Atom"]

    def _sympystr(self, printer: Printer) -> str:
        return self.text.format(*map(printer.doprint, self.args))

    def _latex(self, printer: Printer) -> str:
        return self.tex.format(*map(printer.doprint, self.args))


class Ket(_Printed):
    """|v>, the limit of a vector."""

    is_random = True
    text, tex = "|{}>", r"| {} \rangle"
    vector = property(lambda self: self.args[0])


class Hat(_Printed):
    """The hat part of |W y>: Gaussian, as if W were independent of y."""

    is_random = is_part = True
    text, tex = "hat|{}>", r"| {} \hat{{\rangle}}"
    vector = property(lambda self: self.args[0])


class Dot(_Printed):
    """The dot part of |W y>: what y owes to W through earlier products with its transpose. As an operator, the adjoint
    of the hat of W^T. Source: Tensor Programs VI, appendix F [tensor_programs_vi/operators]."""

    is_random = is_part = True
    text, tex = "dot|{}>", r"| {} \dot{{\rangle}}"
    vector = property(lambda self: self.args[0])


class Base(_Printed):
    """A base ket: number b, step and sample below, layers above; step -1 stands for initial vector b.

    args: b, Tuple(step, samples...), Tuple(layers...).
    """

    number = property(lambda self: self.args[0])

    def _sympystr(self, printer: Printer) -> str:
        return "beta[%s]" % ",".join(map(printer.doprint, (*self.args[1], self.args[0], *self.args[2])))

    def _latex(self, printer: Printer) -> str:
        below = ",".join(map(printer.doprint, (*self.args[1], self.args[0])))
        above = ",".join(map(printer.doprint, self.args[2]))
        return rf"\beta_{{{below}}}" + (rf"^{{{above}}}" if above else "")


class Bracket(_Printed):
    """<u|v>, the expectation of the product of two kets: a number; symmetric. args: vectors or base kets; an initial
    one stands there as its vector."""

    text, tex = "<{}|{}>", r"\langle {} | {} \rangle"

    def __new__(cls, u: sp.Expr, v: sp.Expr) -> sp.Expr:
        return super().__new__(cls, *sorted((u, v), key=default_sort_key))

    def _sympystr(self, printer: Printer) -> str:
        return self.text.format(*map(printer.doprint, self._bare()))

    def _latex(self, printer: Printer) -> str:
        return self.tex.format(*map(printer.doprint, self._bare()))

    def _bare(self) -> list[sp.Expr]:
        return [side.vector if isinstance(side, Ket) else side for side in self.args]

    def of(self, *kinds: type[sp.Expr]) -> bool:
        """Are both sides of these kinds?"""
        return all(isinstance(side, kinds) for side in self.args)


class Averaged(_Printed):
    """phi(|u><v|) |y>: the expectation of phi(|u> |v>') |y>' over an independent copy of (v, y). args: phi, y.

    A random variable that depends on the kets of the left vectors alone. Source: Tensor Programs VI, appendix E.1.3
    [tensor_programs_vi/nonlinear_outer_product].
    """

    is_random = True
    body = property(lambda self: self.args[0])

    def latex_of_body(self) -> str:
        """The function alone, of kets and of copies."""
        return self._of_products(KetPrinter(), ProductText, r"| {} \rangle", r"| {} \rangle^{}")[0]

    def _sympystr(self, printer: Printer) -> str:
        return f"E'[{self._written(printer, OuterText, '|{}>', '|{}>{}')}]"

    def _latex(self, printer: Printer) -> str:
        text = self._written(printer, ProductText, r"| {} \rangle", r"| {} \rangle^{}")
        return rf"\mathbb{{E}}'\left[{text}\right]"

    def _written(self, printer: Printer, product: type[ProductText], ket_form: str, copy_form: str) -> str:
        body, mark = self._of_products(printer, product, ket_form, copy_form)
        return f"{body} {copy_form.format(printer.doprint(self.args[1]), mark)}"

    def _of_products(self, printer: Printer, product: type[ProductText], ket_form: str, copy_form: str
                     ) -> tuple[str, str]:
        mark = "'" if ket_form.startswith("|{}>") else r"{\prime}"
        names = {o: product(ket_form.format(printer.doprint(o.left)) + " "
                            + copy_form.format(printer.doprint(o.right), mark), real=True)
                 for o in self.body.atoms(Outer)}
        return printer.parenthesize(self.body.xreplace(names), PRECEDENCE["Mul"], strict=True), mark


class Response(_Printed):
    """d|v> / d beta, the expected derivative of a ket in a base ket (a ``Hat``, a ``Base`` or an initial ``Ket``).

    Without those that a backward pass makes, by the transposes of the forward pass's matrices, the limit is another one
    [contested/reused_weights], and inner matrices of blocks learn nothing [contested/reused_in_blocks_of_two].
    """

    is_fraction = True
    precedence = PRECEDENCE["Mul"] + 5  # powers of it stand in parentheses, products have it as it is
    text, tex = "d|{}>/d{}", r"\frac{{\partial | {} \rangle}}{{\partial {}}}"
    vector = property(lambda self: self.args[0])
    base = property(lambda self: self.args[1])


class Gamma(_Printed):
    """The coefficient of a base ket in a vector: Gamma_{t,r,a,b}(l/L, m/L) for steps t, r and layers l, m.

    args: a, b, then Tuples: steps and samples of the vector, of the base ket, layers of the vector, of the
    base ket. Scaled by sqrt(L) for hat-kets; step r = -1 stands for initial vector b. Source: Tensor Programs VI,
    appendix C.3 [tensor_programs_vi/lemma_c3]; why sqrt(L): Proposition C.2 [tensor_programs_vi/proposition_c2].
    """

    def _sympystr(self, printer: Printer) -> str:
        a, b, t, r, l, m = self.args
        below = ",".join([_index(printer, t), _index(printer, r), printer.doprint(a), printer.doprint(b)])
        return f"Gamma[{below.lstrip(',')}]({'; '.join(_index(printer, i) for i in (l, m) if i)})"

    def _latex(self, printer: Printer) -> str:
        a, b, t, r, l, m = self.args
        initial = bool(r) and r[0] == -1
        steps = [_index(printer, i) for i in (t, r[:1] if initial else r) if i]
        below = [*steps, printer.doprint(a), printer.doprint(b)]
        locations = [_layer_time(printer, i) for i in ((l,) if initial else (l, m)) if i]
        text = rf"\Gamma_{{{','.join(below)}}}"
        return text + (rf"\left({','.join(locations)}\right)" if locations else "")


class Covariance(_Printed):
    """C_{t,s,b}(l/L): the covariance of two hat-kets of one matrix; symmetric.

    args: b, b', then Tuples: steps and samples of the first, of the second, layers of the first, of the second.
    """

    def __new__(cls, *args: sp.Basic) -> sp.Expr:
        b, c, t, s, l, m = map(symbolic, args)
        if (default_sort_key(c), default_sort_key(t)) < (default_sort_key(b), default_sort_key(s)):
            b, c, t, s, l, m = c, b, s, t, m, l
        return super().__new__(cls, b, c, t, s, l, m)

    def _sympystr(self, printer: Printer) -> str:
        b, c, t, s, l, m = self.args
        numbers = printer.doprint(b) if b == c else f"{printer.doprint(b)}-{printer.doprint(c)}"
        locations = "; ".join(_index(printer, i) for i in ((l,) if l == m else (l, m)) if i)
        return f"C[{_index(printer, t)},{_index(printer, s)},{numbers}]({locations})"

    def _latex(self, printer: Printer) -> str:
        b, c, t, s, l, m = self.args
        numbers = printer.doprint(b) if b == c else f"{printer.doprint(b)} {printer.doprint(c)}"
        locations = [_layer_time(printer, i) for i in ((l,) if l == m else (l, m)) if i]
        text = rf"C_{{{_index(printer, t)},{_index(printer, s)},{numbers}}}"
        return text + (rf"\left({','.join(locations)}\right)" if locations else "")


def _index(printer: Printer, indices: sp.Tuple) -> str:
    """An index as text: a step alone, a step with samples in parentheses."""
    text = ",".join(map(printer.doprint, indices))
    return f"({text})" if len(indices) > 1 else text


def _layer_time(printer: Printer, layers: sp.Tuple) -> str:
    """Layer times as text: l / L, or 0 and 1 at the first and the last layer."""
    depth = sp.Symbol("L", integer=True, positive=True)
    ratios = [layer / depth for layer in layers]
    return ",".join(printer.doprint(ratio) if ratio.is_number else rf"\tfrac{{{printer.doprint(layer)}}}{{L}}"
                    for ratio, layer in zip(ratios, layers))


@singledispatch
def ket(expression: sp.Expr) -> sp.Expr:
    """The ket of an entrywise vector expression (every vector becomes its ket), or the limit of a scalar one."""
    return expression.func(*map(ket, expression.args)) if expression.has(Vector, MatVec) else expression


ket.register(Vector, Ket)
ket.register(MatVec, Ket)
ket.register(Mean, lambda moment: limit_of_average(moment.args[0]))
ket.register(sp.Sum, lambda total: sp.Sum(ket(total.function), *total.limits))


def limit_of_average(body: sp.Expr) -> sp.Expr:
    """The limit of an average over coordinates: brackets where it is bilinear, else expectations."""
    total = sp.Integer(0)
    for term in sp.Add.make_args(multiplied_out(body)):
        factors = sp.Mul.make_args(term)
        numbers = [f for f in factors if kind(f) == "scalar"]
        vectors = [v for f in factors if f not in numbers for v in (f.args[:1] * 2 if f.is_Pow and f.exp == 2 else [f])]
        bilinear = len(vectors) == 2 and all(isinstance(v, Vector) for v in vectors)
        mean = Bracket(*vectors) if bilinear else Expectation(sp.Mul(*map(ket, vectors)))
        total += sp.Mul(*map(ket, numbers), mean)
    return total


@singledispatch
def random_parts(expression: sp.Basic) -> set[sp.Expr]:
    """The kets and hats that an expression depends on as a random variable, not those inside its numbers.

    Of those in a sum, the ones at both ends of every index: the last steps are among them.
    """
    return set().union(*(random_parts(part) for part in expression.args if isinstance(part, sp.Basic)))


for one in (Ket, Hat, Dot):
    random_parts.register(one, lambda part: {part})
for one in (Response, Bracket, Expectation, Gamma, Covariance):
    random_parts.register(one, lambda number: set())
random_parts.register(Outer, lambda outer: {Ket(outer.left)})
random_parts.register(Averaged, lambda mean: random_parts(mean.body))


@random_parts.register(sp.Sum)
def _(total: sp.Sum) -> set[sp.Expr]:
    parts = random_parts(total.function)
    for index, first, last in total.limits:
        parts = {part.subs(index, end) for part in parts for end in (first, last)}
    return parts


# A term's derivatives, its sums over earlier steps with what they add for the last one, and its kets and hat-kets.
_Term = tuple[list[Response], list[tuple[sp.Expr, sp.Expr]], list[sp.Expr]]


class Support:
    """Base kets of product b can have coefficients in family a until step t + offsets[a, b]: least fixed point.

    Read off the ket equations: a hat-ket brings its own step, a ket what it depends on, a sum over earlier
    steps as far as its coefficient, itself a derivative, can differ from zero.
    """

    def __init__(self, setting: Setting, equations: list[tuple[Vector, sp.Expr]]) -> None:
        self.setting = setting
        self.offsets: dict[tuple[int, int], int] = {}
        self._read: dict[sp.Expr, list[_Term]] = {}
        changed = True
        while changed:
            changed = False
            for target, value in equations:
                a, shift = setting.family_number(target), self._ahead(setting.step(target))
                for b, found in self._of(value).items():
                    before = self.offsets.get((a, b))
                    if before is None or found - shift > before:
                        self.offsets[a, b] = found - shift
                        changed = True

    def _ahead(self, step: sp.Expr) -> int:
        """A step relative to the loop's; steps that are numbers lie before the loop."""
        ahead = sp.expand(step - self.setting.time)
        return int(ahead) if ahead.is_Integer else -10**6

    def _of(self, expression: sp.Expr) -> dict[int, int]:
        """The latest offset of every product that is in an expression at step t."""
        found: dict[int, int] = {}
        for responses, sums, parts in self._terms(expression):
            if not all(map(self.can_respond, responses)):
                continue
            inside = [*map(self._of_part, parts)]
            for total, summand in sums:
                latest = self.latest(total)
                if latest is not None:
                    ahead = self._ahead(latest)
                    inside.append({b: offset + ahead for b, offset in self._of(summand).items()})
            for b, offset in (pair for one in inside for pair in one.items()):
                found[b] = max(offset, found.get(b, offset))
        return found

    def _terms(self, expression: sp.Expr) -> list[_Term]:
        """What the terms of an expression are made of, found once."""
        if expression not in self._read:
            self._read[expression] = [self._term(term) for term in sp.Add.make_args(multiplied_out(expression))]
        return self._read[expression]

    def _term(self, term: sp.Expr) -> _Term:
        factors = sp.Mul.make_args(term)
        sums = [f for f in factors if f.func == sp.Sum and any(i == self.setting.past for i, *_ in f.limits)]
        return (list(term.atoms(Response)), [(total, self._at(total, self.setting.time)) for total in sums],
                [part for factor in factors if factor not in sums for part in random_parts(factor)])

    def _at(self, total: sp.Sum, step: sp.Expr) -> sp.Expr:
        """What a sum over earlier steps adds for one of them."""
        others = [limit for limit in total.limits if limit[0] != self.setting.past]
        body = sp.Sum(total.function, *others) if others else total.function
        return body.subs(self.setting.past, step)

    def _of_part(self, part: sp.Expr) -> dict[int, int]:
        """The latest offset of every product that is in one ket or hat-ket."""
        if part.func == Hat:
            product, values = self.setting.product_like(part.vector)
            return {product.number: self._ahead(product.below[0].subs(values))}
        if self.setting.initial_number(part.vector) is not None:
            return {}
        a, ahead = self.setting.family_number(part.vector), self._ahead(self.setting.step(part.vector))
        return {b: self.offsets[a, b] + ahead for b in range(len(self.setting.products)) if (a, b) in self.offsets}

    def can_respond(self, response: Response) -> bool:
        """Can the derivative of a ket in a hat-ket differ from zero at any step at all?"""
        return response.base.func != Hat or self._bound(response) is not None

    def _bound(self, response: Response) -> sp.Expr | None:
        """The last step of the hat-ket at which a ket can respond to it."""
        product, _ = self.setting.product_like(response.base.vector)
        if self.setting.initial_number(response.vector) is not None:
            return None
        offset = self.offsets.get((self.setting.family_number(response.vector), product.number))
        return None if offset is None else self.setting.step(response.vector) + offset

    def latest(self, total: sp.Sum) -> sp.Expr | None:
        """The last step of a sum that can differ from zero; None if there is none."""
        last = next((hi for i, _, hi in total.limits if i == self.setting.past), self.setting.time)
        for factor in sp.Mul.make_args(total.function):
            if factor.func == Response and factor.base.func == Hat:
                bound = self._bound(factor)
                if bound is None:
                    return None
                product, values = self.setting.product_like(factor.base.vector)
                bound -= product.below[0].subs(values) - self.setting.past  # the hat-ket's step, against the sum's
                last = bound if (last - bound).is_positive else last
        return last
