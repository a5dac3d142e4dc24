"""Limits of infinite depth written out, for people and for papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy as sp

from ..calculus.coefficients import R
from ..derivations.printing import latex
from .functions import P, Q, Coefficient, CovarianceFunction, OwnCoefficient, scaled_scalar
from ..orders.quantities import Sort
from .survival import Kind

if TYPE_CHECKING:
    from .depth_limit import DepthLimit, LimitRegion


def definitions(region: "LimitRegion") -> list[tuple[list[sp.Expr], sp.Expr]]:
    """The limit functions that are quantities divided by a power of L: (functions, the power's exponent)."""
    found: dict[sp.Expr, list[sp.Expr]] = {}
    for kind, exponent in region.exponents_by_kind.items():
        if exponent != 0:
            found.setdefault(exponent, []).append(symbol_of(region, kind))
    return [(functions, exponent) for exponent, functions in found.items()]


def symbol_of(region: "LimitRegion", kind: Kind) -> sp.Expr:
    """The limit function of a kind of quantity, for generic steps."""
    setting = region.recursion.setting
    t, s = setting.time, setting.past
    if kind.sort == Sort.COVARIANCE:
        return CovarianceFunction(kind.number, kind.base, t, s, P, 1)
    if kind.sort == Sort.COEFFICIENT:
        if kind.own:
            return OwnCoefficient(kind.number, kind.base, t, R, P)
        return Coefficient(kind.number, kind.base, t, R if kind.start == 0 else -1, P, Q, 0, 1)
    return scaled_scalar(next(e.target for e in region.recursion.equations if e.kind == "scalar"
                              and e.target.name == kind.name))


def region_text(region: "LimitRegion") -> str:
    """Conditions, then the reason for no limit, or functions, equations, rate."""
    lines = [", ".join(map(_condition, region.conditions)) or "everywhere"]
    if region.reason:
        lines.append(f"  {'no limit: ' if not region.has_limit else ''}{region.reason}")
    if region.has_limit:
        depth = "L" if region.period == 1 else f"{region.period} L"
        lines += [f"  {', '.join(map(str, functions))}: at depth {depth}, divided by L^({exponent})"
                  for functions, exponent in definitions(region)]
        lines += [f"  {equation}" for equation in region.equations]
        lines += [f"  {one}" for one in region.memory]
        lines.append(f"  rate: L^(-r), r = {region.rate}")
    return "\n".join(lines)


def region_latex(region: "LimitRegion") -> str:
    """The limit's regions as lines of an ``aligned`` environment."""
    conditions = r",\; ".join(map(latex, region.conditions)) or r"\text{all exponents}"
    lines = [rf"\textbf{{where }} & {conditions}"]
    if region.obstacle is not None:
        return " \\\\\n".join([*lines, rf"& \text{{no limit: {region.obstacle.latex()}}}"])
    if region.is_trivial:
        lines.append(r"& \text{trivial limit: updates add up to nothing}")
    depth = "L" if region.period == 1 else f"{region.period} L"
    for functions, exponent in definitions(region):
        names = r",\; ".join(map(latex, functions))
        lines.append(rf"& {names}: \text{{at depth ${depth}$, divided by }} L^{{{latex(exponent)}}}")
    lines += [equation.latex() for equation in region.equations]
    for one in region.memory:
        where = "" if (one.first, one.last) == (0, 1) else rf", \quad {latex(one.first)} < p < {latex(one.last)}"
        lines.append(rf"{latex(one.target)} &= {latex(one.value)}{where}")
    lines.append(rf"\text{{rate}} &: L^{{-r}}, \quad r = {latex(region.rate)}")
    return " \\\\\n".join(lines)


def limit_text(limit: "DepthLimit") -> str:
    return "\n\n".join(map(region_text, limit.regions))


def limit_latex(limit: "DepthLimit") -> str:
    return " \\\\[1ex]\n".join(map(region_latex, limit.regions))


def _condition(condition: sp.Expr) -> str:
    return f"{condition.lhs} = {condition.rhs}" if isinstance(condition, sp.Eq) else str(condition)
