"""The rules of Gaussian expectations: each rewrites ``Expectation`` nodes, the last ones in closed form.

Moments end them, and means of sin, cos and signs of linear forms. ``overlap`` and ``gaussian_mean`` are expectations of
functions of two and of one Gaussian variable, by their covariances.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, reduce
from typing import Callable

import numpy as np
import sympy as sp
from sympy.utilities.iterables import sift

from ..derivations.derivation import NodeRule
from ..errors import Divergence
from .variables import Expectation, condition, has_full_rank, root, tidy, tidy_form
from .scalar_functions import H, DerivativeAt

LAG = {sp.cos: sp.Integer(0), sp.sin: sp.pi / 2}  # of a phase: sin(x) = cos(x - pi/2)
FORMS = (sp.sign, sp.DiracDelta, sp.erf, sp.sin, sp.cos)  # functions of one affine form that the rules know


def sign_of_form(form: sp.Expr) -> sp.Expr:
    """The sign of a form, of which one of the two orientations is written; differentiates to a delta function."""
    if not form.is_real:
        unknown = ", ".join(sorted(str(s) for s in form.free_symbols if not s.is_real))
        raise ValueError(f"sign of {form}: {unknown} not known to be real; use Symbol(..., real=True)")
    return -sp.sign(-form) if form.could_extract_minus_sign() else sp.sign(form)


def expanded_products(body: sp.Expr) -> sp.Expr:
    """A sum of products; arguments of functions are left alone, and the square of a sign is one."""
    frozen = {f: sp.Dummy() for f in body.atoms(sp.Function, Expectation)}
    body = sp.expand(body.xreplace(frozen), power_exp=False, power_base=False)
    body = body.xreplace({symbol: f for f, symbol in frozen.items()})
    return body.replace(lambda e: e.is_Pow and e.base.func == sp.sign and e.exp.is_Integer and e.exp > 1,
                        lambda e: e.base if e.exp % 2 else sp.Integer(1))


def factors(body: sp.Expr) -> dict[sp.Expr, sp.Expr]:
    """Factors of a product and their powers; exponentials are whole."""
    return dict((f, sp.Integer(1)) if f.func == sp.exp else f.as_base_exp() for f in sp.Mul.make_args(body))


def exponential(body: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The exponent of all exponentials in a product, and the other factors."""
    exponentials, others = sift(sp.Mul.make_args(body), lambda f: f.func == sp.exp, binary=True)
    return sp.expand(sp.Add(*(f.exp for f in exponentials))), sp.Mul(*others)


def move(body: sp.Expr, locations: dict[sp.Expr, sp.Expr], variables: Iterable[sp.Expr]) -> sp.Expr:
    """The body with other expressions in place of variables; arguments of functions are written as forms in
    ``variables``, so that equal ones look equal. Raises ``Divergence`` for a delta function of zero."""
    variables = tuple(variables)
    if any(tidy_form(delta.args[0].xreplace(locations), variables) == 0 for delta in body.atoms(sp.DiracDelta)):
        raise Divergence("the expectation is infinite: two delta functions of one form, or one of zero")

    def settle(f: sp.Expr) -> sp.Expr:
        form = tidy_form(f.args[0], variables)
        return sign_of_form(form) if f.func == sp.sign else f.func(form, *f.args[1:])

    return body.xreplace(locations).replace(lambda e: e.func in FORMS, settle)


def unused(name: str, node: Expectation) -> sp.Symbol:
    """A real symbol whose name nothing in the expectation has."""
    names = {str(s) for s in node.free_symbols | set(node.variables)}
    return sp.Symbol(next(n for n in (name, *(f"{name}_{i}" for i in range(1, len(names) + 2))) if n not in names),
                     real=True)


class ExpectationRule(NodeRule):
    """A rule that says what one expectation over Gaussian variables becomes, with symbols for variables."""

    kind = Expectation

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return expression.replace(lambda e: isinstance(e, Expectation) and e.has_law,
                                  lambda e: e.on_symbols(self.rewrite))


