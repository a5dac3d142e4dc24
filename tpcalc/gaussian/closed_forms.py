"""Where the rules of Gaussian expectations end: moments, and means of sin, cos and signs of linear forms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import sympy as sp

from .algebra import FORMS, expanded_products, factors
from .forms import root, tidy, tidy_form
from .rules import ExpectationRule
from .variables import Expectation

LAG = {sp.cos: sp.Integer(0), sp.sin: sp.pi / 2}  # of a phase: sin(x) = cos(x - pi/2)


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
