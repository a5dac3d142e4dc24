"""Gamma and C at doubling depths: how large, how steep in layer time, and how much they change from L/2 to L."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np

from .. import _checks
from .._shown import Short
from ..interpreters import KetCoefficients, read_coefficients
from ..scaling import DepthScaling
from ..optimizers import SGD
from ..models import ResNet
from ..data import Task
from .convergence import Slope, fit_order


@dataclass(frozen=True, repr=False)
class Suprema(Short):
    """Largest absolute values over all layer times (and inputs of a step), at every depth.

    size: (k, ...) of the function; slope: (k, ...) L times its difference over 1/L in p; change: (k - 1, ...) its
    difference between one depth and the next. The axes after that of depths are the function's discrete indices; NaN
    where these are not admitted.
    """

    size: np.ndarray
    slope: np.ndarray
    change: np.ndarray


@dataclass(frozen=True, repr=False)
class CauchyDifferences(Short):
    """The left sides of Theorem D.3's claims at doubling depths, and the limit that the outputs point to.

    depths: (k,); outputs: (k, steps, batch, d_out). gamma: indices [t, s + 1, a, b], s < t, where s = -1 stands for
    U (b = 0) and nV (b = 1); c: indices [t, s, a], s <= t. crossing: (k, t, s, a), L times the change of
    Gamma_{t,s,a,1-a} where its source moves over its layer by one (claim D). Gamma is the coefficient of a hat-ket
    over the branch multiplier, which at alpha = 1/2 is Tensor Programs VI's sqrt(L) and keeps the limit finite above.

    gamma_order, c_order, output_order: r of the changes L^-r, fitted over the deeper half. limit: (steps, batch,
    d_out), the last outputs plus the tail of a geometric series with the ratio of the last two changes; None where the
    changes do not fall. limit_error: what the same series makes of the estimate's own last move; an estimate and no
    bound, which would need a proven constant.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> found = tp.studies.cauchy_differences(net, task, opt, scale, depths=[16, 32, 64, 128])
    >>> round(found.gamma_order.order, 1)
    0.9
    """

    depths: np.ndarray
    outputs: np.ndarray
    gamma: Suprema
    c: Suprema
    crossing: np.ndarray
    gamma_order: Slope
    c_order: Slope
    output_order: Slope
    limit: np.ndarray | None
    limit_error: float

    def constants(self) -> np.ndarray:
        """(steps,): the smallest c with which claims A to D hold at these depths for all indices up to each step."""
        L = self.depths.astype(float)
        found = []
        for part, last in ((self.gamma, 5), (self.c, 4)):
            change = part.change * L[1:].reshape(-1, *(1,) * (last - 1))
            found += [_by_step(values) for values in (part.size, part.slope, change)]
        return np.maximum.accumulate(np.max([*found, _by_step(self.crossing)], axis=0))


def cauchy_differences(net: ResNet, task: Task, opt: SGD, scale: DepthScaling, depths: Sequence[int],
                       progress: Callable[[int, int], None] | None = None) -> CauchyDifferences:
    """Read every Gamma and C exactly at every depth and compare each depth with its double, place by place.

    depths: at least four, each twice the one before. Time O(N^3 L^2), memory O(N^2 L^2) in the number N of samples:
    for small tasks (``tp.convergence`` goes deeper and looks at outputs only). progress: called with (depths done,
    depths). Raises ``ValueError`` for other depths, ``MemoryError`` before the work where the coefficients cannot
    fit, ``Divergence`` where a depth blows up. Source: Tensor Programs VI, Theorem D.3
    [tensor_programs_vi/theorem_d3].

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> found = tp.studies.cauchy_differences(net, task, opt, scale, depths=[16, 32, 64, 128])
    >>> found.outputs.shape
    (4, 2, 1, 1)
    """
    _checks.progress(progress)
    sizes = _checks.sizes("depths", depths)
    if len(sizes) < 4 or any(b != 2 * a for a, b in zip(sizes, sizes[1:])):  # type: ignore[operator]
        raise ValueError(f"depths: got {list(depths)}; expected four or more, each twice the one before")
    for name, value, kind in (("net", net, ResNet), ("task", task, Task), ("opt", opt, SGD),
                              ("scale", scale, DepthScaling)):
        if not isinstance(value, kind):
            raise ValueError(f"{name}: got {_checks.short(value)}; expected a tp.{kind.__name__}")
    net.require_plain("tp.studies.cauchy_differences")
    parts: list[tuple[np.ndarray, ...]] = []
    changes: list[tuple[np.ndarray, ...]] = []
    before: _Grid | None = None
    for depth in sizes:
        assert depth is not None
        grid = _Grid(read_coefficients(task, opt, scale, depth), task, scale.multiplier(depth))
        parts.append((grid.outputs, *grid.suprema()))
        if before is not None:
            changes.append(grid.change_from(before))
        before = grid
        if progress is not None:
            progress(len(parts), len(sizes))
    outputs, gamma, gamma_slope, c, c_slope, crossing = map(np.array, zip(*parts))
    gamma_change, c_change = map(np.array, zip(*changes))
    lengths = np.array(sizes)
    limit, error = _geometric(outputs)
    return CauchyDifferences(lengths, outputs, Suprema(gamma, gamma_slope, gamma_change),
                             Suprema(c, c_slope, c_change), crossing, _order(lengths, gamma_change),
                             _order(lengths, c_change), _order(lengths, np.diff(outputs, axis=0)), limit, error)


class _Grid:
    """Gamma and C of one depth, with layer times last.

    hats: (2, 2, N, N, L + 1, L) [a, b, row t, row s, node of p, layer of q]; ends: (2, N, E, L + 1); c: (2, N, N, L).
    """

    def __init__(self, found: KetCoefficients, task: Task, eps: float) -> None:
        self.steps, self.batch, self.d_in = task.steps, task.batch, task.d_in
        self.depth = found.covariance.shape[1]
        self.outputs = found.outputs
        self.hats = np.stack([y.transpose(2, 0, 4, 1, 3) for y in (found.x, found.delta)]) / eps
        self.ends = np.stack([y.transpose(0, 2, 1) for y in (found.x_outputs, found.delta_inputs)])
        self.c = found.covariance.transpose(0, 2, 3, 1)

    def suprema(self) -> tuple[np.ndarray, ...]:
        L = self.depth

        def along(a: int, layer: int) -> np.ndarray:
            return np.diagonal(self.hats[a, 1 - a], layer, -2, -1)

        # forward: before a layer, with the source there and one layer later; backward: the mirror
        forward, backward = along(0, 0)[..., :-1] - along(0, 1), along(1, -1)[..., 1:] - along(1, -2)
        return (self._gamma(self.hats, self.ends), L * self._gamma(np.diff(self.hats, axis=-2), np.diff(self.ends)),
                self._c(self.c), L * self._c(np.diff(self.c)),
                L * np.stack([self._pairs(side, 1) for side in (forward, backward)], axis=-1))

    def change_from(self, half: _Grid) -> tuple[np.ndarray, ...]:
        """The change from the depth L/2, whose values hold up to the next of its nodes."""
        nodes, layers = (np.arange(self.depth + 1) + 1) // 2, np.arange(self.depth) // 2
        hats = half.hats[..., nodes, :][..., layers]
        return self._gamma(self.hats - hats, self.ends - half.ends[..., nodes]), self._c(self.c - half.c[..., layers])

    def _gamma(self, hats: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Gamma as ``CauchyDifferences`` has it, [t, s + 1, a, b]."""
        inner = np.stack([np.stack([self._pairs(hats[a, b], 1) for b in (0, 1)], axis=-1) for a in (0, 1)], axis=-2)
        split = ends[:, :, :self.d_in], ends[:, :, self.d_in:]
        outer = np.stack([np.abs(part).reshape(2, self.steps, -1).max(axis=-1).T for part in split], axis=-1)
        return np.concatenate([outer[:, None], inner], axis=1)

    def _c(self, values: np.ndarray) -> np.ndarray:
        """C as ``CauchyDifferences`` has it, [t, s, a]."""
        return np.stack([self._pairs(values[a], 0) for a in (0, 1)], axis=-1)

    def _pairs(self, values: np.ndarray, gap: int) -> np.ndarray:
        """Values by pairs of steps, [t, s] with s <= t - gap, from rows of all steps and samples (N, N, ...)."""
        by_step = np.abs(values).reshape(self.steps, self.batch, self.steps, self.batch, -1).max(axis=(1, 3, 4))
        return np.where(np.tri(self.steps, k=-gap, dtype=bool), by_step, np.nan)


