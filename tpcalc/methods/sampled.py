"""What readings of a training's program share: the program itself, what they refuse, and their details."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..interpreters.training import Training, dense_record
from ..programs.activations import require_finite
from ..programs.problem import Problem
from ..results.details import DenseDetails, nearest_nodes
from .method import misplaced, reason_of


def training(problem: Problem) -> Training:
    """The problem as a program with its sizes and data."""
    assert problem.layers is not None
    return Training(problem.net, problem.task, problem.opt, problem.scale, problem.layers)


def not_sampled(name: str, problem: Problem, *, real: bool) -> str | None:
    """Why a reading of the program, of a real network or at infinite width, refuses, or None."""
    return misplaced(name, problem, real=real) or reason_of(lambda: require_finite(problem.net.phi))


def node_details(job: Training, run: Any, layer_times: np.ndarray) -> DenseDetails:
    """Averages over the coordinates of a run that kept its vectors."""
    nodes = nearest_nodes(layer_times, job.depth)
    return DenseDetails(dense_record(job, run, nodes), nodes, job.depth)


def fluctuation(run: Any, width: int) -> float:
    """The scale of what distinguishes two seeds: the standard deviation of an output at initialisation."""
    return float(np.sqrt(np.max(run.series("square")) / width))
