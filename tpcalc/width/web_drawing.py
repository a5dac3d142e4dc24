"""The web of effective theories drawn with matplotlib."""

from __future__ import annotations

from typing import Any

import sympy as sp

from .._shown import pyplot
from .hierarchy import ntk_exponent
from .principles import S
from .web import theory

COLORS = {"frozen NTK": "#c6dbef", "beyond": "#eeeeee", "NT": "#08519c", "mean field / MU": "#a63603",
          "missing": "#6a51a3"}
TOP = 1.35


def plot_web(ax: Any = None) -> Any:
    """On new axes where none are given; returns them. Raises ``MissingExtra`` without matplotlib."""
    ax = pyplot("Web.plot").subplots(figsize=(6.4, 5.2), layout="constrained")[1] if ax is None else ax
    line = -ntk_exponent(3, S)  # the kappa at which L / n^(1 - s) stays
    start, middle, end = (line.subs(S, sp.Rational(s, 2)) for s in range(3))
    below, above = theory("1/4", middle / 2), theory("3/4", (middle + 1) / 2 + middle / 4)
    ax.fill([0, 1, 0], [start, end, min(start, end)], color=COLORS[below.name], linewidth=0)
    ax.fill([0, 1, 1, 0], [start, end, TOP, TOP], color=COLORS[above.name], linewidth=0)
    ax.plot([0, 1], [start, end], color=COLORS[theory("1/2", middle).name], linewidth=3)
    for one in (below, above):
        ax.annotate(one.name, (float(one.s), float(one.kappa)), ha="center")
    marks = ((0, start, (12, 6), "left"), ("1/2", middle, (8, 6), "left"), (1, end, (-55, 6), "right"))
    for s, kappa, offset, side in marks:
        one = theory(s, kappa)
        if s in (0, 1):
            ax.plot([float(one.s)], [float(kappa)], "o", color=COLORS[one.name], markersize=12, clip_on=False, zorder=3)
        ax.annotate(one.name, (float(one.s), float(kappa)), xytext=offset, textcoords="offset points", ha=side,
                    color=COLORS[one.name])
    ax.set(xlim=(0, 1), ylim=(0, TOP), xlabel="$s$: outputs start with variance $n^{-s}$",
           ylabel=r"$\kappa$: the depth grows like $L \sim n^\kappa$")
    return ax
