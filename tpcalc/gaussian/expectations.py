"""Symbolic Gaussian expectations: closed forms where the rules find one, nodes that quadrature evaluates elsewhere.

    >>> import sympy as sp
    >>> from tpcalc.gaussian import Gaussians, expectation
    >>> u, v, c = sp.symbols("u v c", real=True)
    >>> a, b = sp.symbols("a b", positive=True)
    >>> expectation(sp.Heaviside(u) * sp.Heaviside(v), Gaussians({(u, u): a, (u, v): c, (v, v): b}))
    asin(c/(sqrt(a)*sqrt(b)))/(2*pi) + 1/4

A kink is a sign, a sign differentiates to a delta function, a delta function conditions on the value of its form, and
erf is a sign with noise inside. So Stein's lemma, conditioning and the mean of a product of two signs (which Price's
theorem gives) lead to the arc-cosine kernels of all orders, the arcsine kernel and what polynomials, exponentials,
sin and cos make of them.
"""

from __future__ import annotations

import sympy as sp

from ..derivations.derivation import Derivation, Rule
from .rules import (Blur, ConditionOnForm, Degenerate, IndependentFactors, Linearity, Moments, Open, Parity, Phases,
                    Shift, SquareInExponent, Stein, Values, known, simplified)
from .variables import Expectation, Gaussians

FIRST: tuple[Rule, ...] = (Degenerate(), Linearity(), Parity(), IndependentFactors())
CLOSING: tuple[Rule, ...] = (Linearity(), Parity(), IndependentFactors(), Moments(), SquareInExponent(), Shift(),
                             ConditionOnForm(), Blur(), Phases(), Stein(), Values())


def expectation(body: sp.Expr, gaussians: Gaussians) -> sp.Expr:
    """E[body] in closed form; terms without a known one stay as ``Expectation`` nodes.

    body: an expression in the variables and in parameters that are known to be real. Closed: polynomials of any
    degree times exponentials of quadratic forms times sin and cos; these times any one of Abs, Max, Min, sign,
    Heaviside, DiracDelta, erf of affine forms; and products of these without offset as long as Stein's lemma and
    conditioning leave no more than two signs. Raises ``ValueError`` for parameters of kinks that may be complex,
    ``Divergence`` for an infinite expectation. Variances that are symbols are taken to be positive, and
    correlations that are symbols to be less than one: declare variables equal by giving them one symbol.
    """
    return derive_expectation(body, gaussians)[0]


def derive_expectation(body: sp.Expr, gaussians: Gaussians) -> tuple[sp.Expr, Derivation]:
    """``expectation`` and its steps: those for the whole, then those for every part that has a closed form."""
    return _derive(Expectation(body, gaussians.variables, gaussians.matrix))


def closed(expression: sp.Expr) -> sp.Expr:
    """Expectations in closed form, as functions of the entries of their covariances, where there is one.

    >>> from tpcalc.gaussian.rules import overlap
    >>> from tpcalc.gaussian.scalar_functions import H
    >>> closed(overlap(sp.Abs(H), sp.Abs(H), 1, 1, *sp.symbols("c p q")))
    2*asin(c/(sqrt(p)*sqrt(q)))/pi
    """
    return expression.replace(lambda e: isinstance(e, Expectation), _closed)


def _closed(node: Expectation) -> sp.Expr:
    distinct = Degenerate().apply(node)
    names = {entry: sp.Dummy(positive=entry in distinct.matrix.diagonal(), real=True) for entry in distinct.matrix
             if entry != 0}
    value, _ = _derive(Expectation(distinct.body.doit(), distinct.variables, distinct.matrix.xreplace(names)))
    return node if value.has(Expectation) else value.xreplace({name: entry for entry, name in names.items()})


def _derive(node: Expectation) -> tuple[sp.Expr, Derivation]:
    derivation = Derivation()
    whole = node
    for rule in FIRST:
        whole = derivation.apply(rule, node, whole)
    closed = {part: _close(part, derivation) for part in sorted(whole.atoms(Expectation), key=str)}
    return simplified(whole.xreplace(closed)), derivation


def _close(node: Expectation, derivation: Derivation) -> sp.Expr:
    """The closed form, with its steps; the expectation itself, and no steps, if the rules leave one."""
    steps = Derivation(derivation.steps)
    now = steps.apply(Linearity(), node, steps.apply(Open(), node, node))
    if not all(part.on_symbols(lambda e: sp.true if known(e) else sp.false) for part in now.atoms(Expectation)):
        return node
    while now.has(Expectation):
        before = now
        for rule in CLOSING:
            now = steps.apply(rule, node, before)
            if now != before:
                break
        else:
            return node
    derivation.steps = steps.steps
    return now
