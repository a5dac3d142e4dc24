"""Loops from a stream to itself that add up coherently: do they make it grow?

Exponents tell how much layers add to a stream, not whether that makes it grow: what takes away of a stream more than
1/L a layer lets it decay, and what points now this way, now that, does neither. So at the first step every term that
would make a stream grow through itself needs a sign:

- a positive number times a stream amplifies it, a negative one lets it decay (``solving.py``);
- an entrywise function of the stream with f(x) x of one sign does what its sign says, as far out as it does not vanish;
- a mean of a function of fresh hat-kets depends on the stream by its size alone: whatever its sign, it points one way,
  and adds to the size, as far out as it does not vanish;
- a matrix that comes back transposed multiplies the stream by a mean slope, which needs one sign, and must not vanish
  far out.

All else is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from ..errors import NotCovered
from ..calculus.kets import Bracket, Hat, Ket, Response, random_parts
from ..gaussian import Expectation
from ..gaussian.scalar_functions import H, scalar_function
from ..orders.terms import additive_terms
from ..programs.language import Scalar
from .entries import Enters, Entry
from .factors import squares
from .unknowns import DERIVATIVE, KET, Bend, Unknown
from .parts import Parts, in_stream, is_infinite
from .values import LARGE, exponent_of

if TYPE_CHECKING:
    from ..orders.affine import Affine
    from .reading import Reading
    from .solution import Solution

GROWS, TURNS, POINTS = 1, -1, 2  # what a term does to its stream: of means, in which direction
FAR_OUT = np.array([20.0, 40.0, 80.0])  # as far as exponentials are numbers
NODES = np.linspace(-8, 8, 4001)
WEIGHTS = np.exp(-NODES**2 / 2) / np.exp(-NODES**2 / 2).sum()
FAR_ENDS = np.geomspace(50, 600, 17)
NEAR = np.geomspace(1e-3, 1e3, 61)
LEAST_SHARE = 1e-3  # of a mean's size where it counts as one that stays


def require_signs(at: Solution) -> None:
    """Raise ``ValueError`` where a loop of unknown sign would make a stream grow at the first step."""
    reading, accepted = at.counted.reading, False
    for family in sorted(reading.accumulating & reading.forward):
        key = Unknown(KET, 0, family)
        matter = [entry for entry in at.entries(key) if _matters(at, entry) and _comes_back(at, entry)]
        signs = [sign_of_term(reading, family, entry.term) for entry in matter]
        for entry, sign in zip(matter, signs):
            if not sign or sign == TURNS:
                raise _unknown(at, entry)
        if {-POINTS, POINTS} <= set(signs):  # means that point both ways: coefficients decide
            raise _unknown(at, matter[0])
        accepted |= bool(matter) and is_infinite(at.table[key])
    if accepted:
        return
    for key in [key for key in at.table if key.step == 0 and key.sort in (KET, DERIVATIVE)
                and key.name in reading.accumulating and not (key.sort == KET and key.name in reading.forward)]:
        for entry in at.entries(key):  # what goes back, and derivatives: a number times themselves, or nothing known
            if _matters(at, entry) and _comes_back(at, entry) and not _is_multiple(reading, entry.term):
                raise _unknown(at, entry)


def _unknown(at: Solution, entry: Entry) -> NotCovered:
    vector = at.counted.equations.setting.families[int(entry.target.name)].name
    return NotCovered(f"program {at.counted.reading.name}: {entry.term} adds to {vector} more than 1/L of it a layer, "
                      f"in a loop from {vector} to itself, and whether that makes it grow or decay is not known from "
                      "exponents; expected larger alpha, and terms of which one sign is known")


@dataclass
class _Finite:
    """Sizes as they are, those that explode at order one: the weights of loops."""

    solution: "Solution"

    def weight(self, form: Affine) -> int:
        return self.solution.weight(form)

    def parts(self, key: Unknown) -> Parts:
        return {label: 0 if value > LARGE else value for label, value in self.solution.table.get(key, {}).items()}

    @property
    def saturated(self) -> frozenset[Bend]:
        return self.solution.saturated

    def is_saturated(self, step: int) -> bool:
        return self.solution.is_saturated(step)


def _matters(at: Solution, entry: Entry) -> bool:
    """Does a term add up coherently to more than there is?"""
    if entry.enters != Enters.LAYERS or entry.damping is not None:
        return False
    known: dict[int, Parts] = {}

    def value(node) -> Parts:  # type: ignore[no-untyped-def]
        if node.number not in known:
            known[node.number] = node.value(_Finite(at), [value(kid) for kid in node.kids])
        return known[node.number]

    return any(exponent_of(number) + at.all_layers // 2 > 0 for label, number in value(entry.node).items()
               if number < LARGE and any(more == 2 for _, more in in_stream(label, 2)))


def _comes_back(at: Solution, entry: Entry) -> bool:
    """Is a term made of what it adds to?"""
    seen, waiting = set(), list(entry.node.refs)
    while waiting:
        key = waiting.pop()
        if key == entry.target:
            return True
        if key not in seen and key.step == 0:
            seen.add(key)
            waiting += [ref for other in at.entries(key) for ref in other.node.refs]
    return False


def _is_multiple(reading: Reading, term: sp.Expr) -> bool:
    """A positive number times a ket?"""
    kets = [factor for factor in sp.Mul.make_args(term) if isinstance(factor, Ket)]
    return len(kets) == 1 and reading.sign(term / kets[0]) > 0


def sign_of_term(reading: Reading, family: int, term: sp.Expr) -> int:
    """1 of a term that makes the stream of a family grow, 2 and -2 of means that point one way, 0 of all others."""
    if len(reading.written(term, 0)) != 1:
        return 0
    written, = reading.written(term, 0)
    number, positive, responses, random = sp.Integer(1), True, [], sp.Integer(1)
    for factor in sp.Mul.make_args(written):
        if random_parts(factor):
            random *= factor
        elif isinstance(factor, Response):
            responses.append(factor)
        elif factor.has(Response, Bracket, Expectation, Scalar):
            positive &= bool(squares(factor.as_base_exp()[0]))
        else:
            number *= factor
    sign = reading.sign(number)
    if not sign or not positive:
        return 0
    inside = resolved(reading, random)
    streams = {ket for ket in inside.atoms(Ket) if reading.initial(ket.vector) is None}
    if responses:
        plain = isinstance(random, Ket) and reading.family(random.vector) in reading.accumulating
        return sign * _slope(reading, responses[0]) if plain and len(responses) == 1 else 0
    if not streams:
        return sign * POINTS * _mean(inside) if _is_of_one_hat(inside) else 0
    if len(streams) == 1 and not inside.atoms(Hat) and not inside.atoms(Response, Bracket, Expectation, Scalar):
        ket, = streams
        if inside == ket:
            return sign * GROWS
        return sign * _restores_or_grows(scalar_function(inside, ket).expression)
    return 0


def resolved(reading: Reading, expression: sp.Expr) -> sp.Expr:
    """Vectors of a layer at the first step, written in hat-kets and streams."""
    for _ in range(len(reading.of_family)):
        inner = {}
        for ket in expression.atoms(Ket):
            if reading.initial(ket.vector) is None and reading.family(ket.vector) not in reading.accumulating:
                (_, e), = reading.of_family[reading.family(ket.vector)][:1]
                there = dict(zip(e.target.vector.indices, ket.vector.indices))
                terms = [term for term in additive_terms(e.value) if not isinstance(term, sp.Sum)]
                inner[ket] = sp.Add(*(term.subs(there, simultaneous=True) for term in terms))
        if not inner:
            return expression
        expression = expression.xreplace(inner)
    return expression


def _is_of_one_hat(expression: sp.Expr) -> bool:
    return len(expression.atoms(Hat)) == 1 and not expression.atoms(Response, Bracket, Expectation, Ket)


def _means(form: sp.Expr) -> np.ndarray:
    """E f(s z) at large s, over s^growth."""
    function = scalar_function(form)
    values = function.values()
    return np.array([float(WEIGHTS @ values(s * NODES)) for s in FAR_OUT]) / FAR_OUT**function.growth


def _mean(expression: sp.Expr) -> int:
    """The sign of the mean of a function of a Gaussian far out, 0 where it vanishes there, or changes."""
    hat, = expression.atoms(Hat)
    form = scalar_function(expression, hat).expression
    if not scalar_function(form).growth and not _has_ends(form):
        return 0
    means = _means(form)
    return int(np.sign(means[0])) if (np.abs(means) > LEAST_SHARE).all() and abs(np.sign(means).sum()) == 3 else 0


def _has_ends(form: sp.Expr) -> bool:
    """Does a bounded function go to numbers at both ends, not both 0?"""
    ends = [scalar_function(form).values()(side * FAR_ENDS) for side in (1, -1)]
    return not scalar_function(form).vanishes and all(np.ptp(end) < LEAST_SHARE for end in ends)


def _slope(reading: Reading, response: Response) -> int:
    """The sign of a mean slope, where it is the same everywhere and stays far out."""
    inside = resolved(reading, Ket(response.vector))
    if not _is_of_one_hat(inside):
        return 0
    hat, = inside.atoms(Hat)
    slope = scalar_function(scalar_function(inside, hat).expression).derivative.expression
    if slope.is_number:
        return int(sp.sign(slope))
    values = scalar_function(slope).values()(np.concatenate([-NEAR, NEAR]))
    one_sign = (values >= 0).all() or (values <= 0).all()
    return _mean(slope.xreplace({H: hat})) if one_sign else 0


def _restores_or_grows(form: sp.Expr) -> int:
    """The sign of f(x) x, where it is the same everywhere and f does not vanish far out; 0 else."""
    if scalar_function(form).vanishes:
        return 0
    values = scalar_function(form).values()
    products = np.concatenate([values(NEAR) * NEAR, values(-NEAR) * -NEAR])
    return GROWS if (products >= 0).all() else TURNS if (products <= 0).all() else 0
