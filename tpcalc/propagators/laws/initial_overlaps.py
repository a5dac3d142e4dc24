"""Overlaps of the streams of inputs, and tangent kernels, carried through the layers of a network that is not trained.

Forward, C' = kappa(C) in layer time, or layer by layer; a tangent kernel that is read at the end gathers theta and is
multiplied by kappa_12 in every layer: Theta' = kappa_12 Theta + theta. Pairs of inputs know nothing of one another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Callable, Iterable, NamedTuple, Sequence

import numpy as np
import sympy as sp
from scipy.integrate import solve_ivp

from ..._chebyshev import reference
from ..._types import Value
from ...action.at_initialization import acts_on_stream_first, derive_initial_kernels
from ...action.block_kernels import C, P, Q
from ...errors import Divergence, NotCovered
from ...gaussian.rules import overlap
from ...scaling import DepthScaling
from ...models import ResNet
from ...models.activations import H, activation
from ..mesh import between
from .pair_laws import compiled_pair_function

RELATIVE, ABSOLUTE = 1e-12, 1e-14  # what overlaps in layer time may be off by; the second of variances at first
ROUNDING = 4e-15                   # of the largest on a path, what an iteration changes when it has settled
FEWEST, MOST = 16, 60              # nodes tried first, iterations
BLOWN = 1e100                      # times the largest variance at first
MOST_ASKED = 4000                  # slopes: a solution that stays finite asks for some hundreds
PART = 2**12                       # pairs whose steps are chosen together
OWN = {C: P, Q: P}                 # an input with itself
Arrays = Sequence[np.ndarray]
Added = Callable[[Arrays], Arrays]  # what a layer, or a unit of layer time, adds


class Overlaps(NamedTuple):
    """Overlaps <x|x'> and tangent kernels of inputs with themselves, (inputs,), and of pairs, (pairs,)."""

    own: np.ndarray
    own_tangent: np.ndarray
    pair: np.ndarray
    pair_tangent: np.ndarray


class PairFunctions:
    """Functions of C_ab, C_aa and C_bb, compiled for pairs and for an input with itself, which is exact there."""

    def __init__(self, expressions: tuple[sp.Expr, ...]) -> None:
        self._pair = compiled_pair_function(expressions)
        self._own = compiled_pair_function(tuple(e.xreplace(OWN) for e in expressions))

    def pair(self, c: np.ndarray, p: np.ndarray, q: np.ndarray) -> list[np.ndarray]:
        return _of_shape(c, self._pair(c, p, q, 1.0, 1.0, 1.0))

    def own(self, p: np.ndarray) -> list[np.ndarray]:
        return _of_shape(p, self._own(p, p, p, 1.0, 1.0, 1.0))


def _of_shape(like: np.ndarray, values: Iterable[Value]) -> list[np.ndarray]:
    """Constants as arrays; arrays as they are, since making views of them takes as long as a sweep of small ones."""
    return [value if np.shape(value) == like.shape else np.broadcast_to(value, like.shape) for value in values]


@lru_cache(maxsize=16)
def block_functions(net: ResNet) -> PairFunctions:
    """kappa, kappa_12 and theta at initialization."""
    return PairFunctions(derive_initial_kernels(net)[0].forward)


@lru_cache(maxsize=16)
def covariance_functions(net: ResNet) -> PairFunctions:
    """kappa alone, which is all that streams need on their way."""
    return PairFunctions(derive_initial_kernels(net)[0].forward[:1])


@lru_cache(maxsize=16)
def readout_functions(phi: sp.Expr | str) -> PairFunctions:
    """<phi phi'> and the overlap of the slopes, of a stream with these overlaps."""
    f = activation(phi)(H)
    return PairFunctions(tuple(overlap(f, f, order, order, C, P, Q) for order in (0, 1)))


def require_gaussian(net: ResNet, depth: int | None, what: str) -> None:
    """Raise ``ValueError`` where means of functions of the stream are not known at this depth."""
    if depth is not None and not derive_initial_kernels(net)[1]:
        raise NotCovered(f"depth: got {depth} for {net!r}; {what} needs a Gaussian stream, and what its blocks add "
                         "is not Gaussian; expected depth=tp.oo, where many layers make it so")


