"""The equations of an infinitely deep network, from the terms of its recursion that survive (``translation.py``).

Kinds of base kets that keep the same terms share one equation, with generic b, r where possible.
Source: Tensor Programs VI, Propositions C.4 and D.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import sympy as sp

from .._checks import symbolic
from ..calculus.coefficients import B, R
from ..derivations.printing import latex
from ..calculus.recursion import RecursionEquation
from ..calculus.equations import join_sums
from ..errors import NotCovered
from .functions import INNER, AnyCoefficient, CovarianceFunction, OwnCoefficient, P
from .survival import CountedTerm, Kind, RegionPart
from .translation import Translator, at_zero


@dataclass(frozen=True)
class LimitEquation:
    """The equation ``target = value`` of a limit, for the given kinds of quantities.

    where: the b and r that they stand for, () for all; boundary: it holds at an end of layer time.

    >>> import tpcalc as tp
    >>> equations = tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling()))
    >>> print(tp.depth_limit(tp.recursion(equations)).regions[0].equations[0])
    Gamma[t,r,0,b](0, q) = KroneckerDelta(-1, r)*KroneckerDelta(0, b)*xi[t]
    """

    target: sp.Expr
    value: sp.Expr
    kinds: tuple[Kind, ...]
    where: tuple[sp.Expr, ...] = ()
    boundary: bool = False

    @property
    def sides(self) -> tuple[sp.Expr, sp.Expr]:
        """Both sides of the equation."""
        return self.target, self.value

    def latex(self) -> str:
        """The equation as a line of an ``aligned`` environment, and after it the b and r that it holds for."""
        ranges = ", ".join(map(latex, self.where))
        return rf"{latex(self.target)} &= {latex(self.value)}" + (rf", \quad {ranges}" if ranges else "")

    def __str__(self) -> str:
        ranges = ", ".join(map(str, self.where))
        return f"{self.target} = {self.value}" + (f"  ({ranges})" if ranges else "")


def limit_equations(translator: Translator, part: RegionPart) -> tuple[LimitEquation, ...]:
    """All limit equations of a part, in program order, a boundary value before the equation that starts from it.
    Raises ``ValueError`` where one power of L does not fit all quantities of a kind, naming the term."""
    part.require_one_scale()
    found: list[LimitEquation] = []
    for number, equation in enumerate(translator.recursion.equations):
        terms = [one for one in part.terms if one.equation == number]
        kept = [one for one in terms if part.is_kept(one.order)]
        if equation.kind == "Gamma":
            found += _coefficients(translator, part, number, equation, terms)
        elif kept:
            value = (_covariance if equation.kind == "C" else _scalar)(translator, equation, terms, kept)
            found.append(LimitEquation(translator.target(equation), value, (kept[0].target,)))
    _require_one_start(found)
    return tuple(found)


def _require_one_start(equations: list[LimitEquation]) -> None:
    """Raise ``ValueError`` for two different values of a coefficient at one end of layer time."""
    values: dict[tuple, sp.Expr] = {}
    for e in equations:
        if e.boundary and values.setdefault((e.target, e.kinds), e.value) != e.value:
            raise NotCovered(f"{e.target} is {e.value} in one of the layers at an end and {values[e.target, e.kinds]} "
                             "in another; no rule for the limit of such a start")


def _scalar(translator: Translator, equation: RecursionEquation, terms: list[CountedTerm], kept: list[CountedTerm]
            ) -> sp.Expr:
    follows = any(one.rule == "loss" for one in kept) or all(one.rule != "loss" for one in terms)
    value = sp.Add(*(translator.integrand(term, equation, "") for term in dict.fromkeys(one.term for one in kept)))
    return value if follows else at_zero(value)


def _covariance(translator: Translator, equation: RecursionEquation, terms: object, kept: list[CountedTerm]) -> sp.Expr:
    values = [translator.integrand(one.term, equation, one.rule) for one in kept]
    return sp.Add(*_over_numbers(values, len(translator.setting.products), len(translator.setting.program.vectors)))


def _over_numbers(values: Sequence[sp.Expr], products: int, vectors: int) -> list[sp.Expr]:
    """Terms that differ in the base kets' number b alone, for all numbers there are, as one sum over b."""
    families: dict[sp.Expr, dict[int, sp.Expr]] = {}
    for value in values:
        numbers = {f.number for f in value.atoms(AnyCoefficient)}
        number = numbers.pop() if len(numbers) == 1 else None
        generic = value if number is None else _renumbered(value, number)
        families.setdefault(generic, {})[-1 if number is None else int(number)] = value
    found: list[sp.Expr] = []
    for generic, members in families.items():
        initial = any(f.step == -1 for f in generic.atoms(AnyCoefficient))
        if len(members) > 1 and sorted(members) == list(range(vectors if initial else products)):
            found.append(_summed(generic, len(members)))
        else:
            found += members.values()
    return found


def _renumbered(value: sp.Expr, number: sp.Expr) -> sp.Expr:
    """The value for generic base kets: with the symbol b in the place of their number."""
    names = {f: f.renumbered(B) for f in value.atoms(AnyCoefficient)}
    names |= {c: c.func(B, B, *c.args[2:]) for c in value.atoms(CovarianceFunction) if c.args[:2] == (number, number)}
    return value.xreplace(names)


