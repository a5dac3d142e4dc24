"""From ket equations to the recursions of Gamma (coefficients) and C (covariances).

Loops of fixed length are written out before, so that inputs and outputs are statements of their own.

``compact`` writes covariances as papers do: one sum over base kets, with initial vectors as those of step -1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterator, Sequence

import sympy as sp

from .._shown import Short
from .._text import Aligned
from ..derivations.derivation import Derivation
from ..derivations.printing import latex
from ..errors import NotCovered
from ..gaussian.variables import Expectation
from ..programs.language import Vector
from ..programs.program import Assign, Location, Loop, Program, Statement, mapped
from .coefficients import (B, R, Bases, Differentiate, Expand, IndependentKets, NameCoefficients, NameCovariances,
                           gamma_coefficient)
from .equations import Collect, KetEquations, kets
from .kets import Bracket, Covariance, Gamma, Ket, Response
from .memory import memory_equations
from .part_names import PartNames
from .setting import Product, Setting

FIRST = sp.Integer(-1)  # the step of initial vectors


def compact(value: sp.Expr, setting: Setting) -> sp.Expr:
    """The value of a covariance with its terms as one sum, where they are the terms of one.

    Terms that differ in the number b of their base kets alone, for all numbers there are, become a sum over b; that
    over initial vectors joins the one over hat-kets where it is that sum's term of step -1, as ``conventions`` say.
    Equal to ``value`` term by term; what is no such term stays as it is. Source: Tensor Programs VI, Lemma C.3
    [tensor_programs_vi/lemma_c3].
    """
    families: dict[sp.Expr, dict[int, sp.Expr]] = {}
    rest: list[sp.Expr] = []
    for term in sp.Add.make_args(value):
        numbers = {gamma.args[1] for gamma in term.atoms(Gamma)}
        if len(numbers) == 1 and next(iter(numbers)).is_Integer:
            number = next(iter(numbers))
            families.setdefault(_renumbered(term, number), {})[int(number)] = term
        else:
            rest.append(term)
    sums = {generic: members for generic, members in families.items()
            if len(members) > 1 and sorted(members) == list(range(_size(generic, setting)))}
    for generic, members in families.items():
        rest += [] if generic in sums else members.values()
    hats, vectors = ([g for g in sums if isinstance(g, sp.Sum) == summed] for summed in (True, False))
    for generic in hats:
        joined = next((v for v in vectors if len(sums[v]) <= len(sums[generic]) and _first_term(generic, setting) == v),
                      None)
        if joined is not None:
            vectors.remove(joined)
        rest.append(_summed(generic, len(sums[generic]), setting, joined is not None))
    rest += [sp.Sum(generic, (B, 0, len(sums[generic]) - 1)) for generic in vectors]
    return sp.Add(*rest)


def conventions(values: Sequence[sp.Expr], setting: Setting) -> list[tuple[sp.Expr, sp.Expr, sp.Expr]]:
    """What ``compact`` values mean by covariances of step -1: left sides, right sides, and conditions."""
    limits = {limit for value in values for total in value.atoms(sp.Sum) for limit in total.limits}
    if not any(len(limit) == 3 and limit[1] == FIRST for limit in limits):
        return []
    base = Bases(setting).generic()
    here, later = base.args[2], base.args[1][0]
    last = len(setting.program.vectors) - 1
    few = last + 1 < len(setting.products)
    initial, mixed = (Covariance(B, B, sp.Tuple(FIRST), sp.Tuple(step), here, here) for step in (FIRST, later))
    found = [(initial, sp.Integer(1), sp.Le(B, last) if few else sp.true), (mixed, sp.Integer(0), sp.Ge(later, 0))]
    return [*found, (initial, sp.Integer(0), sp.Gt(B, last))] if few else found


def _size(generic: sp.Expr, setting: Setting) -> int:
    """How many base kets a term stands for: of all products, or of all initial vectors."""
    return len(setting.products if isinstance(generic, sp.Sum) else setting.program.vectors)


def _renumbered(term: sp.Expr, number: sp.Expr) -> sp.Expr:
    """The term for generic base kets: with the symbol b in the place of their number."""
    names = {g: g.func(g.args[0], B, *g.args[2:]) for g in term.atoms(Gamma)}
    names |= {c: c.func(B, B, *c.args[2:]) for c in term.atoms(Covariance) if c.args[:2] == (number, number)}
    return term.xreplace(names)


def _first_term(total: sp.Sum, setting: Setting) -> sp.Expr | None:
    """What a sum over base kets would add at step -1 on both sides, or None where it has no such term. Coefficients of
    initial vectors do not depend on a layer, so that a sum over layers is their number."""
    layers = set(Bases(setting).generic().args[2])
    body, steps = total.function, []
    for index, first, last in total.limits:
        if index in layers:
            body = body.subs(index, 0) * (last - first + 1)
        elif first == 0:
            steps.append(index)
        else:
            return None
    if len(steps) != 2 or Bases(setting).below:  # samples beside the steps
        return None
    body = body.subs({index: FIRST for index in steps})
    zero = sp.Tuple(*(0 for _ in layers))
    return body.xreplace({Covariance(B, B, sp.Tuple(FIRST), sp.Tuple(FIRST), zero, zero): sp.Integer(1)})


def _summed(generic: sp.Sum, size: int, setting: Setting, from_first: bool) -> sp.Expr:
    """The sum over b and over base kets, its constant factor in front."""
    layers = set(Bases(setting).generic().args[2])
    limits = [(i, FIRST if from_first and i not in layers else first, last) for i, first, last in generic.limits]
    constant, body = generic.function.as_independent(Gamma, Covariance, as_Add=False)
    return sp.Mul(constant, sp.Sum(body, (B, 0, size - 1), *limits))


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
    whose number is known are written out first, as initial vectors of their own.
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


def fixed_indices(program: Program) -> dict[sp.Symbol, range]:
    """The indices of role "width" that run over as many values whatever the sizes are, with these values."""
    widths = {index for index, role in program.index_roles().items() if role == "width"}
    ends = {(loop.index, loop.first, loop.last) for location in program.locations() for loop in location.loops}
    ends |= {limit for location in program.locations() for total in location.statement.value.atoms(sp.Sum)
             for limit in map(tuple, total.limits)}
    found = {index: range(int(first), int(last) + 1) for index, first, last in ends
             if index in widths and first.is_Integer and last.is_Integer}
    return {index: values for index, values in found.items()
            if all(end == (index, values[0], values[-1]) for end in ends if end[0] == index)}


def expanded(program: Program) -> Program:
    """The program with the loops and sums over its fixed indices (of inputs, of outputs) written out.

    An initial vector with such an index becomes as many initial vectors. Others, and their loops, stay.

    >>> import tpcalc as tp
    >>> program = tp.program(tp.ResNet(), tp.SGD(1), tp.DepthScaling(), d_in=2)
    >>> program.vectors, expanded(program).vectors
    ((U[j], nV), (U[0], U[1], nV))
    """
    fixed = fixed_indices(program)

    def written(value: sp.Expr) -> sp.Expr:
        return value.replace(lambda e: isinstance(e, sp.Sum) and any(limit[0] in fixed for limit in e.limits), terms)

    def terms(total: sp.Sum) -> sp.Expr:
        (index, *_), = [limit for limit in total.limits if limit[0] in fixed][:1]
        rest = [limit for limit in total.limits if limit[0] != index]
        parts = (total.function.subs(index, value) for value in fixed[index])
        return sp.Add(*(written(sp.Sum(part, *rest) if rest else part) for part in parts))

    def around(loop: Loop, body: tuple[Statement, ...]) -> Iterator[Statement]:
        if loop.index not in fixed:
            yield replace(loop, body=body)
        for value in fixed.get(loop.index, ()):
            yield from (inner.at({loop.index: value}) for inner in body)

    body = mapped(program.body, lambda s: (Assign(s.target, written(s.value)),), around)
    vectors = [v for one in program.vectors for v in _members(one, fixed)]
    roles = {index: role for index, role in program.roles.items() if index not in fixed}
    return replace(program, vectors=tuple(vectors), body=body, roles=roles)


def _members(one: sp.Expr, fixed: dict[sp.Symbol, range]) -> list[sp.Expr]:
    found = [one]
    for index, values in fixed.items():
        found = [v.subs(index, value) for v in found for value in (values if index in v.free_symbols else values[:1])]
    return found