def by_layers(start: Arrays, sublayers: Iterable[Added], depth: int, named: str) -> Arrays:
    """Overlaps after the last layer, sublayers one after the other. Raises ``Divergence``; named: what it speaks of."""
    now = start
    for layer in range(1, depth + 1):
        with np.errstate(all="ignore"):
            for added in sublayers:
                now = [value + change for value, change in zip(now, added(now))]
        if not all(np.all(np.isfinite(values)) for values in now):
            raise Divergence(f"overlaps of {named} leave what floats hold, or grow to where quadrature does not "
                             "resolve the block", layer=layer)
    return now


def by_steps(start: Arrays, added: Added, relative: float, absolute: Iterable[Value], named: str) -> Arrays:
    """Overlaps at the end of layer time, by steps of a Runge-Kutta method of order 8. relative, absolute: what a step
    may be off by, the second by array; raises ``Divergence`` as ``by_layers``."""
    ends = np.cumsum([0, *map(np.size, start)]).tolist()
    bounds = BLOWN * (max(float(np.max(np.abs(one), initial=0.0)) for one in start) or 1.0)
    reached, asked = 0.0, 0

    def arrays(state: np.ndarray) -> Arrays:
        return [state[first:end].reshape(one.shape) for first, end, one in zip(ends, ends[1:], start)]

    def flat(values: Iterable[Value]) -> np.ndarray:
        return np.concatenate([np.broadcast_to(value, one.shape).ravel() for value, one in zip(values, start)])

    def blown_up() -> Divergence:
        return Divergence(f"overlaps of {named} blow up at layer time {reached:.6g}, or grow to where quadrature does "
                          "not resolve the block; expected smaller inputs, a smaller branch constant, or norm='rms'",
                          layer=reached)

    def slope(time: float, state: np.ndarray) -> np.ndarray:
        nonlocal reached, asked
        asked += 1
        if asked > MOST_ASKED or not np.all(np.abs(state) <= bounds):
            raise blown_up()
        reached = time
        return flat(added(arrays(state)))

    with np.errstate(all="ignore"):
        found = solve_ivp(slope, (0.0, 1.0), flat(start), "DOP853", [1.0], rtol=relative, atol=flat(absolute))
    if not found.success or not np.all(np.isfinite(found.y)):
        raise blown_up()
    return arrays(found.y[:, -1])


