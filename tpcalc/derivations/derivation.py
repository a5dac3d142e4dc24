"""A derivation is the list of its steps, and a step can be checked by applying its rule again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Protocol

import sympy as sp

from .._shown import Short
from .._text import Aligned
from ..errors import MissingExtra
from . import mathml
from .printing import latex, rich


class Rule(Protocol):
    """One way to rewrite; ``name``, ``reason`` and ``source`` are printed beside the step."""

    name: str
    reason: str
    source: str

    def apply(self, expression: sp.Expr) -> sp.Expr:
        """The rewritten expression; raises ``ValueError`` where the rule's condition fails."""


class NodeRule:
    """A rule that says what one node of its ``kind`` becomes; the node itself where its condition fails."""

    kind: type[sp.Basic] | tuple[type[sp.Basic], ...]

    def rewrite(self, node: sp.Expr) -> sp.Expr:
        """What stands in the place of the node."""
        raise NotImplementedError

    def apply(self, expression: sp.Expr) -> sp.Expr:
        """The expression with all its nodes rewritten, the innermost first."""
        return expression.replace(lambda e: isinstance(e, self.kind), self.rewrite)


Shown = Callable[[Any], Any]


def as_it_is(expression: sp.Basic) -> sp.Basic:
    """The expression."""
    return expression


@dataclass(frozen=True, repr=False)
class Step(Short):
    """One recorded step of a derivation: by ``rule``, ``left = before`` became ``left = after``.

    shown: an expression as LaTeX has it, such as with names for functions.

    >>> import tpcalc as tp
    >>> step = tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling())).derivation.steps[0]
    >>> step.rule, step.check()
    ('unroll the updates', True)
    """

    number: int
    left: sp.Expr
    before: sp.Expr
    after: sp.Expr
    applied: Rule = field(repr=False)
    shown: Shown = field(default=as_it_is, repr=False)

    rule = property(lambda self: self.applied.name)
    reason = property(lambda self: self.applied.reason)
    source = property(lambda self: self.applied.source)

    def check(self) -> bool:
        """Does the rule, applied to what stood before, give what stands after?"""
        return agree(self.applied.apply(self.before), self.after)

    def latex(self) -> str:
        relation = "=" if isinstance(self.after, sp.Expr) else r"\iff"
        return rf"{latex(self.left)} &{relation} {latex(self.shown(self.after))}"

    def __str__(self) -> str:
        return f"({self.number}) {self.left} = {self.after}    [{self.rule}: {self.reason}]"


def agree(first: sp.Basic, second: sp.Basic) -> bool:
    """Are both the same when expanded? Conditions have nothing to expand: they are written the same, or differ."""
    if isinstance(first, sp.Expr) and isinstance(second, sp.Expr):
        return bool(sp.expand(first - second) == 0)
    return bool(first == second)


class Derivation(Aligned):
    """The recorded steps of a derivation; ``apply`` adds one and returns the expression that it leads to.

    shown: how steps that are added write their expressions in LaTeX.

    >>> import tpcalc as tp
    >>> derivation = tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling())).derivation
    >>> all(step.check() for step in derivation.steps)
    True
    """

    def __init__(self, start: tuple[Step, ...] = (), shown: Shown = as_it_is) -> None:
        self.steps: tuple[Step, ...] = start
        self.shown = shown

    def apply(self, rule: Rule, left: sp.Expr, expression: sp.Expr) -> sp.Expr:
        """Rewrite; a rule that changes nothing leaves no step."""
        after = rule.apply(expression)
        if after != expression:
            self.steps += (Step(len(self.steps) + 1, left, expression, after, rule, self.shown),)
        return after

    def through(self, rules: Iterable[Rule], left: sp.Expr, expression: sp.Expr) -> sp.Expr:
        """``apply`` one rule after the other."""
        for rule in rules:
            expression = self.apply(rule, left, expression)
        return expression

    def latex(self, reasons: bool = False) -> str:
        """All steps as lines of an ``aligned`` environment, with number and rule beside each, and why it holds."""
        return " \\\\\n".join(rf"{step.latex()} && \text{{{rich(_words(step, reasons))}}}" for step in self.steps)

    def mathml(self, reasons: bool = False) -> str:
        """The derivation as one ``math`` element, for HTML without any script.

        Raises ``MissingExtra`` without latex2mathml (extra ``report``).
        """
        return mathml.annotated([(step.latex(), _words(step, reasons)) for step in self.steps])

    def __repr__(self) -> str:
        return f"Derivation({len(self.steps)} steps)"

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    def _repr_html_(self) -> str | None:
        """With reasons; notebooks take the LaTeX where there is no MathML."""
        try:
            return f'<div style="overflow-x: auto">{self.mathml(reasons=True)}</div>'
        except MissingExtra:
            return None


def _words(step: Step, reasons: bool) -> str:
    return f"({step.number}) {step.rule}" + (f": {step.reason}" if reasons else "")
