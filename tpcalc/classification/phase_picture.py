"""The picture of a phase diagram as data that JSON can hold: coloured shapes, labels, what is said of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from textwrap import wrap
from typing import TYPE_CHECKING, Sequence

import sympy as sp

from .._shown import Short
from .verdict import Verdict

if TYPE_CHECKING:
    from .phase_diagram import PhaseDiagram, PhaseRegion

# told apart by colour-blind readers too, and so are their tints
HUES = ("#777777", "#0072b2", "#d55e00", "#e69f00", "#cc79a7", "#009e73", "#1c2430", "#56b4e9")
SLOW, FAST = "#f0e442", "#440154"  # of rates 0 and 1, the largest there is
WIDEST = 12                        # letters of a line of a label
PIECES = 24                        # of a segment, each with its rate


@dataclass(frozen=True)
class Shape:
    """A polygon, segment or point: vertices (k, 2); said: its tooltip; label: its name where it is to be written.

    rates: pieces of a segment, or a point, with the rate of convergence there: ends (k, 2), rate r, and text.
    """

    label: str
    vertices: list[list[float]]
    color: str
    said: str
    rates: list[tuple[list[list[float]], float, str]]

    @property
    def dimension(self) -> int:
        return min(len(self.vertices), 3) - 1

    @property
    def middle(self) -> tuple[float, float]:
        """The centre of mass."""
        if self.dimension < 2:
            return _mean([v[0] for v in self.vertices]), _mean([v[1] for v in self.vertices])
        (a0, g0), total, alpha, gamma = self.vertices[0], 0.0, 0.0, 0.0
        for (a1, g1), (a2, g2) in zip(self.vertices[1:], self.vertices[2:]):
            weight = (a1 - a0) * (g2 - g0) - (a2 - a0) * (g1 - g0)
            total, alpha, gamma = total + weight, alpha + weight * (a0 + a1 + a2), gamma + weight * (g0 + g1 + g2)
        return alpha / total / 3, gamma / total / 3

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
class Picture(Short):
    """Shapes, polygons first; box: lowest and highest (alpha, gamma)."""

    shapes: list[Shape]
    box: tuple[tuple[float, float], tuple[float, float]]

    @property
    def has_rates(self) -> bool:
        return any(shape.rates for shape in self.shapes)


def picture(diagram: "PhaseDiagram") -> Picture:
    """The shapes of a diagram; the largest of every name is labelled."""
    names = list(dict.fromkeys(one.name for one in diagram.regions))
    labelled: set[str] = set()
    shapes = []
    for one in diagram.regions:
        color = HUES[names.index(one.name) % len(HUES)]
        label = "" if one.name in labelled else one.name
        labelled.add(one.name)
        vertices = [[float(a), float(g)] for a, g in one.vertices]
        shapes.append(Shape(label, vertices, mixed("#ffffff", color, 0.22) if one.dimension == 2 else color,
                            said(diagram, one), _rates(diagram, one)))
    (a0, g0), (a1, g1) = diagram.box
    return Picture(shapes, ((float(a0), float(g0)), (float(a1), float(g1))))


def said(diagram: "PhaseDiagram", one: "PhaseRegion") -> str:
    """All that is known of a region, line by line."""
    row, v = one.row, one.verdict
    rates = [diagram.rate(*one.vertices[0])] if one.dimension == 0 else [rate for _, rate in diagram.rates(one)]
    return "\n".join([
        one.name, f"where {row['where']}",
        *(f"{key.replace('_', ' ')}: {row[key]}" for key in row if key not in ("name", "where", "dimension")),
        f"powers of L at ({v.alpha}, {v.gamma}):", *_powers(v),
        *(f"rate of convergence L^-r, r = {rate}" for rate in rates if rate is not None)])


def mixed(first: str, second: str, share: float) -> str:
    """A colour between two, as #rrggbb."""
    pairs = [(int(first[i:i + 2], 16), int(second[i:i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _powers(verdict: Verdict) -> list[str]:
    words = {sp.oo: "exponential", -sp.oo: "nothing"}
    return [f"  {name}: {words.get(power, power)}" for name, power in verdict.exponents.items()]


def _rates(diagram: "PhaseDiagram", one: "PhaseRegion") -> list[tuple[list[list[float]], float, str]]:
    """Where training converges to something that it changes."""
    if one.dimension == 2 or not (one.verdict.output_stable and one.verdict.nontrivial):
        return []
    ends = [*one.vertices, *one.vertices][:2]
    found = []
    for k in range(PIECES if one.dimension else 1):
        places = [[a + (b - a) * Fraction(i, 2 * PIECES) for a, b in zip(*ends)] for i in (2 * k, 2 * k + 1, 2 * k + 2)]
        rate = diagram.rate(*places[1])
        if rate is not None:
            at = f"at ({places[1][0]}, {places[1][1]}): r = {rate}"
            found.append(([[float(x) for x in place] for place in places[::2]], float(rate), at))
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