def _summed(generic: sp.Expr, size: int) -> sp.Expr:
    """The sum over b, inside integrals and joined with sums over steps."""
    limit = (B, 0, size - 1)
    if isinstance(generic, sp.Integral):
        return sp.Integral(_summed(generic.function, size), *generic.limits)
    if isinstance(generic, sp.Sum):
        return sp.Sum(generic.function, limit, *generic.limits)
    return sp.Sum(generic, limit)


def _coefficients(translator: Translator, part: RegionPart, number: int, equation: RecursionEquation,
                  terms: list[CountedTerm]) -> list[LimitEquation]:
    """The equations of one family of vectors, or its boundary values; own-layer coefficients apart."""
    found: list[LimitEquation] = []
    ends = {i for i, e in enumerate(translator.recursion.equations) if i != number and e.kind == "Gamma"
            and not e.location.loops[1:]}
    starting = {one.target for one in part.kept if one.equation in ends}  # at the end where the sweep starts
    for here in (False, True):
        kinds = _kinds(part, equation, here)
        reads: dict[Kind, tuple[set, set]] = {k: (set(), set()) for k in kinds}
        for one in terms:
            if one.target in reads:
                reads[one.target][0 if part.is_kept(one.order) else 1].add((one.term, one.rule))
        for kind in starting.intersection(kinds) if equation.location.loops[1:] else ():
            reads[kind][0].add("start")  # a boundary value that vanishes stands in nobody's way
        for members in _groups(reads):
            kept = set().union(*(reads[k][0] for k in members))
            if kept - {"start"} or kept and equation.location.loops[1:]:
                found.append(_written(translator, part, equation, members, kept, here))
    return found


def _kinds(part: RegionPart, equation: RecursionEquation, here: bool) -> list[Kind]:
    """The kinds of coefficients of the equation's vectors, over base kets of the own layer or all others."""
    return [k for k in part.exponents if k.is_coefficient and k.number == equation.target.args[0] and k.own == here]


def _groups(reads: dict[Kind, tuple[set, set]]) -> list[tuple[Kind, ...]]:
    """Kinds of quantities that share one limit equation, since no term that one keeps is dropped in another."""
    def agree(members: Sequence[Kind]) -> bool:
        kept = set().union(*(reads[k][0] for k in members))
        return not any(kept & reads[k][1] for k in members)

    kinds = list(reads)
    numbers = list(dict.fromkeys(k.base for k in kinds))
    by_number = [tuple(k for k in kinds if k.base == b) for b in numbers]
    by_start = [tuple(k for k in kinds if k.start == r) for r in (-1, 0)]
    for division in ([tuple(kinds)], by_start, by_number):
        division = [members for members in division if members]
        if all(agree(members) for members in division):
            return division
    return [(k,) for k in kinds]


def _written(translator: Translator, part: RegionPart, equation: RecursionEquation, members: Sequence[Kind], kept: set,
             here: bool) -> LimitEquation:
    """The limit equation of kinds of quantities: a start, what is born, and an integral of what layers add."""
    direction = translator.direction(equation)
    fixed, where = _named(part, members, equation, here)
    target = translator.target(equation)
    if here:
        target = OwnCoefficient(*target.args[:5])
    value: sp.Expr = sp.Integer(0)
    layers: sp.Expr = sp.Integer(0)
    if "start" in kept and direction:
        value += target.func(*target.args[:4], sp.Integer(int(direction < 0)), *target.args[5:])
    for term, rule in sorted((one for one in kept if one != "start"), key=str):
        if rule == "layers":
            layers += translator.integrand(term, equation, rule)
        elif rule == "born" and not here:
            value += translator.born(term, equation)
        else:
            value += translator.integrand(term, equation, rule)
    if layers != 0:
        joined = join_sums(layers, AnyCoefficient, R).xreplace({P: INNER})
        value += sp.Integral(joined, (INNER, 0, P) if direction > 0 else (INNER, P, 1))
    value = join_sums(value, AnyCoefficient, R) if here or not direction else value
    boundary = not equation.location.loops[1:]
    return LimitEquation(target.subs(fixed), value.subs(fixed), tuple(members), where, boundary)


def _named(part: RegionPart, members: Sequence[Kind], equation: RecursionEquation, here: bool
           ) -> tuple[dict[sp.Symbol, sp.Expr], tuple[sp.Expr, ...]]:
    """The number b and the step r of base kets, for these kinds: values to put in, and conditions to print."""
    every = _kinds(part, equation, here)
    starts, numbers = {k.start for k in members}, {k.base for k in members}
    fixed: dict[sp.Symbol, sp.Expr] = {}
    where: list[sp.Expr] = []
    if len(numbers) == 1 and len({k.base for k in every}) > 1:
        fixed[B] = symbolic(next(iter(numbers)))
    if starts == {-1}:
        fixed[R] = sp.Integer(-1)
    elif starts == {0} and any(k.start == -1 and k.base in numbers for k in every):
        where.append(sp.Ge(R, 0, evaluate=False))
    return fixed, tuple(where)
