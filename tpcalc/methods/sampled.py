"""What readings of a training's program share: the program itself, what they refuse, and their details."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..interpreters.common_draws import Refinement
from ..interpreters.training import Training, dense_record
from ..programs.activations import require_finite
from ..programs.problem import Problem
from ..solvers.details import DenseDetails, nearest_nodes
from .method import misplaced, reason_of


def training(problem: Problem) -> Training:
    """The problem as a program with its sizes and data."""
    assert problem.layers is not None
    return Training(problem.net, problem.task, problem.opt, problem.scale, problem.layers)


def not_sampled(name: str, problem: Problem, coarsest: int | None = None, *, real: bool) -> str | None:
    """Why a reading of the program, of a real network or at infinite width, refuses, or None.

    coarsest: the depth whose doublings share draws, if any do.
    """
    return (misplaced(name, problem, real=real) or reason_of(lambda: require_finite(problem.net.phi))
            or reason_of(lambda: refinement(problem, coarsest)))


def refinement(problem: Problem, coarsest: int | None) -> Refinement | None:
    """The problem's depth as doublings of the coarsest one; raises ``ValueError`` where it is none of them."""
    return None if coarsest is None or problem.layers is None else Refinement.of(problem.layers, coarsest)


def execution(plain: Any, refined: Any, at: Refinement | None) -> Any:
    """What runs the program: with draws of its own, or with those that depths share."""
    return plain if at is None else partial(refined, refinement=at)


def node_details(job: Training, run: Any, layer_times: np.ndarray) -> DenseDetails:
    """Averages over the coordinates of a run that kept its vectors."""
    nodes = nearest_nodes(layer_times, job.depth)
    return DenseDetails(dense_record(job, run, nodes), nodes, job.depth)


def fluctuation(run: Any, width: int) -> float:
    """The scale of what distinguishes two seeds: the standard deviation of an output at initialisation."""
    return float(np.sqrt(np.max(run.series("square")) / width))
