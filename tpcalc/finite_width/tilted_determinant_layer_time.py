"""The bias of finite width at infinite depth: the determinant of fluctuations, by elimination of layer time.

Changes p of Pi and q of R, vectors of their entries in causal order, obey p' = a p + b q and -q' = c p + d q. All that
lies to the left of a layer time answers q by p = rho q, all that lies to its right p by q = sigma p:

    rho' = b + a rho + rho d + rho c rho,    -sigma' = c + d sigma + sigma a + sigma b sigma.

log det M is minus the integral of tr(c rho) and of what a layer makes of its own answers, tr(alpha + delta), and the
readout's determinant; its derivative has both reflections at every layer time.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np

from .. import _checks
from .causal_pairs import CausalPairs
from .stiff_element import is_stiff, reflection
from .tilted import TiltedSolution
from .tilted_determinant import (BiasGradient, ReadOut, Tangent, at_read_out, conjugation, conjugation_gradient,
                                 density_map, pairs_of)
from ..propagators.layer_time import TooLong, picard
from .tilted_layer_time import LayerTime, LimitNetwork, TooMuchWork

SECONDS = 1.2e-8       # of one core, for every node and p^3: measured at N = 8 rows and 34 elements
MOST_SECONDS = 600.0   # for one mesh, of which there are four or more

MATRICES: dict[str, Callable[[TiltedSolution], np.ndarray]] = {
    "node p": lambda s: s.left.inverse, "C p": lambda s: s.left.C[0], "Pi": lambda s: s.left.law[0],
    "node q": lambda s: s.right.inverse, "C q": lambda s: s.right.C[0], "R": lambda s: s.right.law[0]}
TANGENTS: dict[str, Tangent] = {
    "node p": lambda s: s.left.tangent(), "C p": lambda s: s.left.C[1], "Pi": lambda s: s.left.law[1],
    "node q": lambda s: s.right.tangent(), "C q": lambda s: s.right.C[1], "R": lambda s: s.right.law[1],
    "through p": lambda s: s.left.law[1] @ s.right.added[0] + s.left.law[0] @ s.right.added[1],
    "through q": lambda s: s.right.law[1] @ s.left.added[0] + s.right.law[0] @ s.left.added[1]}
# the side of what a conjugation by them makes, and of what it makes it of
DIRECTIONS_OF = {"node p": ("p", "p"), "C p": ("p", "q"), "Pi": ("p", "q"), "through p": ("p", "p"),
                 "node q": ("q", "q"), "C q": ("q", "p"), "R": ("q", "p"), "through q": ("q", "q")}


class LinearizedRates(NamedTuple):
    """a, b, c, d of the linearized equations, (..., p, p)."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    d: np.ndarray


def added(pairs: CausalPairs, M: np.ndarray, side: str) -> np.ndarray:
    """X -> M X + X M^T of changes of one side."""
    unit = np.eye(len(M))
    return (conjugation(pairs, unit + M, side, side) - conjugation(pairs, unit - M, side, side)) / 2


