"""What compiled recursions read of a loss: its derivative in every output of a sample, as an expression."""

from __future__ import annotations

from typing import Any, Callable

import sympy as sp

from ... import _checks
from ...errors import NotCovered
from ...programs.algebra import replaced
from ...data.losses import NAMED

LossRule = Callable[[sp.Expr, sp.Expr], sp.Expr]  # the derivative, of an output and its target
RowRule = Callable[[tuple[sp.Expr, ...], tuple[sp.Expr, ...], int], sp.Expr]  # of all outputs and targets, in one


def row_rule(loss: Any) -> RowRule:
    """The derivative of a loss in one of a sample's outputs, which may depend on all of them.

    loss: a function of one output and its target, which gives the derivative; a name, such as "softmax"; or an object
    with ``expression(f, y)``, which is differentiated. Raises ``ValueError`` for anything else.

    >>> from sympy.abc import a, b, y, z
    >>> row_rule("softmax")((a, b), (y, z), 0)
    -y + (y + z)/(exp(-a + b) + 1)
    """
    if isinstance(loss, str) and loss.lower() in NAMED:
        loss = NAMED[loss.lower()]
    if not hasattr(loss, "expression"):
        allowed = (f"{', '.join(map(repr, NAMED))}, a function of an output and its target that gives the derivative, "
                   "or an object with expression(f, y)")
        if not callable(loss):
            raise NotCovered(f"loss: got {_checks.short(loss)}; expected {allowed}")
        derivative = _checks.rule("loss", loss, allowed)
        return lambda f, y, number: derivative(f[number], y[number])

    def rule(f: tuple[sp.Expr, ...], y: tuple[sp.Expr, ...], number: int) -> sp.Expr:
        outputs = [sp.Dummy(f"f{k}", real=True) for k in range(len(f))]
        targets = [sp.Dummy(f"y{k}", real=True) for k in range(len(f))]
        value = _checks.symbolic(loss.expression(outputs, targets))
        found = _bounded(sp.diff(value, outputs[number]))
        return found.subs(dict(zip((*outputs, *targets), (*f, *y))), simultaneous=True)

    return rule


def _bounded(expression: sp.Expr) -> sp.Expr:
    """exp(a) / sum_j exp(b_j) as 1 / sum_j exp(b_j - a), which does not overflow where the quotient is a number."""
    return replaced(expression, sp.Mul, _quotient)


def _quotient(product: sp.Expr) -> sp.Expr:
    above = [factor for factor in product.args if isinstance(factor, sp.exp)]
    below = [factor for factor in product.args if factor.is_Pow and factor.exp == -1 and factor.base.has(sp.exp)]
    if len(above) != 1 or len(below) != 1:
        return product
    terms = sp.Add.make_args(below[0].base)
    return product / above[0] / below[0] / sp.Add(*(sp.powsimp(term / above[0]) for term in terms))
