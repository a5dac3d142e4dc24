"""Claims about the plane of depth scalings: what they say as conditions on counted powers of L, and their derivation.

A property is defined by powers of L (``definitions_5``), these are counted on regions with exact boundaries
(``appendix_h``), and what is left is a condition on (alpha, gamma), which is simplified face by face: nothing is
sampled.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import Any, Callable, Mapping

import numpy as np
import sympy as sp
from sympy.core.relational import Relational

import tpcalc as tp
from tpcalc.calculus import Derivation
from tpcalc.derivations.derivation import Rule
from tpcalc.ledger import Equation, Proof, Rate
from tpcalc.orders import Affine
from tpcalc.studies.convergence import fit_order
from tpcalc.verdicts.evidence import Measured
from tpcalc.verdicts.exponents import exponents_of
from tpcalc.verdicts.phases.plane import decisive
from tpcalc.verdicts.phases.regions import Signs, faces, lines_of
from tpcalc.verdicts.verdict import judge_exponents

from ._conditions import PLANE, at, joined, simplest
from ._rewriting import Rewriting

QUARTER = sp.Rational(1, 4)
POINTS = 24  # random ones for each comparison of numbers

Point = tuple[sp.Expr, sp.Expr]
Said = Callable[[tp.verdicts.Verdict], bool | None]


class Size(sp.Symbol):
    """The power of L of a quantity of training; oo where it grows faster than any, -oo where it vanishes."""

    def __new__(cls, name: str) -> Size:
        return super().__new__(cls, name, extended_real=True)

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, bool]]:
        return (self.name,), {}

    def _latex(self, printer: Any) -> str:
        return rf"\operatorname{{ord}}\left(\text{{{self.name}}}\right)"


class Property(sp.Symbol):
    """What a depth scaling has or has not."""

    def _latex(self, printer: Any) -> str:
        return rf"\text{{{self.name}}}"


def iff(left: sp.Basic, condition: sp.Basic) -> Equation:
    """``left`` holds exactly where ``condition`` does."""
    return Equation(left, condition, relation=r"\iff")


# Rules of derivations.

def defined(definitions: tuple[Equation, ...], source: str) -> Rewriting:
    """Properties by their definitions, which may name others, until none is left."""
    def apply(condition: sp.Basic) -> sp.Basic:
        while condition.atoms(Property):
            condition = condition.xreplace({one.target: one.value for one in definitions})
        return condition
    return Rewriting("definitions", "each property is a condition on powers of $L$", source, apply)


def counted(sizes: tuple[Equation, ...], source: str) -> Rewriting:
    """Sizes by what is counted."""
    return Rewriting("counted sizes", "powers of $L$ as they are counted", source,
                     lambda condition: condition.xreplace({one.target: one.value for one in sizes}))


def _of_forms(relation: sp.Basic) -> sp.Basic:
    """A relation between a size and a number, as conditions on the forms that the size is made of."""
    if not isinstance(relation, Relational):
        return relation  # true or false
    size, kind, number = relation.lhs, relation.func, relation.rhs
    if isinstance(size, sp.Piecewise):
        found, before = [], sp.false
        for value, where in size.args:
            found.append(sp.And(where, sp.Not(before), _of_forms(kind(value, number))))
            before = sp.Or(before, where)
        return sp.Or(*found)
    if isinstance(size, sp.Max):
        if kind == sp.Eq:
            return sp.And(_of_forms(sp.Le(size, number)), _of_forms(sp.Ge(size, number)))
        return (sp.And if kind in (sp.Le, sp.Lt) else sp.Or)(*(_of_forms(kind(one, number)) for one in size.args))
    return relation


FORMS = Rewriting("a maximum, form by form", "a maximum is at most a number where all its forms are, and at least it "
                  "where one is", "order of real numbers",
                  lambda condition: condition.replace(lambda e: isinstance(e, Relational), _of_forms))
FACES = Rewriting("faces", "the lines in a condition divide the plane into faces, on each of which it holds or fails; "
                  "the faces where it holds are joined again", "exact arithmetic of polyhedra", simplest)


# Proofs.

def prove(equations: tuple[Equation, ...], rules: tuple[Rule, ...], verdicts: Mapping[sp.Basic, Said]) -> Proof:
    """Derive conditions by rules, and compare both with what ``tp.classify`` counts at random rational points, some of
    them on the lines of the conditions."""
    derivation = Derivation()
    for one in equations:
        derivation.through(rules, one.target, one.target)

    def numbers(rng: np.random.Generator) -> float:
        wrong = 0
        for one in equations:
            steps = [step for step in derivation.steps if step.left == one.target]
            for point in random_points(rng, one.value):
                true = _said(one.target, verdicts, verdict(*point))
                free = [step.after for step in steps if step.after.free_symbols <= set(PLANE)]
                wrong += sum(at(condition, point) != true for condition in (*free, one.value))
        return float(wrong)

    return Proof(derivation.steps, numbers, f"each step and each condition against what tp.classify says at "
                 f"{POINTS} random points with rational coordinates, most on lines of the condition and at their "
                 "crossings")


def random_points(rng: np.random.Generator, condition: sp.Basic) -> list[Point]:
    """Rational points: anywhere, on the boundaries of a condition, and where two of these cross, by turns."""
    lines = sorted({r.lhs - r.rhs for r in condition.atoms(Relational)}, key=str)
    places = [some for number in range(len(PLANE) + 1) for some in combinations(lines, number)]
    found = []
    for number in range(POINTS):
        point = [sp.Rational(int(rng.integers(low, high)), 12) for low, high in ((-6, 30), (-15, 24))]
        solved = sp.solve(places[number % len(places)], PLANE[::-1], dict=True)
        for symbol, value in solved[0].items() if solved else ():
            point[PLANE.index(symbol)] = value.subs(dict(zip(PLANE, point)))
        found.append((point[0], point[1]))
    return found


def _said(condition: sp.Basic, verdicts: Mapping[sp.Basic, Said], one: tp.verdicts.Verdict) -> bool:
    """What a verdict says of properties."""
    return bool(condition.xreplace({p: sp.true if verdicts[p](one) else sp.false for p in condition.atoms(Property)}))


@lru_cache(maxsize=None)
def judged_faces(net: tp.ResNet, first_alone: bool = False) -> dict[Signs, tp.verdicts.Verdict]:
    """The verdict on each face of the plane, by its signs on ``lines``: on a face nothing changes.

    first_alone: on the first update alone, as of optimizers whose later updates are of other gradients.
    """
    cells, found = exponents_of(net, first_alone=first_alone), {}
    for signs, face in faces(lines(net, first_alone)).items():
        point = face.point()
        assert point is not None
        region, exponents = next((region, exponents) for region, exponents in cells if region.contains(point))
        alpha, gamma = map(sp.Rational, point)
        found[signs] = judge_exponents(alpha, gamma, region, exponents)
    return found


@lru_cache(maxsize=None)
def lines(net: tp.ResNet, first_alone: bool = False) -> tuple[Affine, ...]:
    """All lines on which an exponent of the network changes its sign, or its form."""
    return lines_of(form for cell in exponents_of(net, first_alone=first_alone) for form in decisive(*cell))


def where(net: tp.ResNet, said: Said, first_alone: bool = False) -> sp.Basic:
    """The condition under which verdicts say so, and neither leave it open nor say that it is not so."""
    kinds = {signs: said(one) is True for signs, one in judged_faces(net, first_alone).items()}
    return joined(lines(net, first_alone), kinds)


def sizes_in(one: tp.verdicts.Verdict, condition: sp.Basic) -> dict[sp.Basic, sp.Expr]:
    """The powers of L that a condition names, as a verdict has them; what is not counted explodes."""
    return {size: one.exponents.get(size.name, sp.oo) for size in condition.atoms(Size)}


@lru_cache(maxsize=None)
def verdict(alpha: sp.Expr, gamma: sp.Expr) -> tp.verdicts.Verdict:
    return tp.classify(alpha, gamma)


@lru_cache(maxsize=None)
def measured(alpha: sp.Expr, gamma: sp.Expr) -> dict[str, Measured]:
    """By name, after one step of the exact solver at depths up to thousands."""
    return {one.name: one for one in tp.theory.measure_exponents(alpha, gamma)}


def power(point: Point, name: str) -> tuple[float, float]:
    """The measured power of L, and how much it moves between all depths and the deeper half."""
    one = measured(*point)
    everywhere = fit_order(one[name].depths, one[name].values)
    return -one[name].fitted.order, abs(everywhere.order - one[name].fitted.order) + one[name].fitted.uncertainty


def growth(point: Point, name: str, expected: sp.Expr) -> Rate:
    """The measured quantity as evidence for L^expected."""
    one = measured(*point)[name]
    half = len(one.depths) // 2
    depths, values = (tuple(np.asarray(part[half:], dtype=float)) for part in (one.depths, one.values))
    return Rate(f"{name} at ({point[0]}, {point[1]})", "L", 0.0 - float(expected), depths, values)
