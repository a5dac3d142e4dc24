"""Layer time cut into elements, Chebyshev points in each: integration, evaluation, refinement."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.polynomial import chebyshev

from .._chebyshev import reference as reference


@lru_cache(maxsize=None)
def between(old: int, new: int) -> np.ndarray:
    """(new, old): values at ``old`` Chebyshev-Lobatto points -> values at ``new`` ones."""
    return chebyshev.chebvander(reference(new)[0], old - 1) @ reference(old)[1]


@lru_cache(maxsize=None)
def halving(nodes: int, first: bool) -> np.ndarray:
    """(nodes, nodes): values on an element -> values at the nodes that its first, or its second, half would have."""
    points, coefficients, _ = reference(nodes)
    return chebyshev.chebvander((points - 1) / 2 if first else (points + 1) / 2, nodes - 1) @ coefficients


@dataclass(frozen=True)
class Mesh:
    """Elements of [0, 1] that share their ends; ``nodes`` Chebyshev-Lobatto points in each, increasing.

    ``ends``: (elements + 1,), from 0 to 1. Raises ``ValueError`` for ends that do not increase from 0
    to 1 and for fewer than two nodes.
    """

    ends: tuple[float, ...]
    nodes: int

    def __post_init__(self) -> None:
        if len(self.ends) < 2 or self.ends[0] != 0.0 or self.ends[-1] != 1.0 or np.any(np.diff(self.ends) <= 0):
            raise ValueError(f"ends: got {self.ends}; expected numbers that increase from 0 to 1")
        if self.nodes < 2:
            raise ValueError(f"nodes: got {self.nodes}; expected a whole number of at least 2")

    @staticmethod
    def uniform(elements: int, nodes: int) -> Mesh:
        return Mesh(tuple(float(x) for x in np.linspace(0.0, 1.0, elements + 1)), nodes)

    @property
    def elements(self) -> int:
        return len(self.ends) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """(elements,)"""
        return np.diff(self.ends)

    @cached_property
    def times(self) -> np.ndarray:
        """Layer times of all nodes, (elements * (nodes - 1) + 1,), increasing."""
        points, ends = reference(self.nodes)[0], np.asarray(self.ends)
        inner = ends[:-1, None] + self.lengths[:, None] * (points[:-1] + 1) / 2
        return np.append(inner.ravel(), 1.0)

    def element(self, e: int) -> slice:
        """Where the nodes of an element stand among all."""
        return slice(e * (self.nodes - 1), (e + 1) * (self.nodes - 1) + 1)

    def integral(self, e: int, forward: bool) -> np.ndarray:
        """(nodes, nodes): nodal values -> integrals from the left end of the element, or to its right end."""
        matrix = self.lengths[e] / 2 * reference(self.nodes)[2]
        return matrix if forward else matrix[::-1, ::-1]

    @cached_property
    def weights(self) -> np.ndarray:
        """(all nodes,), of the integral over [0, 1] of a nodal function."""
        result = np.zeros(len(self.times))
        for e in range(self.elements):
            result[self.element(e)] += self.integral(e, True)[-1]
        return result

    def cumulative(self, values: np.ndarray, forward: bool = True) -> np.ndarray:
        """The integral of a nodal function, (all nodes, ...), from 0 to every node, or from every node to 1."""
        result = np.zeros_like(values)
        for e in range(self.elements) if forward else reversed(range(self.elements)):
            inside = self.element(e)
            start = result[inside][0 if forward else -1].copy()
            result[inside] = start + np.tensordot(self.integral(e, forward), values[inside], 1)
        return result

    def evaluate(self, values: np.ndarray, times: np.ndarray | float) -> np.ndarray:
        """A nodal function, (all nodes, ...), at layer times of any shape: that shape + (...)."""
        flat = np.asarray(times, dtype=np.float64).ravel()
        if np.any(~((flat >= 0) & (flat <= 1))):
            raise ValueError(f"layer times: got {times!r}; expected numbers from 0 to 1")
        ends, lengths = np.asarray(self.ends), self.lengths
        inside = np.clip(np.searchsorted(ends, flat, side="right") - 1, 0, self.elements - 1)
        local = 2 * (flat - ends[inside]) / lengths[inside] - 1
        weights = chebyshev.chebvander(local, self.nodes - 1) @ reference(self.nodes)[1]
        result = np.empty((len(flat),) + values.shape[1:])
        for e in np.unique(inside):
            here = inside == e
            result[here] = np.tensordot(weights[here], values[self.element(int(e))], 1)
        return result.reshape(np.shape(times) + values.shape[1:])

    def refined(self, e: int, values: np.ndarray, nodes: int) -> np.ndarray:
        """A nodal function on element ``e``, at the points that another number of nodes would have."""
        inside = values[self.element(e)]
        return (between(self.nodes, nodes) @ inside.reshape(len(inside), -1)).reshape(nodes, *values.shape[1:])

    def tails(self, values: np.ndarray) -> np.ndarray:
        """How far an element is from resolving a nodal function: (elements,). The largest of its last two Chebyshev
        coefficients, relative to the largest value of the function."""
        size = np.max(np.abs(values), initial=0.0)
        if size == 0.0:
            return np.zeros(self.elements)
        last = reference(self.nodes)[1][-2:]
        return np.array([np.max(np.abs(np.tensordot(last, values[self.element(e)], 1)), initial=0.0) / size
                         for e in range(self.elements)])

    def bisect(self, chosen: np.ndarray) -> Mesh:
        """Halve the chosen elements; ``chosen``: (elements,) booleans."""
        ends = np.asarray(self.ends)
        middles = (ends[:-1] + ends[1:])[chosen] / 2
        return Mesh(tuple(float(x) for x in np.sort(np.append(ends, middles))), self.nodes)

    def cut(self, times: list[float]) -> Mesh:
        """Elements end at these layer times, too."""
        return Mesh(tuple(sorted({*self.ends, *times})), self.nodes)

    def with_nodes(self, nodes: int) -> Mesh:
        return Mesh(self.ends, nodes)
