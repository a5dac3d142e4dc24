"""The action of a residual block at infinite depth, and the densities that are its coefficients.

A block whose first operation is a fresh random matrix enters training through E exp(S) with the response fields xt, dt
of the stream and of its gradient, S = sum over sites a of (xt_a + delta_a D_a) . F(x_a), where D_a = dt_a . d/dx_a
acts on the copy of x_a in F alone. A site is a sample of a step. To leading order in the depth half the variance of S
counts, as kappa, and its mean under what updates did, as theta; layers are independent, so that later cumulants add up
to nothing:

    Psi = 1/2 sum_ab (xt_a + delta_a D_a).(xt_b + delta_b D_b) kappa_ab
          - sum_m sum_{b<a} w^m_ab (xt_a + delta_a D_a).delta_b theta^m_ab

Psi is a sum over pairs of sites, so that two sites, in each order of steps, stand for any number. Source:
[tpcalc/action_principle].
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp
from sympy.printing.printer import Printer

from ..derivations.derivation import NodeRule
from ..errors import NotCovered

a, b, c = sp.symbols("a b c")
STEPS = {a: 2, b: 1, c: 2}  # b is of an earlier step than a, c another sample of a's step
FIELDS = x, xt, delta, dt = sp.symbols("x xt delta dt")
FIELD_LATEX = {x: "x", xt: r"\tilde{x}", delta: r"\delta", dt: r"\tilde{\delta}"}
SOURCE = "tpcalc [tpcalc/action_principle]"


def at(name: str, one: sp.Symbol, two: sp.Symbol) -> sp.Symbol:
    """The number ``name`` of two sites, such as r_ab; of C the diagonal is a variance. As in ``block_kernels``."""
    sign = {"positive": True} if name in ("C", "rho") and one == two else {"real": True}
    return sp.Symbol(f"{name}_{one}{two}", **sign)


class Commuting(sp.Expr):
    """A factor that may change places."""

    is_commutative = True


class Field(Commuting):
    """A field at a site; args: which of ``FIELDS``, the site. Sums of fields are vectors."""

    def _latex(self, printer: Printer) -> str:
        return f"{FIELD_LATEX[self.args[0]]}_{{{self.args[1]}}}"


class Inner(sp.Function):
    """The inner product u . v of two vectors, symmetric and bilinear: a variable of the action, no mean of anything
    until the saddle puts its mean in its place."""

    nargs = 2

    @classmethod
    def eval(cls, u: sp.Expr, v: sp.Expr) -> sp.Expr | None:
        terms = [(f.as_independent(Field), g.as_independent(Field))
                 for f in sp.Add.make_args(sp.expand(u)) for g in sp.Add.make_args(sp.expand(v))]
        if len(terms) > 1 or any(k != 1 for one in terms for k, _ in one):
            return sp.Add(*(k * m * cls(f, g) for (k, f), (m, g) in terms))
        return cls(v, u) if _order(v) < _order(u) else None

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        text = r"\left(%s \cdot %s\right)" % tuple(map(printer.doprint, self.args))
        return text if exp is None else f"{text}^{{{exp}}}"


def _order(field: sp.Expr) -> tuple[int, str]:
    return FIELDS.index(field.args[0]), str(field.args[1])


class Kernel(sp.Function):
    """A derivative of kappa or theta, symmetric functions of the covariance and of the variances of two slots.

    args: name, the orders of differentiation in covariance, first variance, second variance, and these three.
    """

    nargs = 7

    @classmethod
    def eval(cls, *args: sp.Basic) -> sp.Expr | None:
        name, i, j, k, cov, p, q = args
        if q == p and k > j or sp.default_sort_key(q) < sp.default_sort_key(p):
            return cls(name, i, k, j, cov, q, p)
        return None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        if argindex not in (5, 6, 7):
            raise ValueError(f"argindex: got {argindex}; expected 5, 6, 7, the covariance and the variances")
        name, *orders = self.args[:4]
        orders[argindex - 5] += 1
        return Kernel(name, *orders, *self.args[4:])

    @property
    def sites(self) -> tuple[str, str]:
        """The sites of both slots, before and after the saddle."""
        one, two = (str(v.args[0].args[1]) if v.func == Inner else str(v).split("_")[1][0] for v in self.args[5:])
        return one, two

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        name, i, j, k = self.args[:4]
        one, two = self.sites
        pair = (one, "b") if one == two else (one, two)  # the derivative is taken before both sites are one
        head = printer.doprint(sp.Symbol(f"{name}_{pair[0]}{pair[1]}"))
        by = [(i, f"{pair[0]}{pair[1]}"), (j, 2 * pair[0]), (k, 2 * pair[1])]
        slopes = "".join(rf"\partial_{{C_{{{v}}}}}" + (f"^{{{n}}}" if n > 1 else " ") for n, v in by if n)
        text = slopes + head
        if one == two:
            text = rf"\left.{text}\right|_{{b={one}}}" if slopes else printer.doprint(sp.Symbol(f"{name}_{one}{one}"))
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"


def _slots(one: sp.Symbol, two: sp.Symbol) -> tuple[str, str]:
    """Names of both slots: of one site with itself they are different copies."""
    return str(one), f"{one}'" if one == two else str(two)


def _plain(printer: Printer, name: sp.Symbol, slots: tuple[str, str]) -> str:
    return f"{printer.doprint(name)}_{{{slots[0]}{slots[1]}}}"


class Acting(Commuting):
    """(xt_a + delta_a D_a) . (xt_b + delta_b D_b) kernel, or the second factor without xt and D (``bare`` is 1).

    args: the name of the kernel, both sites, bare.
    """

    def _latex(self, printer: Printer) -> str:
        name, one, two, bare = self.args
        sites = _slots(one, two)
        left, right = (rf"\left(\tilde{{x}}_{{{f}}} + \delta_{{{f}}} D_{{{s}}}\right)"
                       for f, s in zip((one, two), sites))
        if bare:
            right = rf"\delta_{{{two}}}"
        return rf"{left} \cdot {right} \, {_plain(printer, name, sites)}"


class Along(Commuting):
    """D of either slot, or of both, on a kernel; args: its name, both sites, 1 or 0 for each slot."""

    def moved(self) -> sp.Expr:
        """The kernel along dt in each slot, differentiated: the chain rule."""
        name, one, two, first, second = self.args
        s, u = sp.Dummy("s"), sp.Dummy("u")
        left, right = Field(x, one) + s * Field(dt, one), Field(x, two) + u * Field(dt, two)
        value = Kernel(name, 0, 0, 0, Inner(left, right), Inner(left, left), Inner(right, right))
        for step, differentiated in ((s, first), (u, second)):
            value = (value.diff(step) if differentiated else value).subs(step, 0)
        return sp.expand(value)

    def _latex(self, printer: Printer) -> str:
        name, one, two, first, second = self.args
        sites = _slots(one, two)
        operators = "".join(f"D_{{{s}}} " for s, used in zip(sites, (first, second)) if used)
        return operators + _plain(printer, name, sites)


class OverlapCoefficient(Commuting):
    """What multiplies an overlap of fields at the saddle; args: the action, the overlap, and 2 if with a factor 1/2."""

    def found(self) -> sp.Expr:
        action, overlap, double = self.args
        unknown = sp.Dummy("o")
        return double * sp.expand(action).xreplace({overlap: unknown}).diff(unknown).xreplace({unknown: overlap})

    def _latex(self, printer: Printer) -> str:
        action, overlap, double = self.args
        below = printer.doprint(overlap)
        scale = r"\tfrac{1}{2}" if double == 2 else ""
        return rf"\frac{{\partial}}{{\partial {scale}{below}}} \left[{printer.doprint(action)}\right]"


class OverEarlier(sp.Function):
    """The sum over all sites b of steps before that of a; args: the term."""

    nargs = 1

    @classmethod
    def eval(cls, term: sp.Expr) -> sp.Expr | None:
        return sp.Integer(0) if term == 0 else None

    def _latex(self, printer: Printer) -> str:
        return rf"\sum_{{b<a}} \left[{printer.doprint(self.args[0])}\right]"


class ExpandingRule(NodeRule):
    """A rule whose results are multiplied out."""

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return sp.expand(super().apply(expression))


@dataclass(frozen=True)
class MultiplyOut(ExpandingRule):
    """Products of sums of fields and operators become overlaps of fields, times operators on kernels."""

    kind = Acting
    name = "multiply out"
    reason = "D acts on the kernel's own slot, and nothing else here depends on that"
    source = "algebra"

    def rewrite(self, acting: sp.Expr) -> sp.Expr:
        name, one, two, bare = acting.args
        right = [(delta, sp.Integer(0))] if bare else [(xt, sp.Integer(0)), (delta, sp.Integer(1))]
        return sp.Add(*(Inner(Field(f, one), Field(g, two)) * Along(name, one, two, first, second)
                        for f, first in ((xt, sp.Integer(0)), (delta, sp.Integer(1))) for g, second in right))


@dataclass(frozen=True)
class ChainRule(ExpandingRule):
    """Kernels are functions of overlaps."""

    kind = Along
    name = "chain rule"
    reason = "kernels depend on the stream through $x_a \\cdot x_b$, $x_a \\cdot x_a$, $x_b \\cdot x_b$ alone"
    source = "algebra"

    def rewrite(self, along: Along) -> sp.Expr:
        return along.moved()


@dataclass(frozen=True)
class ReadCoefficient(NodeRule):
    """The coefficient of an overlap of fields."""

    kind = OverlapCoefficient
    name = "coefficient"
    reason = "densities multiply pairs of fields in the action, linearized at the saddle"
    source = SOURCE

    def rewrite(self, coefficient: OverlapCoefficient) -> sp.Expr:
        return coefficient.found()


@dataclass(frozen=True)
class Saddle(ExpandingRule):
    """Overlaps of fields take their means.

    Causality: x answers what entered the gradients of earlier steps (r), a gradient what entered the stream of its own
    sample or of earlier steps (e); response fields do not covary.
    """

    kind = Inner
    name = "saddle"
    reason = "signals answer earlier steps only, and response fields do not covary"
    source = SOURCE

    def rewrite(self, overlap: sp.Expr) -> sp.Expr:
        (one, i), (two, j) = (field.args for field in overlap.args)
        earlier = STEPS[j] < STEPS[i]
        if (one, two) in ((x, x), (delta, delta)):
            return at("C" if one == x else "C^1", *sorted((i, j), key=str))
        if (one, two) == (x, dt):
            return at("r", i, j) if earlier else sp.Integer(0)
        if (one, two) == (xt, delta):
            return at("e", j, i) if i == j or STEPS[i] < STEPS[j] else sp.Integer(0)
        if one == two:
            return sp.Integer(0)
        raise NotCovered(f"{overlap}: given; the action pairs these fields nowhere")


def action(one: sp.Symbol, two: sp.Symbol, matrices: tuple[str, ...]) -> sp.Expr:
    """What a pair of sites adds to Psi, and with ``one == two`` what one site adds."""
    value = Acting(sp.Symbol("kappa"), one, two, sp.Integer(0)) / (2 if one == two else 1)
    if STEPS[two] < STEPS[one]:
        value -= sp.Add(*(at(f"w^{m}", one, two) * Acting(sp.Symbol(f"theta^{m}"), one, two, sp.Integer(1))
                          for m in matrices))
    return value