@dataclass(frozen=True)
class Linearity(ExpectationRule):
    """E[a F + b G] = a E[F] + b E[G] for numbers a, b; powers of signs are reduced on the way."""

    name = "linearity"
    reason = "the expectation of a sum is the sum of expectations; constants stand before it"
    source = "algebra"

    def rewrite(self, node: Expectation) -> sp.Expr:
        total: dict[sp.Expr, sp.Expr] = {}
        for term in sp.Add.make_args(expanded_products(node.body)):
            number, rest = term.as_independent(*node.variables, as_Add=False)
            total[rest] = total.get(rest, sp.Integer(0)) + number
        return sp.Add(*(tidy(number) * node.over(rest) for rest, number in total.items()))


@dataclass(frozen=True)
class Degenerate(ExpectationRule):
    """A variable that is a linear combination of others (variance zero given these) is replaced by it."""

    name = "degenerate variables"
    reason = "a variable without variance given the others is a combination of them"
    source = "the kernel of the covariance matrix"

    def rewrite(self, node: Expectation) -> sp.Expr:
        if has_full_rank(node.matrix):  # far quicker than to eliminate
            return node
        mean = condition(tuple(node.variables), node.matrix, node.variables).mean
        return node.over(node.body.xreplace({u: m for u, m in mean.items() if m != u}))


@dataclass(frozen=True)
class Parity(ExpectationRule):
    """E[F] = 0 where F(-u) = -F(u)."""

    name = "parity"
    reason = "centered Gaussians and their negatives have one law"
    source = "symmetry"

    def rewrite(self, node: Expectation) -> sp.Expr:
        mirrored = expanded_products(move(node.body, {u: -u for u in node.variables}, node.variables))
        return sp.Integer(0) if expanded_products(mirrored + node.body) == 0 else node


@dataclass(frozen=True)
class IndependentFactors(ExpectationRule):
    """E[F(u) G(v)] = E[F(u)] E[G(v)] where all covariances of u's and v's are zero."""

    name = "independence"
    reason = "uncorrelated jointly Gaussian variables are independent"
    source = "[gaussian/conditioning]"

    def rewrite(self, node: Expectation) -> sp.Expr:
        groups: list[tuple[sp.Expr, set[int]]] = []  # factors, and the variables that they depend on
        for factor in sp.Mul.make_args(node.body):
            members = {i for i, u in enumerate(node.variables) if factor.has(u)}
            reached = {j for j in range(len(node.variables)) if any(i == j or node.matrix[i, j] != 0 for i in members)}
            joined = [group for group in groups if group[1] & reached]
            groups = [group for group in groups if group not in joined]
            groups.append((sp.Mul(factor, *(f for f, _ in joined)), members.union(*(m for _, m in joined))))
        return sp.Mul(*(node.over(factor) for factor, _ in groups))


@dataclass(frozen=True)
class Stein(ExpectationRule):
    """E[u_i G] = sum_j Cov(u_i, u_j) E[d_j G], for the variable given or the first that is a factor."""

    variable: sp.Expr | None = None
    name = "Stein's lemma"
    reason = "Gaussian integration by parts"
    source = "Stein (1981) [gaussian/stein]"

    def rewrite(self, node: Expectation) -> sp.Expr:
        for i, u in enumerate(node.variables):
            if factors(node.body).get(u, sp.Integer(0)).is_positive and self.variable in (None, u):
                return sp.Add(*(node.matrix[i, j] * node.over((node.body / u).diff(v))
                                for j, v in enumerate(node.variables)))
        return node

    def apply(self, expression: sp.Expr) -> sp.Expr:
        if self.variable is None or self.variable.is_Symbol:
            return super().apply(expression)
        stand_in = sp.Dummy(str(self.variable), real=True)  # a ket
        return Stein(stand_in).apply(expression.xreplace({self.variable: stand_in})).xreplace(
            {stand_in: self.variable})


