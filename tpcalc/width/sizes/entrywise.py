"""What optimizers make of gradients entry by entry: signs, and what is homogeneous above a number and linear below.

Gradients are outer products, or vectors at the ends. Adam's direction is N / (D + eps), with N linear in the gradients
of all steps and D homogeneous of degree one: where they are larger than eps by a power of n it is N / D, where they
are smaller N / eps, and where both are of one size all of it. Of several gradients those of the largest power count.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from ...errors import NotCovered
from ...orders.affine import Affine
from ...models.activations import H
from ...programs.language import Member, NonlinearOuter, Outer, Vector, kind
from .algebra import HALF
from .atoms import Joint, Monomial, Total, slot
from .leading import leading_size
from .operators import Entries, OperatorSize
from .powers import WIDTH

if TYPE_CHECKING:
    from .interpreter import SizeInterpreter

ALLOWED = ("; expected functions that are homogeneous of degree 0, such as signs, and a linear one over the sum of "
           "a homogeneous one and a number, such as Adam's")


@dataclass(frozen=True)
class Direction:
    """N / (D + E) in ``slot(0)``, ...: linear over homogeneous of degree one, plus a number; E = 0: of degree 0."""

    numerator: sp.Expr
    denominator: sp.Expr
    number: sp.Expr


@dataclass(frozen=True)
class GradientSize:
    """One gradient over its power of n: the leading terms of its factors, and by how much the others are smaller."""

    power: Affine
    factors: tuple[Total, ...]
    smaller: tuple[Affine, ...]


def entrywise_matrix(reading: "SizeInterpreter", e: NonlinearOuter) -> OperatorSize:
    """psi(u_0 v_0^T, u_1 v_1^T, ...) / n; raises ``ValueError`` for a psi that is no direction of an optimizer."""
    leaves, front, body = _leaves(e, e.body, Outer)
    totals = [(reading.algebra.product(reading.total(times), reading.total(one.left)), reading.total(one.right))
              for one, times in leaves]
    common = reading.total(front)
    found = _Regime(reading, e, body, [[u, v] for u, v in totals])
    if found.linear is not None:
        outers = tuple((reading.algebra.product(c, u), v) for c, (u, v) in zip(found.linear, totals) if c.terms)
        return OperatorSize(outers=outers, rest=found.rest).times(reading.algebra, common)
    if found.factor is not None:
        u, v = (reading.functions.value(sp.sign(H), side) for side in totals[found.kept[0]])
        outers = ((reading.algebra.product(found.factor, u), v),)
        return OperatorSize(outers=outers, rest=found.rest).times(reading.algebra, common)
    for side in range(2):
        if any(_are_parallel(reading, found.leading[0].factors[side], g.factors[side]) for g in found.leading[1:]):
            raise NotCovered(f"{e}: no rule where leading vectors of several gradients are multiples of one another: "
                             "so are products with the matrix, which would be taken for independent ones")
    lefts, rights = (tuple(g.factors[side].key for g in found.leading) for side in range(2))
    entries = Entries(reading.algebra.number(1), found.body, lefts, rights)
    return OperatorSize(entries=(entries,), rest=found.rest).times(reading.algebra, common)


def entrywise_vector(reading: "SizeInterpreter", e: sp.Expr) -> Total:
    """A direction of vectors, times numbers; raises ``ValueError`` as for matrices."""
    leaves, front, body = _leaves(e, e, Vector)
    totals = [reading.algebra.product(reading.total(times), reading.total(one)) for one, times in leaves]
    found = _Regime(reading, e, body, [[u] for u in totals])
    rest = Total({}, found.rest)
    if found.linear is not None:
        total = sum((reading.algebra.product(c, u) for c, u in zip(found.linear, totals)), rest)
    elif found.factor is not None:
        total = reading.algebra.product(found.factor, reading.functions.value(sp.sign(H), totals[found.kept[0]])) + rest
    else:
        total = reading.algebra.of(Joint(found.body, tuple(g.factors[0].key for g in found.leading))) + rest
    return reading.algebra.product(reading.total(front), total)


def is_direction(e: sp.Expr) -> bool:
    """Is it a vector in which vectors stand under a root or in a denominator?"""
    return any(not (p.exp.is_Integer and p.exp > 0) and kind(p.base) == "vector" for p in e.atoms(sp.Pow))


def _leaves(e: sp.Expr, body: sp.Expr, of: type) -> tuple[list[tuple[sp.Expr, sp.Expr]], sp.Expr, sp.Expr]:
    """The gradients with what multiplies them, a common factor, and the body in slots, which has numbers alone beside.

    What multiplies a gradient is read where it stands under a root or in a denominator; elsewhere it may be a rate.
    """
    leaves = sorted(body.atoms(of), key=sp.default_sort_key)
    slots = tuple(slot(k) for k in range(len(leaves)))
    body = body.xreplace(dict(zip(leaves, slots)))
    factors = sp.Mul.make_args(body)
    roots = [f for f in factors if f.is_Pow and f.exp.is_negative and f.has(*slots)]
    # under roots and in denominators only the size of numbers of the program counts
    sizes = {m: sp.Dummy(positive=True) for f in roots for m in f.atoms(Member)}
    back = {dummy: m for m, dummy in sizes.items()}
    under, fronts = [(f.base ** -f.exp).xreplace(sizes) for f in roots], []
    for one in slots:
        alone = [(d - d.as_independent(*slots, as_Add=True)[0]).subs({s: 0 for s in slots if s != one}) for d in under]
        front = alone[0].subs(one, 1) if len(alone) == 1 else sp.Integer(1)
        fronts.append(front.as_independent(*sizes.values(), WIDTH, as_Add=False)[1])
    inside = {s: s / front for s, front in zip(slots, fronts)}
    fronts = [front.xreplace(back) for front in fronts]
    body = sp.Mul(*(sp.expand_power_base(f.xreplace(sizes).xreplace(inside), force=True).xreplace(back) if f in roots
                    else f.xreplace({s: s / front for s, front in zip(slots, fronts)}) for f in factors))
    front, body = body.as_independent(*slots, as_Add=False)
    front = front.replace(sp.Abs, lambda x: x * sp.sign(x)).replace(
        lambda f: f.is_Pow and isinstance(f.base, sp.sign) and f.exp == -1, lambda f: f.base)
    direction = None if body.atoms(Member) else direction_of(body, slots)
    if direction is None:
        raise NotCovered(f"{e}: no rule for this function of {len(slots)} gradients{ALLOWED}")
    if any(WIDTH in part.free_symbols for part in (direction.numerator, direction.denominator)):
        raise NotCovered(f"{e}: no rule where gradients are multiplied by several numbers of the program{ALLOWED}")
    return list(zip(leaves, fronts)), front, body


class _Regime:
    """Which part of a direction leads, by powers of n.

    linear: what multiplies each gradient, below E; factor: of the sign of one gradient, ``kept``; else body, in slots
    for the ``leading`` gradients alone. rest: bounds on what was dropped.
    """

    def __init__(self, reading: "SizeInterpreter", e: sp.Expr, body: sp.Expr, gradients: list[list[Total]]) -> None:
        self.linear: list[Total] | None = None
        self.factor: Total | None = None
        self.body, self.kept = sp.Integer(0), list[int]()
        self.leading, self.rest = list[GradientSize](), frozenset[Affine]()
        powers = reading.algebra.powers
        slots = tuple(slot(k) for k in range(len(gradients)))
        direction = direction_of(body, slots)
        assert direction is not None, "what has no form was refused"
        read = {k: _gradient(reading, e, factors) for k, factors in enumerate(gradients)}
        there = {k: g for k, g in read.items() if g is not None}
        top = powers.largest(g.power for g in there.values())
        number = reading.total(direction.number)
        threshold = None if number.vanishes else leading_size(reading.algebra, number).power
        if top is None:
            if threshold is None:
                raise NotCovered(f"{e}: 0/0, for all gradients vanish")
            self.linear = [Total() for _ in gradients]
            return
        relation = 1 if threshold is None else powers.sign(top - threshold)
        if relation < 0:
            assert threshold is not None
            over = reading.total(1 / direction.number)
            self.linear = [reading.algebra.product(reading.total(direction.numerator.coeff(s)), over) for s in slots]
            self.rest = frozenset((top - threshold + top - threshold,))
            return
        self.kept = [k for k, g in there.items() if not powers.sign(g.power - top)]
        self.leading = [there[k] for k in self.kept]
        gaps = [g.power - top for k, g in there.items() if k not in self.kept]
        gaps += [gap for g in self.leading for gap in g.smaller]
        if relation > 0 and threshold is not None:
            gaps.append(threshold - top)
        gap = powers.largest(gaps)
        # where a gradient is near zero, on few coordinates, what is small beside others decides: half the power
        self.rest = frozenset() if gap is None else frozenset((gap * HALF,))
        number = sp.Integer(0)
        if not relation:
            number = direction.number.subs(WIDTH, 1)
        kept = {slots[k]: slot(i) for i, k in enumerate(self.kept)}
        gone = {s: sp.Integer(0) for s in slots if s not in kept}
        self.body = (direction.numerator / (direction.denominator + number)).subs(gone).xreplace(kept)
        if relation > 0 and len(self.kept) == 1:
            value = self.body.subs(slot(0), 1)
            if sp.simplify(value + self.body.subs(slot(0), -1)) == 0:
                self.factor = reading.total(sp.simplify(value))


def _gradient(reading: "SizeInterpreter", e: sp.Expr, factors: list[Total]) -> GradientSize | None:
    """A gradient without its power of n, None for zero."""
    algebra, leading, smaller, power = reading.algebra, [], [], reading.algebra.powers.number(0)
    for total in factors:
        bound = leading_size(algebra, total).power
        if bound is None:
            return None
        first = {key: v for key, v in total.terms.items() if not algebra.powers.sign(algebra.bound(key) - bound)}
        if algebra.powers.sign(bound - (algebra.bounds(total) or bound)) or not any(
                algebra.atoms.split(monomial)[1] for _, monomial in first):
            raise NotCovered(f"{e}: no rule where the leading terms of a gradient cancel, or are numbers")
        step = algebra.bounds(Total({key: v for key, v in total.terms.items() if key not in first}, total.rest))
        if step is not None:
            smaller.append(step - bound)
        leading.append(Total({(p - bound, monomial): value for (p, monomial), value in first.items()}))
        power = power + bound
    return GradientSize(power, tuple(leading), tuple(smaller))


def _are_parallel(reading: "SizeInterpreter", one: Total, other: Total) -> bool:
    """Is one vector a number times the other, whatever their random numbers are?"""
    found = []
    for total in (one, other):
        parts: dict[Monomial, dict[Monomial, Fraction]] = {}
        for (_, monomial), value in total.terms.items():
            numbers, vectors = reading.algebra.atoms.split(monomial)
            parts.setdefault(vectors, {})[numbers] = value
        found.append(parts)
    if found[0].keys() != found[1].keys():
        return False
    first = next(iter(found[0]))

    def product(left: dict[Monomial, Fraction], right: dict[Monomial, Fraction]) -> dict[Monomial, Fraction]:
        total: dict[Monomial, Fraction] = {}
        for a, x in left.items():
            for b, y in right.items():
                key = reading.algebra.atoms.joined(a, b)
                total[key] = total.get(key, Fraction(0)) + x * y
        return {key: value for key, value in total.items() if value}

    return all(product(found[0][v], found[1][first]) == product(found[1][v], found[0][first]) for v in found[0])


@lru_cache(maxsize=256)
def direction_of(body: sp.Expr, slots: tuple[sp.Symbol, ...]) -> Direction | None:
    """The parts of a body, None where it has no such form."""
    if _degree(body, slots) == 0:
        return Direction(body, sp.Integer(1), sp.Integer(0))
    over = [f for f in sp.Mul.make_args(body) if f.is_Pow and f.exp == -1 and f.has(*slots)]
    if len(over) != 1:
        return None
    numerator = sp.expand(body / over[0])
    number, denominator = over[0].base.as_independent(*slots, as_Add=True)
    linear = sum((numerator.coeff(s) * s for s in slots), sp.Integer(0))
    if sp.expand(numerator - linear) != 0 or linear.has(*slots) and _degree(denominator, slots) != 1:
        return None
    return Direction(numerator, denominator, number)


def _degree(body: sp.Expr, slots: tuple[sp.Symbol, ...]) -> int | None:
    """0 or 1 for a body that is homogeneous of this degree at drawn points, else None."""
    symbols = sorted(body.free_symbols, key=str)
    function, rng = sp.lambdify(symbols, body, ["scipy", "numpy"]), np.random.default_rng(3)
    found = set()
    for scale in (0.5, 3.0, 7.0):
        point = [float(rng.normal() if s in slots else rng.uniform(0.5, 1.5)) for s in symbols]
        one, other = function(*point), function(*(x * scale if s in slots else x for s, x in zip(symbols, point)))
        found.add(next((d for d in (0, 1) if np.isclose(other, one * scale**d, rtol=1e-10)), None))
    return found.pop() if len(found) == 1 else None
