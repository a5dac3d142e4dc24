"""The meta-principled family: the principles solved for any number of layers at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from .._types import Number
from .._checks import exponent, whole_number
from ..scaling import WidthScaling
from .counting import own_gradients
from .principles import GAUGE, S, critical, equivalent, learning


@dataclass(frozen=True)
class AnyDepth:
    """The solution for a symbol L of layers: p and q of layer l as expressions in l and L, and r; s and t are free.

    free: 2 L + 1 unknowns less the number of equations, each of which has an unknown that those before it lack.
    """

    layer: sp.Symbol
    layers: sp.Symbol
    p: sp.Expr
    q: sp.Expr
    r: sp.Expr
    free: sp.Expr

    def at(self, layers: int) -> WidthScaling:
        """The solution for a number of layers."""
        p, q = ([row.subs(self.layers, layers).subs(self.layer, i) for i in range(1, layers + 1)]
                for row in (self.p, self.q))
        return WidthScaling(p, q, self.r)


@lru_cache(maxsize=None)
def solve_any_depth() -> AnyDepth:
    """Solve the principles for a symbol L of layers: a recurrence in the layer, then the last layer and r.

    >>> solve_any_depth().r, solve_any_depth().free
    (s + t, 2)
    """
    layer, layers = sp.symbols("l L", integer=True, positive=True)
    unknown_p, unknown_q, unknown_r = sp.symbols("p q r", real=True)
    q = sp.Function("q", real=True)
    hidden, = sp.solve(critical(unknown_p, layer).power, unknown_p)
    recurrence = equivalent(hidden, unknown_q, own_gradients(GAUGE), layer).power.subs(
        {unknown_q: q(layer + 1), GAUGE: q(layer)})
    below = sp.rsolve(recurrence, q(layer), {q(1): GAUGE})
    last, = sp.solve(equivalent(S, unknown_q, own_gradients(below.subs(layer, layers - 1)), layers).power, unknown_q)
    rate, = sp.solve(learning(own_gradients(last), unknown_r, layers).power, unknown_r)
    equations = (layers - 1) + (layers - 1) + 1  # criticality below the output, equivalence above the input, learning
    return AnyDepth(layer, layers, sp.Piecewise((hidden, layer < layers), (S, True)),
                    sp.Piecewise((below, layer < layers), (last, True)), rate, sp.expand(2 * layers + 1 - equations))


def meta_principled(s: Number, layers: int) -> WidthScaling:
    """The member s of the meta-principled family, for a perceptron of ``layers`` layers, in the gauge q_1 = 0.

    s is p_L, the power with which the variance of outputs falls: 0 is the neural-tangent scaling, 1 the maximal-update
    one. Numbers outside [0, 1] are allowed: ``tpcalc.width.audit`` says what they break. Raises ``ValueError`` for s
    that is not real and for fewer than two layers. Source: (3.15), solved from the principles [meta_principled/family].

    >>> meta_principled(1 / 2, layers=3)
    WidthScaling(p=(0, 0, 1/2), q=(0, 0, 1/2), r=1/2)
    """
    count, metaparameter = whole_number("layers", layers, 2), exponent("s", s)
    solution = solve_any_depth().at(count)
    values = {S: metaparameter, GAUGE: sp.Integer(0)}
    return WidthScaling([x.subs(values, simultaneous=True) for x in solution.p],
                        [x.subs(values, simultaneous=True) for x in solution.q],
                        solution.r.subs(values, simultaneous=True))
