"""Entrywise functions of sums of powers of the width: values, slopes, and what is dropped."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import sympy as sp

from ...errors import NotCovered
from ...orders.affine import Affine
from ...models.activations import H
from .algebra import HALF, Algebra
from .atoms import Function, Given, Total

MOST_SLOPES = 12
KINKED = (sp.sign, sp.Heaviside, sp.Abs, sp.Max)


class Unbounded(NotCovered):
    """A function is asked for where its argument grows with the width, and no power of n says what it is there."""


class SizeFunctions:
    """Functions of vectors, as sums of atoms.

    A function is a polynomial in its argument and in named functions: tanh, erf, exp(-h^2), and signs, steps and
    max(h, 0), in which kinked functions are written, because the size of their argument can be taken out of them.
    """

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra

    def value(self, body: sp.Expr, argument: Total) -> Total:
        """A function of an argument, as a sum of powers of n times vectors; body: the function, in terms of ``H``.

        It is expanded in what is smaller than order one in the argument. Raises ``Unbounded`` for a smooth function of
        what grows with n, and ``NotCovered`` for one with a kink that is no polynomial in h and its sign.
        """
        algebra = self.algebra
        kinked = in_ramps(body)
        if kinked.is_polynomial(H, *kinked.atoms(*KINKED)):
            return self.named(kinked, argument)  # signs know no size
        size = algebra.bounds(argument)
        if size is None:
            return self.named(body.subs(H, 0), argument)
        relation = algebra.powers.sign(size)
        if relation > 0:
            raise Unbounded(f"a function {body} of what goes like n^({size.expression(algebra.powers.parameters)}): it "
                            "is saturated, and lives on few coordinates")
        if kinked.has(*KINKED):
            raise NotCovered(f"an entrywise function {body}: it has a kink, and its argument "
                             "no rule; expected with kinks are polynomials in h and its sign")
        if relation < 0:
            return self._series(body, Total(), argument)
        zero = {key: value for key, value in argument.terms.items() if not algebra.powers.sign(algebra.bound(key))}
        small = {key: value for key, value in argument.terms.items() if key not in zero}
        return self._series(body, Total(zero), Total(small, argument.rest))

    def _series(self, body: sp.Expr, about: Total, small: Total) -> Total:
        """Taylor's series about the part of the argument that is of order one, as far as the window reaches."""
        algebra, found, term, slope = self.algebra, Total(), self.algebra.number(1), body
        step = algebra.bounds(small)
        reached: Affine = algebra.powers.number(0)
        for order in range(MOST_SLOPES + 1):
            found = found + algebra.product(self.named(slope, about), term)
            if step is None:
                return found
            reached = reached + step
            if not about.terms:  # vanishing derivatives at 0 do not count
                known = algebra.bounds(found)
                limit = (known if known is not None else reached) - algebra.powers.number(algebra.window)
            else:
                limit = algebra.powers.number(-algebra.window)
            if algebra.powers.sign(reached - limit) < 0:
                break
            slope = sp.expand(sp.diff(slope, H)) / (order + 1)
            term = algebra.product(term, small)
        return algebra.cut(found + Total({}, frozenset((reached,))))

    def named(self, body: sp.Expr, argument: Total) -> Total:
        """body(argument), for a body whose functions have arguments of order one, or know no size."""
        algebra, found = self.algebra, Total()
        for term in sp.Add.make_args(sp.expand(in_ramps(body))):
            factors = algebra.number(1)
            for factor in sp.Mul.make_args(term):
                factors = algebra.product(factors, self._factor(factor, argument))
            found = found + factors
        return found

    def _factor(self, factor: sp.Expr, argument: Total) -> Total:
        base, power = (factor, 1) if isinstance(factor, sp.exp) else factor.as_base_exp()
        if not factor.has(H):
            return self.constant(factor)
        if not sp.sympify(power, strict=True).is_Integer or power < 0:
            raise NotCovered(f"an entrywise function {factor}: no rule for powers of vectors that are not whole "
                             "numbers of at least 0")
        if base == H:
            return self.algebra.to(argument, int(power))
        if isinstance(base, KINKED):
            return self.algebra.to(self._kinked(base, argument), int(power))
        if not argument.terms:
            return self.constant(factor.subs(H, 0))
        return self.algebra.to(self.algebra.of(Function(base, argument.key)), int(power))

    def _kinked(self, base: sp.Expr, argument: Total) -> Total:
        """A sign, a step, an absolute value or a ramp: that of the leading part, and what the rest changes it by."""
        algebra, kind = self.algebra, type(base)
        argument = self.named(sp.Add(*base.args) if kind is sp.Max else base.args[0], argument)
        size = algebra.bounds(argument)
        if size is None:
            return self.constant(base.subs(H, 0)) if kind is not sp.Heaviside else self.algebra.number(HALF)
        leading = {key: value for key, value in argument.terms.items() if not algebra.powers.sign(
            algebra.bound(key) - size)}
        small = Total({key: value for key, value in argument.terms.items() if key not in leading}, argument.rest)
        if not any(algebra.atoms.split(monomial)[1] for _, monomial in leading):
            raise NotCovered(f"{kind.__name__} of a vector whose leading term is a number: no rule")
        unit = {(power - size, monomial): value for (power, monomial), value in leading.items()}
        turn = Fraction(1)
        if kind in (sp.sign, sp.Abs) and unit[min(unit)] < 0:
            unit, turn = {key: -value for key, value in unit.items()}, -turn
        slope = {sp.sign: sp.sign, sp.Abs: sp.sign}.get(kind, sp.Heaviside)(H)
        slopes = algebra.of(Function(slope, Total(unit).key)).times(turn)
        step = algebra.bounds(small)
        # on the few coordinates on which the leading part is smaller than the rest the rest's first order is wrong
        if kind in (sp.sign, sp.Heaviside):
            return Total(slopes.terms, frozenset() if step is None else frozenset(((step - size) * HALF,)))
        if kind is sp.Abs:  # |h| is h times its sign, and no second name for that
            found = algebra.product(slopes, Total(leading))
        else:
            found = algebra.product(algebra.power(size), algebra.of(Function(sp.Max(H, 0), Total(unit).key)))
        if step is None:
            return found
        beyond = frozenset((step + (step - size) * HALF,))
        return algebra.cut(found + algebra.product(slopes, small) + Total({}, beyond))

    def constant(self, value: sp.Expr) -> Total:
        """A number: exactly where it is rational, and as one of order one, about which nothing is known, else."""
        if value.is_Float:
            value = sp.Rational(value)
        if value.is_Rational:
            return self.algebra.number(Fraction(value))
        if value.is_number and (not value.is_real or value.is_finite is False):
            raise NotCovered(f"{value}: no real number")
        rational, others = value.as_coeff_Mul()
        if rational == 1 or not rational.is_Rational:
            return self.algebra.of(Given(str(value), float(value) if value.is_number else None))
        return self.algebra.product(self.constant(rational), self.constant(others))


@lru_cache(maxsize=256)
def in_ramps(body: sp.Expr) -> sp.Expr:
    """Largest and smallest ones written with ramps: max(a, b) = b + max(a - b, 0)."""
    def largest(*args: sp.Expr) -> sp.Expr:
        first, *others = sorted(args, key=lambda a: a != 0)
        for other in others:
            first = first + sp.Max(other - first, 0)
        return first

    return body.replace(sp.Min, lambda *args: -sp.Max(*(-a for a in args))).replace(sp.Max, largest)