@dataclass(frozen=True)
class Price:
    """dE[F] / dC_ij = E[d_i d_j F], half of it for i = j; for any parameter by the chain rule. Rewrites
    ``Derivative(Expectation, parameter)``."""

    name = "Price's theorem"
    reason = "the Gaussian density solves the heat equation in its covariance"
    source = "Price (1958) [gaussian/price]"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return expression.replace(lambda e: isinstance(e, sp.Derivative) and isinstance(e.expr, Expectation),
                                  lambda e: reduce(sp.diff, e.variables, e.expr))  # by ``Expectation.price``


@dataclass(frozen=True)
class Shift(ExpectationRule):
    """E[exp(k) F(u)] = exp(Var(k) / 2) E[F(u + Cov(u, k))] for a linear form k."""

    name = "shift"
    reason = "the exponential of a linear form moves the mean of the Gaussian density"
    source = "Cameron and Martin (1944)"

    def rewrite(self, node: Expectation) -> sp.Expr:
        exponent, rest = exponential(node.body)
        slopes = node.slopes(exponent)
        if slopes is None or slopes.is_zero_matrix:
            return node
        number = sp.exp(sp.expand(node.offset(exponent) + node.covariance(exponent, exponent) / 2))
        means = node.covariances(exponent)
        return number * node.over(move(rest, {u: u + means[u] for u in node.variables}, node.variables))


@dataclass(frozen=True)
class SquareInExponent(ExpectationRule):
    """E[exp(-u A u) F(u)] = det(1 + 2 A C)^(-1/2) E[F(u')], where u' has covariance C (1 + 2 A C)^-1. Raises
    ``Divergence`` for numbers for which 1 + 2 A C is not positive; of symbols it is assumed."""

    name = "square"
    reason = "the exponential of squares times the Gaussian density is another Gaussian density"
    source = "product of Gaussian densities"

    def rewrite(self, node: Expectation) -> sp.Expr:
        exponent, rest = exponential(node.body)
        variables = tuple(node.variables)
        if not exponent.is_polynomial(*variables) or sp.Poly(exponent, *variables).total_degree() != 2:
            return node
        squares = -sp.hessian(exponent, variables) / 2
        ratio = sp.eye(len(variables)) + 2 * squares * node.matrix
        scale = tidy(ratio.det())
        infinite = scale.is_nonpositive if ratio.free_symbols else \
            np.linalg.eigvals(np.array(ratio, dtype=np.float64)).real.min() <= 0
        if infinite:
            raise Divergence(f"{node} is infinite: the exponent outgrows the Gaussian density")
        primed = {u: unused(f"{u.name}'", node) for u in variables}
        linear = exponent + (sp.Matrix(variables).T * squares * sp.Matrix(variables))[0]
        body = (rest * sp.exp(sp.expand(linear))).xreplace(primed)
        covariance = (node.matrix * ratio.inv()).applyfunc(tidy)
        return Expectation(body, primed.values(), covariance) / root(scale)


@dataclass(frozen=True)
class Blur(ExpectationRule):
    """E[erf(l) F] = E[sign(l + zeta) F] with independent noise zeta of variance 1/2."""

    name = "erf is a blurred sign"
    reason = "erf(x) is the mean of sign(x + zeta), zeta independent of variance 1/2"
    source = "definition of erf"

    def rewrite(self, node: Expectation) -> sp.Expr:
        blurred = [f for f in factors(node.body) if f.func == sp.erf and f.has(*node.variables)]
        if not blurred:
            return node
        erf = min(blurred, key=str)  # str: stand-ins for kets are numbered differently each time
        noise = unused("zeta", node)
        return node.joined_by(noise, sp.Rational(1, 2), node.body / erf * sign_of_form(erf.args[0] + noise))


