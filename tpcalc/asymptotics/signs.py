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
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import sympy as sp

from ..calculus.kets import Ket
from ..errors import NotCovered
from .entries import Enters, TermEntry
from .parts import Parts, in_stream, is_infinite, size_of_parts
from .term_signs import POINTS, TURNS
from .unknowns import DERIVATIVE, KET, Unknown
from .values import LARGE, exponent_of

if TYPE_CHECKING:
    from .reading import EquationReader
    from .solution import SizeSolution


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
