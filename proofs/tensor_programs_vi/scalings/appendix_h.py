"""How sizes of a linear network's training depend on depth: powers of L, counted from its ket equations."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from tpcalc.calculus import Derivation
from tpcalc.errors import NotCovered
from tpcalc.ledger import Entry, Equation, Equations, Evidence, Proof
from tpcalc.orders import Affine, Exponent, Region
from tpcalc.verdicts.exponents import exponents_of
from tpcalc.verdicts.verdict import NAMES

from ..._claims import POINTS, QUARTER, Point, Size, counted, growth, random_points
from ..._conditions import PLANE, union
from ..._line import ALPHA, GAMMA, GENERAL, HALF, NET
from ..._rewriting import Rewriting
from .definitions_5 import DH, DF, DRIFT, DX, ERROR, H, NOISE, X

KAPPA = GENERAL.drift_exponent
UPDATE = Size("update of h")
ALL = Region(2)


def from_one_half(form: sp.Expr) -> sp.Expr:
    """A power of L where the network does not explode at initialization."""
    return sp.Piecewise((form, ALPHA >= HALF), (sp.oo, True))


SIZES = tuple(Equation(size, from_one_half(form)) for size, form in (
    (X, sp.Integer(0)), (H, sp.Integer(0)), (DX, KAPPA), (DF, KAPPA), (DH, sp.Max(KAPPA, -GAMMA)), (UPDATE, -GAMMA),
    (NOISE, sp.Max(HALF - ALPHA, KAPPA + HALF - ALPHA)), (DRIFT, KAPPA), (ERROR, -ALPHA - 2 * GAMMA)))


@lru_cache(maxsize=None)
def count(name: str) -> sp.Expr:
    """The power of L of a quantity: the largest of the forms that it has on regions of the plane, and oo on the others.

    Raises ``NotCovered`` where it is not the largest of its forms everywhere, where it is an upper bound only, and
    where a later step adds a power that the first has not.
    """
    regions = exponents_of(NET)
    found = [(region, getattr(sizes, NAMES[name])) for region, sizes in regions]
    for _, sizes in regions:
        if not sizes.exact or sizes.grows or any(step for step, _ in sizes.explosions):
            raise NotCovered(f"net: got {NET!r}, of which later steps or upper bounds decide; expected sizes that one "
                             "step has")
    finite = [(region, exponent) for region, exponent in found if not exponent.explodes]
    forms = set().union(*(exponent.forms for _, exponent in finite))
    for region, exponent in finite:
        if not all(_is_at_least(region, exponent, form) for form in forms):
            raise NotCovered(f"{name}: on some regions it is less than one of its forms; expected their maximum")
    largest = Exponent(frozenset(forms)).pruned(ALL).expression(PLANE)
    return sp.Piecewise((largest, union([region for region, _ in finite])), (sp.oo, True))


def _is_at_least(region: Region, exponent: Exponent, form: Affine) -> bool:
    """Is one of an exponent's forms at least ``form`` wherever on the region?"""
    return any(region.never(form - one, ">") for one in exponent.forms)


COUNT = Rewriting("count", "what a sweep over layers multiplies by $1 + c L^{v-1}$ a layer is of the same power of $L$ "
                  "where $v \\leq 0$, and explodes where $v > 0$; terms of a sum count by the largest",
                  "exponents of the derived equations [tensor_programs_vi/recursion_h3]",
                  lambda e: e.xreplace({size: count(size.name) for size in e.atoms(Size)}))
KNOWN = counted(SIZES, "appendix H [tensor_programs_vi/appendix_h]")


def at_point(point: Point) -> dict[str, sp.Expr]:
    """These powers, counted at a point alone, without regions."""
    (_, found), = exponents_of(NET, tuple(zip(PLANE, point)))
    return {name: getattr(found, field).at(()) for name, field in NAMES.items()}


def derive() -> Proof:
    derivation = Derivation()
    for one in SIZES:
        derivation.apply(COUNT, one.target, one.target)

    def numbers(rng: np.random.Generator) -> float:
        points = random_points(rng, sp.And(ALPHA >= HALF, ALPHA >= 1, KAPPA >= 0))
        return float(sum(one.value.subs(dict(zip(PLANE, point))) != at_point(point)[one.target.name]
                         for point in points for one in SIZES))

    return Proof(derivation.steps, numbers, f"powers of $L$ by regions against those counted at {POINTS} random points "
                 "with rational coordinates alone")


def evidence() -> Evidence:
    """Powers of L measured after a step of the exact solver at depths up to thousands."""
    points: tuple[Point, ...] = ((HALF, HALF), (3 * QUARTER, QUARTER), (3 * HALF, -HALF), (HALF, sp.Integer(1)),
                                 (HALF, sp.Integer(0)), (sp.Integer(1), -HALF))
    return Evidence(rates=tuple(growth(point, size.name, one.value.subs(dict(zip(PLANE, point))))
                                for point in points for one in SIZES
                                for size in [one.target] if size in (DX, DF, DH, UPDATE)))


ENTRY = Entry(
    key="tensor_programs_vi/appendix_h",
    kind="lemma",
    title="powers of $L$ in training",
    source="Tensor Programs VI, appendix H.2",
    says="After one update on the same input, and after all later ones where $x$ and $f$ are stable. A piece "
         "$\\epsilon$ of the network adds noise, times $\\epsilon^{1/2}$, and drift, times $\\epsilon$; the "
         "linearization error is that of a smooth activation in the place of the linear one, with the same update.",
    statement=lambda: Equations(SIZES),
    assumptions=("a linear network", "width to infinity, then depth"),
    uses=("tensor_programs_vi/recursion_h3",),
    derive=derive,
    evidence=evidence,
)