@dataclass(frozen=True)
class ConditionOnForm(ExpectationRule):
    """E[delta(l + m) F(u)] = p(-m) E[F(u') | l = -m], p the density of the linear form l.

    u given l = -m is -Cov(u, l) m / Var(l) + u', where u' has covariance C - Cov(u, l) Cov(l, u) / Var(l).
    Derivatives of delta functions are first reduced by Stein's lemma along l. Raises ``Divergence`` for two delta
    functions of one form.
    """

    name = "conditioning on a delta function"
    reason = "density of the form at zero, times the mean given that it is zero"
    source = "Gaussian conditioning [gaussian/conditioning]"

    def rewrite(self, node: Expectation) -> sp.Expr:
        deltas = [f for f in factors(node.body) if f.func == sp.DiracDelta and node.slopes(f.args[0]) is not None]
        if not deltas:
            return node
        delta = min(deltas, key=lambda f: (len(f.args), str(f)))
        form, rest = delta.args[0], node.body / delta
        variance, along, mean = node.covariance(form, form), node.covariances(form), node.offset(form)
        if len(delta.args) > 1 and delta.args[1] != 0:
            lower = sp.DiracDelta(form, delta.args[1] - 1) if delta.args[1] > 1 else sp.DiracDelta(form)
            slope = sp.Add(*(along[u] * rest.diff(u) for u in node.variables))
            return node.over(lower * ((form - mean) * rest - slope)) / variance
        ways = sp.Matrix([along[u] for u in node.variables])
        residual = (node.matrix - ways * ways.T / variance).applyfunc(tidy)
        left = {u: u if along[u] == 0 else sp.Integer(0) if residual[i, i] == 0 else unused(f"{u.name}'", node)
                for i, u in enumerate(node.variables)}
        variables = [v or u for u, v in left.items()]  # of variance zero where it is zero: does not occur
        body = move(rest, {u: v - tidy(along[u] / variance) * mean for u, v in left.items()}, variables)
        density = sp.exp(-mean**2 / (2 * variance)) / (sp.sqrt(2 * sp.pi) * root(variance))
        return density * Expectation(body, variables, residual)


@dataclass(frozen=True)
class Open(ExpectationRule):
    """Abs, Max, Min, Heaviside of affine forms become signs; sinh, cosh, erfc become exp and erf. Raises
    ``ValueError`` for a form that is not known to be real."""

    name = "kinks as signs"
    reason = "|l| = l sign l, Max(l, 0) = (l + |l|) / 2, the step is (1 + sign) / 2"
    source = "definitions"

    def rewrite(self, node: Expectation) -> sp.Expr:
        def is_kink(e: sp.Expr) -> bool:
            form = e.args[0] - e.args[1] if e.func in (sp.Max, sp.Min) else e.args[0] if e.func in AS_SIGNS else e
            return e.func in AS_SIGNS and len(e.args) <= 2 and form.has(*node.variables) and \
                node.slopes(form) is not None

        body = node.body.replace(lambda e: e.func in SMOOTH, lambda e: e.rewrite(SMOOTH[e.func]))
        return node.over(body.replace(is_kink, lambda e: AS_SIGNS[e.func](*e.args)))


SMOOTH = {sp.sinh: sp.exp, sp.cosh: sp.exp, sp.erfc: sp.erf}  # and what they are written with
AS_SIGNS: dict[type[sp.Expr], Callable[..., sp.Expr]] = {
    sp.Heaviside: lambda form, *_: (1 + sign_of_form(form)) / 2,
    sp.Abs: lambda form: form * sign_of_form(form),
    sp.Max: lambda p, q: (p + q + (p - q) * sign_of_form(p - q)) / 2,
    sp.Min: lambda p, q: (p + q - (p - q) * sign_of_form(p - q)) / 2,
}


