"""A phase diagram drawn with matplotlib."""

from __future__ import annotations

import math

from ..._types import Fields, PlotAxes
from ..._shown import pyplot
from .picture import FAST, SLOW, PhasePicture, Shape, mixed

ABOVE = 9  # points between a segment and its label


def plot_phase_diagram(picture: PhasePicture, ax: PlotAxes = None) -> PlotAxes:
    """On new axes where none are given; returns them. Raises ``MissingExtra`` without matplotlib."""
    plt = pyplot("PhaseDiagram.plot")
    return draw_phase_diagram(picture, plt.subplots(figsize=(7.4, 5.2), layout="constrained")[1] if ax is None else ax)


def draw_phase_diagram(picture: PhasePicture, ax: PlotAxes, here: tuple[float, float] | None = None) -> PlotAxes:
    """alpha to the right, gamma upwards; here: a point to be marked."""
    (a0, g0), (a1, g1) = picture.box
    for shape in picture.shapes:
        alphas, gammas = zip(*shape.vertices)
        if shape.dimension == 2:
            ax.fill(alphas, gammas, color=shape.color, linewidth=0, zorder=1)
        elif shape.dimension == 1:
            ax.plot(alphas, gammas, color=shape.color, linewidth=2.2, solid_capstyle="butt", zorder=2)
        else:
            ax.plot(alphas, gammas, "*" if shape.label else "o", color=shape.color, markersize=15 if shape.label else 5,
                    markeredgecolor="white", markeredgewidth=0.6, zorder=5)
        for ends, rate, _ in shape.rates:
            if shape.dimension == 1:
                ax.plot(*zip(*ends), color=mixed(SLOW, FAST, rate), linewidth=6, solid_capstyle="butt", zorder=3)
        if shape.label:
            _write(shape, ax)
    if here is not None:
        ax.plot(*here, "o", markersize=16, markerfacecolor="none", markeredgecolor="black", zorder=6)
    if picture.has_rates:
        _color_bar(ax)
    ax.set(xlim=(a0, a1), ylim=(g0, g1), aspect="equal", xlabel=picture.labels[0], ylabel=picture.labels[1])
    return ax


def _write(shape: Shape, ax: PlotAxes) -> None:
    from matplotlib.patheffects import withStroke

    look: Fields = {"textcoords": "offset points", "fontsize": 7.5, "zorder": 7, "ha": "center", "va": "center",
                    "path_effects": [withStroke(linewidth=2, foreground="white", alpha=0.7)]}
    if shape.dimension == 2:
        text, offset = "\n".join(shape.lines), (0.0, 0.0)
    elif shape.dimension == 1:
        turn = math.radians(shape.angle)
        text, offset = shape.label, (-ABOVE * abs(math.sin(turn)), -ABOVE * abs(math.cos(turn)))
        look["rotation"] = shape.angle
    else:
        text, offset = shape.label, (-ABOVE, -ABOVE)
        look["ha"] = "right"
    ax.annotate(text, shape.middle, xytext=offset, **look)


def _color_bar(ax: PlotAxes) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    colors = ScalarMappable(Normalize(0, 1), LinearSegmentedColormap.from_list("rates", [SLOW, FAST]))
    ax.figure.colorbar(colors, ax=ax, shrink=0.7, label="$r$: the distance to infinite depth falls like $L^{-r}$")
