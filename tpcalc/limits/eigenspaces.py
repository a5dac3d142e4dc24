"""The slow directions of a layer's map: eigenvalue 1, with the vectors that weigh what enters and what is read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Sequence

import numpy as np
import sympy as sp

from ..errors import NotCovered
from ..orders.layer_functions import GRID, LAYER_TIME

ON_THE_CIRCLE = 1e-9
LONGEST_PERIOD = 12


class NoStreams(NotCovered):
    """A layer's map that no rule takes to infinite depth; the message names what and why."""


@dataclass(frozen=True)
class Slow:
    """The slow subspace of a matrix M(p) on a sweep's state.

    read: (size, m), what each entry of the state is made of, as functions of layer time p; weigh: (m, size), how what
    enters counts in each stream; weigh read = 1. relax: (size, size), the sum over later layers of what fast modes keep
    of what enters them. explodes: an eigenvalue lies outside the unit disk somewhere on [0, 1].
    """

    read: sp.Matrix
    weigh: sp.Matrix
    relax: sp.Matrix
    explodes: bool = False

    @property
    def streams(self) -> int:
        return int(self.read.shape[1])


def slow_subspace(matrix: sp.Matrix, states: Sequence[object]) -> Slow:
    """The eigenvectors of eigenvalue 1, where all others lie inside the unit disk.

    Raises ``NoStreams`` for other eigenvalues of modulus 1, for a Jordan block at 1, and where the multiplicity of 1
    changes with layer time, naming the vectors that make the map.
    """
    size, what = matrix.shape[0], ", ".join(map(str, states))
    lam = sp.Dummy("lambda")
    polynomial = sp.Poly(sp.together((lam * sp.eye(size) - matrix).det(method="berkowitz")), lam)
    multiplicity = 0
    while size and sp.simplify(polynomial.eval(1)) == 0:
        polynomial, multiplicity = sp.Poly(sp.cancel(sp.quo(polynomial, sp.Poly(lam - 1, lam)).as_expr()), lam), (
            multiplicity + 1)
    moduli = [np.abs(np.roots([complex(c.subs(LAYER_TIME, p)) for c in polynomial.all_coeffs()])) for p in GRID]
    largest = max((float(m.max()) for m in moduli if len(m)), default=0.0)
    if largest > 1 + ON_THE_CIRCLE:
        return Slow(sp.zeros(size, 0), sp.zeros(0, size), sp.zeros(size, size), explodes=True)
    if largest > 1 - ON_THE_CIRCLE:
        raise NoStreams(f"the layers' map of {what} has an eigenvalue of modulus 1 besides 1; no rule for what turns "
                        "or alternates from layer to layer")
    moved = (matrix - sp.eye(size)).applyfunc(sp.cancel)
    right, left = moved.nullspace(), moved.T.nullspace()
    if len(right) < multiplicity:
        raise NoStreams(f"the layers' map of {what} has a Jordan block of eigenvalue 1: they add up each other like "
                        "powers of L; no rule for that")
    if not multiplicity:
        return Slow(sp.zeros(size, 0), sp.zeros(0, size), (sp.eye(size) - matrix).inv())
    read = sp.Matrix.hstack(*map(_scaled, right)).applyfunc(sp.cancel)
    rows = sp.Matrix.hstack(*left).T
    weigh = ((rows * read).inv() * rows).applyfunc(sp.cancel)
    projector = (read * weigh).applyfunc(sp.cancel)
    relax = ((sp.eye(size) - matrix + projector).inv() * (sp.eye(size) - projector)).applyfunc(sp.cancel)
    for entry in (*read, *weigh, *relax):
        _require_smooth(entry, what)
    return Slow(read, weigh, relax)


def period(matrix: sp.Matrix) -> int:
    """The least k with which all eigenvalues of modulus 1 of a constant matrix become 1 in its k-th power, 1 where none
    needs it or no k up to 12 does."""
    if matrix.has(LAYER_TIME) or not matrix.shape[0]:
        return 1
    lam = sp.Dummy("lambda")
    rest = sp.Poly((lam * sp.eye(matrix.shape[0]) - matrix).det(method="berkowitz"), lam)
    orders = [1]
    for k in range(2, LONGEST_PERIOD + 1):
        if sp.gcd(rest, sp.Poly(sp.cyclotomic_poly(k, lam), lam)).degree() > 0:
            orders.append(k)
    together = int(sp.ilcm(*orders)) if len(orders) > 1 else 1
    return together if together <= LONGEST_PERIOD else 1


def _scaled(column: sp.Matrix) -> sp.Matrix:
    """The column with its first entry that does not vanish somewhere set to 1, so that nothing is divided by zero."""
    for entry in column:
        if entry != 0 and all(entry.subs(LAYER_TIME, p) != 0 for p in GRID):
            return (column / entry).applyfunc(sp.cancel)
    return column


def _require_smooth(entry: sp.Expr, what: str) -> None:
    _, under = sp.fraction(sp.together(entry))
    if under.has(LAYER_TIME):
        roots = np.roots([float(c) for c in sp.Poly(under, LAYER_TIME).all_coeffs()])
        inside = [r for r in roots if abs(r.imag) < ON_THE_CIRCLE and -ON_THE_CIRCLE <= r.real <= 1 + ON_THE_CIRCLE]
        if inside:
            raise NoStreams(f"the layers' map of {what} changes its slow directions at layer time "
                            f"{Fraction(float(inside[0].real)).limit_denominator(1000)}; no rule for that")
