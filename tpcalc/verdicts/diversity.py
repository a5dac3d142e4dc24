"""The feature diversity exponent, measured: how much features of nearby layers differ, at any depth and beyond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np
import sympy as sp

from .._types import Fields, Number
from .. import _checks
from .._shown import Short, Tabled
from ..methods.train import train
from ..scaling import DepthScaling
from ..optimizers import SGD
from ..models import ResNet
from ..data import Task
from ..results.run import Index, row_of
from ..studies.convergence import fit_order
from .classify import classify

DEPTHS = tuple(int(depth) for depth in 2 ** np.arange(8, 15, 2))
SMALL = 2.0 ** -np.arange(20.0, 9.0, -1)  # pieces of the limit: the next order in eps is a thousandth or less
LARGEST = 0.25                            # piece at finite depth
WELL_ABOVE = 4                            # times one layer, times the crossover


@dataclass(frozen=True, repr=False)
class Differences(Short):
    """d(eps) = sqrt <(x^(p + eps) - x^p)^2> at one depth.

    depth: None stands for infinity; crossover: eps*, where noise, eps^(1/2), and drift, eps, are of one size in L
    (None at infinite depth); eps, values: (k,); exponent: 1 - (power of eps), fitted over eps well above the crossover
    or over all where noise never stops to dominate; None where fewer than two pieces are left or d is 0;
    uncertainty: its standard error, infinite for two pieces.
    """

    depth: int | None
    crossover: float | None
    eps: np.ndarray
    values: np.ndarray
    exponent: float | None
    uncertainty: float


@dataclass(frozen=True, repr=False)
class Diversity(Tabled, Short):
    """The feature diversity exponent of a depth scaling.

    derived: ``tp.classify``'s, for t >= 1 and generic p, or None; exponent: the measured one, None where undefined;
    limit: the differences it is read from; depths: those at finite depth, with their crossovers.

    >>> import tpcalc as tp
    >>> found = tp.theory.measure_diversity(0.5, 0.5, depths=(64, 128))
    >>> found.derived
    1/2
    """

    alpha: sp.Expr
    gamma: sp.Expr
    derived: sp.Expr | None
    limit: Differences
    depths: tuple[Differences, ...]

    @property
    def exponent(self) -> float | None:
        return self.limit.exponent

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """One dictionary a depth, infinity last: depth, crossover, exponent."""
        return list({"depth": one.depth or "oo", "crossover": one.crossover, "exponent": one.exponent}
                    for one in (*self.depths, self.limit))

    def table(self) -> str:
        """A line for every depth, and the limit."""
        lines = ["      L  crossover  exponent"]
        lines += [f"{one.depth:7}  {one.crossover:9.1e}  {_number(one.exponent)}" for one in self.depths]
        return "\n".join([*lines, f"{'oo':>7}  {'-':>9}  {_number(self.exponent)}  derived: {self.derived}"])


def measure_diversity(alpha: Number, gamma: Number, task: Task | None = None, opt: SGD | None = None,
                      t: Index | None = None, p: float = 0.25, depths: Sequence[int] = DEPTHS,
                      net: ResNet | None = None, progress: Callable[[int, int], None] | None = None) -> Diversity:
    """Train exactly, at infinite depth and at every finite one, and fit the power of eps in d(eps) at layer time p.

    task, opt: default three steps on one number each, and a learning rate of 1. t: a step, or (step, input); default
    the last step. p: from 0 to 3/4. progress: called with (depths done, depths), infinity among them.

    Depth goes to infinity first, then eps to 0. At t = 0 with alpha > 1/2 nothing differs in the limit. A finite depth
    shows its noise below the crossover, whatever the limit does: there only larger eps tell, and where none are left
    the exponent is None. Raises ``Divergence`` where there is no limit, ``ValueError`` for bad input. Source: Tensor
    Programs VI, Definition 5.6 and appendix L.4.

    >>> import tpcalc as tp
    >>> found = tp.theory.measure_diversity(0.5, 0.5, depths=(64, 128))
    >>> round(found.exponent, 2)
    0.5
    """
    _checks.progress(progress)
    for name, value, kind in (("net", net, ResNet), ("task", task, Task), ("opt", opt, SGD)):
        if value is not None:
            _checks.instance(name, value, kind, f"a tp.{kind.__name__} or None")
    depths = _checks.sizes("depths", depths, 0)
    verdict = classify(alpha, gamma, net)
    scale = DepthScaling(verdict.alpha, verdict.gamma)
    task = Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5]) if task is None else task
    p = _checks.real_number("p", p)
    if not 0 <= p <= 1 - LARGEST:
        raise ValueError(f"p: got {p!r}; expected a layer time in [0, {1 - LARGEST}]")
    row = task.steps - 1 if t is None else t
    row_of(task, "t", row)
    # noise L^a eps^(1/2) is drift L^b eps at eps = L^(2 (a - b))
    noise, drift = (verdict.exponents[f"{name} of x over a piece"] for name in ("noise", "drift"))
    found: list[Differences] = []
    for depth in (sp.oo, *depths):
        run = train(net or ResNet(), task, opt or SGD(1.0), scale, depth, keep_nodes="all")
        if run.depth is None:
            found.append(_differences(None, None, SMALL, run.feature_difference(row, p, SMALL), SMALL > 0))
        else:
            eps = 2.0 ** np.arange(max(run.depth.bit_length() - 2, 0)) / run.depth  # whole layers, up to LARGEST
            crossover = float(run.depth) ** float(2 * (noise - drift))
            smallest = WELL_ABOVE * max(1 / run.depth, crossover if crossover < 1 else 0.0)
            found.append(_differences(run.depth, crossover, eps, run.feature_difference(row, p, eps),
                                      eps >= smallest))
        if progress is not None:
            progress(len(found), len(depths) + 1)
    return Diversity(verdict.alpha, verdict.gamma, verdict.diversity_exponent, found[0], tuple(found[1:]))


def _differences(depth: int | None, crossover: float | None, eps: np.ndarray, values: np.ndarray, fitted: np.ndarray
                 ) -> Differences:
    slope = fit_order(1 / eps[fitted], values[fitted])
    exponent = None if np.isnan(slope.order) else 1 - slope.order
    return Differences(depth, crossover, eps, values, exponent, slope.uncertainty)


def _number(value: float | None) -> str:
    return f"{'-':>8}" if value is None else f"{value:8.3f}"
