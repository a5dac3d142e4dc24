"""Where sizes, maxima of affine forms, are at most of order one, and where they are of order one: exact polytopes.

{size <= 0} is convex. It is found from outside: a corner of what is left at which a size is larger is cut off by the
form that the size is of where it passes order one on the way there from a point inside; where all corners are left,
convexity proves all that is between them. On a polytope on which a size is at most of order one it is so on whole
faces; these are found the same way, one evaluation inside a face deciding for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Iterable, Sequence

from ...errors import NotCovered
from ...orders import Affine
from ...orders.polytope import Point, Polytope, mean
from .sizes import GROWTH, Form, PowerSizes, height

MOST_CUTS = 400
MOST_MOVES = 40
NEAR, CLOSE = Fraction(1, 64), Fraction(1, 8)


@dataclass(frozen=True)
class Bounded:
    """The part of a polytope on which sizes are at most of order one, and the forms that cut it off, with reasons."""

    part: Polytope
    cuts: tuple[Form, ...]
    nowhere: Form | None = None  # a size that is larger everywhere


def bounded(sizes: PowerSizes, names: Sequence[str], of: Polytope, base: Point, explosive: bool = True) -> Bounded:
    """The part of a polytope on which all sizes of these names are at most of order one; base: a point of it.

    explosive: are many of its corners such that training explodes there? Those take long, and are asked last.

    Raises ``NotCovered`` where sizes are no maxima of affine forms.
    """
    part, cuts = of, list[Form]()
    large = _largest(sizes, names, base, None)
    if large is not None:
        if large.affine.is_constant:
            return Bounded(Polytope(of.walls, ()), (), large)
        raise _no_rule(sizes, names, base)
    done: set[Point] = set()
    for _ in range(MOST_CUTS):
        corner = next((one for one in part.corners if one not in done), None)
        if corner is None:
            return Bounded(part, tuple(cuts))
        calm = not explosive and _largest(sizes, names, corner, None) is None
        found = [] if calm else _crossing(sizes, names, base, corner)
        if not found:
            done.add(corner)
        for form in found:
            if any(form.affine.at(one) > 0 for one in done):
                raise _no_rule(sizes, names, corner)
            if all(form.affine != other.affine for other in cuts):
                cuts.append(form)
                part = part.cut(form.affine * -1)
    raise NotCovered(f"sizes that are bounded on more than {MOST_CUTS} sides; no rule for so many")


def _crossing(sizes: PowerSizes, names: Sequence[str], base: Point, corner: Point) -> list[Form]:
    """The forms with which sizes pass order one between a point and a corner; none where they do not."""
    close = tuple(a + CLOSE * (b - a) for a, b in zip(base, corner))  # what explodes takes long: it is asked last
    seen = [*_all(sizes, names, base, corner), *_all(sizes, names, close, corner)]
    end, wrong = corner, set[tuple[str, Affine]]()
    for _ in range(MOST_MOVES):
        high = [form for form in seen if form.affine.at(end) > 0]
        if high:
            falling = {(form.name, form.affine) for form in high if form.affine.at(base) > 0}
            share = min((form.affine.at(base) / (form.affine.at(base) - form.affine.at(end)) for form in high
                         if (form.name, form.affine) not in falling), default=Fraction(1))
            end, wrong = tuple(a + share * (b - a) for a, b in zip(base, end)), wrong | falling
            seen = [form for form in seen if (form.name, form.affine) not in wrong]
            continue
        if end == corner and _largest(sizes, names, corner, None) is None:
            return []
        new = [form for form in _all(sizes, names, end, base) if (form.name, form.affine) not in wrong]
        seen += new
        if any(form.affine.at(end) > 0 for form in new):
            continue
        if end == corner:  # its forms are not those of what is between
            raise _no_rule(sizes, names, corner)
        passed: dict[Affine, Form] = {}
        for form in seen:  # of equal forms, that of the first size, as it was read last
            if form.affine.at(end) == 0 < form.affine.at(corner) and (form.affine not in passed or names.index(
                    form.name) <= names.index(passed[form.affine].name)):
                passed[form.affine] = form
        attained = [form for form in passed.values() if _passes(sizes, form, end, corner)]
        if attained:
            return attained
        wrong |= {(form.name, form.affine) for form in seen if form.affine.at(end) == 0 < form.affine.at(corner)}
        seen = [form for form in seen if (form.name, form.affine) not in wrong]
        end = corner
    raise _no_rule(sizes, names, corner)


def _passes(sizes: PowerSizes, form: Form, point: Point, beyond: Point) -> bool:
    """Is a size of order one at a point by this form, and larger next to it?"""
    if form.name not in GROWTH:  # sweeps that do not multiply have no rate
        return height(sizes.asked([form.name], point)[form.name], point) == 0
    near = tuple(a + NEAR * (b - a) for a, b in zip(point, beyond))
    found = height(sizes.asked([form.name], near)[form.name], near)
    return found is not None and found >= form.affine.at(near)


def _all(sizes: PowerSizes, names: Sequence[str], point: Point, inner: Point | None) -> list[Form]:
    return [form for forms in sizes.asked(names, point, inner).values() for form in forms]


def _largest(sizes: PowerSizes, names: Sequence[str], point: Point, inner: Point | None) -> Form | None:
    """A size that is larger than of order one at a point."""
    above = [form for form in _all(sizes, names, point, inner) if form.affine.at(point) > 0]
    return max(above, key=lambda form: form.affine.at(point), default=None)


def _no_rule(sizes: PowerSizes, names: Iterable[str], point: Point) -> NotCovered:
    where = ", ".join(f"{symbol} = {value}" for symbol, value in zip(sizes.symbols, point))
    return NotCovered(f"the exponents of {', '.join(names)} are no maximum of affine forms around {where}, as where "
                      "functions saturate; no rule for where they are of order one")


@dataclass(frozen=True)
class Face:
    """A face of a polytope, where a form is 0, as the corners that lie on it, by number."""

    form: Form
    corners: frozenset[int]


def faces_of_order_one(sizes: PowerSizes, name: str, of: Polytope) -> tuple[Face, ...]:
    """The largest faces of a polytope on which a size is of order one, where it is at most that everywhere.

    Raises ``NotCovered`` where it is an upper bound alone.
    """
    corners, found, failing = of.corners, list[Face](), list[frozenset[int]]()
    zero = [i for i, corner in enumerate(corners) if height(sizes.asked([name], corner)[name], corner) == 0]

    def closed(some: Iterable[int]) -> frozenset[int]:
        common = frozenset.intersection(*(of.touched[i] for i in some))
        return frozenset(i for i, touched in enumerate(of.touched) if common <= touched)

    def candidates() -> list[frozenset[int]]:
        """Smallest faces that are not part of one that was found, and may be of order one."""
        open_: list[frozenset[int]] = [closed([i]) for i in zero]
        for face in found:
            grown: dict[frozenset[int], None] = {}
            for one in open_:
                more = [one] if not one <= face.corners else [closed({*one, i}) for i in zero
                                                              if i not in face.corners]
                grown.update(dict.fromkeys(face for face in more if not any(bad <= face for bad in failing)))
            open_ = [one for one in grown if not any(other < one for other in grown)]
        return [one for one in open_ if not any(bad <= one for bad in failing)]

    while some := candidates():
        one = some[0]
        point = mean([corners[i] for i in sorted(one)])
        forms = sizes.asked([name], point, of.center)[name]
        if height(forms, point) != 0:
            failing.append(one)
            continue
        form = max(forms, key=lambda form: form.affine.at(point))
        if form.bound:
            raise NotCovered(f"{name}: only an upper bound is known where it is at most of order one; no rule for "
                             "where it is")
        on = frozenset(i for i, corner in enumerate(corners) if form.affine.at(corner) == 0)
        if not one <= on or any(form.affine.at(corner) > 0 for corner in corners):
            raise _no_rule(sizes, [name], point)
        found.append(Face(form, on))
    return tuple(found)


def at_least(sizes: PowerSizes, name: str, of: Polytope, base: Point) -> list[Form]:
    """Forms of which one is at least 0 wherever on a polytope a size is of order one or larger."""
    below = bounded(sizes, [name], of, base, explosive=False)
    if below.nowhere is not None:
        return [below.nowhere]
    zero = [] if below.part.is_empty else [face.form for face in faces_of_order_one(sizes, name, below.part)]
    return list({form.affine: form for form in (*below.cuts, *zero)}.values())
