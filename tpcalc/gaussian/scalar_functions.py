"""Functions of one variable: parity, derivatives, kinks, growth, how they go far out, and their values on arrays.

Far out a function is exp(exponent) times a power of the argument.
Read off the expression node by node, because limits of sums with error functions and exponentials are not found in
general. A sum counts as its largest term, so that what cancels in it is not seen: an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Callable

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.printing.precedence import PRECEDENCE, precedence
from sympy.printing.printer import Printer
from sympy.utilities.iterables import sift

from ..errors import NotCovered
from ..models.activations import H

UP = sp.Symbol("u", positive=True)  # the distance from the origin


@dataclass(frozen=True)
class Asymptote:
    """exp(exponent) UP^degree, the exponent a polynomial in UP without constant; zero: it vanishes altogether."""

    exponent: sp.Expr = sp.Integer(0)
    degree: sp.Rational = sp.Integer(0)
    zero: bool = False

    @property
    def decays(self) -> bool:
        """Does it go to zero?"""
        return self.zero or self._leading < 0 or bool(self._leading == 0 and self.degree < 0)

    @property
    def power(self) -> sp.Expr:
        """The power of the argument, -oo for what decays exponentially, oo for what grows so."""
        if self.zero or self._leading < 0:
            return -sp.oo
        return sp.oo if self._leading > 0 else self.degree

    @property
    def _leading(self) -> sp.Expr:
        return sp.Poly(self.exponent, UP).LC() if self.exponent != 0 else sp.Integer(0)

    def times(self, other: "Asymptote") -> "Asymptote":
        return Asymptote(sp.expand(self.exponent + other.exponent), self.degree + other.degree,
                         self.zero or other.zero)

    def plus(self, other: "Asymptote") -> "Asymptote":
        if self.zero or other.zero:
            return other if self.zero else self
        apart = self.times(other.to(sp.Integer(-1)))
        return other if apart.decays else self

    def to(self, power: sp.Rational) -> "Asymptote":
        return Asymptote(sp.expand(self.exponent * power), self.degree * power, self.zero)


ZERO, ONE = Asymptote(zero=True), Asymptote()


def asymptotes(function: sp.Expr) -> tuple[Asymptote, Asymptote]:
    """What a function of H goes like at oo and at -oo; ``ValueError`` for a function without a rule, naming it."""
    plain = function.rewrite(sp.Heaviside).replace(sp.DiracDelta, lambda *_: sp.Integer(0))
    return _far_out(plain.subs(H, UP)), _far_out(plain.subs(H, -UP))


def _far_out(plain: sp.Expr) -> Asymptote:
    """A function for large arguments, where steps and kinks are passed, the innermost ones first."""
    for _ in range(3):
        plain = plain.replace(sp.Heaviside, lambda a, *_: sp.Heaviside(_sign(a))).replace(sp.sign, _sign).replace(
            sp.Abs, lambda a: a * _sign(a))
    return _at_end(sp.expand(plain))


def _at_end(e: sp.Expr) -> Asymptote:
    """What an expression goes like as the symbol UP goes to infinity."""
    if e.is_zero:
        return ZERO
    return RULES.get(e.func, _unknown)(e) if e.has(UP) else ONE


def _unknown(e: sp.Expr) -> Asymptote:
    raise NotCovered(f"{e.func.__name__}: no rule for how it grows")


def _power(e: sp.Expr) -> Asymptote:
    return _at_end(e.base).to(e.exp) if e.exp.is_Rational else _unknown(e)


def _logarithm(e: sp.Expr) -> Asymptote:
    inside = _at_end(e.args[0])
    if inside.exponent != 0:
        return Asymptote(degree=sp.Integer(sp.degree(inside.exponent, UP)))
    return ONE if inside.degree == 0 else _unknown(e)


def _sum(e: sp.Expr) -> Asymptote:
    """The largest term; 1 - tanh^2 and 1 - erf, whose terms cancel, are known."""
    flat = sp.expand(e)
    if flat != 0:
        limits = flat.subs({f: _sign(f.args[0]) for f in flat.atoms(sp.tanh, sp.erf, sp.sign)
                            if _at_end(f.args[0]).power > 0})
        if limits.is_zero:  # what is left is as small as 1 - tanh, or 1 - erf, of the slowest argument
            return max((_remainder(f) for f in flat.atoms(sp.tanh, sp.erf)), default=ZERO,
                       key=lambda a: a.exponent.subs(UP, 10**6))
    return reduce(Asymptote.plus, map(_at_end, e.args))


def _remainder(f: sp.Expr) -> Asymptote:
    inside = sp.expand(f.args[0] * _sign(f.args[0]))
    return _exponential(sp.exp(-2 * inside if f.func == sp.tanh else -inside**2))


def _exponential(e: sp.Expr) -> Asymptote:
    inside = sp.expand(e.args[0])
    if not inside.is_polynomial(UP):
        if not _at_end(inside).power <= 0:
            raise NotCovered(f"exp({inside}): no rule for how it grows")
        return ONE
    return Asymptote(sp.expand(inside - inside.subs(UP, 0)))


def _sign(e: sp.Expr) -> int:
    """The sign of a polynomial's leading term; ``ValueError`` for anything else."""
    e = sp.expand(e)
    if not e.is_polynomial(UP):
        raise NotCovered(f"{e}: no rule for its sign far out")
    return int(sp.sign(sp.Poly(e, UP).LC())) if e != 0 else 0


