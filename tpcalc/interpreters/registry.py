"""An interpreter is a registry of rules, one for every node type; what has no rule is refused by name.

The habit is funsor's: a node is read by the rule of its class, or of the nearest class that it is derived from, and
an interpreter says of every node type whether it reads it.
"""

from __future__ import annotations

from typing import Callable, Mapping

import sympy as sp

from .._types import Value
from ..errors import NotCovered

Rule = Callable[[Value, Value], Value]


class UnhandledNode(NotCovered):
    """An interpreter has no rule for a node.

    Attributes
    ----------
    interpreter: its name; node: the expression; statement: the assignment that holds it, or ``None``.
    """

    def __init__(self, interpreter: str, node: sp.Basic, reason: str, statement: Value = None) -> None:
        location = "" if statement is None else f", in {statement}"
        super().__init__(f"{interpreter} does not read {type(node).__name__} nodes such as {node}{location}: {reason}")
        self.interpreter, self.node, self.reason, self.statement = interpreter, node, reason, statement


class Registry:
    """The rules of one interpreter, ``name`` in its errors; those of ``parent`` hold where it has none of its own."""

    def __init__(self, name: str, parent: "Registry | None" = None) -> None:
        self.name = name
        self._rules: dict[type, Rule] = dict(parent.rules) if parent else {}

    @property
    def rules(self) -> Mapping[type, Rule]:
        """Node type -> rule; a refusal is a rule too, which raises."""
        return dict(self._rules)

    def rule(self, *types: type) -> Callable[[Rule], Rule]:
        """Decorator: ``rule(run, node)`` gives the value of nodes of these types; ``run.value`` that of their parts."""
        def register(rule: Rule) -> Rule:
            self._rules.update(dict.fromkeys(types, rule))
            return rule
        return register

    def refuse(self, reason: str, *types: type) -> None:
        """Declare that nodes of these types are not read, and why."""
        def refusal(run: Value, node: sp.Basic) -> Value:
            raise UnhandledNode(self.name, node, reason, run.statement)
        self._rules.update(dict.fromkeys(types, refusal))

    def value(self, run: Value, node: sp.Basic) -> Value:
        """The value of a node by its rule; raises ``UnhandledNode`` where there is none."""
        for node_type in type(node).__mro__:
            if node_type in self._rules:
                return self._rules[node_type](run, node)
        raise UnhandledNode(self.name, node, "it has no rule for them", run.statement)
