"""Conditioning as a rule of Gaussian expectations: each variable becomes its mean given the past, and a residual."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from tpcalc.derivations.derivation import NodeRule
from tpcalc.gaussian.rules import ExpectationRule
from tpcalc.gaussian.rules import unused
from tpcalc.gaussian.variables import Expectation, condition


@dataclass(frozen=True)
class GivenPast(ExpectationRule):
    """Every variable outside ``past`` becomes E[u | past] + u', with u' independent of the past."""

    past: tuple[sp.Expr, ...]
    name = "conditioning"
    reason = "u = Cov(u, v) Cov(v, v)^-1 v + what is independent of the past v"
    source = "Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1] [gaussian/conditioning]"

    def rewrite(self, node: Expectation) -> sp.Expr:
        if not node.has_law:
            return node
        past = [v for v in node.variables if v in self.past]
        law = condition(tuple(node.variables), node.matrix, past)
        fresh = {u: unused(f"{u}'", node) for u in node.variables if u not in past}
        order = [node.variables.index(u) for u in (*past, *fresh)]
        size = len(past)
        covariance = sp.diag(node.matrix.extract(order[:size], order[:size]),
                             law.residual.extract(order[size:], order[size:]))
        body = node.body.xreplace({u: law.mean[u] + residual for u, residual in fresh.items()})
        return Expectation(body, (*past, *fresh.values()), covariance)

    apply = NodeRule.apply  # kets need no stand-ins: nothing is differentiated
