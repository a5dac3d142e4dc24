"""The bias of finite width at infinite depth: the determinant of fluctuations, by elimination of layer time.

Changes p of Pi and q of R, vectors of upper triangles, obey p' = a p + b q and -q' = c p + d q. All that lies to the
left of a layer time answers q by p = rho q, all that lies to its right p by q = sigma p:

    rho' = b + a rho + rho d + rho c rho,    -sigma' = c + d sigma + sigma a + sigma b sigma.

log det M is minus the integral of tr(c rho) and of what a layer makes of its own answers, tr(alpha + delta), and the
read-out's determinant; its derivative has both reflections at every layer time.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np

from .. import _checks
from .tilted import TiltedSolution
from .tilted_determinant import (BiasGradient, ReadOut, Tangent, at_read_out, conjugation, conjugation_gradient,
                                 density_map, triangle)
from .tilted_layer_time import LimitNetwork, picard

MATRICES: dict[str, Callable[[TiltedSolution], np.ndarray]] = {
    "node p": lambda s: s.left.inverse, "C p": lambda s: s.left.C[0], "Pi": lambda s: s.left.law[0],
    "node q": lambda s: s.right.inverse, "C q": lambda s: s.right.C[0], "R": lambda s: s.right.law[0]}
TANGENTS: dict[str, Tangent] = {
    "node p": lambda s: s.left.tangent(), "C p": lambda s: s.left.C[1], "Pi": lambda s: s.left.law[1],
    "node q": lambda s: s.right.tangent(), "C q": lambda s: s.right.C[1], "R": lambda s: s.right.law[1],
    "through p": lambda s: s.left.law[1] @ s.right.added[0] + s.left.law[0] @ s.right.added[1],
    "through q": lambda s: s.right.law[1] @ s.left.added[0] + s.right.law[0] @ s.left.added[1]}


class Rates(NamedTuple):
    """a, b, c, d of the linearised equations, (..., p, p)."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    d: np.ndarray


def added(M: np.ndarray) -> np.ndarray:
    """X -> M X + X M^T on upper triangles."""
    unit = np.eye(len(M))
    return (conjugation(unit + M) - conjugation(unit - M)) / 2


class Node:
    """The linearised equations at one layer time. forward, backward: ``density_map`` of both directions."""

    def __init__(self, base: TiltedSolution, i: int, forward: np.ndarray, backward: np.ndarray) -> None:
        self.forward, self.backward = forward, backward
        self.matrices = {name: matrix(base)[i] for name, matrix in MATRICES.items()}
        self.maps = {name: conjugation(matrix) for name, matrix in self.matrices.items()}
        self.through = (base.left.law[0, i] @ base.right.added[0, i], base.right.law[0, i] @ base.left.added[0, i])

    def rates(self) -> Rates:
        m = self.maps
        of_p, of_q = self.forward @ m["node p"], self.backward @ m["node q"]
        across_p, across_q = self.forward @ m["C p"], self.backward @ m["C q"]
        return Rates(of_p + added(self.through[0]) + m["Pi"] @ across_q, across_p + m["Pi"] @ of_q,
                     across_q + m["R"] @ of_p, of_q + added(self.through[1]) + m["R"] @ across_p)

    def gradients(self, rho: np.ndarray, sigma: np.ndarray) -> dict[str, np.ndarray]:
        """Those of log det M per unit layer time, in the matrices and in what goes through the layer, by name."""
        m, unit = self.maps, np.eye(len(rho))
        on_b = sigma @ np.linalg.inv(unit - rho @ sigma)  # q of a source in p
        on_c = rho @ np.linalg.inv(unit - sigma @ rho)
        on_a, on_d = rho @ on_b, sigma @ on_c
        own_a, own_d = unit + on_a, unit + on_d           # a layer's own answers know what the layer has changed
        weights = {"node p": (on_a + on_c @ m["R"]) @ self.forward, "C p": (on_b + own_d @ m["R"]) @ self.forward,
                   "node q": (on_d + on_b @ m["Pi"]) @ self.backward, "C q": (on_c + own_a @ m["Pi"]) @ self.backward,
                   "Pi": self.backward @ (m["C q"] @ own_a + m["node q"] @ on_b),
                   "R": self.forward @ (m["C p"] @ own_d + m["node p"] @ on_c), "through p": on_a, "through q": on_d}
        at = {**self.matrices, "through p": np.eye(len(self.through[0])), "through q": np.eye(len(self.through[1]))}
        return {name: -conjugation_gradient(weight, at[name]) for name, weight in weights.items()}


class LayerTimeGradient(BiasGradient):
    """The determinant at infinite depth: the reflections obey Riccati equations, solved by collocation.

    Time O(N^6) a node. Raises ``MemoryError`` where the reflections cannot fit, and ``TooLong``.
    """

    tangents = TANGENTS

    def __init__(self, base: TiltedSolution) -> None:
        network = base.network
        assert isinstance(network, LimitNetwork)
        mesh = network.mesh
        size, nodes = len(triangle(2 * network.rows)[0]), len(mesh.times)
        _checks.memory(8.0 * size**2 * (2 * nodes + 12 * mesh.nodes), "the bias of a finite width at infinite depth",
                       "fewer steps or a smaller batch fit")
        maps = density_map(network, 0), density_map(network, network.rows)
        rho, sigma = np.zeros((2, nodes, size, size))
        sigma[-1] = ReadOut(network, at_read_out(base)).sigma()
        for forward, law in ((True, rho), (False, sigma)):
            for e in range(mesh.elements) if forward else reversed(range(mesh.elements)):
                here = range(*mesh.element(e).indices(nodes))
                a, b, c, d = (np.array(rate) for rate in zip(*(Node(base, i, *maps).rates() for i in here)))
                if not forward:
                    a, b, c, d = d, c, b, a

                def rates(law: np.ndarray) -> np.ndarray:
                    return b + a @ law + law @ (d + c @ law)

                law[mesh.element(e)] = law[here[0 if forward else -1]]
                picard(mesh, forward, e, law[mesh.element(e)], rates)
        weights = mesh.weights
        found = [Node(base, i, *maps).gradients(rho[i], sigma[i]) for i in range(nodes)]
        super().__init__(base, rho[-1], {name: np.array([w * at[name] for w, at in zip(weights, found)])
                                         for name in TANGENTS})
