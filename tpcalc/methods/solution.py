"""What a run answers questions from: details that were kept, or those of training once more."""

from __future__ import annotations

from functools import partial
from typing import Callable

import numpy as np

from .._types import Value
from .. import _checks
from ..data.losses import derivative
from ..training.problem import Problem
from ..results.details import BlockDetails, PropagatorDetails
from ..results.outputs_alone import OutputsAlone
from ..results.run import Details, Run


def solution(method: Value, problem: Problem, outputs: np.ndarray, layer_times: np.ndarray, kept: Details | None
             ) -> Callable[[], Details]:
    """A solved problem as a value: called, it gives the details, by ``method.details`` where they were not kept."""
    return partial(_kept_or_found, kept, method.details, problem, outputs, layer_times)


def _kept_or_found(kept: Details | None, find: Callable[..., Details], *solved: Value) -> Details:
    return kept or find(*solved)


def outputs_alone(problem: Problem, name: str, outputs: np.ndarray, error_estimate: float,
                  probe_outputs: np.ndarray | None = None, notes: tuple[str, ...] = ()) -> Run:
    """The run of a method that knows outputs alone, shapes as in ``Run``; covariances are then refused by name.

    Raises ``ValueError`` for outputs of other shapes than (steps, batch, d_out), and (steps, m, d_out) for the task's
    m probes.
    """
    _checks.instance("problem", problem, Problem)
    if not isinstance(name, str):
        raise ValueError(f"name: got {_checks.short(name)}; expected the name of a method, as text")
    error_estimate = _checks.nonnegative_number("error_estimate", error_estimate)
    if not isinstance(notes, (tuple, list)) or not all(isinstance(note, str) for note in notes):
        raise ValueError(f"notes: got {_checks.short(notes)}; expected sentences, a tuple of them")
    task = problem.task
    wanted = {"outputs": (outputs, task.targets.shape), "probe_outputs": (
        probe_outputs, None if task.probes is None else (task.steps, len(task.probes), task.d_out))}
    for what, (values, shape) in wanted.items():
        found = None if values is None else _checks.finite_array(what, values)
        if (None if found is None else found.shape) != shape:
            raise ValueError(f"{what}: got shape {None if found is None else found.shape}; expected {shape}")
    return Run(task, outputs, probe_outputs, np.empty(0), name, problem.layers, problem.neurons, error_estimate, notes,
               linear=problem.net.is_plain, details=OutputsAlone(name), problem=problem)


def propagator_details(problem: Problem, outputs: np.ndarray, propagator: Value,
                       linear: bool = True) -> PropagatorDetails:
    """Details from the rows that a propagator learned, and from the signal that the losses of ``outputs`` send back."""
    task = problem.task
    chi = np.concatenate([derivative(task.loss, f, y) for f, y in zip(outputs, task.targets)])
    kind = PropagatorDetails if linear else BlockDetails
    return kind(propagator, task.inputs.reshape(-1, task.d_in), chi, problem.net.train_embedding_readout,
                problem.depth_scaling.sign)
