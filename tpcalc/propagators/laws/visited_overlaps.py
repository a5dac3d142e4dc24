"""Overlaps of streams that go through layers several times, of a network that is not trained.

Visits u and u' of one layer add kappa of <x_u|x_u'> to the overlaps of what comes behind them: what one matrix makes of
two vectors is correlated as they are. So overlaps are functions of two visits,

    C_vw = C_0 + noise sum over u < v, u' < w of one layer of kappa(C_uu'),

gradients the mirror of it with kappa_12, and the tangent kernel is the sum of theta(C_uu') G_uu' over all pairs of one
layer. Of infinitely many visits sums are integrals in loop time, d^2 C / dtau dtau' = noise kappa(C). Source:
[tpcalc/loops].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterator, Protocol

import numpy as np
import sympy as sp

from ..._chebyshev import reference
from ...errors import Divergence, NotCovered
from ...models import ResNet
from ...scaling import DepthScaling
from ..layer_time import settled
from ..loop_time import LoopNodes
from .initial_overlaps import InitialLayers, Overlaps, block_functions

ROUNDS, AGREED = 400, 1e-10
SIZES = (12, 18, 27, 40, 60, 90, 135)  # nodes of loop time, or of layer time
EVEN = (9, 17, 33, 65, 129, 257)        # even nodes of loop time
POWERS = (2, 3, 4, 5)                   # of their distance, in the error where functions have a kink at equal times
EXTRAPOLATED = 1e-8
PART = 2**22                            # entries that are held at once


class Visits(Protocol):
    """Sums over pairs of visits of one layer; arrays have the two visits and the layer as last axes."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many visits, visits and layers, or nodes of these, there are."""

    def before(self, added: np.ndarray) -> np.ndarray:
        """Over all that come before two visits."""

    def after(self, added: np.ndarray) -> np.ndarray:
        """Over all that come after them."""

    def total(self, added: np.ndarray) -> np.ndarray:
        """Over all."""


@dataclass(frozen=True)
class VisitsInCycles:
    """N visits of all layers in turn. below, above: sums, or integrals, over layers before and after each; weights:
    over all."""

    visits: int
    below: np.ndarray
    above: np.ndarray
    weights: np.ndarray

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.visits, self.visits, len(self.weights)

    def before(self, added: np.ndarray) -> np.ndarray:
        return self._gathered(added, self.below)

    def after(self, added: np.ndarray) -> np.ndarray:
        return self._gathered(added[..., ::-1, ::-1, :], self.above)[..., ::-1, ::-1, :]

    def total(self, added: np.ndarray) -> np.ndarray:
        return np.asarray(np.sum(added @ self.weights, axis=(-2, -1)) / self.visits**2)

    def _gathered(self, added: np.ndarray, within: np.ndarray) -> np.ndarray:
        """All layers of a full cycle; those within reach of the one under way, whichever of the two that is."""
        full, part = (added @ self.weights)[..., None], added @ within.T
        return (_earlier(_earlier(full, -3), -2) + _earlier(part, -3) + _earlier(part, -2) + part) / self.visits**2


@dataclass(frozen=True)
class VisitsInRows:
    """Layers one after the other, each visited several times in a row; below, above, weights: of visits."""

    layers: int
    below: np.ndarray
    above: np.ndarray
    weights: np.ndarray

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.weights), len(self.weights), self.layers

    def before(self, added: np.ndarray) -> np.ndarray:
        return self._within(added, self.below) + _earlier(self._of_layers(added), -1)

    def after(self, added: np.ndarray) -> np.ndarray:
        later = _earlier(self._of_layers(added)[..., ::-1], -1)[..., ::-1]
        return self._within(added, self.above) + later

    def total(self, added: np.ndarray) -> np.ndarray:
        return np.asarray(np.sum(self._of_layers(added), axis=-1)[..., 0, 0])

    def _within(self, added: np.ndarray, sums: np.ndarray) -> np.ndarray:
        return np.einsum("vu,...uds,wd->...vws", sums, added, sums, optimize=True)

    def _of_layers(self, added: np.ndarray) -> np.ndarray:
        return self._within(added, self.weights[None])


def _earlier(values: np.ndarray, axis: int) -> np.ndarray:
    """The sum over all before, along an axis."""
    return np.cumsum(values, axis) - values


