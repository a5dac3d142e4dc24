"""The support of a ket: the training steps whose base kets can have a coefficient in it."""

from __future__ import annotations

import sympy as sp

from ..programs.algebra import multiplied_out
from ..programs.language import Vector
from .kets import Hat, Response, random_parts
from .setting import Setting


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
