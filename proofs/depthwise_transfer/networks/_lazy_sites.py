"""Sites of networks that learn no features: streams on a grid of layer time, means of one block by quadrature."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import sympy as sp

from tpcalc._types import Value

from ..._letters import Letters
from .._site import SiteLetters

L = 6


def on_grid(rng: np.random.Generator, at: dict[sp.Symbol, Any]) -> SiteLetters:
    """Streams and gradients of two inputs by their recursions, whose noise is white: a block has L^(-1/2) of it.

    Layer times are floats, nodes are counted from 1.
    """
    u, r = rng.normal(size=(2, 2, L + 2))
    h, g = np.zeros((2, L + 2)), np.zeros((2, L + 2))
    h[:, 1], g[:, L + 1] = rng.normal(size=(2, 2))
    for node in range(1, L + 1):
        h[:, node + 1] = h[:, node] + u[:, node + 1] / np.sqrt(L)
    for node in range(L, 0, -1):
        g[:, node] = g[:, node + 1] + np.cosh(h[:, node])**-2.0 * r[:, node] / np.sqrt(L)

    def node_of(location: float | int, end: int) -> int:
        """Layer time begins at 0 and stops at 1 in equations; there is no node 0, and none is of gradients at 1."""
        if isinstance(location, float):
            return round(location * L) + 1
        return {0: 1, 1: end}.get(location, location)
    tables: dict[str, Value] = {
        "h": lambda a, x: h[a, node_of(x, 1)], "g": lambda a, x: g[a, node_of(x, L + 1)],
        "u": lambda a, node: u[a, node], "chi": lambda a, node: u[a, node], "r": lambda a, node: r[a, node],
        "dphi": lambda a, x: np.cosh(h[a, node_of(x, 1)])**-2.0,
        "du": lambda a, x: u[a, node_of(x, 1) + 1] * np.sqrt(L), "dr": lambda a, x: r[a, node_of(x, 1)] * np.sqrt(L),
        "Phi": lambda *_: 0.7, "G": lambda *_: 0.4, "phi": lambda *_: 0.3, r"\Delta": lambda *_: 1.1}
    return SiteLetters(tables, at, grid=L)


def one_block(rng: np.random.Generator, at: dict[sp.Symbol, Any]) -> Letters:
    """Two inputs at block 1 and node 2: streams, gradients and the noise of the block, each a Gaussian pair of its own;
    means by quadrature."""
    def pair(points: int, covariance: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
        x, w = np.polynomial.hermite_e.hermegauss(points)
        grid = np.linalg.cholesky(covariance) @ np.array(np.meshgrid(x, x, indexing="ij")).reshape(2, -1)
        shape = [1] * 4
        shape[axis] = -1
        return grid.reshape(2, *shape), np.outer(w, w).reshape(shape) / (2 * np.pi)

    def covariance() -> np.ndarray:
        root = rng.normal(size=(2, 2))
        return np.asarray(root @ root.T + 0.2 * np.eye(2))
    H, G = covariance(), covariance()
    h, of_h = pair(12, H, 0)
    Phi = np.array([[np.sum(of_h * np.tanh(h[a]) * np.tanh(h[b])) for b in range(2)] for a in range(2)])
    u, of_u = pair(3, Phi, 1)
    g, of_g = pair(3, G, 2)
    r, of_r = pair(3, G, 3)
    over, slope = of_h * of_u * of_g * of_r, np.cosh(h)**-2.0
    stream, gradient = {1: h, 2: h + u / np.sqrt(L)}, {1: g + slope * r / np.sqrt(L), 2: g}

    def kernel(of: dict[int, np.ndarray]) -> Value:
        return lambda a, b, node: float(np.sum(over * of[node][a] * of[node][b]))
    tables: dict[str, Value] = {
        "h": lambda a, node: stream[node][a], "u": lambda a, _: u[a], "g": lambda a, node: gradient[node][a],
        "r": lambda a, _: r[a], "dphi": lambda a, _: slope[a], "Phi": lambda a, b, _: Phi[a, b],
        "H": kernel(stream), "G": kernel(gradient)}
    return Letters(tables, at, lambda here, body: float(np.sum(over * here.of(body))))


def many_layers(tau: float) -> tuple[float, float, float]:
    """H / H_0, G and the sum K / H_0 of a linear network of 10^14 layers, exactly: powers of 1 + 1/L."""
    with mpmath.workdps(60):
        depth = mpmath.mpf(10)**14
        growth = 1 + 1 / depth
        return (float(growth**(tau * depth)), float(growth**((1 - mpmath.mpf(tau)) * depth)),
                float(growth**(depth - 1)))   # G at the node behind a block times Phi before it, L equal terms over L
