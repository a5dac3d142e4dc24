"""The claims for transformers, softmax attention and an MLP behind norms."""

from __future__ import annotations

import numpy as np
import sympy as sp
from sympy.core.relational import Relational

import tpcalc as tp
from tpcalc.ledger import Entry, Equations, Evidence, MeasuredNumber

from ..._claims import Point, random_points
from ..._conditions import at
from ..._line import ALPHA, GAMMA, HALF
from ._elsewhere import LINE, Case, statement_of

NET = tp.Transformer(positions=2)
TRAINS = sp.Or(sp.And(sp.Eq(ALPHA, 1), sp.Eq(GAMMA, 0)),
               sp.And(ALPHA >= HALF, ALPHA + GAMMA >= 1, ALPHA + 2 * GAMMA > 1))
OPEN = sp.Or(sp.And(ALPHA > 1, LINE), sp.And(ALPHA + GAMMA > 1, ALPHA + 2 * GAMMA <= 1))
CASE = Case("attention", NET, (tp.SGD(), tp.Adam()), TRAINS, sp.And(ALPHA >= HALF, ALPHA <= 1, LINE), OPEN, normed=True)
MOST = 10  # points, of which each takes a second
LEFT = (HALF / 2, 1 - HALF / 2)  # on the line of Depth-muP, where noise explodes


def statement() -> Equations:
    return statement_of((CASE,))


def points() -> list[Point]:
    """Random rational points, those first through which most lines of the conditions go: relations meet there."""
    every = sp.And(*(one.value for one in statement_of((CASE,)).equations))
    lines = sorted(every.atoms(Relational), key=str)

    def crossings(point: Point) -> int:
        return sum((one.lhs - one.rhs).xreplace(dict(zip((ALPHA, GAMMA), point))) == 0 for one in lines)
    found = sorted(dict.fromkeys(random_points(np.random.default_rng(41), every)), key=crossings, reverse=True)
    return [*found[:MOST], LEFT]


def evidence() -> Evidence:
    """At how many points verdicts are as each claim has it; optimizers by turns."""
    where = points()
    verdicts = [tp.classify(*point, NET, CASE.opts[number % len(CASE.opts)]) for number, point in enumerate(where)]
    found = []
    for one in statement().equations:
        right = [bool(one.target.xreplace(CASE.said(verdict))) == at(one.value, point)
                 for verdict, point in zip(verdicts, where)]
        found.append(MeasuredNumber(f"points where verdicts agree on '{one.target}'", float(sum(right)), 0.0,
                                    float(len(right))))
    return Evidence(tuple(found))


ENTRY = Entry(
    key="tensor_programs_vi/claims_attention",
    kind="claim",
    title="the claims for transformers",
    source="Tensor Programs VI, claims 5.1 to 5.5 and G.1, of networks that it does not count",
    says="What the claims ask for is as it is for linear networks: Depth-$\\mu$P is $(1/2, 1/2)$. Norms before "
         "branches keep $h$ of order one at any $\\alpha$, so that claim 5.3 says nothing. Where updates in a layer "
         "are large, upper bounds leave the stability of outputs open. Verdicts on transformers are counted point by "
         "point, so that this is measured, not derived.",
    statement=statement,
    assumptions=("width to infinity, then depth", "the first update, by SGD and by Adam"),
    uses=("tensor_programs_vi/definitions_5",),
    evidence=evidence,
)
