"""What particles must be like for values that vanish at infinite width to be told from others, which networks blow up
to order one: where an update has a size or a direction that does not depend on that of its gradient."""

from __future__ import annotations

import numpy as np

from .._types import DType
from ..lowering.array_backends import precision
from ..optimizers.updates import kind_of_updates
from ..training.problem import Problem

BATCHES = 4
PART = 4       # times fewer particles, or neurons, in the runs beside: what fluctuates is twice as large
FALLS = 1.5    # a value with a quarter of the neurons over that with all of them: of a fluctuation alone it is 2
SPREAD = 0.25  # standard deviation of a value between batches, over its mean: of a fluctuation alone it is about 3/4


def directions_are_sampled(problem: Problem) -> bool:
    """Whether what a function of whole matrices divides by, and vanishes at infinite width, is found by real networks
    beside particles, not by counting loss derivatives and inputs as with tp.Muon in a usual tp.ResNet."""
    counted = kind_of_updates(problem.opt) == "orthogonal" and not problem.net.positions and (
        problem.net.is_usual and problem.net.reads_stream)
    return _is_spectral(problem) and not counted


def _is_spectral(problem: Problem) -> bool:
    return kind_of_updates(problem.opt) in ("spectral", "orthogonal")


def are_told(problem: Problem) -> bool:
    """Whether particles are held against runs of a quarter of their number."""
    return kind_of_updates(problem.opt) == "normalized" or directions_are_sampled(problem)


def fewest_part(problem: Problem) -> int:
    """How many times more particles than the fewest are needed: the runs beside are of particles too, or of networks,
    which can be of any width."""
    return PART if kind_of_updates(problem.opt) == "normalized" else 1


def rounded(problem: Problem, dtype: DType) -> str | None:
    """Why a precision is not taken in which rounding may pass for a gradient that vanishes, or None."""
    known = problem.neurons is not None and _is_spectral(problem)
    if known or not are_told(problem) or precision(dtype) is np.float64:
        return None
    return (f"dtype: got {dtype!r} with {problem.opt!r}; what rounding leaves of outer products that cancel is told "
            "from a gradient in double precision; expected 'float64'")


def require_batches(problem: Problem, batches: int) -> None:
    """Raise ``ValueError`` for batches that are too few to tell a value from a fluctuation by."""
    if batches < BATCHES:
        raise ValueError(f"batches: got {batches} with {problem.opt!r}; expected at least {BATCHES}, which tell "
                         "what it divides by from a fluctuation")
