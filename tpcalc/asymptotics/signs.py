"""Loops from a stream to itself that add up coherently: do they make it grow, or restore it?

Exponents tell how much layers add to a stream, not whether that makes it grow: what takes away of a stream more than
1/L a layer lets it decay, and what points now this way, now that, does neither. So at the first step every term that
would make a stream grow through itself needs a sign:

- a positive number times a stream amplifies it, a negative one restores it, so that it decays (``solving.py``);
- so does what is negative and such a multiple where the stream is small, as -tanh(x) is, if it gets so small;
- an entrywise function of the stream with f(x) x of one sign does what its sign says, as far out as it does not vanish;
- a mean of a function of fresh hat-kets depends on the stream by its size alone: whatever its sign, it points one way,
  and adds to the size, as far out as it does not vanish;
- a matrix that comes back transposed multiplies the stream by a mean slope, which needs one sign, and must not vanish
  far out.

All else is refused. On the way back it is only noted where streams have grown like a power before training, from where
no update is counted.

``cycles.py`` finds loops that exponents let grow; ``sign_of_term`` says which of their terms do.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from ..calculus.kets import Bracket, Hat, Ket, Response, random_parts
from ..errors import NotCovered
from ..gaussian import Expectation
from ..gaussian.scalar_functions import FAR_VALUES, H, LEAST_SHARE, scalar_function
from ..orders.quantities import additive_terms
from ..programs.language import Scalar
from .graph import Enters, TermEntry
from .functions import squares
from .parts import DERIVATIVE, KET, LARGE, Parts, Unknown, exponent_of, in_stream, is_infinite, size_of_parts
from .reading import EquationReader

if TYPE_CHECKING:
    from .solution import SizeSolution

GROWS, TURNS, POINTS = 1, -1, 2  # what a term does to its stream: of means, in which direction
FAR_OUT = np.array([20.0, 40.0, 80.0])  # as far as exponentials are numbers
NODES = np.linspace(-8, 8, 4001)
WEIGHTS = np.exp(-NODES**2 / 2) / np.exp(-NODES**2 / 2).sum()
SIZES = np.geomspace(1e-3, 75, 41)  # of what a hat-ket may be
NEAR = np.geomspace(1e-3, 600, 61)
ROUNDING = 1e-12  # of a mean's size, where it vanishes


class Coherent(sp.NumberSymbol):
    """What a matrix that all visits share multiplies a vector by, one way or another: the number 1, with a name."""

    is_real = is_positive = is_number = True

    def _as_mpf_val(self, prec: int) -> tuple:
        return sp.Float(1, prec)._mpf_

    def _sympystr(self, printer: object) -> str:
        return "s"

    def _numpycode(self, printer: object) -> str:
        return "1.0"

    _pythoncode = _lambdacode = _numpycode
    _latex = _sympystr


COHERENT = Coherent()


@dataclass(frozen=True)
class TermSign:
    """What a term does to its stream: GROWS, TURNS, POINTS or -POINTS, 0 where that is not known.

    number: its factors that are numbers; own: is it made of the stream itself? small: does it take away of the stream
    in proportion only as far as all streams that it is a function of vanish with the depth?
    """

    sign: int
    number: sp.Expr = sp.Integer(0)
    own: bool = False
    small: bool = False

    @property
    def damps(self) -> bool:
        """Does the term take away a share of its stream in every layer?"""
        return self.sign == TURNS and self.own


UNKNOWN = TermSign(0)


def sign_of_term(reading: EquationReader, family: int, term: sp.Expr) -> TermSign:
    """What a term does to the stream of a family at the first step.

    A matrix that all visits share turns some vectors one way and some another, whatever the functions behind it: what
    adds up over visits grows, unless a function vanishes far out.
    """
    found = _sign(reading, family, term)
    return TermSign(GROWS) if term.has(COHERENT) and found.sign != GROWS and not _vanishes(reading, term) else found


def _vanishes(reading: EquationReader, term: sp.Expr) -> bool:
    """Is a term a function of one stream that vanishes far out?"""
    random = [factor for written in reading.written(term, 0) for factor in sp.Mul.make_args(written)
              if random_parts(factor)]
    inside = written_in_streams(reading, sp.Mul(*random))
    if len(inside.atoms(Ket)) != 1 or inside.atoms(Bracket, Response, Scalar):
        return False
    form = inside.xreplace(dict.fromkeys(inside.atoms(Ket), H))
    values = scalar_function(form.xreplace(dict.fromkeys(form.free_symbols - {H}, sp.Integer(1)))).values()
    far = np.abs([values(way * FAR_VALUES) for way in (1, -1)])
    return bool((far[:, -1] <= far[:, 0] / 2).all())


def _sign(reading: EquationReader, family: int, term: sp.Expr) -> TermSign:
    if len(reading.written(term, 0)) != 1:
        return UNKNOWN
    written, = reading.written(term, 0)
    number = _in_front(written)[0]
    positive, responses, random = True, [], []
    for factor in sp.Mul.make_args(written / number):
        if random_parts(factor):
            random.append(factor)
        elif isinstance(factor, Response):
            responses.append(factor)
        else:
            positive &= bool(squares(factor.as_base_exp()[0]))
    number = _with_equal_terms(reading, family, written)
    sign = reading.sign(number)
    if not sign or not positive:
        return UNKNOWN
    plain = not any(factor.has(Bracket, Expectation) for factor in sp.Mul.make_args(written))
    inside = written_in_streams(reading, sp.Mul(*random))
    kets = [f for f in sp.Mul.make_args(inside) if isinstance(f, Ket) and reading.initial(f.vector) is None
            and reading.family(f.vector) in reading.accumulating]
    own = plain and [reading.family(ket.vector) for ket in kets] == [family]
    if not responses and _grows(reading, sign, inside):
        return TermSign(GROWS, number, own)
    factor, rest = _numbered(inside / kets[0] if len(kets) == 1 else inside)
    sign, number = sign * reading.sign(factor), number * factor
    if not sign:
        return UNKNOWN
    if responses:
        slope = _slope(reading, responses[0]) if len(responses) == 1 else None
        if slope is None:
            return UNKNOWN
        if rest == 1:
            return TermSign(_of_slope(reading, sign, slope), number, own, bool(slope.atoms(Hat)))
        sign = _of_slope(reading, sign, slope)
    if rest == 1:
        return TermSign(sign, number, own)
    streams = {ket for ket in rest.atoms(Ket) if reading.initial(ket.vector) is None}
    if not streams and _is_of_one_hat(rest) and not responses:
        if not kets:
            return TermSign(sign * POINTS * _mean(rest))
        return TermSign(_of_slope(reading, sign, rest), number, own, True)
    if len(streams) != 1 or rest.atoms(Hat, Response, Bracket, Expectation, Scalar):
        return UNKNOWN
    ket, = streams
    form = scalar_function(rest, ket).expression
    if form.free_symbols - {H}:
        return UNKNOWN
    if not kets:
        return TermSign(_restores_or_grows(sign, form), number, plain and reading.family(ket.vector) == family, True)
    if responses:
        return UNKNOWN
    falls = sign * sp.sign(form.subs(H, 0)) == TURNS
    return TermSign(TURNS, number, own, True) if falls else UNKNOWN


def _grows(reading: EquationReader, sign: int, inside: sp.Expr) -> bool:
    """Is what a number multiplies a function f of a stream alone, or of it over root mean squares, which leave the sign
    of f(x) x as it is, that points the way of the stream?"""
    scaled = inside.replace(lambda e: e.is_Pow and bool(squares(e.base)), lambda e: sp.Integer(1))
    kets = {ket for ket in scaled.atoms(Ket) if reading.initial(ket.vector) is None}
    if len(kets) != 1 or scaled.atoms(Hat, Response, Bracket, Expectation, Scalar):
        return False
    form = scalar_function(scaled, kets.pop()).expression
    return not form.free_symbols - {H} and form != H and _restores_or_grows(sign, form) == GROWS


def _in_front(product: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """A product as a number that stands there as it is times the rest."""
    plain = [factor for factor in sp.Mul.make_args(product)
             if not random_parts(factor) and not factor.has(Response, Bracket, Expectation, Scalar)]
    return sp.Mul(*plain), product / sp.Mul(*plain)


def _with_equal_terms(reading: EquationReader, family: int, written: sp.Expr) -> sp.Expr:
    """The number in front of a term, with those of all terms that are the same but for it: 1 - l/(2 L) is positive."""
    number, rest = _in_front(written)
    found = sp.Integer(0)
    for equation, _ in reading.of_family[family]:
        for term, _ in reading.terms(equation):
            for other in reading.written(term, 0):
                more, alike = _in_front(other)
                found += more if alike == rest else 0
    return found or number


def _numbered(product: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """A product as a number, perhaps one of the layer, times the rest."""
    random = random_parts(product)
    number, rest = product.as_independent(*random, as_Add=False) if random else (product, sp.Integer(1))
    return number, rest


def written_in_streams(reading: EquationReader, expression: sp.Expr) -> sp.Expr:
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
    hats = expression.atoms(Hat)
    form = expression.xreplace(dict.fromkeys(hats, H))
    return len(hats) == 1 and form.free_symbols <= {H} and not form.atoms(Response, Bracket, Expectation, Ket, Scalar)


def _means(form: sp.Expr) -> np.ndarray:
    """E f(s z) at large s, over s^growth."""
    function = scalar_function(form)
    values = function.values()
    return np.array([float(WEIGHTS @ values(s * NODES)) for s in FAR_OUT]) / FAR_OUT**function.growth


def _mean(expression: sp.Expr) -> int:
    """The sign of the mean of a function of a Gaussian far out, 0 where it vanishes there, or changes."""
    hat, = expression.atoms(Hat)
    form = scalar_function(expression, hat).expression
    if not scalar_function(form).growth and not scalar_function(form).has_limits:
        return 0
    means = _means(form)
    return int(np.sign(means[0])) if (np.abs(means) > LEAST_SHARE).all() and abs(np.sign(means).sum()) == 3 else 0


def _slope(reading: EquationReader, response: Response) -> sp.Expr | None:
    """The slope of a vector in a hat-ket of its layer: a number, or a function of one hat-ket."""
    inside = sp.expand(written_in_streams(reading, Ket(response.vector)))
    made = sp.Add(*(term for term in sp.Add.make_args(inside) if term.has(response.base)))
    if not made.has(response.base):
        return None
    slope = made.coeff(response.base)
    if not slope.has(response.base) and sp.expand(made - slope * response.base) == 0:
        return slope if not slope.atoms(Hat, Ket) or _is_of_one_hat(_numbered(slope)[1]) else None
    number, form = _numbered(made)
    if not _is_of_one_hat(form):
        return None
    return number * scalar_function(scalar_function(form, response.base).expression).derivative.expression.subs(
        H, response.base)


def _of_slope(reading: EquationReader, sign: int, slope: sp.Expr) -> int:
    """What a stream times a number of a sign and the mean of a function of one hat-ket does to it.

    The mean needs one sign, however large the hat-ket. What takes away does so in proportion where the function is not
    0 at 0; what adds to the stream needs a mean that stays far out.
    """
    number, slope = _numbered(slope)
    sign *= reading.sign(number)
    if slope == 1 or not sign:
        return sign
    hat, = slope.atoms(Hat)
    function = scalar_function(slope, hat)
    values = function.values()
    there = [values(size * NODES) for size in SIZES]
    shares = np.array([float(WEIGHTS @ one) / max(float(WEIGHTS @ abs(one)), ROUNDING) for one in there])
    found = sign * (int((shares > ROUNDING).all()) - int((shares < -ROUNDING).all()))  # of odd functions none is sure
    if found == TURNS:
        return TURNS if not function.flatness else 0
    return GROWS if found > 0 and _mean(slope) else 0


def _restores_or_grows(sign: int, form: sp.Expr) -> int:
    """What a function of the stream does to it, by the sign of f(x) x: where that is the same everywhere, and f either
    does not vanish far out, or takes away in proportion near 0."""
    values = scalar_function(form).values()
    products = sign * np.concatenate([values(NEAR) * NEAR, values(-NEAR) * -NEAR])
    if (products <= 0).all():  # relu takes nothing away of what is negative
        near = scalar_function(form).values()(np.array([NEAR[0], -NEAR[0]]))
        return TURNS if scalar_function(form).flatness == 1 and near.all() else 0
    return GROWS if (products >= 0).all() and not scalar_function(form).vanishes else 0


def require_signs(at: SizeSolution) -> None:
    """Raise ``ValueError`` where a loop of unknown sign would make a stream grow at the first step; note it where
    that is a gradient, of a stream that has grown."""
    reading, accepted = at.counted.reading, False
    for family in sorted(reading.accumulating & reading.forward):
        key = Unknown(KET, 0, family)
        _require_small(at, key)
        matter = [entry for entry in at.entries(key) if _matters(at, entry) and _comes_back(at, entry)]
        signs = [at.counted.entries.sign(family, entry.term).sign for entry in matter]
        for entry, sign in zip(matter, signs):
            if not sign or sign == TURNS:
                raise _unknown(at, entry)
        if {-POINTS, POINTS} <= set(signs):  # means that point both ways: coefficients decide
            raise _unknown(at, matter[0])
        accepted |= bool(matter) and is_infinite(at.table[key])
    if accepted:
        return
    sizes = [at.value_of(Unknown(KET, 0, family)) or 0 for family in reading.accumulating & reading.forward]
    grown = 0 < max(sizes, default=0) < LARGE
    for key in [key for key in at.table if key.step == 0 and key.sort in (KET, DERIVATIVE)
                and key.name in reading.accumulating and not (key.sort == KET and key.name in reading.forward)]:
        for entry in at.entries(key):  # what goes back, and derivatives: a number times themselves, or nothing known
            if _matters(at, entry) and _comes_back(at, entry) and not _is_multiple(reading, entry.term):
                if not grown:
                    raise _unknown(at, entry)
                at.unsigned, at.explosions = _unknown(at, entry), []  # a loop that may, or may not


def _require_small(at: SizeSolution, key: Unknown) -> None:
    """Raise ``NotCovered`` where functions take away of a stream as far as it is small, and others feed it."""
    value = size_of_parts(at.table.get(key, {}))
    for entry in at.entries(key) if key in at.forgets else ():
        if entry.damping is not None and value is not None and exponent_of(value) >= 0:
            if at.counted.entries.sign(int(key.name), entry.term).small:
                raise _unknown(at, entry)


def _unknown(at: SizeSolution, entry: TermEntry) -> NotCovered:
    setting = at.counted.equations.setting
    vector = setting.families[int(entry.target.name)].name
    return NotCovered(f"program {setting.program.name}: {entry.term} adds to {vector} more than 1/{setting.depth} of "
                      f"it a layer, in a loop from {vector} to itself, and whether that makes it grow or decay is not "
                      "known from exponents; expected smaller branches, and terms of which one sign is known")


def _matters(at: SizeSolution, entry: TermEntry) -> bool:
    """Does a term add up coherently to more than there is?"""
    if entry.enters != Enters.LAYERS or entry.damping is not None:
        return False
    known: dict[int, Parts] = {}
    finite = copy(at)  # what explodes at order one: the weights of loops
    finite.table = {key: {label: 0 if value > LARGE else value for label, value in parts.items()}
                    for key, parts in at.table.items()}

    def value(node) -> Parts:  # type: ignore[no-untyped-def]
        if node.number not in known:
            known[node.number] = node.value(finite, [value(kid) for kid in node.kids])
        return known[node.number]

    return any(exponent_of(number) + at.scale.unit // 2 > 0 for label, number in value(entry.node).items()
               if number < LARGE and any(more == 2 for _, more in in_stream(label, 2)))


def _comes_back(at: SizeSolution, entry: TermEntry) -> bool:
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


def _is_multiple(reading: EquationReader, term: sp.Expr) -> bool:
    """A positive number times a ket?"""
    kets = [factor for factor in sp.Mul.make_args(term) if isinstance(factor, Ket)]
    return len(kets) == 1 and reading.sign(term / kets[0]) > 0