@dataclass(frozen=True)
class Moments(ExpectationRule):
    """E of a monomial: the sum over pairings of its factors of the products of covariances."""

    name = "moments"
    reason = "sum over all pairings of the factors (Stein's lemma, repeated)"
    source = "Isserlis (1918) [gaussian/isserlis]"

    def rewrite(self, node: Expectation) -> sp.Expr:
        if not node.body.is_polynomial(*node.variables):
            return node
        matrix = node.matrix

        @cache
        def moment(powers: tuple[int, ...]) -> sp.Expr:
            """The mean of a product of powers, by Stein's lemma for one factor of the first variable left."""
            i = next((i for i, power in enumerate(powers) if power), None)
            if i is None:
                return sp.Integer(1)
            fewer = _less(powers, i)
            return sp.expand(sp.Add(*(power * matrix[i, j] * moment(_less(fewer, j))
                                      for j, power in enumerate(fewer) if power)))

        polynomial = sp.Poly(node.body, *node.variables)
        return sp.Add(*(number * moment(powers) for powers, number in polynomial.terms()))


def _less(powers: tuple[int, ...], i: int) -> tuple[int, ...]:
    return (*powers[:i], powers[i] - 1, *powers[i + 1:])


@dataclass(frozen=True)
class Phases(ExpectationRule):
    """Products of sin and cos become a sum of cos."""

    name = "products of waves"
    reason = "2 cos p cos q = cos(p - q) + cos(p + q), and sin p = cos(p - pi / 2)"
    source = "trigonometry"

    def rewrite(self, node: Expectation) -> sp.Expr:
        phases: list[sp.Expr] = []
        rest = node.body
        for wave, power in factors(node.body).items():
            if wave.func in LAG:
                phases += [_phase(wave)] * int(power)
                rest /= wave**power
        if len(phases) < 2:
            return node
        p, q, *others = phases
        pair = sp.Add(*(sp.cos(tidy_form(form, node.variables)) / 2 for form in (p - q, p + q)))
        return node.over(sp.expand(pair * sp.Mul(*map(sp.cos, others)) * rest, deep=False))


def _phase(wave: sp.Expr) -> sp.Expr:
    """p of a sin or cos written as cos p."""
    return wave.args[0] - LAG[wave.func]


@dataclass(frozen=True)
class Values(ExpectationRule):
    """The means of one cos, of up to two signs, and of a centered sign times a cos, of affine forms.

    E cos(p + m) = exp(-Var(p) / 2) cos m;  E sign(l + m) = erf(m / sqrt(2 Var(l)));
    E sign(l) sign(k) = (2 / pi) asin(correlation) (its derivative in the covariance is that of Price's theorem, and
    it is zero where l and k are independent);
    E sign(l) cos(p + m) = -exp(-Var(p) / 2) sin(m) erfi(Cov(l, p) / sqrt(2 Var(l))); sin likewise.
    """

    name = "means of waves and signs"
    reason = "one- and two-dimensional Gaussian integrals"
    source = "Sheppard (1899) [gaussian/sheppard] for two signs; characteristic function for cos"

    def rewrite(self, node: Expectation) -> sp.Expr:
        found = factors(node.body)
        waves = [f for f in found if f.func in LAG]
        signs = [f.args[0] for f in found if f.func == sp.sign]
        if len(waves) + len(signs) != len(found) or len(waves) > 1 or any(power != 1 for power in found.values()):
            return node
        if waves:
            return _wave(node, waves[0], signs)
        offsets = [node.offset(form) for form in signs]
        apart = all(node.covariance(f, g) == 0 for i, f in enumerate(signs) for g in signs[i + 1:])
        if len(signs) == 1 or apart:
            return sp.Mul(*(sp.erf(m / sp.sqrt(2) / root(node.covariance(f, f))) for f, m in zip(signs, offsets)))
        if len(signs) == 2 and not any(offsets):
            f, g = signs
            spreads = root(node.covariance(f, f)) * root(node.covariance(g, g))
            return 2 / sp.pi * sp.asin(node.covariance(f, g) / spreads)
        return node


