"""Proofs: recorded steps, each of which can be made again, and random numbers on which to try the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Protocol, Sequence

import numpy as np
import sympy as sp

from ..derivations.derivation import agree
from ..derivations.printing import latex
from ..errors import NotCovered


class StepLike(Protocol):
    """A recorded step, such as ``tpcalc.calculus.Step``: ``left = before`` became ``left = after`` by a rule; of
    conditions, what holds exactly where ``before`` did is said by ``after``."""

    @property
    def number(self) -> int: ...
    @property
    def left(self) -> object: ...
    @property
    def before(self) -> object: ...
    @property
    def after(self) -> object: ...
    @property
    def rule(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def source(self) -> str: ...
    def check(self) -> bool: ...
    def latex(self) -> str: ...


@dataclass(frozen=True)
class Identity:
    """A step that is an identity of polynomials: both sides are equal when expanded."""

    number: int
    left: sp.Expr
    before: sp.Expr
    after: sp.Expr
    rule: str = "identity"
    reason: str = "both sides expand to the same polynomial"
    source: str = "algebra"

    def check(self) -> bool:
        return bool(sp.expand(self.before - self.after) == 0)

    def latex(self) -> str:
        return rf"{latex(self.left)} &= {latex(self.after)}"


@dataclass(frozen=True)
class SentStep:
    """A step that another process made and checked: what is said of it, without its rule, which stays there."""

    number: int
    left: object
    before: object
    after: object
    rule: str
    reason: str
    source: str
    text: str

    @classmethod
    def of(cls, step: StepLike) -> SentStep:
        return cls(step.number, step.left, step.before, step.after, step.rule, step.reason, step.source, step.latex())

    def check(self) -> bool:
        """Raises ``NotCovered``: the rule is elsewhere."""
        raise NotCovered(f"step {self.number} ({self.rule}) was checked in the process that made it, which has the "
                         "rule")

    def latex(self) -> str:
        return self.text


@dataclass(frozen=True)
class Proof:
    """steps: in order; check_numbers: draws admissible numbers from the generator and returns the largest relative
    difference between both sides, which may be ``tolerance``; numbers: what is compared, in words."""

    steps: Sequence[StepLike]
    check_numbers: Callable[[np.random.Generator], float]
    numbers: str
    tolerance: float = 1e-10


def unreached(statement: object, steps: Sequence[StepLike]) -> list[str]:
    """Equations of a statement that no step ends in, as text.

    An equation is reached where a step with its left side ends in its value. Objects that tpcalc derived may have
    equations that no rule changed; an ``Equations`` that an entry wrote down may not.
    """
    written = type(statement).__name__ == "Equations"
    missing = []
    for equation in getattr(statement, "equations", ()):
        ends = [step.after for step in steps if step.left == equation.target]
        if not ends and written:
            missing.append(f"{equation.target}: no step has it on its left")
        if ends and not any(agree(end, equation.value) for end in ends):
            missing.append(f"{equation.target} = {equation.value}: the last step ends in {ends[-1]}")
    return missing
