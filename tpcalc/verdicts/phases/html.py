"""A phase diagram as a piece of HTML: a drawing whose parts say what they are where the pointer rests."""

from __future__ import annotations

import math
from html import escape

from .picture import FAST, SLOW, PhasePicture, Shape, mixed

SCALE, LEFT, BELOW, RIGHT = 270, 60, 50, 120  # pixels a unit of the plane; margins
LINE = 15                                     # pixels a line of text
LOOK = ("font:13px system-ui,sans-serif;max-width:100%;height:auto", "font-style:italic",
        ".tpcalc-phase [data-part]:hover{stroke:#000;stroke-width:2} .tpcalc-phase text{pointer-events:none;"
        "paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-opacity:.7}")


def html(picture: PhasePicture, here: tuple[float, float] | None = None) -> str:
    """A figure without scripts that fetches nothing; here: a point to be marked."""
    return _Sheet(picture).write(here)


class _Sheet:
    """The plane on a sheet of pixels, gamma upwards."""

    def __init__(self, picture: PhasePicture) -> None:
        self.picture = picture
        (self.a0, self.g0), (self.a1, self.g1) = picture.box
        self.width = LEFT + SCALE * (self.a1 - self.a0) + RIGHT
        self.height = SCALE * (self.g1 - self.g0) + BELOW + LINE

    def at(self, alpha: float, gamma: float) -> tuple[float, float]:
        return LEFT + SCALE * (alpha - self.a0), LINE + SCALE * (self.g1 - gamma)

    def write(self, here: tuple[float, float] | None) -> str:
        shapes = self.picture.shapes
        parts = [part for shape in shapes for part in (self.shape(shape), *self.pieces(shape))]
        marked = [] if here is None else [self._circle(here, 11, 'fill="none" stroke="#000" stroke-width="2"', "")]
        body = "\n".join([*parts, *marked, *(self.label(shape) for shape in shapes if shape.label), *self.axes(),
                          *(self.color_bar() if self.picture.has_rates else [])])
        return (f'<div class="tpcalc-phase"><style>{LOOK[2]}</style>\n'
                f'<svg viewBox="0 0 {self.width:g} {self.height:g}" '
                f'width="{self.width:g}" height="{self.height:g}" role="img" '
                f'aria-label="phase diagram" style="{LOOK[0]}">\n{body}\n</svg></div>')

    def shape(self, shape: Shape) -> str:
        if shape.dimension == 0:
            radius = 8 if shape.label else 5
            return self._circle(shape.vertices[0], radius, f'data-part="point" fill="{shape.color}"', shape.said)
        locations = " ".join("{:.2f},{:.2f}".format(*self.at(*v)) for v in shape.vertices)
        look = (f'data-part="area" fill="{shape.color}" shape-rendering="crispEdges"' if shape.dimension == 2 else
                f'data-part="line" stroke="{shape.color}" stroke-width="5"')
        kind = "polygon" if shape.dimension == 2 else "polyline"
        return f'<{kind} points="{locations}" {look}>{_title(shape.said)}</{kind}>'

    def pieces(self, shape: Shape) -> list[str]:
        """Rates along a line, each with its number."""
        if shape.dimension == 0:
            return []
        found = []
        for ends, rate, text in shape.rates:
            (x0, y0), (x1, y1) = (self.at(*end) for end in ends)
            title = _title("\n".join([text, shape.said]))
            found.append(f'<line data-part="rate" x1="{x0:.2f}" y1="{y0:.2f}" x2="{x1:.2f}" y2="{y1:.2f}" '
                         f'stroke="{mixed(SLOW, FAST, rate)}" stroke-width="8">{title}</line>')
        return found

    def label(self, shape: Shape) -> str:
        x, y = self.at(*shape.middle)
        if shape.dimension == 2:
            rows = "".join(f'<tspan x="{x:.1f}" dy="{LINE if i else 0}">{escape(line)}</tspan>'
                           for i, line in enumerate(shape.lines))
            top = y - LINE * (len(shape.lines) - 1) / 2
            return f'<text x="{x:.1f}" y="{top:.1f}" text-anchor="middle">{rows}</text>'
        if shape.dimension == 0:
            return f'<text x="{x - 12:.1f}" y="{y + LINE:.1f}" text-anchor="end">{escape(shape.label)}</text>'
        turn = math.radians(shape.angle)
        x, y = x - LINE * abs(math.sin(turn)), y + LINE * abs(math.cos(turn))
        return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" transform="rotate({-shape.angle:.1f} {x:.1f} '
                f'{y:.1f})">{escape(shape.label)}</text>')

    def axes(self) -> list[str]:
        left, bottom = self.at(self.a0, self.g0)
        right, top = self.at(self.a1, self.g1)
        frame = (f'<rect x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" fill="none" '
                 'stroke="#777" pointer-events="none"/>')
        across = [(self.at(tick, self.g0)[0], tick) for tick in _ticks(self.a0, self.a1)]
        upwards = [(self.at(self.a0, tick)[1], tick) for tick in _ticks(self.g0, self.g1)]
        return [frame,
                *(f'<text x="{x:.1f}" y="{bottom + LINE + 3:g}" text-anchor="middle">{tick:g}</text>'
                  for x, tick in across),
                *(f'<text x="{left - 6:g}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>' for y, tick in upwards),
                f'<text x="{(left + right) / 2:g}" y="{bottom + 2.6 * LINE:g}" text-anchor="middle" '
                f'style="{LOOK[1]}">{escape(self.picture.axes[0])}</text>',
                f'<text x="{LINE:g}" y="{(top + bottom) / 2:g}" style="{LOOK[1]}">'
                f'{escape(self.picture.axes[1])}</text>']

    def color_bar(self) -> list[str]:
        """Rates from 0 to 1."""
        x, y = self.at(self.a1, self.g1)
        x, height, steps = x + 24, 12.0, 20
        bars = [f'<rect x="{x:g}" y="{y + 2 * LINE + height * (steps - 1 - k):g}" width="14" height="{height:g}" '
                f'fill="{mixed(SLOW, FAST, (k + 0.5) / steps)}"/>' for k in range(steps)]
        words = [(y + LINE, "rate L^-r"), (y + 2 * LINE + 10, "r = 1"), (y + 2 * LINE + height * steps, "r = 0")]
        return [*bars, *(f'<text x="{x + (0 if i == 0 else 20):g}" y="{where:g}">{word}</text>'
                         for i, (where, word) in enumerate(words))]

    def _circle(self, location: tuple[float, float] | list[float], radius: int, look: str, said: str) -> str:
        x, y = self.at(*location)
        return f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{radius}" {look}>{_title(said) if said else ""}</circle>'


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _ticks(low: float, high: float) -> list[float]:
    """Multiples of one half."""
    return [k / 2 for k in range(math.ceil(2 * low), math.floor(2 * high) + 1)]