class Node:
    """The linearized equations at one layer time. forward, backward: ``density_map`` of both directions."""

    def __init__(self, base: TiltedSolution, i: int, forward: np.ndarray, backward: np.ndarray) -> None:
        self.pairs, self.forward, self.backward = pairs_of(base.network), forward, backward
        self.matrices = {name: matrix(base)[i] for name, matrix in MATRICES.items()}
        self.maps = {name: conjugation(self.pairs, matrix, *DIRECTIONS_OF[name]) for name,
                     matrix in self.matrices.items()}
        self.through = (base.left.law[0, i] @ base.right.added[0, i], base.right.law[0, i] @ base.left.added[0, i])

    def rates(self) -> LinearizedRates:
        m, times = self.maps, self.pairs.product
        of_p, of_q = times(self.forward, m["node p"]), times(self.backward, m["node q"])
        across_p, across_q = times(self.forward, m["C p"]), times(self.backward, m["C q"])
        through_p, through_q = (added(self.pairs, M, side) for M, side in zip(self.through, "pq"))
        return LinearizedRates(of_p + through_p + times(m["Pi"], across_q), across_p + times(m["Pi"], of_q),
                               across_q + times(m["R"], of_p), of_q + through_q + times(m["R"], across_p))

    def gradients(self, rho: np.ndarray, sigma: np.ndarray) -> dict[str, np.ndarray]:
        """Those of log det M per unit layer time, in the matrices and in what goes through the layer, by name."""
        m, unit, times = self.maps, np.eye(len(rho)), self.pairs.product
        on_b = times(sigma, self.pairs.resolvent(times(rho, sigma)))  # q of a source in p
        on_c = rho + times(rho, on_b, rho)
        on_a, on_d = times(rho, on_b), times(sigma, on_c)
        own_a, own_d = unit + on_a, unit + on_d            # a layer's own answers know what the layer has changed
        weights = {"node p": times(on_a + times(on_c, m["R"]), self.forward),
                   "C p": times(on_b + times(own_d, m["R"]), self.forward),
                   "node q": times(on_d + times(on_b, m["Pi"]), self.backward),
                   "C q": times(on_c + times(own_a, m["Pi"]), self.backward),
                   "Pi": times(self.backward, times(m["C q"], own_a) + times(m["node q"], on_b)),
                   "R": times(self.forward, times(m["C p"], own_d) + times(m["node p"], on_c)),
                   "through p": on_a, "through q": on_d}
        at = {**self.matrices, "through p": np.eye(len(self.through[0])), "through q": np.eye(len(self.through[1]))}
        return {name: -conjugation_gradient(self.pairs, weight, at[name], *DIRECTIONS_OF[name])
                for name, weight in weights.items()}


class LayerTimeGradient(BiasGradient):
    """The determinant at infinite depth: the reflections obey Riccati equations, solved by collocation.

    Time O(N^6) a node. Before any work raises ``MemoryError`` where the reflections cannot fit, and ``TooMuchWork``
    where they would take more than ``MOST_SECONDS``; ``TooLong`` where an element is.
    """

    tangents = TANGENTS

    def __init__(self, base: TiltedSolution) -> None:
        network = base.network
        assert isinstance(network, LimitNetwork)
        mesh = network.mesh
        size, nodes, times = pairs_of(network).size, len(mesh.times), pairs_of(network).product
        _checks.memory(8.0 * size**2 * (2 * nodes + 12 * mesh.nodes), "the bias of a finite width at infinite depth",
                       "fewer steps or a smaller batch fit")
        seconds = SECONDS * nodes * size**3
        if seconds > MOST_SECONDS:
            raise TooMuchWork(
                f"the bias of a finite width at infinite depth: got {network.rows} rows (steps times samples) on "
                f"{mesh.elements} elements of layer time, about {seconds / 60:.0f} minutes of a core for one of "
                f"four meshes; expected {MOST_SECONDS / 60:.0f}; fewer steps, a smaller batch or a smaller learning "
                "rate fit")
        maps = density_map(network, "p"), density_map(network, "q")
        rho, sigma = np.zeros((2, nodes, size, size))
        sigma[-1] = ReadOut(network, at_read_out(base)).sigma()
        for forward, law in ((True, rho), (False, sigma)):
            for e in range(mesh.elements) if forward else reversed(range(mesh.elements)):
                here = range(*mesh.element(e).indices(nodes))
                a, b, c, d = (np.array(rate) for rate in zip(*(Node(base, i, *maps).rates() for i in here)))
                if not forward:
                    a, b, c, d = d, c, b, a

                def rates(law: np.ndarray) -> np.ndarray:
                    return b + times(a, law) + times(law, d + times(c, law))

                start, turns = law[here[0 if forward else -1]].copy(), pairs_of(network).turns
                law[mesh.element(e)] = start
                stiff = is_stiff(a, d, mesh.lengths[e], turns)
                try:
                    if not stiff:
                        picard(mesh, forward, e, law[mesh.element(e)], rates)
                except TooLong:
                    stiff = True
                if stiff:
                    found = reflection(start, a, b, c, d, mesh.integral(e, forward), turns)
                    if found is None or not np.all(np.isfinite(found)):
                        assert isinstance(base.body, LayerTime)
                        raise TooLong(e, base.body.as_stiff(e))
                    law[mesh.element(e)] = found
        weights = mesh.weights
        nodal = [Node(base, i, *maps).gradients(rho[i], sigma[i]) for i in range(nodes)]
        super().__init__(base, rho[-1], {name: np.array([w * at[name] for w, at in zip(weights, nodal)])
                                         for name in TANGENTS})