@dataclass(frozen=True)
class InitialLayers:
    """The layers of a net at initialization, at a depth (None: infinite) and a scaling.

    Raises ``ValueError`` for blocks whose kernels are not functions of overlaps at this depth, ``Divergence`` for
    scalings at which kernels have no limit.
    """

    net: ResNet
    depth: int | None
    scale: DepthScaling

    def __post_init__(self) -> None:
        derive_initial_kernels(self.net)
        if acts_on_stream_first(self.net):
            require_gaussian(self.net, self.depth, "a block that acts on the stream first")
        self.rates

    @property
    def rates(self) -> tuple[float, float]:
        """What kappa, and what theta, is multiplied by: a layer, or a unit of layer time."""
        scale = self.scale
        if self.depth is None:
            return (self._summed(scale.noise_exponent, scale.noise_constant, "variances grow"),
                    self._summed(scale.drift_exponent, scale.drift_constant, "tangent kernels grow"))
        eps = scale.multiplier(self.depth)
        return eps**2, eps * scale.update_factor(self.depth)

    def _summed(self, power: sp.Expr, constant: float, what: str) -> float:
        """What L layers add up to, each its share of ``constant`` L^power: all of it, nothing, or no limit."""
        if power > 0:
            raise Divergence(f"alpha = {self.scale.alpha}, gamma = {self.scale.gamma} given with depth=tp.oo: {what} "
                             f"like L^({power}); a limit needs alpha >= 1/2 and alpha + gamma >= 1")
        return constant if power == 0 else 0.0

    def carry(self, start: Overlaps, first: np.ndarray, second: np.ndarray) -> Overlaps:
        """From the first layer to the last; first, second: (pairs,), which inputs a pair is of."""
        parts = [slice(k, k + PART) for k in range(0, max(1, len(first)), PART)]
        advance = self._in_layer_time if self.depth is None else self._by_layers
        found = [advance(Overlaps(*start[:2], start.pair[part], start.pair_tangent[part]), first[part], second[part])
                 for part in parts]
        return Overlaps(found[0].own, found[0].own_tangent, np.concatenate([one.pair for one in found]),
                        np.concatenate([one.pair_tangent for one in found]))

    def _rates_of(self, first: np.ndarray, second: np.ndarray) -> Added:
        """What a layer adds."""
        functions, (noise, drift) = block_functions(self.net), self.rates

        def added(now: Arrays) -> Overlaps:
            own, own_tangent, pair, pair_tangent = now
            kappa, slope, theta = functions.own(own)
            pair_kappa, pair_slope, pair_theta = functions.pair(pair, own[first], own[second])
            return Overlaps(noise * kappa, drift * theta + noise * slope * own_tangent, noise * pair_kappa,
                            drift * pair_theta + noise * pair_slope * pair_tangent)
        return added

    def _by_layers(self, start: Overlaps, first: np.ndarray, second: np.ndarray) -> Overlaps:
        assert self.depth is not None
        return Overlaps(*by_layers(start, [self._rates_of(first, second)], self.depth, repr(self.net)))

    def _in_layer_time(self, start: Overlaps, first: np.ndarray, second: np.ndarray) -> Overlaps:
        """By collocation, on twice the nodes until ends stay the same; where a pair does not settle, by steps.

        Of 2 to 20 inputs collocation takes a half to an eighteenth of the time of steps, of 100 two or three times as
        long; where kinks meet opposite inputs it has all digits, and steps have not.
        """
        own = np.where(start.own > 0, start.own, np.max(start.own, initial=0.0) or 1.0)
        sizes = [*2 * [own], *2 * [np.sqrt(own[first] * own[second])]]
        with np.errstate(all="ignore"):
            now, paths = self._collocated(start, first, second, FEWEST)
            for nodes in (2 * FEWEST, 4 * FEWEST, 8 * FEWEST):
                before = now
                now, paths = self._collocated(start, first, second, nodes, paths)
                if all(np.all(np.abs(a - b) <= RELATIVE * np.maximum(np.abs(b), size)) for a, b, size in zip(
                        before, now, sizes)):
                    return now
        return Overlaps(*by_steps(start, self._rates_of(first, second), RELATIVE, [ABSOLUTE * size for size in sizes],
                                  repr(self.net)))

    def _collocated(self, start: Overlaps, first: np.ndarray, second: np.ndarray, nodes: int,
                    guess: tuple[np.ndarray, ...] = ()) -> tuple[Overlaps, tuple[np.ndarray, ...]]:
        """At the end of layer time, and <x|x'> on the way there, by Picard's iteration at Chebyshev points in its
        square root: kernels with kinks are functions of that where inputs are opposite. What does not settle is nan.

        guess: <x|x'> at other nodes.
        """
        covariances, functions, (noise, drift) = covariance_functions(self.net), block_functions(self.net), self.rates
        points, _, integral = reference(nodes)
        up = integral * (points + 1) / 2  # d tau = 2 root d root, on an interval half as long

        def moved(path: np.ndarray, value: np.ndarray, kernels: Callable[[np.ndarray], list[np.ndarray]]) -> np.ndarray:
            for _ in range(MOST):
                ahead = value + noise * up @ kernels(path)[0]
                far = np.abs(ahead - path) > ROUNDING * np.max(np.abs(ahead), axis=0)
                path = ahead
                if not np.any(far):
                    break
            return np.where(np.any(far, axis=0), np.nan, path)

        def gathered(value: np.ndarray, kernels: list[np.ndarray]) -> np.ndarray:
            growth = np.exp(noise * up @ kernels[1])
            return growth[-1] * (value + drift * up[-1] @ (kernels[2] / growth))

        if guess:
            begun = tuple(between(len(one), nodes) @ one for one in guess)
        else:  # of homogeneous blocks variances grow exponentially, at a rate that others begin with
            rate = noise * covariances.own(start.own)[0] / start.own
            growth = np.exp(np.outer((points + 1)**2 / 4, np.where(np.abs(rate) <= 1, rate, 0.0)))
            begun = start.own * growth, np.tile(start.pair, (nodes, 1))
        own = moved(begun[0], start.own, covariances.own)
        others = own[:, first], own[:, second]
        pair = moved(begun[1], start.pair, lambda c: covariances.pair(c, *others))
        return Overlaps(own[-1].copy(), gathered(start.own_tangent, functions.own(own)), pair[-1].copy(),
                        gathered(start.pair_tangent, functions.pair(pair, *others))), (own, pair)
