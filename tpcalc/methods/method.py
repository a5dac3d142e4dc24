"""What a method of training is, what methods share, and what a run that they solved answers questions from."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Callable, Protocol

import numpy as np
import sympy as sp

from .. import _checks
from .._types import KeptNodes, Value
from ..data.losses import derivative
from ..errors import NotCovered
from ..optimizers import Muon
from ..propagators.muon import require_limit_directions
from ..results.details import BlockDetails, PropagatorDetails, nearest_nodes
from ..results.outputs_alone import OutputsAlone
from ..results.run import Details, Run
from ..scaling import Parametrization, WidthScaling
from ..training.problem import Problem
from ..width.sizes.verdict import width_verdict
from .fluctuations import directions_are_sampled
from .normalized import require_gradients
from .takes import TAKES, misplaced, not_taken, require_decided

Progress = Callable[[int, int], None]


class Method(Protocol):
    """A way to train a problem: a frozen value with its own options.

    name: what ``run.method`` says. A method that is written elsewhere needs these three and nothing more; it goes to
    ``tp.train(problem, method=...)`` and ``tp.methods.table(problem, methods=...)`` as it is.
    """

    @property
    def name(self) -> str:
        """What the method is called."""

    def refuses(self, problem: Problem) -> str | None:
        """A sentence that says why this method does not take the problem, or None where the method takes it."""

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train; raises ``NotCovered`` with the reason where the method refuses the problem."""


def refusal(name: str, problem: Problem) -> str | None:
    """Why the table of what methods take has no place for a problem, or None."""
    found = misplaced(name, problem)
    if found is None and not problem.is_mup and TAKES[name].powers_of_n == "muP":
        found = no_kets(name, problem)
    if found is None:
        found = not_taken(name, problem)
    if found is None and problem.neurons is None:
        found = reason_of(lambda: require_decided(problem))
    if found is None and TAKES[name].blocks == "linear":
        trained = TAKES[name].ends == "trained"
        found = reason_of(lambda: problem.net.require_plain(f"method={name!r}", trained,
                                                            visited=TAKES[name].visits != "a number"))
    if found is None and TAKES[name].blocks == "without functions" and not problem.net.is_linear:
        found = (f"net: got {problem.net!r}; method={name!r} takes linear networks: sums of vectors and of products of "
                 "matrices with vectors, without norms and activations")
    return found


def no_kets(name: str, problem: Problem) -> str:
    """Why a method that is written in kets does not take powers of n other than muP's: what becomes of a perceptron."""
    assert isinstance(problem.scale, Parametrization)
    found = ""
    if problem.neurons is None:
        found = f" A perceptron of these powers of n: {_fate(problem.scale.width_scaling, problem.net.phi)}."
    return (f"scale: got {_checks.short(problem.scale)}, not muP in width; method={name!r} takes vectors that have "
            f"kets, with entries that stay of order one and learn.{found} Allowed are width='muP', or 'dense' at "
            "finite width with tp.SGD")


@lru_cache(maxsize=64)
def _fate(scaling: WidthScaling, phi: sp.Expr | str) -> str:
    """What becomes of a perceptron with these powers of n, with the term that decides."""
    try:
        return str(width_verdict(scaling, phi))
    except NotCovered as error:
        return f"not known ({error})"


def reason_of(check: Callable[[], Value]) -> str | None:
    """What a check says that raises ``NotCovered``, or None; all else that it raises is seen."""
    try:
        check()
    except NotCovered as error:
        return str(error)
    return None


def require_taken(method: Method, problem: Problem) -> None:
    """Raise ``NotCovered`` with the method's reason where it refuses the problem."""
    reason = method.refuses(problem)
    if reason is not None:
        raise NotCovered(reason)


def require_outputs_alone(method: Method, problem: Problem, keep_nodes: KeptNodes, instead: str = "") -> None:
    """``require_taken`` of a method that knows outputs alone, and no nodes that are to be kept."""
    require_taken(method, problem)
    if keep_nodes is not None:
        raise NotCovered(f"keep_nodes: got {_checks.short(keep_nodes)}; method={method.name!r} knows outputs alone; "
                         f"expected None{instead}")


def wanted_times(keep_nodes: KeptNodes, problem: Problem) -> np.ndarray | None:
    """The layer times of ``keep_nodes``, those of the nearest nodes at finite depth; None stands for all nodes.

    Raises ``ValueError`` for what is neither None, "all" nor layer times in [0, 1].
    """
    if keep_nodes is None or (isinstance(keep_nodes, str) and keep_nodes == "all"):
        return None
    if isinstance(keep_nodes, (bool, np.bool_, str)):
        raise ValueError(f"keep_nodes: got {keep_nodes!r}; expected None, 'all' or layer times in [0, 1]")
    times = np.atleast_1d(_checks.finite_array("keep_nodes", keep_nodes))
    if times.ndim != 1 or not len(times) or times.min() < 0 or times.max() > 1:
        raise ValueError(f"keep_nodes: got {keep_nodes!r}; expected None, 'all' or layer times in [0, 1]")
    return times if problem.layers is None else nearest_nodes(times, problem.layers) / problem.layers


def each_step(progress: Progress | None, problem: Problem) -> Callable[[int], None]:
    """Tell (steps done, steps) after step t."""
    return (lambda t: None) if progress is None else (lambda t: progress(t + 1, problem.task.steps))


def require_known_directions(problem: Problem, outputs: np.ndarray, error: np.ndarray | float = 0.0) -> None:
    """Raise ``ValueError`` where Muon moves along a direction that vanishes at infinite width, ``Divergence`` where a
    gradient does whose size an update does not follow.

    outputs: (steps, batch, d_out), known to ``error``.
    """
    if not isinstance(problem.opt, Muon):
        require_gradients(problem, outputs, error)
    elif not directions_are_sampled(problem):
        require_limit_directions(problem.resnet, problem.of_vectors, problem.opt, outputs, error)


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
