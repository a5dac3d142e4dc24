"""The figures of a report, drawn through matplotlib's objects: no pyplot, no global state."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ..._types import Json
from ..judged import Classified
from ..stages import Converged, Networks

BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#d55e00", "#009e73", "#666666"  # told apart by color-blind readers too
RANGES = (BLUE, GREEN)  # of the narrowest and the widest networks
FORMATS = ("svg", "pdf", "png")


def bare_axes(figure: Figure, *grid: int) -> list[Any]:
    axes = np.atleast_1d(figure.subplots(*(grid or (1, 1)))).ravel().tolist()
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(True, which="major", color="#dddddd", linewidth=0.6)
        ax.set_axisbelow(True)
    return axes


def power_of_two_ticks(ax: Any, values: Any, label: str) -> None:
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(values), [str(v) for v in values])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(label)


def _line(ax: Any, x: np.ndarray, y: np.ndarray, order: float, color: str) -> None:
    """A power law of the fitted order through the deeper half of the points."""
    half = len(x) // 2
    height = np.exp(np.mean(np.log(y[half:]) + order * np.log(x[half:])))
    ax.plot(x, height * x**-order, "--", color=color, linewidth=1)


def convergence_figure(found: Converged) -> Figure:
    """The largest change of an output from one depth to the next, and the largest distance to infinite depth, against
    depth, both on logarithmic axes, with the fitted power laws; what is 0 or not known is not drawn."""
    figure = Figure(figsize=(6.2, 3.8), layout="constrained")
    ax, = bare_axes(figure)
    depths = np.array(found.depths, dtype=float)
    open_circle = {"markersize": 10, "markerfacecolor": "none"}  # both are seen where they agree
    for key, order, color, marker, look, label in (
            ("cauchy", found.cauchy_order, BLUE, "o", open_circle, "change from the depth before"),
            ("distance", found.limit_order, ORANGE, "s", {"markersize": 4}, "distance to infinite depth")):
        values = np.array([np.nan if row[key] is None else row[key] for row in found.rows], dtype=float)
        good = values > 0
        if order is None or good.sum() < 2:
            continue
        ax.plot(depths[good], values[good], marker, color=color, label=f"{label} (order {order:.2f})", **look)
        _line(ax, depths[good], values[good], order, color)
    ax.set_yscale("log")
    power_of_two_ticks(ax, found.depths, "depth $L$")
    ax.set_ylabel("largest difference of an output")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False)
    return figure


def training_figure(found: Converged) -> Figure:
    """The loss of every step at three depths and in the limit; beside it their distance to the limit's losses."""
    figure = Figure(figsize=(7.6, 3.4), layout="constrained")
    left, right = bare_axes(figure, 1, 2)
    shown = sorted({0, len(found.depths) // 2, len(found.depths) - 1})
    shades = [("#9ecae1", "o"), ("#4292c6", "s"), ("#08306b", "^")]
    for i, (color, marker) in zip(shown, shades):
        steps = np.arange(len(found.losses[i]))
        left.plot(steps, found.losses[i], marker=marker, markersize=4, color=color, label=f"$L$ = {found.depths[i]}")
        if found.limit_losses is not None:
            gap = np.abs(np.array(found.losses[i]) - np.array(found.limit_losses))
            right.plot(steps[gap > 0], gap[gap > 0], marker=marker, markersize=4, color=color)
    if found.limit_losses is not None:
        left.plot(found.limit_losses, "--", color=ORANGE, label=r"$L = \infty$")
        right.set_yscale("log")
    left.set_ylabel("mean loss of the batch")
    right.set_ylabel("distance of the loss to its limit")
    for ax in (left, right):
        ax.set_xlabel("step")
        ax.xaxis.get_major_locator().set_params(integer=True)
    left.legend(frameon=False)
    return figure


def networks_figure(found: Networks) -> Figure:
    """Differences of real networks from infinite width; beside it, where it is known, what theory says of them."""
    panels = 1 if found.band is None else 2
    figure = Figure(figsize=(6.2 if panels == 1 else 9.6, 3.8), layout="constrained")
    ax, *rest = bare_axes(figure, 1, panels)
    widths = np.array([row["width"] for row in found.rows], dtype=float)
    _dots(ax, widths, found.errors)
    error = np.array([row["error"] for row in found.rows])
    ax.plot(widths, error, "o", color=BLUE, label=f"root mean square over seeds (order {found.order:.2f})")
    reference = np.exp(np.mean(np.log(error) + 0.5 * np.log(widths)))
    ax.plot(widths, reference * widths**-0.5, "--", color=ORANGE, linewidth=1, label="order 1/2")
    ax.set_ylabel("difference from infinite width")
    if found.band is not None:
        _band(rest[0], found.band)
    for panel in (ax, *rest):
        panel.set_yscale("log")
        power_of_two_ticks(panel, [row["width"] for row in found.rows], "width $n$")
        panel.legend(frameon=False, fontsize=8)
    return figure


def widths_figure(found: Networks) -> Figure:
    """The loss of every step at infinite width, and what networks of the first and the last width have: on the task the
    range of those that were trained; beside it, where it is known, what is computed, with theirs as dots."""
    panels = 1 if found.band is None else 2
    figure = Figure(figsize=(6.2 if panels == 1 else 9.6, 3.8), layout="constrained")
    ax, *rest = bare_axes(figure, 1, panels)
    few = (0, len(found.rows) - 1)[:len(found.rows)]
    loss_ranges(ax, [{"width": found.rows[i]["width"], "losses": found.losses[i]} for i in few])
    ax.plot(found.infinite_losses, "--", color=ORANGE, label=r"$n = \infty$")
    for panel, (curve, color) in ((panel, one) for panel in rest for one in zip(
            found.band["curves"] if found.band else (), RANGES)):
        mean, low, high, each = (np.array(curve[name]) for name in ("mean", "low", "high", "losses"))
        steps = np.arange(len(mean))
        panel.fill_between(steps, low, high, color=color, alpha=0.25, linewidth=0,
                           label=f"95 % of networks, predicted, $n$ = {curve['width']}")
        panel.plot(steps, mean, "--", color=color, linewidth=1, label="mean, predicted")
        panel.plot(np.broadcast_to(steps, each.shape).ravel(), each.ravel(), ".", color=color, markersize=3)
        panel.set_title(found.band["task"] if found.band else "", fontsize=8)
    for panel in (ax, *rest):
        of_steps(panel)
    ax.set_ylabel("mean loss of the batch")
    return figure


def loss_ranges(ax: Any, curves: Sequence[Json]) -> None:
    """What networks of some widths have, from the least to the largest loss at every step; curves: width, and losses
    (seeds, steps)."""
    for curve, color in zip(curves, RANGES):
        each = np.array(curve["losses"])
        ax.fill_between(np.arange(each.shape[1]), each.min(axis=0), each.max(axis=0), color=color, alpha=0.25,
                        linewidth=0, label=f"{len(each)} networks, $n$ = {curve['width']}")


def of_steps(ax: Any) -> None:
    ax.set_xlabel("step")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False, fontsize=8)


def _dots(ax: Any, widths: np.ndarray, errors: list[list[float]]) -> None:
    for i, (width, each) in enumerate(zip(widths, errors)):
        ax.plot([width] * len(each), each, ".", color=GRAY, alpha=0.6, label="one network" if i == 0 else None)


def _band(ax: Any, band: Json) -> None:
    widths, predicted, low, high, measured = (np.array([row[name] for row in band["rows"]], dtype=float)
                                              for name in ("width", "predicted", "low", "high", "measured"))
    _dots(ax, widths, band["errors"])
    ax.fill_between(widths, low, high, color=ORANGE, alpha=0.15, linewidth=0, label="95 % of networks, predicted")
    ax.plot(widths, predicted, "--", color=ORANGE, linewidth=1, label="root mean square, predicted")
    ax.plot(widths, measured, "o", color=BLUE, label="root mean square over seeds")
    ax.set_title(band["task"], fontsize=8)


def exponents_figure(found: Classified) -> Figure:
    """Powers of the depth by quantity: open circles as derived, dots with error bars as measured."""
    rows = [row for row in found.rows if row["measured"] is not None][::-1]
    figure = Figure(figsize=(6.2, 0.9 + 0.42 * max(1, len(rows))), layout="constrained")
    ax, = bare_axes(figure)
    for i, row in enumerate(rows):
        first = i == 0
        if row["derived_value"] is not None:
            ax.plot([row["derived_value"]], [i], "o", markersize=11, markerfacecolor="none", color=ORANGE,
                    label="derived" if first else None)
        ax.errorbar([row["measured"]], [i], xerr=[row["uncertainty"] or 0.0], fmt=".", color=BLUE,
                    label="measured" if first else None)
    ax.set_yticks(range(len(rows)), [row["name"] for row in rows])
    ax.set_ylim(-0.6, len(rows) - 0.4)
    low, high = ax.get_xlim()
    ax.set_xlim(min(low, -1.0), max(high, 0.5))
    ax.set_xlabel("power of $L$")
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def save(figure: Figure, folder: Path, key: str) -> None:
    """Files key.svg, key.pdf, key.png, without dates, so that equal figures are equal files; laid out once for all."""
    folder.mkdir(parents=True, exist_ok=True)
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    with matplotlib.rc_context({"svg.hashsalt": key}):  # the only way to ids that are not random; undone at once
        for form in FORMATS:
            figure.savefig(folder / f"{key}.{form}", format=form, dpi=160, metadata=dates[form])
            figure.set_layout_engine("none")