RULES: dict[type[sp.Expr], Callable[[sp.Expr], Asymptote]] = {
    type(UP): lambda e: Asymptote(degree=sp.Integer(1)),
    sp.Mul: lambda e: reduce(Asymptote.times, map(_at_end, e.args)),
    sp.Pow: _power,
    sp.Add: _sum,
    **dict.fromkeys((sp.Max, sp.Min), lambda e: _sum(sp.Add(*e.args, evaluate=False))),
    sp.exp: _exponential,
    **dict.fromkeys((sp.sinh, sp.cosh), lambda e: _exponential(sp.exp(e.args[0] * _sign(e.args[0])))),
    sp.log: _logarithm,
    **dict.fromkeys((sp.tanh, sp.erf, sp.sign, sp.atan, sp.sin, sp.cos), lambda e: ONE),
}


POINTS = [sp.Rational(*pair) for pair in ((1, 7), (3, 5), (9, 8), (17, 9), (31, 9))]  # parity is tested on
CONSTANT = sp.Rational(13, 11)
FAR_VALUES = np.geomspace(50, 600, 17)
LEAST_SHARE = 1e-3  # of a mean's size where it counts as one that stays
KINKS = (sp.Abs, sp.Max, sp.Min, sp.sign, sp.Heaviside)
KINKED = (*KINKS, sp.Piecewise, sp.DiracDelta, sp.Derivative, sp.floor, sp.ceiling)


@dataclass(frozen=True)
class ScalarFunction:
    """A function of ``H``, with what is asked of one, found once.

    >>> relu = scalar_function(sp.Max(H, 0))
    >>> relu.parity, relu.growth, relu.has_kinks, relu.slopes
    (0, 1, True, (0.5, 0.5))
    >>> relu.derivative.expression
    Heaviside(h)
    """

    expression: sp.Expr

    @cached_property
    def derivative(self) -> ScalarFunction:
        """The derivative, kinks as jumps, jumps as delta functions."""
        plain = self.expression.rewrite(sp.Heaviside).replace(sp.Abs, lambda h: h * sp.sign(h))
        return scalar_function(sp.diff(plain, H).replace(
            lambda e: e.is_Mul and e.has(sp.DiracDelta), _point).rewrite(sp.Heaviside))

    @cached_property
    def parity(self) -> int:
        """1 for even, -1 for odd, 0 for neither; other symbols are constants, any of which would do."""
        smooth = self._in_numbers.replace(sp.DiracDelta, lambda a, *_: sp.exp(-a**2))  # even, like a narrow bump
        signs = {1, -1}
        for point in POINTS:  # no further than to where it has none
            a, b = (smooth.subs(H, sign * point).evalf(30) for sign in (1, -1))
            if not (a.is_Number and b.is_Number):  # means over copies, of which no constant stands for all
                return 0
            signs = {sign for sign in signs if abs(a - sign * b) <= 1e-20 * (1 + abs(a))}
            if not signs:
                break
        return max(signs, default=0)

    @cached_property
    def growth(self) -> int:
        """The power of its argument that a function grows with, 0 where it stays bounded. Raises ``ValueError`` for
        growth faster than every power, or like a fraction of one."""
        power = max(end.power for end in self._ends)
        if power is sp.oo or power > 0 and not power.is_Integer:
            how = "faster than every power" if power is sp.oo else f"like the power {power}"
            raise NotCovered(f"an entrywise function {self.expression} grows {how} of its argument; there is a rule "
                             "for its order in L where it grows like a whole power")
        return max(int(power), 0) if power != -sp.oo else 0

    @cached_property
    def flatness(self) -> int:
        """The power of its argument that a function starts with at 0: 0 where it does not vanish there."""
        small = sp.Rational(1, 10**30)
        values = [abs(self._in_numbers.subs(H, sign * small).evalf(80)) for sign in (1, -1)]
        return min((int(sp.floor(sp.log(v) / sp.log(small) + sp.Rational(1, 4))) for v in values if v), default=0)

    @cached_property
    def decays(self) -> bool:
        """Does the function go to zero at both ends, so fast that its square can be integrated?"""
        return all(end.power < -1 for end in self._ends)

    @cached_property
    def vanishes(self) -> bool:
        """Does the function go to zero at both ends?"""
        return all(end.decays for end in self._ends)

    @cached_property
    def has_limits(self) -> bool:
        """Does a bounded function go to numbers at both ends, not both 0?"""
        if self.vanishes:
            return False
        far = scalar_function(self._in_numbers.replace(sp.DiracDelta, lambda *_: sp.Integer(0))).values()
        return all(np.ptp(far(side * FAR_VALUES)) < LEAST_SHARE for side in (1, -1))

    @cached_property
    def _in_numbers(self) -> sp.Expr:
        return self.expression.xreplace({symbol: CONSTANT for symbol in self.expression.free_symbols - {H}})

    @cached_property
    def _ends(self) -> tuple[Asymptote, Asymptote]:
        try:
            return asymptotes(self.expression)
        except NotCovered as problem:
            raise NotCovered(f"an entrywise function {self.expression}: {problem}, so that its order in L is not known"
                             ) from None

    @cached_property
    def has_kinks(self) -> bool:
        """Does the derivative jump?"""
        return self.derivative.derivative.expression.has(sp.DiracDelta)

    @property
    def is_written_with_kinks(self) -> bool:
        """Is it written with functions that are not smooth, whether they cancel or not?"""
        return self.expression.has(*KINKED)

    @cached_property
    def slopes(self) -> tuple[float, float]:
        """(s, b) of f(h) = s h + b |h|; raises ``ValueError`` unless f has that form."""
        h = sp.Symbol("h", positive=True)
        right, left = (sp.simplify(self.expression.xreplace({H: sign * h}) / h) for sign in (1, -1))
        if right.free_symbols or left.free_symbols:
            raise NotCovered(f"phi: got {self.expression}; expected at infinite depth are smooth functions, and "
                             "kinked ones of the form s h + b |h|")
        return float((right - left) / 2), float((right + left) / 2)

    def values(self, order: int = 0) -> Callable[[np.ndarray], np.ndarray]:
        """The derivative of an order, entrywise on arrays."""
        compiled = _entrywise(self.expression, order)

        def values(x: np.ndarray) -> np.ndarray:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return np.broadcast_to(np.asarray(compiled(x), dtype=np.float64), np.shape(x))
        return values