@dataclass(frozen=True)
class VisitedLayers:
    """The layers of a net that visits them several times, at initialization, at a depth (None: infinite) and a
    scaling.

    Raises ``NotCovered`` for what is added at every visit, endless visits in blocks, and as ``InitialLayers`` does.
    """

    net: ResNet
    depth: int | None
    scale: DepthScaling

    def __post_init__(self) -> None:
        if self.net.inject:
            raise NotCovered(f"inject: got {self.net.inject}; kernels are known where visits add blocks alone; "
                             "expected 0")
        if self.net.visits == sp.oo and self.net.order == "block":
            raise NotCovered("order: got 'block' with infinitely many visits, whose kernels have no rule; expected "
                             "'cycle'")
        self.once.rates

    @property
    def once(self) -> InitialLayers:
        """The layers as they are visited once."""
        return InitialLayers(self.net.visited_once, self.depth, self.scale)

    def carry(self, start: Overlaps, first: np.ndarray, second: np.ndarray) -> Overlaps:
        """From the first visit to the last; first, second: (pairs,), which inputs a pair is of."""
        if self.depth is None and self.net.order == "block":
            return self.once.carry(start, first, second)  # what one layer adds is little, however often it is visited
        before: Overlaps | None = None
        for visits in self._resolutions():
            now = self._carried(visits, start, first, second)
            if self._is_exact or before is not None and _agree(before, now, AGREED):
                return now
            before = now
        found = self._extrapolated(start, first, second) if self.net.visits == sp.oo else None
        if found is None:
            raise Divergence(f"{SIZES[-1]} nodes do not resolve the kernels of {self.net!r}; expected a number of "
                             "visits, at a depth")
        return found

    def _extrapolated(self, start: Overlaps, first: np.ndarray, second: np.ndarray) -> Overlaps | None:
        """From even nodes: functions that have a kink where two times are equal are smooth on both sides of it."""
        last: list[Overlaps] = []  # from the finest nodes so far, extrapolated more and more often
        for size in EVEN:
            row = [self._carried(_in_loop_time(LoopNodes.even(size)), start, first, second)]
            for power, coarse in zip(POWERS, last):
                row.append(Overlaps(*(fine + (fine - far) / (2**power - 1) for fine, far in zip(row[-1], coarse))))
            if len(last) > 2 and _agree(last[-1], row[-1], EXTRAPOLATED):
                return row[-1]
            last = row
        return None

    @property
    def _is_exact(self) -> bool:
        return self.depth is not None and self.net.visits != sp.oo

    def _resolutions(self) -> Iterator[Visits]:
        """Sums as they are, or integrals on more and more nodes."""
        count, layers = self.net.visits, self.depth
        if count == sp.oo:  # layers are one in loop time
            for nodes in map(LoopNodes.of, SIZES):
                yield _in_loop_time(nodes)
        elif layers is None:
            for size in SIZES:
                points, _, integral = reference(size)
                up = integral * (points + 1) / 2  # in roots of layer time, as where layers are visited once
                yield VisitsInCycles(count, up, up[-1] - up, up[-1])
        elif self.net.order == "cycle":
            yield VisitsInCycles(count, *_sums(layers))
        else:
            yield VisitsInRows(layers, *(sums / count for sums in _sums(count)))

    @property
    def _rates(self) -> tuple[float, float]:
        """What kappa, and what theta, is multiplied by: over all layers where these are one."""
        noise, drift = self.once.rates
        many = self.depth if self.net.visits == sp.oo and self.depth is not None else 1
        return noise * many, drift * many

    def _carried(self, visits: Visits, start: Overlaps, first: np.ndarray, second: np.ndarray) -> Overlaps:
        functions, (noise, drift) = block_functions(self.once.net), self._rates

        def entering(change: Callable[[np.ndarray], np.ndarray], begun: np.ndarray) -> np.ndarray:
            """begun + noise change(what is found), which enters itself at later visits alone."""
            found = settled(lambda values: begun + noise * change(values), begun, ROUNDS)
            if found is None:
                raise Divergence(f"overlaps of {self.net!r} leave what floats hold, or do not settle")
            return found

        def everywhere(values: np.ndarray) -> np.ndarray:
            return np.broadcast_to(values[:, None, None, None], (len(values), *visits.shape))

        def of_own(overlaps: np.ndarray) -> list[np.ndarray]:
            """kappa, kappa_12 and theta of inputs with themselves: of a visit with itself they are exact."""
            variances = np.einsum("nccs->ncs", overlaps)
            found = [value.copy() for value in functions.pair(overlaps, *_apart(variances, variances))]
            for value, same in zip(found, functions.own(variances)):
                np.einsum("nccs->ncs", value)[...] = same
            return found

        def at_end(begun: np.ndarray, tangent: np.ndarray, kernels: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
            kappa, slope, theta = kernels
            gradients = entering(lambda G: visits.after(slope * G), everywhere(np.ones(len(begun))))
            return (begun + noise * visits.total(kappa), drift * visits.total(theta * gradients)
                    + tangent * (1 + noise * visits.total(slope * gradients)))

        with np.errstate(all="ignore"):
            own = entering(lambda C: visits.before(of_own(C)[0]), everywhere(start.own))
            variances, ends = np.einsum("nccs->ncs", own), at_end(start.own, start.own_tangent, of_own(own))
            step, pairs = max(1, PART // int(np.prod(visits.shape))), [np.empty((2, 0))]
            for part in (slice(k, k + step) for k in range(0, len(first), step)):
                def of_pair(C: np.ndarray, others: list[np.ndarray] = _apart(
                        variances[first[part]], variances[second[part]])) -> list[np.ndarray]:
                    return functions.pair(C, *others)

                path = entering(lambda C: visits.before(of_pair(C)[0]), everywhere(start.pair[part]))
                pairs.append(np.array(at_end(start.pair[part], start.pair_tangent[part], of_pair(path))))
        return Overlaps(*ends, *np.concatenate(pairs, axis=1))


def _in_loop_time(nodes: LoopNodes) -> VisitsInRows:
    return VisitsInRows(1, nodes.below, nodes.weights - nodes.below, nodes.weights)


def _agree(before: Overlaps, now: Overlaps, share: float) -> bool:
    return all(bool(np.all(np.abs(a - b) <= share * max(1.0, float(np.max(np.abs(b), initial=0.0)))))
               for a, b in zip(before, now))


def _sums(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums over the numbers before each of so many, after each, and over all."""
    below = np.tril(np.ones((count, count)), -1)
    return below, below.T, np.ones(count)


def _apart(left: np.ndarray, right: np.ndarray) -> list[np.ndarray]:
    """Variances at the first of two visits and at the second, (inputs, visits, visits, layers) each."""
    shape = (len(left), left.shape[1], right.shape[1], left.shape[2])
    return [np.broadcast_to(left[:, :, None], shape), np.broadcast_to(right[:, None], shape)]
