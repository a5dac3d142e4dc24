"""What readings of a training's program share: what they refuse, how they solve, and their details."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import ClassVar

import numpy as np

from .._types import KeptNodes, Value
from ..errors import NotCovered
from ..interpreters.common_draws import Refinement
from ..interpreters.training import BlockRecord, Keep, Training, block_record, dense_record
from ..scaling import Parametrization
from ..training.problem import Problem
from ..results.details import DenseDetails, nearest_nodes, or_all_layers
from ..results.outputs_alone import OutputsAlone
from ..optimizers.sgd import on_sphere
from ..results.run import Details, Run
from ..results.sphere import Sphere
from .fluctuations import rounded
from .method import Progress, reason_of, refusal, require_known_directions, require_taken, solution, wanted_times


NO_POSITIONS = "runs of a tp.ResNet"


class ReadsProgram(ABC):
    """A method that reads the program of a training, whatever the block and the optimizer."""

    name: ClassVar[str]

    @abstractmethod
    def read(self, problem: Problem, keep: Keep, progress: Progress | None) -> Value:
        """The reading of ``training(problem, keep)``."""

    def known(self, problem: Problem, found: Value, layer_times: np.ndarray) -> Details:
        """What a reading that kept its vectors knows at the nodes."""
        return node_details(training(problem), found, layer_times)

    def records(self, problem: Problem, found: Value) -> tuple[BlockRecord, ...]:
        """What a reading that kept its blocks recorded, one value for each of independent runs."""
        return (block_record(training(problem, Keep.BLOCKS), found),)

    def blocks(self, problem: Problem) -> tuple[BlockRecord, ...]:
        """What matrices of blocks met, by running the same reading once more."""
        require_one_stream(problem, "run")
        return self.records(problem, self.read(problem, Keep.BLOCKS, None))

    def error(self, found: Value) -> float:
        """The scale of what distinguishes two seeds: the standard deviation of an output at initialization."""
        return float(np.sqrt(np.max(found.series("square")) / found.width))

    def sphere(self, problem: Problem, found: Value) -> Sphere | None:
        """What weights on spheres were divided by, in a real network."""
        net = problem.net
        if problem.neurons is None or not on_sphere(problem.opt):
            return None
        return Sphere.of(found, {name: net.whole(name) for name in net.families_of_matrices})

    def notes(self, problem: Problem, found: Value) -> tuple[str, ...]:
        """What should be known about the result."""
        return ()

    def refuses(self, problem: Problem) -> str | None:
        """Widths and depths that are not the method's, activations that are not finite, and depths that are no
        doublings of ``coarsest``, where depths share draws."""
        return (refusal(self.name, problem)
                or rounded(problem, getattr(self, "dtype", "float64"))
                or reason_of(problem.net.require_finite)
                or reason_of(lambda: refinement(problem, getattr(self, "coarsest", None))))

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train, with the error estimate that the method has; raises ``MemoryError`` before the work."""
        return self._solved(problem, keep_nodes, Keep.NOTHING if keep_nodes is None else Keep.STREAM, progress)

    def solve_with_blocks(self, problem: Problem) -> Run:
        """Train, and keep all nodes and what matrices of blocks met."""
        return self._solved(problem, "all", Keep.BLOCKS, None)

    def _solved(self, problem: Problem, keep_nodes: KeptNodes, keep: Keep, progress: Progress | None) -> Run:
        require_taken(self, problem)
        if keep_nodes is not None:
            require_one_stream(problem, "keep_nodes")
            if keep is not Keep.BLOCKS:
                require_no_positions(problem, "keep_nodes")
        job = training(problem)
        wanted = wanted_times(keep_nodes, problem)
        found = self.read(problem, keep, progress)
        times = or_all_layers(wanted, job.depth)
        kept = None if keep_nodes is None or job.net.positions else self.known(problem, found, times)
        outputs = job.outputs(found.series("f"))
        if problem.neurons is None:
            require_known_directions(problem, outputs[0], job.outputs(found.error_series("f"))[0])
        return Run(problem.task, *outputs, times, self.name, job.depth, problem.neurons, self.error(found),
                   self.notes(problem, found), linear=job.net.is_plain, start=getattr(found, "start", None),
                   sphere=self.sphere(problem, found),
                   details=OutputsAlone(self.name, NO_POSITIONS) if job.net.positions else
                   solution(self, problem, outputs[0], times, kept), problem=problem,
                   blocks=partial(self.blocks, problem) if keep is not Keep.BLOCKS else
                   partial(tuple, self.records(problem, found)))

    def details(self, problem: Problem, outputs: np.ndarray, layer_times: np.ndarray) -> Details:
        """What is known at the nodes, by running the same reading once more."""
        require_one_stream(problem, "run")
        return self.known(problem, self.read(problem, Keep.STREAM, None), layer_times)


def require_no_positions(problem: Problem, what: str) -> None:
    """Raise ``ValueError`` for sequences: of these outputs alone are known."""
    if problem.net.positions:
        raise NotCovered(f"{what}: given for {problem.task}, of which outputs are known and nothing else; expected "
                         "None, or a tp.ResNet")


def require_one_stream(problem: Problem, what: str) -> None:
    """Raise ``ValueError`` where outputs are not read from one stream, or layers have a vector of it for every
    visit: covariances are those of one."""
    problem.net.require_one_visit(f"{what}: vectors of layers are kept")
    if not problem.net.reads_one_stream:
        raise NotCovered(f"{what}: got {problem.net!r}, of which outputs are known and nothing else, since the "
                         f"readout reads {len(problem.net.streams)} streams; expected a skip with one")


def training(problem: Problem, keep: Keep = Keep.NOTHING) -> Training:
    """The problem as a program with its sizes and data, and what is kept of it."""
    assert problem.layers is not None
    scale = problem.scale
    if isinstance(scale, Parametrization) and not problem.is_mup:
        assert problem.neurons is not None
        scale = scale.at_width(problem.neurons)
    net = problem.net if problem.neurons else problem.net.at_infinite_width
    return Training(net, problem.task, problem.opt, scale, problem.layers, keep)


def refinement(problem: Problem, coarsest: int | None) -> Refinement | None:
    """The problem's depth as doublings of the coarsest one; raises ``ValueError`` where it is none of them."""
    return None if coarsest is None or problem.layers is None else Refinement.of(problem.layers, coarsest)


def execution(plain: Value, refined: Value, at: Refinement | None) -> Value:
    """What runs the program: with draws of its own, or with those that depths share."""
    return plain if at is None else partial(refined, refinement=at)


def node_details(job: Training, run: Value, layer_times: np.ndarray) -> DenseDetails:
    """The vectors x and delta of a run that kept them, at the nodes nearest to the layer times; covariances are their
    averages over coordinates."""
    nodes = nearest_nodes(layer_times, job.depth)
    return DenseDetails(dense_record(job, run, nodes), nodes, job.depth)
