"""The leading power of a sum: what is left when everything that cancels has cancelled."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Iterable

from ...orders.affine import Affine
from .algebra import HALF, Algebra, Cancellation
from .atoms import CoordinateAverage, Monomial, Noise, NumberFunction, Total
from .operators import OperatorSize
from .witness import is_certainly_nonzero

MOST_ROUNDS = 12


@dataclass(frozen=True)
class LeadingSize:
    """A power of n, None for what vanishes; random: does the leading term depend on how averages fluctuate?"""

    power: Affine | None
    random: bool = False


def leading_size(algebra: Algebra, total: Total) -> LeadingSize:
    """The root mean square of a vector, or the absolute value of a number, as a power of n.

    Products of vectors are linearly independent, so that they cannot cancel each other; their coefficients are
    polynomials in random and given numbers of order one. Raises ``Cancellation`` where it is not certain that the
    leading coefficient does not vanish, or where what was dropped may be larger.
    """
    return _largest(algebra, _by_vectors(algebra, total).values(), total.rest)


def matrix_norm_size(algebra: Algebra, operator: OperatorSize) -> LeadingSize:
    """The norm of a matrix as a power of n; outer products of linearly independent vectors cannot cancel each other.

    Raises ``Cancellation`` as ``leading_size`` does.
    """
    initial = [c for _, _, c in operator.initial]
    functions: dict[object, Total] = {}
    for entries in operator.entries:
        functions[entries.key] = functions.get(entries.key, Total()) + entries.front
    rest = operator.rest.union(*(c.rest for c in (*initial, *functions.values())))
    pairs: dict[tuple[Monomial, Monomial], Total] = {}
    for u, v in operator.outers:
        left, right = _by_vectors(algebra, u), _by_vectors(algebra, v)
        rest |= algebra.product(u, v).rest
        for one, a in left.items():
            for other, b in right.items():
                product = algebra.product(a, b)
                rest |= product.rest
                pairs[one, other] = pairs.get((one, other), Total()) + Total(product.terms)
    singles = (Total(c.terms) for c in (*initial, *functions.values()))
    return _largest(algebra, [*singles, *pairs.values()], rest)


def _by_vectors(algebra: Algebra, total: Total) -> dict[Monomial, Total]:
    """The coefficients of a sum, by the products of vectors that they multiply."""
    groups: dict[Monomial, Total] = {}
    for (power, monomial), value in total.terms.items():
        numbers, vectors = algebra.atoms.split(monomial)
        groups[vectors] = groups.get(vectors, Total()) + Total({(power, numbers): value})
    return groups


def _largest(algebra: Algebra, groups: Iterable[Total], dropped_before: frozenset[Affine]) -> LeadingSize:
    """The largest of some coefficients, which must be larger than all that was dropped."""
    top, rest = LeadingSize(None), set(dropped_before)
    for group in sorted(groups, key=lambda g: _at(algebra, algebra.bounds(g)), reverse=True):
        bound = algebra.bounds(group)
        if bound is None or top.power is not None and algebra.powers.sign(bound - top.power) < 0:
            break
        found, dropped = coefficient_size(algebra, group)
        rest |= dropped
        if found.power is None:
            continue
        relation = 1 if top.power is None else algebra.powers.sign(found.power - top.power)
        if relation > 0:
            top = found
        elif relation == 0:
            top = LeadingSize(top.power, top.random or found.random)
    _require_larger(algebra, rest, top.power)
    return top


def _require_larger(algebra: Algebra, rest: Iterable[Affine], power: Affine | None) -> None:
    """Raise ``Cancellation`` unless a power of n is larger than all that was dropped."""
    form = algebra.powers.largest(rest)
    if form is not None:
        if power is None or algebra.powers.sign(form - power) >= 0:
            raise Cancellation("the leading terms cancel, and what is left may be smaller than what was dropped, "
                               f"n^({form.expression(algebra.powers.parameters)})", form)


def _at(algebra: Algebra, form: Affine | None) -> float:
    return float("-inf") if form is None else float(form.at(algebra.powers.point))


def coefficient_size(algebra: Algebra, total: Total) -> tuple[LeadingSize, frozenset[Affine]]:
    """The leading power of n of a sum of products of numbers, and powers of n that bound what was dropped on the way.

    Raises ``Cancellation`` where terms cancel so that no power is found.
    """
    for _ in range(MOST_ROUNDS):
        bound = algebra.powers.largest(map(algebra.bound, total.terms))
        if bound is None:
            return LeadingSize(None), total.rest
        leading = {key: value for key, value in total.terms.items() if not algebra.powers.sign(
            algebra.bound(key) - bound)}
        limit = _limit(algebra, Total(leading))
        if limit.terms:
            if not is_certainly_nonzero(algebra, limit):
                raise Cancellation("the leading terms may cancel: means that are not known exactly stand in their "
                                   "coefficient, and it is not certain that it does not vanish")
            groups = [monomial for _, monomial in limit.terms]
            return LeadingSize(bound, any(_is_random(algebra, number) for m in groups for number, _ in m)), total.rest
        total = _expanded(algebra, total)
    raise Cancellation("the leading terms cancel in every power that was looked at")


def _is_random(algebra: Algebra, number: int) -> bool:
    atom = algebra.atoms[number]
    if isinstance(atom, NumberFunction):
        return any(_is_random(algebra, inner) for _, monomial in dict(atom.of) for inner, _ in monomial)
    if isinstance(atom, CoordinateAverage):
        return algebra.limits.value(atom.body).vanishes
    return isinstance(atom, Noise)


def _limit(algebra: Algebra, total: Total) -> Total:
    """The terms without their common power of n, every average as its limit or its noise."""
    found = Total()
    for (_, monomial), value in total.terms.items():
        parts = algebra.number(value)
        for number, power in monomial:
            parts = algebra.product(parts, _limit_of(algebra, number, power))
        found = found + parts
    return Total({(algebra.powers.number(0), monomial): v for (_, monomial), v in found.terms.items()})


def _limit_of(algebra: Algebra, number: int, power: Fraction) -> Total:
    atom = algebra.atoms[number]
    if not isinstance(atom, CoordinateAverage):
        return algebra.monomial(((number, power),))
    value = algebra.limits.value(atom.body)
    if value.vanishes:
        return algebra.monomial(((algebra.atoms.number(Noise(atom.body)), power),))
    return _raised(algebra, value, power)


def _raised(algebra: Algebra, value: Total, power: Fraction) -> Total:
    """A power of a limit: exactly where that is a polynomial, and as a number of its own elsewhere."""
    if power.denominator == 1 and power > 0:
        return algebra.to(value, int(power))
    if len(value.terms) == 1:
        (form, monomial), number = next(iter(value.terms.items()))
        if number == 1:
            return Total({(form * power, tuple((n, p * power) for n, p in monomial)): Fraction(1)})
    return algebra.monomial(((algebra.atoms.number(NumberFunction("power", value.key)), power),))


def _expanded(algebra: Algebra, total: Total) -> Total:
    """Every average as its limit and its noise, n^(-1/2) times as large."""
    found = Total()
    small = algebra.power(algebra.powers.number(-HALF))
    for (form, monomial), value in total.terms.items():
        parts = Total({(form, ()): value})
        for number, power in monomial:
            atom = algebra.atoms[number]
            if not isinstance(atom, CoordinateAverage):
                parts = algebra.product(parts, algebra.monomial(((number, power),)))
                continue
            noise = algebra.product(small, algebra.of(Noise(atom.body)))
            limit = algebra.limits.value(atom.body)
            if limit.vanishes:
                noise = Total({(f * power, tuple((n, p * power) for n, p in m)): v
                               for (f, m), v in noise.terms.items()})
                parts = algebra.product(parts, noise)
            elif power.denominator == 1 and power > 0:
                parts = algebra.product(parts, algebra.to(limit + noise, int(power)))
            else:
                raise Cancellation("the leading terms cancel, and roots of averages are among them")
        found = found + parts
    return Total(found.terms, found.rest | total.rest)
