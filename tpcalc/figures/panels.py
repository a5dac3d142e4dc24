"""Panels of figures: curves with bars, one shade a depth; heat maps."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..errors import of_extra

WIDE, TALL = 3.6, 3.2  # inches of a panel
COLORS = ("#0072b2", "#d55e00", "#009e73", "#666666", "#cc79a7")  # told apart by color-blind readers too


def picture_of_panels(columns: int, rows: int = 1) -> tuple[Any, list[Any]]:
    """A picture of matplotlib's and its axes, row by row; ``MissingExtra`` without matplotlib."""
    kind = of_extra("matplotlib.figure", "report", "tpcalc figure").Figure
    picture = kind(figsize=(WIDE * columns, TALL * rows), layout="constrained")
    axes = np.ravel(picture.subplots(rows, columns, squeeze=False)).tolist()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return picture, axes


def shade(k: int, count: int) -> Any:
    """The color of the k-th of so many depths, from pale to dark."""
    from matplotlib import colormaps

    return colormaps["viridis_r"](0.15 + 0.8 * k / max(1, count - 1))


def curves(axis: Any, x: Sequence[float] | np.ndarray, values: np.ndarray, labels: Sequence[str] = (),
           colors: Sequence[Any] = ()) -> None:
    """Curves against powers of 2: values (curves, x, seeds), means with standard errors; where a seed is infinite the
    curve has a gap."""
    means, errors = spread(values)
    for k, (mean, error) in enumerate(zip(means, errors)):
        axis.errorbar(x, mean, error, marker=".", linewidth=1, elinewidth=0.8,
                      color=colors[k] if colors else shade(k, len(means)), label=labels[k] if labels else None)
    axis.set_xscale("log", base=2)


def spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over the last axis and their standard errors; NaN where a value is infinite."""
    known = np.where(np.isfinite(values), values, np.nan)
    count = values.shape[-1]
    return known.mean(axis=-1), known.std(axis=-1, ddof=1) / np.sqrt(count) if count > 1 else 0 * known[..., 0]


def legend(axis: Any) -> None:
    """The legend of a panel, at its right, where it covers nothing."""
    axis.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def write_picture(picture: Any, path: str, date: str) -> None:
    """Write a picture, without its ``date``: the same numbers give the same file."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "tpcalc"}):
        picture.savefig(path, metadata={date: None})


def heat_map(axis: Any, x: np.ndarray, y: np.ndarray, values: np.ndarray, labels: tuple[str, str]) -> None:
    """Values (y, x) at powers of 2, the least one marked; what is infinite stays white."""
    shown = axis.pcolormesh(np.log2(x), np.log2(y), np.where(np.isfinite(values), values, np.nan), cmap="viridis_r",
                            shading="nearest")
    axis.figure.colorbar(shown, ax=axis)
    low = np.unravel_index(np.argmin(values), values.shape)
    axis.plot(np.log2(x[low[1]]), np.log2(y[low[0]]), "x", color="white")
    axis.set(xlabel=labels[0], ylabel=labels[1])
