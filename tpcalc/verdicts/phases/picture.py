"""The picture of a phase diagram as data that JSON can hold: colored shapes, labels, what is said of each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from textwrap import wrap
from typing import TYPE_CHECKING, Mapping, Sequence

import numpy as np
import sympy as sp
import scipy  # its parts are imported where they are used first

from ..._shown import Short
from ...derivations.printing import latex

if TYPE_CHECKING:
    from .diagram import PhaseDiagram, PhaseRegion

# told apart by color-blind readers too, and so are their tints
HUES = ("#777777", "#0072b2", "#d55e00", "#e69f00", "#cc79a7", "#009e73", "#1c2430", "#56b4e9")
SLOW, FAST = "#f0e442", "#440154"  # of rates 0 and 1, the largest there is
WIDEST = 12                        # letters of a line of a label
LETTER = 0.5                       # the width of a letter, in heights of a line
ROOM = 0.8                         # of the largest box about a label that fits an area
PIECES = 24                        # of a segment, each with its rate


@dataclass(frozen=True)
class Shape:
    """A polygon, segment or point: vertices (k, 2); said: its tooltip; label: its name where it is to be written.

    rates: pieces of a segment, or a point, with the rate of convergence there: ends (k, 2), rate r, and text.
    room: the polygon that an area's label may use, which neighbors of one name make together; empty for its own.
    """

    label: str
    vertices: list[list[float]]
    color: str
    said: str
    rates: list[tuple[list[list[float]], float, str]]
    room: list[list[float]] = field(default_factory=list)

    @property
    def dimension(self) -> int:
        return min(len(self.vertices), 3) - 1

    @property
    def middle(self) -> tuple[float, float]:
        """Where a label has room: of areas near the center of mass, but away from the edges by what its lines need."""
        if self.dimension < 2:
            return _mean([v[0] for v in self.vertices]), _mean([v[1] for v in self.vertices])
        wide = max([1, *map(len, self.lines)]) * LETTER
        room = self.room or self.vertices
        return _with_room(room, _centre(room), (wide / 2, max(1, len(self.lines)) / 2))

    @property
    def lines(self) -> list[str]:
        """The label of an area, broken between words."""
        return wrap(self.label, WIDEST, break_long_words=False)

    @property
    def angle(self) -> float:
        """The angle of a segment against the alpha axis, in degrees."""
        (a0, g0), (a1, g1) = self.vertices
        return math.degrees(math.atan2(g1 - g0, a1 - a0))


@dataclass(frozen=True, repr=False)
class PhasePicture(Short):
    """Shapes, polygons first; box: lowest and highest (alpha, gamma); axes: what is to the right, and what upwards;
    labels: of the axes, in LaTeX."""

    shapes: list[Shape]
    box: tuple[tuple[float, float], tuple[float, float]]
    axes: tuple[str, ...] = ("\N{GREEK SMALL LETTER ALPHA}", "\N{GREEK SMALL LETTER GAMMA}")
    labels: tuple[str, ...] = (r"$\alpha$: branches are multiplied by $L^{-\alpha}$",
                               r"$\gamma$: updates are multiplied by $L^{-\gamma}$")

    @property
    def has_rates(self) -> bool:
        return any(shape.rates for shape in self.shapes)


def _together(diagram: "PhaseDiagram", one: "PhaseRegion") -> list[list[float]]:
    """The polygon of all areas with a region's name, where that is convex, so that they fill it; else nothing."""
    alike = [other for other in diagram.regions if other.name == one.name and other.dimension == 2]
    if one.dimension < 2 or len(alike) < 2:
        return []
    hulls = [scipy.spatial.ConvexHull(np.array(other.vertices, dtype=float)) for other in alike]
    whole = scipy.spatial.ConvexHull(np.concatenate([hull.points for hull in hulls]))
    filled = abs(whole.volume - sum(hull.volume for hull in hulls)) < 1e-9 * whole.volume
    return whole.points[whole.vertices].tolist() if filled else []


def _centre(vertices: list[list[float]]) -> tuple[float, float]:
    """The center of mass of a polygon."""
    (a0, g0), total, alpha, gamma = vertices[0], 0.0, 0.0, 0.0
    for (a1, g1), (a2, g2) in zip(vertices[1:], vertices[2:]):
        weight = (a1 - a0) * (g2 - g0) - (a2 - a0) * (g1 - g0)
        total, alpha, gamma = total + weight, alpha + weight * (a0 + a1 + a2), gamma + weight * (g0 + g1 + g2)
    return alpha / total / 3, gamma / total / 3


