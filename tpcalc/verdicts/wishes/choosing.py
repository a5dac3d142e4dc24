"""One parametrization out of a region: complete before diverse before learning everywhere before few powers that are
not zero."""

from __future__ import annotations

from fractions import Fraction
from typing import Mapping, Sequence

from ...errors import NotCovered
from ...orders import Affine
from ...orders.polytope import Point
from .pieces import Piece, Pieces, largest
from .settings import DECAY, EPSILON, LR, Key, PowerSettings
from .table import WISHES, Wish

PREFERRED = ("complete", "diverse", "every matrix learns")


def chosen(pieces: Pieces, wishes: Sequence[Wish], least: tuple[Affine, ...] | None) -> tuple[Piece, Point] | None:
    """A point, with its piece; least: forms, by regime, whose sum over all pieces is to be as small as it can be.

    Raises ``ValueError`` where it can be as small as one likes.
    """
    found = pieces.of(wishes)
    if least is not None and found:
        found = _smallest(pieces, found, dict(zip(map(id, pieces.settings.regimes), least)))
    for name in PREFERRED:
        found = _also(pieces, found, wishes, WISHES[name]) or found
    best = [(_cost(pieces.settings, piece, point), point, number) for number, piece in enumerate(
        map(lambda piece: _sparse(pieces.settings, piece), found)) for point in _near(pieces, piece)]
    if not best:
        return None
    _, point, number = min(best)
    return found[number], point


def _also(pieces: Pieces, found: Sequence[Piece], wishes: Sequence[Wish], more: Wish) -> list[Piece]:
    """The parts of pieces on which one more wish is known to be met."""
    if more in wishes or not more.is_counted(pieces.sizes):
        return []
    try:
        return _cut(pieces, found, wishes, more)
    except NotCovered:  # where training grows, upper bounds alone may be known
        return []


def _cut(pieces: Pieces, found: Sequence[Piece], wishes: Sequence[Wish], more: Wish) -> list[Piece]:
    names = tuple(dict.fromkeys(name for wish in wishes for name in wish.at_most))
    parts = list(found)
    for clause in more.at_least(pieces.sizes):
        ways = pieces.alternatives(clause, names)
        parts = [Piece(regime, one) for regime in pieces.settings.regimes for one in largest(
            piece.part.cut(way) for piece in parts if piece.regime is regime for way in ways)]
    return parts


def _near(pieces: Pieces, piece: Piece) -> list[Point]:
    """Corners that are not where the search ends."""
    near = [corner for corner in piece.part.corners
            if not any(wall.at(corner) == 0 for wall in pieces.far.walls)]
    return near or list(piece.part.corners)


def _smallest(pieces: Pieces, found: Sequence[Piece], least: Mapping[int, Affine]) -> list[Piece]:
    values = {(number, corner): least[id(piece.regime)].at(corner) for number, piece in enumerate(found)
              for corner in piece.part.corners}
    best = min(values.values())
    at = [(number, corner) for (number, corner), value in values.items() if value == best]
    if all(any(wall.at(corner) == 0 for wall in pieces.far.walls) for _, corner in at):
        raise ValueError("minimize, maximize: got a power that wishes leave as large, or as small, as one likes; "
                         "expected one that they bound")
    forms = {number: least[id(found[number].regime)] for number, _ in at}
    return [Piece(found[number].regime, found[number].part.cut(Affine(form.slopes, form.constant - best) * -1))
            for number, form in forms.items()]


def _sparse(settings: PowerSettings, piece: Piece) -> Piece:
    """The part on which powers are zero, one after the other, as far as that goes."""
    order = (LR, DECAY, EPSILON)
    part = piece.part
    for key in sorted(settings.keys, key=lambda key: order.index(key[1]) if key[1] in order else len(order)):
        form = piece.regime.powers[key]
        zero = part.where((form, form * -1))
        part = part if zero.is_empty else zero
    return Piece(piece.regime, part)


def _cost(settings: PowerSettings, piece: Piece, point: Point) -> tuple[int, Fraction]:
    powers = [abs(piece.regime.powers[key].at(point)) for key in settings.keys]
    return sum(power != 0 for power in powers), sum(powers, Fraction(0))


def objective(settings: PowerSettings, minimize: object, maximize: object) -> tuple[Affine, ...] | None:
    """What is to be as small as it can be, by regime: a power, or minus it."""
    if minimize is None and maximize is None:
        return None
    if minimize is not None and maximize is not None:
        raise ValueError(f"minimize, maximize: got {minimize!r} and {maximize!r}; expected one of them")
    name, key, sign = ("minimize", minimize, 1) if maximize is None else ("maximize", maximize, -1)
    keys: tuple[Key, ...] = settings.of(key, name)
    if sign == 1 and any(one[1] in (EPSILON, DECAY) and one in settings.free for one in keys):
        raise ValueError(f"minimize: got {key!r}, which may be as small as one likes; expected a power that wishes "
                         "bound from below")
    missing = [one for one in keys if any(one not in regime.powers for regime in settings.regimes)]
    if missing:
        raise ValueError(f"{name}: got {key!r}; expected a power that is solved for, one of "
                         f"{', '.join(map(str, settings.free))}")
    found = []
    for regime in settings.regimes:
        total = settings.affine(0)
        for one in keys:
            total = total + regime.powers[one]
        found.append(total * sign)
    return tuple(found)
