"""The claims for other networks and optimizers: conditions counted from their own exponents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus import Derivation
from tpcalc.ledger import Equation, Equations, Proof

from ..._claims import POINTS, Property, Said, iff, random_points, where
from ..._conditions import at
from ..._line import ALPHA, GAMMA, HALF
from ..._rewriting import Rewriting
from .definitions_5 import (DIVERSE, FAITHFUL, FAITHFUL_AT_FIRST, LEARNS, LINEAR, NONTRIVIAL, OUTPUTS, REDUNDANT, SAID,
                            STABLE, STARTS)

UNDECIDED = Property("undecided in training")
SAYS: Mapping[Property, Said] = {**SAID, UNDECIDED: lambda v: v.stable_at_init and v.output_stable is None}
LINE = sp.Eq(ALPHA + GAMMA, 1)
DESCENT = (tp.SGD(), tp.SGD(momentum=0.9))
DIRECTIONS = (tp.Adam(), tp.SignSGD(), tp.Muon())

# the claims as they are of linear networks, but for claim 5.2 on x and f
CLAIMS: Mapping[tuple[Property, ...], sp.Basic] = {
    (STARTS,): ALPHA >= HALF,
    (STABLE,): sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1, GAMMA >= 0),
    (FAITHFUL_AT_FIRST,): ALPHA >= HALF,
    (OUTPUTS, NONTRIVIAL, FAITHFUL): sp.And(ALPHA >= HALF, ALPHA <= 1, LINE),
    (OUTPUTS, NONTRIVIAL, FAITHFUL, REDUNDANT): sp.And(ALPHA > HALF, ALPHA <= 1, LINE),
    (STARTS, STABLE, NONTRIVIAL, FAITHFUL_AT_FIRST, FAITHFUL, LEARNS, DIVERSE):
        sp.And(sp.Eq(ALPHA, HALF), sp.Eq(GAMMA, HALF)),
    (OUTPUTS, NONTRIVIAL, LINEAR): sp.And(ALPHA >= HALF, ALPHA < 1, LINE),
}


@dataclass(frozen=True)
class Case:
    """A network and optimizers of which it is said where ``x and f stable`` holds, where it does and they are
    nontrivial, and where verdicts leave it open; first_alone: it is said of the first update; normed: norms stand
    before branches, so that h is faithful at initialization everywhere."""

    words: str
    net: tp.ResNet | tp.Transformer
    opts: tuple[object, ...]
    outputs: sp.Basic
    both: sp.Basic
    undecided: sp.Basic = sp.false
    first_alone: bool = False
    normed: bool = False

    def of(self, one: Property) -> Property:
        return Property(f"{one.name}, {self.words}")

    def claims(self) -> tuple[Equation, ...]:
        every = {**CLAIMS, (OUTPUTS,): self.outputs, (OUTPUTS, NONTRIVIAL): self.both}
        if self.normed:
            del every[(FAITHFUL_AT_FIRST,)]
        if self.undecided != sp.false:
            every[(UNDECIDED,)] = self.undecided
        return tuple(iff(sp.And(*map(self.of, names)), condition) for names, condition in every.items())

    def said(self, verdict: tp.verdicts.Verdict) -> dict[sp.Basic, sp.Basic]:
        """What a verdict says of its properties."""
        return {self.of(name): sp.true if says(verdict) else sp.false for name, says in SAYS.items()}

    def where(self, target: sp.Basic) -> sp.Basic:
        """Where verdicts say all of a claim, from all faces of the plane; what is of other networks stays."""
        if not target.free_symbols <= set(map(self.of, SAYS)):
            return target
        assert isinstance(self.net, tp.ResNet)
        return where(self.net, lambda verdict: bool(target.xreplace(self.said(verdict))), self.first_alone)


def statement_of(cases: tuple[Case, ...]) -> Equations:
    return Equations(tuple(equation for case in cases for equation in case.claims()))


def prove_cases(cases: tuple[Case, ...], statement: Equations) -> Proof:
    """Count on the faces of the plane, and join the faces where all of a claim hold."""
    counts = [Rewriting("count", "exponents of the derived equations decide on each face of the plane; faces on which "
                        "all of it holds are joined", "verdicts by regions [tensor_programs_vi/appendix_h]", case.where)
              for case in cases]
    derivation = Derivation()
    for one in statement.equations:
        derivation.through(counts, one.target, one.target)

    def numbers(rng: np.random.Generator) -> float:
        wrong = 0
        for case in cases:
            mine = [one for one in statement.equations if case.where(one.target) != one.target]
            for number, point in enumerate(random_points(rng, sp.And(*(one.value for one in mine)))):
                said = case.said(tp.classify(*point, case.net, case.opts[number % len(case.opts)]))
                wrong += sum(at(one.value, point) != bool(one.target.xreplace(said)) for one in mine)
        return float(wrong)

    return Proof(derivation.steps, numbers, "each condition against what tp.classify says of the optimizers, by turns, "
                 f"at {POINTS} random points with rational coordinates, most on lines and crossings")
