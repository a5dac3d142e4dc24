"""The tilted law at infinite depth: differential equations in layer time, by collocation, as power series in the tilt.

Pi' = Theta + Pi Omega Pi and -R' = Omega + R Theta R, Theta and Omega what a layer makes of the overlaps (1 - Pi R)^-1
Pi and (1 - R Pi)^-1 R. Order 0 is the propagator that ``collocation`` solves; above it the equations are linear. A
sweep marches through the elements of a mesh; in each, nodal values give right-hand sides and their integrals the next
nodal values, to round-off.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from .._types import Fields
from ..propagators.collocation import ROUND_OFF, CollocationPropagator
from ..errors import Divergence
from ..models import ResNet
from ..propagators.layer_time import TooLong, picard
from .causal_pairs import causal_pairs
from .stiff_element import StiffElement
from .tilted_block import BlockDensity
from .tilted import Body, TiltedNetwork, TiltedSolution


class TooMuchWork(ValueError):
    """A quantity would take hours on a mesh."""


@dataclass(frozen=True)
class LimitNetwork(TiltedNetwork):
    """A network of infinite depth; ``noise``, ``drift`` of unit layer time; ``depth`` is not read. net: None where
    blocks are linear; of other blocks order 1 is known, and no more."""

    propagator: CollocationPropagator
    net: ResNet | None

    @staticmethod
    def on(propagator: CollocationPropagator, network: TiltedNetwork, net: ResNet | None = None) -> LimitNetwork:
        known: Fields = {field.name: getattr(network, field.name) for field in fields(TiltedNetwork)}
        return LimitNetwork(**known, propagator=propagator, net=net)

    where = property(lambda self: "infinite depth")
    mesh = property(lambda self: self.propagator.mesh)

    def body(self, orders: int) -> Body:
        return LayerTime(self, orders)

    def base(self) -> TiltedSolution:
        solution = TiltedSolution(self, 1)
        assert isinstance(solution.body, LayerTime)
        solution.body.start()
        return solution.closed()

    def memory_needed(self, orders: int) -> float:
        return 8.0 * len(self.mesh.times) * (2 * self.rows) ** 2 * (10 * orders + 10)


class LayerTimeDirection(NamedTuple):
    """One direction at the nodes: its law, the overlaps C of what enters there, (1 - own other)^-1 own, with the
    product own other, and what layers add; all (orders, nodes, n, n). inverse: (nodes, n, n), (1 - own other)^-1 of
    order 0."""

    law: np.ndarray
    C: np.ndarray
    product: np.ndarray
    added: np.ndarray
    inverse: np.ndarray

    @staticmethod
    def empty(orders: int, nodes: int, n: int) -> LayerTimeDirection:
        law, C, product, added = (np.zeros((orders, nodes, n, n)) for _ in range(4))
        return LayerTimeDirection(law, C, product, added, np.zeros((nodes, n, n)))

    def on(self, nodes: slice) -> LayerTimeDirection:
        """The part of the law on some nodes."""
        return LayerTimeDirection(self.law[:, nodes], self.C[:, nodes], self.product[:, nodes], self.added[:, nodes],
                                  self.inverse[nodes])

    def tangent(self) -> np.ndarray:
        """The derivative of the inverse, from order 1: (nodes, n, n)."""
        return self.inverse @ self.product[1] @ self.inverse


class LayerTime:
    """The body of a network of infinite depth: layer time."""

    round_off = float(16 * ROUND_OFF)

    def __init__(self, network: LimitNetwork, orders: int) -> None:
        self.network = network
        self.block: BlockDensity | None = None
        self.left, self.right = (LayerTimeDirection.empty(orders, len(network.mesh.times),
                                                          2 * network.rows) for _ in range(2))
        self.stiff: dict[tuple[bool, int], StiffElement] = {}  # direction and element

    def take(self, base: LayerTime) -> None:
        for mine, theirs in ((self.left, base.left), (self.right, base.right)):
            for array, known in zip(mine[:4], theirs):
                array[0] = known[0]
            mine.inverse[...] = theirs.inverse
        self.block, self.stiff = base.block, base.stiff

    def start(self) -> None:
        """Order 0: Pi = [[S, P], [P^T, 0]], R = [[0, Q^T], [Q, R]]."""
        propagator, n = self.network.propagator, self.network.rows
        one, two = slice(None, n), slice(n, None)
        for own, first, second, P, S in ((self.left, one, two, propagator.P, propagator.S),
                                         (self.right, two, one, propagator.Q, propagator.R)):
            own.law[0, :, first, first] = S
            own.law[0, :, first, second], own.law[0, :, second, first] = P, P.transpose(0, 2, 1)
        for own, other, forward in ((self.left, self.right, True), (self.right, self.left, False)):
            own.product[0] = own.law[0] @ other.law[0]
            own.inverse[...] = self._inverses(own.product[0])
            own.C[0] = own.inverse @ own.law[0]
            own.added[0] = tilted_density(own.C[0], self.network.noise, self.network.drift, forward)
        if self.network.net is not None:
            self.block = BlockDensity(self.network.net, propagator.noise, propagator.drift * propagator.w,
                                      np.outer(propagator.rho, propagator.rho), self.left.C[0], self.right.C[0])
            self.left.added[0], self.right.added[0] = self.block.theta, self.block.omega

    def _inverses(self, products: np.ndarray) -> np.ndarray:
        """(1 - product)^-1 at every node; raises ``Divergence`` where products are so large that the 1 is lost."""
        one, step = np.eye(products.shape[-1]), np.arange(self.network.rows) // self.network.per_step
        try:
            return np.linalg.inv(one - products)
        except np.linalg.LinAlgError:  # found once more, row by row of the training
            for t in range(step[-1] + 1):
                known = np.flatnonzero(np.tile(step <= t, 2))
                for time, product in zip(self.network.mesh.times.tolist(), products):
                    try:
                        np.linalg.inv((one - product)[np.ix_(known, known)])
                    except np.linalg.LinAlgError:
                        raise Divergence(f"fluctuations: at step {t}, layer time {time:.3g}, values of size "
                                         f"{np.max(np.abs(product)):.1e} leave nothing but round-off; a smaller "
                                         "learning rate may help", t, time) from None
            raise

    def as_stiff(self, element: int) -> np.ndarray:
        """(elements,), where the law grows as much, or nearly, as in one of them."""
        mesh = self.network.mesh
        rates = np.max([np.linalg.norm(own.law[0] @ other.added[0], axis=(1, 2))
                        for own, other in ((self.left, self.right), (self.right, self.left))], axis=0)
        growth = np.array([length * np.max(rates[mesh.element(e)]) for e, length in enumerate(mesh.lengths)])
        return growth >= 0.8 * growth[element]

    def sweep(self, forward: bool, order: int) -> tuple[float, float]:
        mesh, changed, largest = self.network.mesh, 0.0, 0.0
        own, other = (self.left, self.right) if forward else (self.right, self.left)
        for e in range(mesh.elements) if forward else reversed(range(mesh.elements)):
            nodes = mesh.element(e)
            before = own.law[order, nodes].copy()
            try:
                self._series(forward, order, e, own.on(nodes), other.on(nodes))
            except TooLong as failure:
                raise TooLong(e, self.as_stiff(e)) from failure
            after = own.law[order, nodes]
            changed = max(changed, float(np.max(np.abs(after - before))))
            largest = max(largest, float(np.max(np.abs(after))))
        return changed, largest

    def _series(self, forward: bool, order: int, e: int, own: LayerTimeDirection, other: LayerTimeDirection) -> None:
        """An order above 0 on an element, in place: (1 - A B)^-1 A is K A_k K^T and what lower orders make."""
        mesh, before = self.network.mesh, own.law[order].copy()
        K, Kt, A, product = own.inverse, own.inverse.transpose(0, 2, 1), own.law, own.product
        product[order] = sum(A[k] @ other.law[order - k] for k in range(order))
        rest = K @ sum(product[k] @ own.C[order - k] for k in range(1, order + 1))
        known = sum(A[i] @ other.added[j] @ A[order - i - j] for i in range(order) for j in range(order - i + 1)
                    if i + j > 0)
        M = other.added[0] @ A[0]

        def carried(law: np.ndarray) -> np.ndarray:
            turned = law @ M
            return turned + turned.transpose(0, 2, 1)

        def answer(C: np.ndarray, beside: np.ndarray) -> np.ndarray:
            if self.block is None:
                return tilted_density(C, self.network.noise, self.network.drift, forward)
            return self.block.answer(forward, C, beside, mesh.element(e))

        def rates(law: np.ndarray) -> np.ndarray:
            own.C[order] = K @ law @ Kt + rest
            own.added[order] = answer(own.C[order], other.C[order])
            return own.added[order] + carried(law) + known

        def linear(law: np.ndarray) -> np.ndarray:
            return answer(K @ law @ Kt, np.zeros_like(law)) + carried(law)

        stiff = self.stiff.get((forward, e))
        if stiff is None:
            try:
                picard(mesh, forward, e, A[order], rates)
            except TooLong:
                if self.block is not None:  # its overlaps follow each other in no causal order
                    raise
                pairs = causal_pairs(self.network.rows, self.network.per_step)
                stiff = self.stiff[forward, e] = StiffElement(linear, mesh.integral(e, forward), pairs, forward)
        if stiff is not None:
            start = before[0 if forward else -1]
            A[order] = stiff.solve(start, rates(np.zeros_like(before)))
            rates(A[order])
        product[order] += A[order] @ other.law[0]


def tilted_density(C: np.ndarray, noise: np.ndarray, drift: np.ndarray, forward: bool) -> np.ndarray:
    """What a layer makes of overlaps C (..., n, n), of (x, dhat) if forward, else of (xhat, delta)."""
    rows = len(noise)
    one, two = slice(None, rows), slice(rows, None)
    if not forward:
        one, two = two, one
    out = np.empty_like(C)
    c, d = C[..., one, one], C[..., one, two]
    out[..., one, one] = noise * c
    across = noise * d - drift * c
    out[..., one, two], out[..., two, one] = across, np.swapaxes(across, -1, -2)
    back = drift * np.swapaxes(d, -1, -2)
    out[..., two, two] = noise * C[..., two, two] - back - np.swapaxes(back, -1, -2)
    return out
