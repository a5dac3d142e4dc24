"""How the densities of a block that closes on kernels answer a tilt, to first order, at every node of layer time.

The action of overlaps is a sum over ordered pairs of rows, linear in those of (xt, delta) with coefficients T that are
functions of those of (x, dt): Theta is T, and Omega what the derivatives of T make of the overlaps of (xt, delta).

Source: [tpcalc/action_principle], [tpcalc/finite_width].
"""

from __future__ import annotations

from functools import lru_cache
from typing import Callable

import numpy as np
import sympy as sp

from .._types import Value
from ..action.block_kernels import derive_block_kernels
from ..errors import NotCovered
from ..gaussian import Expectation
from ..action.tilted_densities import KAPPA, SOURCES, THETA, PairAction, derive_pair_action
from ..models import ResNet
from ..propagators.laws.pair_laws import compiled_pair_function
from ..gaussian.scalar_functions import KINKED

# where the overlaps of a pair (a, b) stand in a matrix over both fields: (field, field), of sites "ab", "aa" or "bb"
_SOURCES = ((0, 0, "ab"), (0, 0, "aa"), (0, 0, "bb"), (0, 1, "ab"), (1, 0, "ab"), (0, 1, "aa"), (0, 1, "bb"),
            (1, 1, "ab"))
_TARGETS = ((0, 0, "ab"), (0, 1, "ab"), (1, 0, "ab"), (1, 1, "ab"))
Locations = tuple[tuple[int, int, str], ...]


def gathered_overlaps(overlaps: np.ndarray, locations: Locations) -> list[np.ndarray]:
    """Overlaps (..., 2 N, 2 N) of every ordered pair, each broadcasting against (..., N, N)."""
    n = overlaps.shape[-1] // 2
    blocks = [[overlaps[..., i * n:(i + 1) * n, j * n:(j + 1) * n] for j in (0, 1)] for i in (0, 1)]
    found = []
    for i, j, sites in locations:
        own = np.diagonal(blocks[i][j], axis1=-2, axis2=-1)
        found.append(blocks[i][j] if sites == "ab" else own[..., :, None] if sites == "aa" else own[..., None, :])
    return found


def scattered(values: list[np.ndarray], locations: Locations) -> np.ndarray:
    """The symmetric part of the matrix (..., 2 N, 2 N) whose sum with overlaps is that of the values (..., N, N)."""
    n = values[0].shape[-1]
    out = np.zeros((*values[0].shape[:-2], 2 * n, 2 * n))
    rows = np.arange(n)
    for value, (i, j, sites) in zip(values, locations):
        block = out[..., i * n:(i + 1) * n, j * n:(j + 1) * n]
        if sites == "ab":
            block += value
        else:
            block[..., rows, rows] += np.sum(value, axis=-1 if sites == "aa" else -2)
    return (out + np.swapaxes(out, -1, -2)) / 2


class BlockDensity:
    """Theta and Omega at all nodes, and how they answer changes of overlaps, to first order.

    noise, drift: (N, N), of unit layer time, rho_a rho_b in the former taken out: ``decay``; C: (nodes, 2 N, 2 N),
    overlaps of (x, dt); C_right: of (xt, delta).
    """

    def __init__(self, net: ResNet, noise: float, drift: np.ndarray, decay: np.ndarray, C_left: np.ndarray,
                 C_right: np.ndarray) -> None:
        function = _compiled(net)
        n = len(decay)
        sources, own = gathered_overlaps(C_left, _SOURCES), np.diagonal(decay)
        shape = (len(C_left), n, n)
        with np.errstate(over="ignore", invalid="ignore"):
            parts = function(*sources, decay, own[:, None], own[None, :])
        values = [noise * kappa - 2 * drift * theta for kappa, theta in zip(*parts)]
        T, slopes, curvatures = values[:4], values[4:36], values[36:]
        self.slopes = [[np.broadcast_to(slopes[8 * m + i], shape) for i in range(8)] for m in range(4)]
        overlaps = gathered_overlaps(C_right, _TARGETS)
        self.theta = scattered([np.broadcast_to(t, shape) for t in T], _TARGETS)
        self.omega = self._omega(overlaps)
        self.bend = [[sum(overlaps[m] * curvatures[64 * m + 8 * i + j] for m in range(4)) for j in range(8)]
                     for i in range(8)]

    def _omega(self, overlaps: list[np.ndarray], bent: list[np.ndarray] | None = None) -> np.ndarray:
        values = []
        for i in range(8):
            value = sum(overlaps[m] * self.slopes[m][i] for m in range(4))
            if bent is not None:
                value = value + sum(self.bend[i][j] * bent[j] for j in range(8))
            values.append(value)
        return scattered(values, _SOURCES)

    def answer(self, forward: bool, own: np.ndarray, other: np.ndarray, nodes: slice) -> np.ndarray:
        """The change of Theta of changes ``own`` of the overlaps of (x, dt), or of Omega of those of (xt, delta) and
        ``other`` of (x, dt); (nodes, 2 N, 2 N)."""
        part = object.__new__(BlockDensity)
        part.slopes = [[slope[nodes] for slope in row] for row in self.slopes]
        if forward:
            moved = gathered_overlaps(own, _SOURCES)
            return scattered([sum(slope * v for slope, v in zip(row, moved)) for row in part.slopes], _TARGETS)
        part.bend = [[np.broadcast_to(bend, self.slopes[0][0].shape)[nodes] for bend in row] for row in self.bend]
        return part._omega(gathered_overlaps(own, _TARGETS), gathered_overlaps(other, _SOURCES))


@lru_cache(maxsize=16)
def _compiled(net: ResNet) -> Callable[..., Value]:
    """A function of SOURCES, rho_ab, rho_aa, rho_bb: T, its slopes and curvatures in one list, for kappa and for the
    sum of theta over matrices. Raises ``ValueError`` where the functions of a block have too few derivatives."""
    kernels = derive_block_kernels(net)
    functions, flat = [], []
    for part, kernel in ((KAPPA, kernels.kappa), (THETA, kernels.theta)):
        pair = derive_pair_action(part)
        if any(f.has(*KINKED) for node in kernel.atoms(Expectation) for f, _ in node.functions):
            raise NotCovered(f"fluctuations: got {net!r}; they need derivatives of kernels that functions with a "
                             "kink do not have; expected smooth functions")
        functions.append(compiled_pair_function(tuple(kernels.derivative(part, *k.args[1:4]) for k in pair.kernels)))
        flat.append(sp.lambdify((SOURCES, sp.symbols(f"k:{len(pair.kernels)}")), _flat(pair), modules="numpy",
                                cse=True))

    def evaluate(*arguments: np.ndarray) -> list[list[Value]]:
        sources, decays = arguments[:8], arguments[8:]
        return [form(sources, function(*sources[:3], *decays)) for function, form in zip(functions, flat)]

    return evaluate


def _flat(pair: PairAction) -> list[sp.Expr]:
    names = dict(zip(pair.kernels, sp.symbols(f"k:{len(pair.kernels)}")))
    everything = [*pair.values, *(e for row in pair.slopes for e in row),
                  *(e for row in pair.curvatures for line in row for e in line)]
    return [e.xreplace(names) for e in everything]