@lru_cache(maxsize=1024)
def _entrywise(expression: sp.Expr, order: int) -> Callable[[np.ndarray], np.ndarray]:
    """The derivative of an order, simplified once and compiled."""
    found: Callable[[np.ndarray], np.ndarray] = sp.lambdify(H, sp.simplify(expression.diff(H, order)),
                                                            modules=["scipy", "numpy"], cse=True)
    return found


@lru_cache(maxsize=4096)
def scalar_function(expression: sp.Expr, argument: sp.Expr = H) -> ScalarFunction:
    """The function of ``argument`` as one of ``H``; equal ones are one object."""
    return ScalarFunction(expression.xreplace({argument: H}))


class DerivativeAt(sp.Function):
    """f^(order)(argument), not written out: Gaussian means of it are tabulated by f and order. args: f in the symbol
    ``H``, order, argument. For an even or odd f the argument has one of its signs.

    >>> u = sp.Symbol("u", real=True)
    >>> DerivativeAt(sp.tanh(H), 0, u).diff(u), DerivativeAt(sp.tanh(H), 1, -u), DerivativeAt(H**3, 4, u)
    (d_u tanh(u), d_u tanh(u), 0)
    """

    nargs = 3
    free_symbols = property(lambda self: self.args[0].free_symbols - {H} | self.args[2].free_symbols)

    @classmethod
    def eval(cls, f: sp.Expr, order: sp.Integer, argument: sp.Expr) -> sp.Expr | None:
        if f.is_polynomial(H) and sp.degree(f, H) < order:
            return sp.Integer(0)
        if not argument.could_extract_minus_sign() or f.has(AppliedUndef):
            return None
        sign = scalar_function(f).parity * (-1) ** order
        return sign * cls(f, order, -argument) if sign else None

    def fdiff(self, argindex: int = 3) -> sp.Expr:
        return DerivativeAt(self.args[0], self.args[1] + 1, self.args[2])

    def doit(self, **hints: bool) -> sp.Expr:
        """The derivative written out."""
        f, order, argument = self.args
        return f.diff(H, order).xreplace({H: argument})

    def _eval_subs(self, old: sp.Expr, new: sp.Expr) -> sp.Expr | None:
        """``H`` is bound in f."""
        return DerivativeAt(*self.args[:2], self.args[2].subs(old, new)) if old == H else None

    def _eval_is_real(self) -> bool | None:
        return self.args[0].is_real

    precedence = property(lambda self: PRECEDENCE["Mul"] if self.args[1] else precedence(self.args[0]))

    def _sympystr(self, printer: Printer) -> str:
        return self._written(printer, "d_{} ", "d_{}^{} ")

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        text = self._written(printer, r"\partial_{{{}}} ", r"\partial_{{{}}}^{{{}}} ")
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"

    def _written(self, printer: Printer, once: str, often: str) -> str:
        f, order, argument = self.args
        value = f.xreplace({H: argument})
        if order == 0:
            return printer.doprint(value)
        return (once if order == 1 else often).format(printer.doprint(argument), order) + printer.parenthesize(
            value, PRECEDENCE["Mul"])


def _point(product: sp.Expr) -> sp.Expr:
    """A product with a point mass in it simplified: h delta(h) = 0."""
    product = product.expand(diracdelta=True, wrt=H)
    deltas, rest = sift(sp.Mul.make_args(product), lambda f: f.func == sp.DiracDelta, binary=True)
    return sp.Mul(*rest).subs(H, 0) * deltas[0] if [d.args for d in deltas] == [(H,)] else product
