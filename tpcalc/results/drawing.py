"""A training drawn with matplotlib: its loss or its outputs against the step, and what real widths make of them."""

from __future__ import annotations

from textwrap import fill

import numpy as np

from .._types import Fields, PlotAxes
from ..finite_width.loss_bands import SHARE, band_of

FEW = 10        # curves of outputs that are named
LINE = 76       # characters of a title


def draw_curves(ax: PlotAxes, curves: np.ndarray, label: str, networks: tuple[np.ndarray, str] | None,
                targets: np.ndarray | None) -> None:
    """curves: (steps, curves); networks: the same by network, (networks, steps, curves), and what the band is called;
    targets: of the shape of curves, drawn as crosses."""
    steps, many = np.arange(len(curves)), curves.shape[1] > 1
    for k, curve in enumerate(curves.T):
        style: Fields = {"label": f"{label}, output {k}" if many and curves.shape[1] <= FEW else None if k else label}
        line, = ax.plot(steps, curve, ".-", **style)
        color = line.get_color()
        if targets is not None:
            ax.plot(steps, targets[:, k], "x", color=color, label=None if k else "targets")
        if networks is not None:
            values, name = networks[0][:, :, k], networks[1]
            ax.fill_between(steps, *band_of(values), color=color, alpha=0.2, linewidth=0,
                            label=None if k else f"{100 * SHARE:.0f} % of {name}")
            ax.plot(steps, np.mean(values, axis=0), "--", color=color, linewidth=1,
                    label=None if k else f"mean of {name}")
    ax.set_xlabel("step")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False, fontsize=8)


def say(ax: PlotAxes, warning: str | None) -> None:
    """What has to be known about the band, above it."""
    if warning is not None:
        ax.set_title(fill(warning, LINE), fontsize=7)
