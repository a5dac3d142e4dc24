"""From ket equations to the recursions of Gamma (coefficients) and C (covariances)."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from ..programs.language import Scal, Vec
from ..programs.program import Place
from .coefficients import (BASE, CollectCoefficients, Differentiate, Expand, Independence, NameCoefficients,
                           NameCovariances, covariance_bracket)
from .derivation import Derivation
from .equations import KetEquations
from .kets import Bracket, Covariance, Gamma, Response
from .printing import latex
from .setting import Product, Setting


@dataclass(frozen=True)
class Equation:
    """``target = value`` where the program stands at ``place``; Gamma's for the generic base ket (r, b, m)."""

    target: sp.Expr
    value: sp.Expr
    place: Place

    @property
    def kind(self) -> str:
        """``"Gamma"``, ``"C"`` or ``"scalar"``."""
        return type(self.target).__name__ if isinstance(self.target, Gamma) else (
            "C" if isinstance(self.target, Covariance) else "scalar")


@dataclass(frozen=True)
class RecursionEquations:
    """The recursion of a linear program at infinite width, finite depth, with its derivation.

    equations: in program order; a covariance stands before the first equation that reads it.
    Source: paper B, Lemma C.3 and Lemma D.1, for any depth scaling (appendix H.3).
    """

    setting: Setting
    equations: tuple[Equation, ...]
    derivation: Derivation

    def latex(self) -> str:
        """The equations as lines of an ``aligned`` environment."""
        return " \\\\\n".join(rf"{latex(e.target)} &= {latex(e.value)}" for e in self.equations)

    def __str__(self) -> str:
        return "\n".join(f"{e.target} = {e.value}" for e in self.equations)

    def _repr_latex_(self) -> str:
        return "$\\displaystyle\\begin{aligned}\n" + self.latex() + "\n\\end{aligned}$"


def derive_recursion(equations: KetEquations) -> RecursionEquations:
    """Derive the recursion of a linear program's coefficients and covariances from its ket equations.

    The derivation goes on from that of the ket equations. Raises ``ValueError`` where a ket is not linear
    in kets, naming the term.
    """
    if not isinstance(equations, KetEquations):
        raise ValueError(f"equations: {equations!r} given; allowed is what tp.kets(...) returns")
    setting = equations.setting
    derivation = Derivation(equations.derivation.steps)
    depth = _depth(setting)
    name, cov = NameCoefficients(setting, depth), NameCovariances(setting)
    found: list[Equation] = []
    for e in equations.equations:
        for product in setting.products:
            if product.place == e.place:
                found.append(_covariance(derivation, setting, product, depth, e.place))
        if isinstance(e.target, Scal):
            found.append(_scalar(derivation, setting, e.target, e.value, depth, e.place))
            continue
        v: Vec = e.target.vector
        left: sp.Expr = Response(v, BASE)
        value = derivation.apply(Differentiate(setting), left, e.value)
        left, value = name.apply(left), derivation.apply(name, name.apply(left), value)
        value = derivation.apply(cov, left, value)
        found.append(Equation(left, derivation.apply(CollectCoefficients(), left, value), e.place))
    return RecursionEquations(setting, tuple(found), derivation)


def _depth(setting: Setting) -> sp.Symbol:
    """The size that the layers' loops run over."""
    layered = [loop for place in setting.program.places() for loop in place.loops[1:]]
    sizes = {s for loop in layered for s in (loop.first.free_symbols | loop.last.free_symbols)} & set(
        setting.program.sizes)
    if len(sizes) != 1:
        raise ValueError(f"program {setting.program.name}: the layers run over {sizes or 'nothing'}; allowed is one "
                         "depth")
    return sizes.pop()


def _covariance(derivation: Derivation, setting: Setting, product: Product, depth: sp.Symbol,
                place: Place) -> Equation:
    bracket = covariance_bracket(product, setting.time, setting.past)
    left = NameCovariances(setting).apply(bracket)
    value: sp.Expr = bracket
    for rule in (Expand(setting, depth), Independence(setting), NameCoefficients(setting, depth, summed=True)):
        value = derivation.apply(rule, left, value)
    return Equation(left, value, place)


def _scalar(derivation: Derivation, setting: Setting, target: sp.Expr, value: sp.Expr, depth: sp.Symbol,
            place: Place) -> Equation:
    if value.has(Bracket):
        for rule in (Expand(setting, depth), Independence(setting), NameCoefficients(setting, depth)):
            value = derivation.apply(rule, target, value)
    return Equation(target, value, place)
