"""Rules of derivations that are given by what they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import sympy as sp

Rewrite = Callable[[sp.Expr], sp.Expr]


@dataclass
class Rewriting:
    """What is printed beside a step, and the rewriting, which raises ``ValueError`` where its condition fails."""

    name: str
    reason: str
    source: str
    apply: Rewrite


def of_nodes(kind: type[sp.Basic], rewrite: Callable[[Any], sp.Expr]) -> Rewrite:
    """All nodes of a kind rewritten, the innermost first."""
    return lambda expression: expression.replace(lambda e: isinstance(e, kind), rewrite)
