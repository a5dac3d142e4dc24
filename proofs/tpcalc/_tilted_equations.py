"""The printed equations of a tilted network, read on numbers: do they hold for a solution, and their determinant."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Callable, Iterable, Mapping

import numpy as np
import sympy as sp

from tpcalc.ledger import Equation
from tpcalc.finite_width.tilted import TiltedNetwork, TiltedSolution, series_in_tilt, layer_density

from .._matrices import Known, MatrixExpression, value

LOSSES: Mapping[str, Callable[[Any, Any], tuple[Any, Any]]] = {  # chi and its slope, of outputs that may be complex
    "mse": lambda f, y: (f - y, np.ones_like(f)),
    "logistic": lambda f, y: (-y / (1 + np.exp(y * f)), y**2 / (2 + np.exp(y * f) + np.exp(-y * f)))}
ORDERS, STEP, TINY = 9, 0.002, 1e-20  # of series in the tilt; how far along it; of complex differentiation


class Made(MatrixExpression):
    """What a layer makes of overlaps. args: the name of the function, the overlaps."""

    def _latex(self, printer: Any) -> str:
        name, overlaps = map(printer.doprint, self.args)
        return rf"{name}\left[{overlaps}\right]"


class Stacked(MatrixExpression):
    """One vector above another."""

    def _latex(self, printer: Any) -> str:
        return rf"\left({', '.join(map(printer.doprint, self.args))}\right)"


class AtZero(sp.Expr):
    """A derivative without a tilt. args: of what, in which tilt, how often."""

    def _latex(self, printer: Any) -> str:
        of, tilt, order = map(printer.doprint, self.args)
        power = "" if order == "1" else f"^{{{order}}}"
        return rf"\left.\partial{power} {of} / \partial {{{tilt}}}{power}\right|_{{j=0}}"


def read(node: sp.Basic, known: Known) -> Any:
    """The array that an expression is, given those for its symbols."""
    return value(node, known, {Made: lambda made, known: known[made.args[0]](read(made.args[1], known)),
                               Stacked: lambda stacked, known: np.concatenate([read(v, known) for v in stacked.args])})


class TiltedNetworkEquations:
    """A network of one output whose ends are frozen, with a loss by its name, and the equations about it.

    of_layer: the symbols of what a layer adds forward and backward, their equations, then those of Pi^l and R^(l-1);
    at_end: those of R^L, (f, v), u and z, in the order in which they can be evaluated from f and v.
    """

    def __init__(self, network: TiltedNetwork, targets: np.ndarray, names: Mapping[str, sp.Basic],
                 layer: Iterable[Equation], end: Iterable[Equation], loss: str = "mse") -> None:
        self.network, self.targets, self.names, self.loss = network, targets, names, LOSSES[loss]
        self.layer, self.end = tuple(layer), tuple(end)
        self.entries = np.triu_indices(2 * network.rows)

    @cached_property
    def base(self) -> TiltedSolution:
        return self.network.base()

    @cached_property
    def series(self) -> list[TiltedSolution]:
        """Along the tilt of every row."""
        return [series_in_tilt(self.base, row, 0, ORDERS) for row in range(self.network.rows)]

    def flat(self, row: int, h: float) -> np.ndarray:
        """The solution at the tilt h of a row: Pi^1 .. Pi^L, R^0 .. R^L, f and v."""
        found, powers = self.series[row], h ** np.arange(ORDERS)
        left, right = (np.tensordot(powers, side.law, 1) for side in (found.left, found.right))
        return np.concatenate([*(one[self.entries] for one in (*left[1:], *right)),
                               *(np.tensordot(powers, one, 1).ravel() for one in (found.f, found.v))])

    def again(self, flat: np.ndarray, row: int, h: float) -> np.ndarray:
        """What the equations make of values: these again, where they are a solution."""
        depth, rows, size = self.network.depth, self.network.rows, len(self.entries[0])
        laws = [self._symmetric(flat[k * size:(k + 1) * size]) for k in range(2 * depth + 1)]
        left, right = [self.base.left.law[0, 0], *laws[:depth]], laws[depth:]
        f, v = flat[-2 * rows:-rows, None], flat[-rows:, None]
        tilt = np.zeros((rows, 1))
        tilt[row] = h
        n = self.names
        new_left, new_right = [], []
        for l in range(1, depth + 1):
            known = {n["Pi"]: left[l], n["Pi before"]: left[l - 1], n["R"]: right[l], n["R before"]: right[l - 1],
                     n["Theta"]: lambda C: self._density(C, True), n["Omega"]: lambda C: self._density(C, False)}
            for one in self.layer:
                known[one.target] = read(one.value, known)
            new_left.append(known[n["Pi"]])
            new_right.append(known[n["R before"]])
        chi, slope = self.loss(f, self.targets)
        known = {n["Pi last"]: left[depth], n["R last"]: right[depth], n["v"]: v, n["j"]: tilt, n["chi"]: chi,
                 n["slope"]: slope}
        for one in self.end:
            known[one.target] = read(one.value, known)
        return np.concatenate([*(one[self.entries] for one in (*new_left, *new_right, known[n["R last"]])),
                               known[n["f and v"]].ravel()])

    def log_determinant(self, row: int, h: float) -> float:
        """That of the linearized equations, at the tilt h of a row."""
        flat = self.flat(row, h)
        moves = flat + 1j * TINY * np.eye(len(flat))
        slopes = np.array([self.again(moved, row, h).imag / TINY for moved in moves]).T
        return float(np.linalg.slogdet(np.eye(len(flat)) - slopes)[1])

    def residual(self) -> float:
        """How far the equations are from what solves them, with and without a tilt."""
        found = [(self.flat(row, h), row, h) for row in range(self.network.rows) for h in (0.0, STEP)]
        return max(float(np.max(np.abs(self.again(*one) - one[0]))) for one in found)

    def at_zero(self, value: sp.Expr, t: int, s: int, known: Mapping[sp.Basic, int] = {}) -> float:
        """What is made of derivatives in the tilts of rows t and s, of output t or of the determinant in row t's.

        Raises ``KeyError`` for derivatives of anything else, or in anything else.
        """
        rows = {self.names["j_t"]: t, self.names["j_s"]: s}

        def derivative(of: sp.Basic, tilt: sp.Basic, order: sp.Basic) -> sp.Expr:
            row = rows[tilt]
            if of == self.names["f_t"]:
                return sp.Float(self.series[row].f[int(order), t, 0]) * sp.factorial(order)
            if (of, tilt, order) != (self.names["log det"], self.names["j_t"], 1):
                raise KeyError(f"{order} derivatives of {of} in {tilt}")
            wide, narrow = ((self.log_determinant(row, h) - self.log_determinant(row, -h)) / (2 * h)
                            for h in (2 * STEP, STEP))
            return sp.Float((4 * narrow - wide) / 3)
        return float(value.subs(known).replace(AtZero, derivative))

    def _density(self, overlaps: np.ndarray, behind: bool) -> np.ndarray:
        real, imaginary = (layer_density(np.ascontiguousarray(part), self.network.noise, self.network.drift, behind)
                           for part in (overlaps.real, overlaps.imag))
        return np.asarray(real + 1j * imaginary if np.iscomplexobj(overlaps) else real)

    def _symmetric(self, entries: np.ndarray) -> np.ndarray:
        n = 2 * self.network.rows
        found = np.zeros((n, n), dtype=entries.dtype)
        found[self.entries] = entries
        return found + np.triu(found, 1).T
