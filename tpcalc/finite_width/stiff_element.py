"""Linear equations of the tilted law on an element of layer time that is too long for an iteration, solved directly.

At large learning rates rows decay in layer time at rates of hundreds; collocation holds on elements that resolve the
solution, also where exp(rate times length) is huge. In causal order the equations of all nodes are block triangular
with a block for every turn, so that factorizations stay small; and Riccati's equations are linear ones for every pair
of turns, solved in a Krylov space.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from typing import Callable

import numpy as np
from scipy.linalg import lu_solve

from .. import _checks
from ..propagators.layer_time import LARGEST, factorized, integrated, krylov
from .causal_pairs import CausalPairs

KRYLOV = 80        # the dimension of a Krylov space: equations that need more are factorized, or their element cut
STIFF = 10.0       # rates times lengths from which an iteration takes longer, if it settles


class StiffElement:
    """law' = linear(law) + known on the nodes of an element, for symmetric law (nodes, n, n), any start and known.

    integral: (nodes, nodes), from where the law enters; forward: whether the law is Pi, or R. Memory O(nodes^2 N^3 +
    nodes N^4) for N rows.
    """

    def __init__(self, linear: Callable[[np.ndarray], np.ndarray], integral: np.ndarray, pairs: CausalPairs,
                 forward: bool) -> None:
        self.integral, self.turns = integral, pairs.turns
        self.i, self.j = pairs.p if forward else pairs.q
        nodes, n = len(integral), int(np.max(self.j)) + 1
        _checks.memory(8.0 * (nodes * pairs.size**2 + sum((nodes * (t.stop - t.start)) ** 2 for t in self.turns)),
                       "fluctuations on an element of layer time", "fewer steps or a smaller batch fit")
        self.operator = np.empty((nodes, pairs.size, pairs.size))
        unit = np.zeros((nodes, n, n))
        for column, (a, b) in enumerate(zip(self.i, self.j)):
            unit[:, a, b] = unit[:, b, a] = 1.0
            self.operator[:, :, column] = linear(unit)[:, self.i, self.j]
            unit[:, a, b] = unit[:, b, a] = 0.0
        self.factors = [factorized(integral, self.operator[:, turn, turn]) for turn in self.turns]

    def solve(self, start: np.ndarray, known: np.ndarray) -> np.ndarray:
        """The law, (nodes, n, n), that enters as ``start``, (n, n)."""
        values = np.zeros((len(known), len(self.i)))
        first, rates = start[self.i, self.j], known[:, self.i, self.j]
        for turn, factors in zip(self.turns, self.factors):
            earlier = slice(turn.start)
            here = rates[:, turn] + (self.operator[:, turn, earlier] @ values[:, earlier, None])[..., 0]
            flat = lu_solve(factors, (first[turn] + self.integral @ here).ravel(), check_finite=False)
            values[:, turn] = flat.reshape(here.shape)
        law = np.zeros_like(known)
        law[:, self.i, self.j] = law[:, self.j, self.i] = values
        return law


def reflection(start: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray, integral: np.ndarray,
               turns: tuple[slice, ...]) -> np.ndarray | None:
    """rho' = b + a rho + rho d + rho c rho on the nodes, all (nodes, p, p), from ``start``, (p, p); None where the
    element is too long.

    Triangular in causal order, and rho or c strictly: a path from turn to turn is made of shorter ones, so that the
    block of two turns is known from those of turns between them, by a linear equation.
    """
    rho = np.zeros_like(b)
    for distance in range(len(turns)):
        for of, to in zip(turns, turns[distance:]):
            between = slice(of.start, to.stop)
            sent = d[:, between, of] + c[:, between, between] @ rho[:, between, of]
            known = b[:, to, of] + a[:, to, between] @ rho[:, between, of] + rho[:, to, between] @ sent
            found = _sylvester(start[to, of] + integrated(integral, known), a[:, to, to], d[:, of, of], integral)
            if found is None:
                return None
            rho[:, to, of] = found
    return rho


def _sylvester(known: np.ndarray, a: np.ndarray, d: np.ndarray, integral: np.ndarray) -> np.ndarray | None:
    """X = known + the integral of a X + X d, (nodes, s, r); None where that takes too long.

    At eight steps it takes a third of a second for all turns of an element, where factorizations take minutes.
    """

    def equation(flat: np.ndarray) -> np.ndarray:
        X = flat.reshape(known.shape)
        return np.asarray((X - integrated(integral, a @ X + X @ d)).ravel())

    found, size = krylov(equation, known.ravel(), KRYLOV), known.size
    if found is None and size <= LARGEST:
        own = np.einsum("nij,kl->nikjl", a, np.eye(known.shape[2]))
        own += np.einsum("nlk,ij->nikjl", d, np.eye(known.shape[1]))
        factors = factorized(integral, own.reshape(len(known), *2 * (size // len(known),)))
        found = lu_solve(factors, known.ravel(), check_finite=False)
    return None if found is None else found.reshape(known.shape)


def is_stiff(a: np.ndarray, d: np.ndarray, length: float, turns: tuple[slice, ...]) -> bool:
    """Whether Picard's iteration of the equations of ``reflection`` is not worth trying on an element."""
    return any(length * float(np.max(np.linalg.norm(rate[:, turn, turn], axis=(1, 2)))) > STIFF
               for rate in (a, d) for turn in turns)