def _with_room(vertices: list[list[float]], near: tuple[float, float], half: tuple[float, float]
               ) -> tuple[float, float]:
    """Where to put the center of a box: as near to ``near`` as it may be, away from the polygon's edges.

    A box of these proportions has a largest size with which it fits into the polygon. Points are taken about which a
    box of ``ROOM`` times this size fits; of these the one that is nearest to ``near``, in the sum of both distances.
    vertices: of a convex polygon; half: half the width and half the height of the box, in any unit.
    """
    corners = np.array(vertices)
    sides = np.roll(corners, -1, axis=0) - corners
    normals = np.stack([sides[:, 1], -sides[:, 0]], axis=1)
    normals *= -np.sign(np.sum(normals * (near - corners), axis=1))[:, None]  # outward
    reach, bounds = np.abs(normals) @ np.array(half), np.sum(normals * corners, axis=1)
    linprog = scipy.optimize.linprog
    largest = linprog([0, 0, -1], np.column_stack([normals, reach]), bounds, bounds=[(None, None)] * 3).x[2]
    zeros, apart = np.zeros((len(normals), 2)), np.hstack([np.eye(2), -np.eye(2)])
    point = linprog([0, 0, 1, 1], np.vstack([np.hstack([normals, zeros]), apart, apart * [-1, -1, 1, 1]]),
                    [*(bounds - ROOM * largest * reach), *near, *(-value for value in near)],
                    bounds=[(None, None)] * 4).x
    return float(point[0]), float(point[1])


def picture(diagram: "PhaseDiagram") -> PhasePicture:
    """The shapes of a diagram; the largest of every name is labeled."""
    names = list(dict.fromkeys(one.name for one in diagram.regions))
    labeled: set[str] = set()
    shapes = []
    for one in diagram.regions:
        color = HUES[names.index(one.name) % len(HUES)]
        label = "" if one.name in labeled else one.name
        labeled.add(one.name)
        vertices = [[float(a), float(g)] for a, g in one.vertices]
        shapes.append(Shape(label, vertices, mixed("#ffffff", color, 0.22) if one.dimension == 2 else color,
                            said(diagram, one), _rates(diagram, one), _together(diagram, one) if label else []))
    (a0, g0), (a1, g1) = diagram.box
    box = ((float(a0), float(g0)), (float(a1), float(g1)))
    if diagram.plane.of_depth_scalings:
        return PhasePicture(shapes, box)
    return PhasePicture(shapes, box, tuple(s.name for s in diagram.symbols),
                        tuple(f"${latex(s)}$" for s in diagram.symbols))


def said(diagram: "PhaseDiagram", one: "PhaseRegion") -> str:
    """All that is known of a region, line by line."""
    row, v = one.row, one.verdict
    rates = [diagram.rate(*one.vertices[0])] if one.dimension == 0 else [rate for _, rate in diagram.rates(one)]
    return "\n".join([
        one.name, f"where {row['where']}",
        *(f"{key.replace('_', ' ')}: {row[key]}" for key in row if key not in ("name", "where", "dimension")),
        f"powers of {v.grows} at {v.where}:", *_powers(v.exponents),
        *(f"rate of convergence L^-r, r = {rate}" for rate in rates if rate is not None)])


def mixed(first: str, second: str, share: float) -> str:
    """A color between two, as #rrggbb."""
    pairs = [(int(first[i:i + 2], 16), int(second[i:i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _powers(exponents: Mapping[str, sp.Expr]) -> list[str]:
    words = {sp.oo: "exponential", -sp.oo: "nothing"}
    return [f"  {name}: {words.get(power, power)}" for name, power in exponents.items()]


def _rates(diagram: "PhaseDiagram", one: "PhaseRegion") -> list[tuple[list[list[float]], float, str]]:
    """Where training converges to something that it changes."""
    if one.dimension == 2 or not (one.verdict.said.get("output_stable") and one.verdict.said["nontrivial"]):
        return []
    ends = [*one.vertices, *one.vertices][:2]
    found = []
    for k in range(PIECES if one.dimension else 1):
        locations = [[a + (b - a) * Fraction(i, 2 * PIECES) for a,
                      b in zip(*ends)] for i in (2 * k, 2 * k + 1, 2 * k + 2)]
        rate = diagram.rate(*locations[1])
        if rate is not None:
            at = f"at ({locations[1][0]}, {locations[1][1]}): r = {rate}"
            found.append(([[float(x) for x in location] for location in locations[::2]], float(rate), at))
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
