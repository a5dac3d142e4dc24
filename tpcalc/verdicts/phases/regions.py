"""The plane cut by lines into faces of all dimensions, and faces of one kind joined again into polyhedra."""

from __future__ import annotations

from fractions import Fraction
from typing import Hashable, Iterable, Mapping, Sequence

from ...orders import Affine, Region

Point = tuple[Fraction, Fraction]
Signs = tuple[str, ...]  # of every line at a face: "<", "=" or ">"
Allowed = tuple[str, ...]  # of every line on a polyhedron: some of "<=>", in this order
PLANE = Region(2)


def lines_of(forms: Iterable[Affine]) -> tuple[Affine, ...]:
    """The lines form = 0, each once, the simplest first; constant forms have none."""
    scaled = (form.scaled() for form in forms if not form.is_constant)
    either = {max(form, form * -1) for form in scaled}
    return tuple(sorted(either, key=lambda f: (sum(map(bool, f.slopes)), sum(map(abs, f.slopes)), f)))


def faces(lines: Sequence[Affine]) -> dict[Signs, Region]:
    """The faces of the lines' arrangement, none of them empty."""
    found: dict[Signs, Region] = {(): PLANE}
    for line in lines:
        found = {(*signs, sign): part for signs, face in found.items() for sign, part in face.split(line)}
    return found


def needed(lines: Sequence[Affine], kinds: Mapping[Signs, Hashable]
           ) -> tuple[tuple[Affine, ...], dict[Signs, Hashable]]:
    """The lines without which faces of different kinds would be one, with the kinds of what these divide."""
    kept, left = list(lines), dict(kinds)
    for line in reversed(lines):
        location = kept.index(line)
        merged: dict[Signs, set[Hashable]] = {}
        for signs, kind in left.items():
            merged.setdefault((*signs[:location], *signs[location + 1:]), set()).add(kind)
        if all(len(several) == 1 for several in merged.values()):
            kept.remove(line)
            left = {signs: several.pop() for signs, several in merged.items()}
    return tuple(kept), left


def joined_faces(lines: Sequence[Affine], kinds: Mapping[Signs, Hashable]) -> list[tuple[Region, list[Signs]]]:
    """Polyhedra that divide the plane, each a union of faces of one kind, with these faces.

    A wall is dropped where all of what it then takes in is of one kind and belongs to no polyhedron yet.
    """
    left = set(kinds)
    found: list[tuple[Region, list[Signs]]] = []
    while left:
        fewest = min(signs.count("=") for signs in left)  # the open faces first, which take their walls with them
        starts = sorted(signs for signs in left if signs.count("=") == fewest)
        grown = [_grown(start, left, kinds) for start in starts]
        best = max(grown, key=lambda allowed: (len(faces_within(allowed, kinds)), allowed.count("<=>")))
        found.append((_region(lines, best), faces_within(best, kinds)))
        left -= set(found[-1][1])
    return found


def faces_within(allowed: Allowed, all_faces: Iterable[Signs]) -> list[Signs]:
    """The faces on which every line has an allowed sign."""
    return [face for face in all_faces if all(map(str.__contains__, allowed, face))]


def _grown(start: Signs, left: set[Signs], kinds: Mapping[Signs, Hashable]) -> Allowed:
    """Allow as many signs as can be, line by line, the simplest lines last, until nothing more can."""
    allowed: Allowed = start
    while True:
        before = allowed
        for i, signs in reversed(list(enumerate(allowed))):
            for more in ("<=>", "<=", "=>"):
                wider = (*allowed[:i], more, *allowed[i + 1:])
                if len(more) > len(allowed[i]) and set(signs) <= set(more) and all(
                        face in left and kinds[face] == kinds[start] for face in faces_within(wider, kinds)):
                    allowed = wider
                    break
        if allowed == before:
            return allowed


def _region(lines: Sequence[Affine], allowed: Allowed) -> Region:
    region = PLANE
    for line, signs in zip(lines, allowed):
        if signs != "<=>":
            region = region.where(line, {"<=": "<=", "=>": ">="}.get(signs, signs))
    return region.reduced()


def dimension(region: Region) -> int:
    return region.size - len(region.equations)


def corners(region: Region, box: tuple[Point, Point]) -> tuple[Point, ...]:
    """The corners of the closure of a region's part in a box (lowest and highest point), in order around it."""
    (a0, g0), (a1, g1) = box
    edges = [_form(1, 0, -a0), _form(-1, 0, a1), _form(0, 1, -g0), _form(0, -1, g1)]
    closed = [c.form for c in region.conditions] + edges
    found = {p for i, f in enumerate(closed) for g in closed[:i] for p in crossing(f, g)
             if all(one.at(p) >= 0 for one in closed)}
    return _around(sorted(found))


def crossing(f: Affine, g: Affine) -> list[Point]:
    """Where two lines meet, if at one point."""
    determinant = f.slopes[0] * g.slopes[1] - f.slopes[1] * g.slopes[0]
    if determinant == 0:
        return []
    return [((f.slopes[1] * g.constant - g.slopes[1] * f.constant) / determinant,
             (g.slopes[0] * f.constant - f.slopes[0] * g.constant) / determinant)]


def area(polygon: Sequence[Point]) -> Fraction:
    """The area of a polygon; of a segment, the square of its length."""
    if len(polygon) == 2:
        (a, g), (b, h) = polygon
        return (a - b)**2 + (g - h)**2
    following = [*polygon[1:], *polygon[:1]]
    return abs(sum(((a * h - b * g) for (a, g), (b, h) in zip(polygon, following)), Fraction(0))) / 2


def _around(points: list[Point]) -> tuple[Point, ...]:
    """The points of a convex polygon in order: the lower chain from left to right, the upper one back."""
    if len(points) < 3:
        return tuple(points)
    (a0, g0), (a1, g1) = points[0], points[-1]

    def height(p: Point) -> Fraction:
        return (p[1] - g0) * (a1 - a0) - (p[0] - a0) * (g1 - g0)

    lower = [p for p in points if height(p) <= 0]
    return (*lower, *(p for p in reversed(points) if height(p) > 0))


def _form(alpha: int, gamma: int, constant: Fraction) -> Affine:
    return Affine((Fraction(alpha), Fraction(gamma)), Fraction(constant))
