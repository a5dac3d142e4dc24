"""From ket equations to the recursions of Gamma (coefficients) and C (covariances)."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from .._shown import Short
from .._text import Aligned
from ..errors import NotCovered
from ..programs.expanded import expanded, fixed_indices
from ..programs.language import Vector
from ..programs.program import Location
from .coefficients import (Bases, R, Differentiate, Expand, IndependentKets, NameCoefficients, NameCovariances,
                           gamma_coefficient)
from ..derivations.derivation import Derivation
from .compact import compact, conventions
from .part_names import PartNames
from .equations import KetEquations, kets
from .kets import Bracket, Covariance, Gamma, Ket, Response
from .memory import memory_equations
from .rules import Collect
from ..derivations.printing import latex
from ..gaussian.variables import Expectation
from .setting import Product, Setting


@dataclass(frozen=True, repr=False)
class RecursionEquation(Short):
    """``target = value`` where the program stands at ``location``.

    kind: "Gamma" (for the generic base ket), "C" (for all earlier products of the same matrix), "memory" (of an
    optimizer: rho and w), or "scalar". products: the pair of a covariance.
    """

    kind: str
    target: sp.Expr
    value: sp.Expr
    location: Location
    products: tuple[Product, ...] = ()


@dataclass(frozen=True, repr=False)
class RecursionEquations(Short, Aligned):
    """The recursion of a linear program at infinite width, finite depth, with its derivation.

    equations: in program order; a covariance stands before the first equation that reads it.
    Source: Tensor Programs VI, Lemma C.3 [tensor_programs_vi/lemma_c3] and Lemma D.1 [tensor_programs_vi/lemma_d1], for
    any depth scaling (appendix H.3 [tensor_programs_vi/recursion_h3]).
    """

    setting: Setting
    equations: tuple[RecursionEquation, ...]
    derivation: Derivation

    def written(self) -> list[tuple[sp.Expr, sp.Expr, sp.Expr]]:
        """Left sides, right sides, where they hold, as papers write them: covariances are one sum over base kets."""
        values = [compact(e.value, self.setting) if e.kind in ("C", "scalar") else e.value for e in self.equations]
        found = [(e.target, value, sp.true) for e, value in zip(self.equations, values)]
        return [*found, *conventions(values, self.setting)]

    @property
    def names(self) -> PartNames:
        """Names of long parts, such as sums over layers in the powers that norms make."""
        return PartNames(self.setting, [value for _, value, _ in self.written()])

    def latex(self) -> str:
        """The equations as lines of an ``aligned`` environment; long sums in powers have names, whose lines stand
        last."""
        names = self.names
        lines = [rf"{latex(left)} &= {latex(names.written(right))}"
                 + ("" if where == sp.true else rf", \quad {latex(where)}") for left, right, where in self.written()]
        return " \\\\\n".join([*lines, *names.lines])

    def __str__(self) -> str:
        return "\n".join(f"{left} = {right}" + ("" if where == sp.true else f"  ({where})")
                         for left, right, where in self.written())


def derive_recursion(equations: KetEquations) -> RecursionEquations:
    """Derive the recursion of a linear program's coefficients and covariances from its ket equations.

    The derivation goes on from that of the ket equations. Raises ``ValueError`` where a ket is not linear
    in kets, naming the term, and for a program with families of initial vectors of unknown number. Inputs and outputs
    whose number is known are written out first, as initial vectors of their own (``programs.expanded``).
    """
    if not isinstance(equations, KetEquations):
        raise ValueError(f"equations: got {equations!r}; expected what tp.kets(...) returns")
    if fixed_indices(equations.setting.program):
        equations = kets(expanded(equations.setting.program))
    setting = equations.setting
    families = [str(v) for v in setting.program.vectors if any(not index.is_number for index in v.indices)]
    if families:
        raise NotCovered(f"equations: got of program {setting.program.name}, with the initial vectors "
                         f"{', '.join(families)}; expected initial vectors without an index "
                         "to sum over, or with one that runs over a known number")
    _require_free_names(setting, equations)
    derivation = Derivation(equations.derivation.steps)
    found: list[RecursionEquation] = []
    for matrix in setting.trained():
        for target, value, location in memory_equations(setting, matrix):
            if all((e.target, e.location) != (target, location) for e in found):
                found.append(RecursionEquation("memory", target, value, location))
    for e in equations.equations:
        for product in setting.products:
            if product.location == e.location:
                found += [_covariance(derivation, setting, product, other) for other in setting.products
                          if product.same_group(other)]
        if e.target.func == Ket:
            found.append(_coefficients(derivation, setting, e.target.vector, e.value, e.location))
        else:
            value = _brackets(derivation, setting, e.target, e.value)
            if value.has(Expectation):
                raise NotCovered(f"program {setting.program.name}: {e.target} is an average of more than a product of "
                                 "two vectors; a recursion has averages of two, each a vector with a name")
            found.append(RecursionEquation("scalar", e.target, value, e.location))
    return RecursionEquations(setting, tuple(sorted(found, key=lambda e: e.location.position)), derivation)


def _require_free_names(setting: Setting, equations: KetEquations) -> None:
    """Raise ``NotCovered`` for a program's symbols that have the names of a base ket's indices, where its kets are
    linear: other ones are refused for what they are."""
    program, generic = setting.program, Bases(setting).generic()
    taken = {str(symbol) for symbol in (generic.number, *generic.args[1], *generic.args[2], setting.past)}
    own = {s for location in program.locations() for e in (location.statement.target, location.statement.value)
           for s in e.free_symbols} | set(program.index_roles()) | set(program.sizes)
    clash = sorted(taken & set(map(str, own)))
    if clash:
        for e in equations.equations:
            if e.target.func == Ket:
                Differentiate(setting).apply(e.value)
        raise NotCovered(f"program {program.name}: it has symbols {', '.join(clash)}, the names of a base ket's "
                         f"indices; expected others than {', '.join(sorted(taken))}")


def _coefficients(derivation: Derivation, setting: Setting, v: Vector, value: sp.Expr,
                  location: Location) -> RecursionEquation:
    beta = Bases(setting).generic()
    value = derivation.apply(Differentiate(setting), Response(v, beta), value)
    left = gamma_coefficient(setting, v, *beta.args)
    value = derivation.through((NameCoefficients(setting), NameCovariances(setting)), left, value)
    value = _brackets(derivation, setting, left, value)
    return RecursionEquation("Gamma", left, derivation.apply(Collect(Gamma, R), left, value), location)


def _brackets(derivation: Derivation, setting: Setting, left: sp.Expr, value: sp.Expr) -> sp.Expr:
    """Brackets that are no covariance of hat-kets are written out."""
    if not value.has(Bracket):
        return value
    primes = ("'", "''") if left.func == Gamma else ("", "'")
    return derivation.through((Expand(setting, primes), IndependentKets(setting),
                               NameCoefficients(setting, summed=True)), left, value)


def _covariance(derivation: Derivation, setting: Setting, product: Product, other: Product) -> RecursionEquation:
    """<v | v'> of the vectors of a product at its own place and of another of the same matrix at earlier indices."""
    bases = Bases(setting)
    away = {i: sp.Symbol(f"{i}_1", integer=True) for i in other.indices if i.is_Symbol}
    away[setting.time] = setting.past
    same = dict(zip((i for i in other.matrix.indices if i.free_symbols),
                    (i for i in product.matrix.indices if i.free_symbols)))
    for index, here in same.items():  # one matrix: its indices agree
        symbol, = index.free_symbols
        away[symbol] = here - (index - symbol)
    (b1, a1), (b2, a2) = bases.location(product, {}), bases.location(other, {})
    left = Covariance(product.number, other.number, b1, b2.subs(away, simultaneous=True), a1,
                      a2.subs(away, simultaneous=True))
    value: sp.Expr = Bracket(product.matvec.vector, other.matvec.vector.subs(away, simultaneous=True))
    value = _brackets(derivation, setting, left, value)
    return RecursionEquation("C", left, value, product.location, (product, other))


__all__ = ["RecursionEquation", "Gamma", "RecursionEquations", "derive_recursion"]
