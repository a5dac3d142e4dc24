"""Expectations under the standard Gaussian in one or two dimensions, by quadrature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import NotCovered

END = 12.0  # the Gaussian is 2e-32 there
PANEL = 0.5  # tanh and its like are analytic on an ellipse around a panel that is large enough for 1e-13
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)

Function = Callable[..., np.ndarray]


def hermite(function: Function, dimension: int, nodes: int = 64) -> float:
    """E f(w) by Gauss-Hermite, w standard Gaussian with ``dimension`` coordinates: polynomials, exponentials."""
    x, weight = np.polynomial.hermite_e.hermegauss(nodes)
    weight = weight / np.sqrt(2 * np.pi)
    if dimension == 1:
        return float(np.sum(weight * function(x)))
    return float(np.sum(weight[:, None] * weight * function(x[:, None], x)))


def panels(function: Function, kinks: np.ndarray, dimension: int) -> float:
    """E f(w) by Gauss-Legendre on panels that end where f has a kink: 1e-12 for piecewise analytic f.

    kinks: (number, dimension + 1), rows (g, h) of the lines g . w + h = 0 where f is not smooth. In two dimensions the
    last coordinate is integrated first; the result has sharp transitions, of any width, at the abscissas where lines
    cross or are nearly parallel to the last axis: panels shrink geometrically toward these. Raises ``ValueError`` for
    functions that grow so fast that the range of ``END`` standard deviations is too short.
    """
    uniform = np.arange(-END, END + PANEL / 2, PANEL)
    if dimension == 1:
        x, weight = _nodes(np.append(uniform, _roots(kinks[:, 0], kinks[:, 1])))
        mass = weight * function(x)
        _refuse_tails(mass, np.abs(x))
        return float(np.sum(mass))
    steps = END * 0.5 ** np.arange(44.0)
    sharp = [p + side * steps for p in _abscissas(kinks) for side in (-1, 0, 1)]
    x, outer = _nodes(np.concatenate([uniform, *sharp]))
    roots = np.stack([_roots(g2, g1 * x + h) for g1, g2, h in kinks] + [np.zeros(len(x))], axis=1)
    y, inner = _nodes(np.concatenate([np.broadcast_to(uniform, (len(x), len(uniform))), roots], axis=1))
    mass = outer[:, None] * inner * function(x[:, None], y)
    _refuse_tails(mass, np.maximum(np.abs(x)[:, None], np.abs(y)))
    return float(np.sum(mass))


def _refuse_tails(mass: np.ndarray, distance: np.ndarray) -> None:
    """Raise where a visible part of the integral lies at the end of the range, hence beyond it too."""
    size = np.abs(mass)
    if np.sum(size[distance > END - 1]) > 1e-12 * np.sum(size):
        raise NotCovered(f"the function grows too fast for quadrature on {END:g} standard deviations; move its mean "
                         "first (the rule Shift)")


def _roots(slope: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The points w where slope * w + offset = 0; the end of the range for those without one inside."""
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.nan_to_num(-np.asarray(offset) / slope, nan=END, posinf=END, neginf=-END)
    return np.clip(roots, -END, END)


def _abscissas(kinks: np.ndarray) -> np.ndarray:
    """First coordinates of the points where two lines cross, and where a line meets the first axis."""
    g1, g2, h = kinks.T
    cross = _roots(g1[:, None] * g2 - g1 * g2[:, None], h[:, None] * g2 - h * g2[:, None])
    return np.unique(np.concatenate([cross[np.triu_indices(len(kinks), 1)], _roots(g1, h)]).round(14))


def _nodes(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, Gaussian density included, of the panels between edges; along the last axis."""
    edges = np.sort(np.clip(edges, -END, END), axis=-1)
    half, middle = np.diff(edges) / 2, (edges[..., 1:] + edges[..., :-1]) / 2
    x = (middle[..., None] + half[..., None] * NODES).reshape(*edges.shape[:-1], -1)
    weight = (half[..., None] * WEIGHTS).reshape(x.shape)
    return x, weight * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