def _wave(node: Expectation, wave: sp.Expr, signs: list[sp.Expr]) -> sp.Expr:
    phase = wave.args[0]
    offset, damping = node.offset(phase), sp.exp(-node.covariance(phase, phase) / 2)
    if not signs:
        return damping * wave.func(offset)
    if len(signs) > 1 or node.offset(signs[0]) != 0:
        return node
    form, turned = signs[0], -sp.sin(offset - LAG[wave.func])
    return damping * turned * sp.erfi(node.covariance(form, phase) / sp.sqrt(2) / root(node.covariance(form, form)))


def known(node: Expectation) -> bool:
    """Is the body a product of what the rules close: powers of variables, exponentials, and these functions?"""

    def closes(factor: sp.Expr) -> bool:
        if factor.func == sp.exp:
            exponent, variables = factor.exp, node.variables
            return exponent.is_polynomial(*variables) and sp.Poly(exponent, *variables).total_degree() <= 2
        return factor in node.variables or factor.func in FORMS and node.slopes(factor.args[0]) is not None

    return all(power.is_Integer and power.is_positive and closes(f) for f, power in factors(node.body).items())


def simplified(value: sp.Expr) -> sp.Expr:
    """A sum of products; terms that differ by rational functions are joined."""
    joined: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(expanded_products(value)):
        if term == 0:
            return term
        rational = sp.Mul(*(f for f in sp.Mul.make_args(term) if f.is_rational_function()))
        rest = sp.powsimp(term / rational, combine="exp")
        joined[rest] = joined.get(rest, sp.Integer(0)) + rational
    total = joined.pop(sp.Integer(1), sp.Integer(0))
    total = total if total.is_polynomial() else tidy(total)
    total += sp.Add(*(sp.powsimp(tidy(rational * rest), combine="exp") for rest, rational in joined.items()))
    return total.replace(sp.exp, lambda exponent: sp.exp(tidy(exponent)))


U, V = sp.symbols("u v", real=True)


def overlap(f: sp.Expr, g: sp.Expr, j: int, k: int, c: sp.Expr, p: sp.Expr, q: sp.Expr) -> sp.Expr:
    """E[f^(j)(u) g^(k)(v)] of Gaussian u, v without mean: an ``Expectation``, or its value for polynomials f and g.

    f, g: in the symbol ``H``; c: Cov(u, v); p, q: the variances. Its derivatives in what c, p and q depend on are such
    expectations again. Source: Price (1958) [gaussian/price].

    >>> c, p, q = sp.symbols("c p q", real=True)
    >>> overlap(sp.tanh(H), sp.tanh(H), 0, 0, c, p, q).diff(c)
    E[(d_u tanh(u))*(d_v tanh(v))]
    >>> overlap(H**2, H**2, 0, 0, c, p, q)
    2*c**2 + p*q
    """
    body = DerivativeAt(f, j, U) * DerivativeAt(g, k, V)
    return _of(body, (U, V), sp.Matrix([[p, c], [c, q]]))


def gaussian_mean(f: sp.Expr, j: int, p: sp.Expr) -> sp.Expr:
    """E[f^(j)(u)] of a Gaussian u without mean and of variance p: an ``Expectation``, or its value for polynomials f,
    and 0 where f^(j) is odd.

    >>> gaussian_mean(sp.cos(H), 0, sp.Symbol("p")), gaussian_mean(sp.cos(H), 1, sp.Symbol("p"))
    (E[cos(u)], 0)
    """
    return _of(DerivativeAt(f, j, U), (U,), sp.Matrix([[p]]))


def _of(body: sp.Expr, variables: tuple[sp.Symbol, ...], covariance: sp.Matrix) -> sp.Expr:
    """Polynomials are closed at once; numbers do not stay inside, and nothing is left of what is odd."""
    if all(f.is_polynomial(H) for f in (node.args[0] for node in body.atoms(DerivativeAt))):
        return Moments().apply(Expectation(body.doit(), variables, covariance))
    return Parity().apply(Expectation(body, variables, covariance))
