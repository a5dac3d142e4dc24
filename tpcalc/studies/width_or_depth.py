"""Wider or deeper: where the error of a finite width meets that of a finite depth, and the best network of a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Sequence

import numpy as np
import sympy as sp

from .. import _checks
from .._shown import Short, Tabled
from ..errors import NotCovered
from .._types import Fields
from ..methods.train import train
from ..scaling import DepthScaling
from ..optimizers import SGD
from ..models import ResNet
from ..data import Task
from ..training.problem import Problem


class Best(NamedTuple):
    """A network of a budget, and its error: root mean square over outputs and initializations, from both limits."""

    width: int
    depth: int
    error: float


@dataclass(frozen=True, repr=False)
class WidthOrDepth(Tabled, Short):
    """Errors of finite width and of finite depth, root mean squares over all outputs; (k,) for k depths.

    depths; change: of infinite width, f at that depth from f at infinite depth, like L^-1 or L^-(2 alpha - 1); spread:
    n^(1/2) times the deviation over initializations at that depth, so that a width n adds spread / n^(1/2); width:
    where both are alike, (spread / change)^2: wider networks are limited by their depth.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> found = tp.studies.width_or_depth(net, task, opt, scale, depths=[8, 16])
    >>> found.depths.tolist(), found.width.shape
    ([8, 16], (2,))
    """

    depths: np.ndarray
    change: np.ndarray
    spread: np.ndarray

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """One dictionary a depth: depth, change, spread, width."""
        return list({"depth": int(depth), "change": float(change), "spread": float(spread), "width": float(width)}
                    for depth, change, spread, width in zip(self.depths, self.change, self.spread, self.width))

    @property
    def width(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return (self.spread / self.change) ** 2

    def best(self, budget: float) -> Best:
        """The depth among ``depths``, and its width, with the least error where n^2 L is at most ``budget``.

        Leading orders add up in squares: change^2 + spread^2 / n. Raises ``ValueError`` where not one unit fits.
        """
        size = _checks.real_number("budget", budget)
        found = []
        for depth, change, spread in zip(self.depths.tolist(), self.change, self.spread):
            width = math.isqrt(int(max(size, 0.0) / depth))
            if width > 0:
                found.append(Best(width, depth, float(np.hypot(change, spread / width**0.5))))
        if not found:
            raise NotCovered(f"budget: got {budget!r}; expected at least {min(self.depths)}, n^2 L of width 1")
        return min(found, key=lambda one: one.error)


def width_or_depth(net: ResNet, task: Task, opt: SGD, scale: DepthScaling, depths: Sequence[int]) -> WidthOrDepth:
    """Compare the errors of finite width with those of finite depth, at these depths.

    For networks whose ``run.fluctuations`` is known at finite depth: linear ones of one matrix a block, by a tp.SGD.
    Raises ``ValueError`` for others, before the work, and ``Divergence`` where there is no limit of infinite depth.
    Source: [tpcalc/finite_width].

    >>> import tpcalc as tp
    >>> task = tp.Task(inputs=[1, 0.8], targets=[1, -0.7])
    >>> found = tp.studies.width_or_depth(tp.ResNet(), task, tp.SGD(0.3), tp.DepthScaling(0.5, 0.5), depths=(4, 16))
    >>> found.width.round().astype(int).tolist()
    [117, 1604]
    >>> found.best(budget=4 * 117**2).depth
    4
    """
    _checks.instance("net", net, ResNet)
    sizes = _checks.sizes("depths", depths)
    _require_known(Problem(net, task, opt, scale, sizes[0]))
    limit = train(net, task, opt, scale, sp.oo).outputs
    change, spread = [], []
    for depth in sizes:
        run = train(net, task, opt, scale, depth)
        change.append(float(np.sqrt(np.mean((run.outputs - limit) ** 2))))
        spread.append(float(np.sqrt(np.mean(run.fluctuations.cumulant(2)))))
    return WidthOrDepth(np.array(sizes), np.array(change), np.array(spread))


def _require_known(problem: Problem) -> None:
    """Raise ``ValueError`` where fluctuations at finite depth are not known, whatever training gives."""
    if not isinstance(problem.opt, SGD):
        raise NotCovered(f"opt: got {problem.opt!r}; what finite width does to updates that are no linear functions "
                         "of gradients is not known; expected a tp.SGD")
    problem.net.require_plain("tp.studies.width_or_depth", trained_embedding_readout=True)
    problem.depth_scaling