def _by_step(values: np.ndarray) -> np.ndarray:
    """Largest over everything but the step t, which is the second index; 0 where no index is admitted."""
    return np.nan_to_num(values).max(axis=tuple(i for i in range(values.ndim) if i != 1))


def _order(depths: np.ndarray, change: np.ndarray) -> Slope:
    largest = np.nan_to_num(np.abs(change)).reshape(len(change), -1).max(axis=1)
    deeper = (len(depths) - 1) // 2
    return fit_order(depths[1:][deeper:], largest[deeper:])


def _geometric(outputs: np.ndarray) -> tuple[np.ndarray | None, float]:
    """The limit of a geometric series through the last changes, and the same series through its own change.

    The ratio is that of the largest last two changes; with it goes on what the estimate moved from the depth before.
    """
    changes = np.diff(outputs, axis=0)
    largest = np.abs(changes).reshape(len(changes), -1).max(axis=1)
    if not largest[-1]:
        return outputs[-1], 0.0
    if not largest[-1] < largest[-2] < largest[-3]:
        return None, float("inf")
    last, before = (outputs[i] + changes[i] / (largest[i - 1] / largest[i] - 1) for i in (-1, -2))
    return last, float(np.abs(last - before).max() / (largest[-2] / largest[-1] - 1))
