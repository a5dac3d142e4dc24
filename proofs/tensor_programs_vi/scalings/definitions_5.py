"""What stable, faithful, nontrivial and feature learning mean, as conditions on powers of the depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equations, Evidence, MeasuredNumber

from ..._claims import PLANE, Flag, verdict

START, CHANGE = ("x at initialization", "h at initialization"), ("change of x", "change of h", "change of f")


@dataclass(frozen=True)
class Definition:
    """``words`` mean that the largest power of L among ``names`` is at most 0, or (``exactly``) 0; asked of the
    verdicts that are ``given``."""

    words: str
    flag: Flag
    names: tuple[str, ...]
    exactly: bool = False
    given: Callable[[tp.verdicts.Verdict], bool | None] = lambda v: True

    def latex(self) -> str:
        names = r",\; ".join(rf"\text{{{name}}}" for name in self.names)
        order = r"\Theta" if self.exactly else "O"
        return rf"\text{{{self.words}}} &\iff {names} = {order}(1)"

    def holds(self, one: tp.verdicts.Verdict) -> bool:
        size = max(one.exponents[name] for name in self.names)
        return bool(sp.Eq(size, 0) if self.exactly else size <= 0)

    def agreement(self) -> MeasuredNumber:
        """On the points of a grid, exactly."""
        points = [one for one in (verdict(*point) for point in PLANE) if self.given(one)]
        right = sum(bool(self.flag(one)) == self.holds(one) for one in points)
        return MeasuredNumber(f"points of a grid where '{self.words}' is as defined", float(right), 0.0,
                              float(len(points)))


def _starts(one: tp.verdicts.Verdict) -> bool:
    return one.stable_at_init


DEFINITIONS = (
    Definition("stable at initialization (5.2)", lambda v: v.stable_at_init, START),
    Definition("stable during training (5.2)", lambda v: v.stable_in_training, CHANGE, given=_starts),
    Definition("faithful at initialization (5.3)", lambda v: v.faithful_at_init, START[1:], True),
    Definition("faithful during training (5.3)", lambda v: v.faithful_in_training, (START[1], CHANGE[1]), True,
               lambda v: v.stable_at_init and v.stable_in_training),
    Definition("nontrivial (5.4)", lambda v: v.nontrivial, CHANGE[2:], True, lambda v: v.output_stable),
    Definition("feature learning (5.5)", lambda v: v.feature_learning, CHANGE[1:2], True, lambda v: v.output_stable))


def evidence() -> Evidence:
    return Evidence(tuple(one.agreement() for one in DEFINITIONS))


ENTRY = Entry(
    key="tensor_programs_vi/definitions_5",
    kind="definition",
    title="stable, faithful, nontrivial, feature learning",
    source="Tensor Programs VI, definitions 5.1 to 5.5",
    says="A training routine is a learning rate, an entrywise update $Q$ and the inputs; none of them moves a power of "
         "$L$, so that one routine decides. Training is asked about where initialization is stable, faithfulness in "
         "training where training is stable, the rest where the output is.",
    statement=lambda: Equations(DEFINITIONS),
    uses=("tensor_programs_vi/definition_41",),
    evidence=evidence,
)
