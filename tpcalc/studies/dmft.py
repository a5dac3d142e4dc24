"""The dynamical mean field theory of a residual network in one call: solved, sampled, or extrapolated in the depth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._types import Value
from .. import _checks
from ..errors import NotCovered
from ..methods import CommonDraws, Particles
from ..methods.choice import chosen_method
from ..propagators.depth_orders import depth_orders
from ..propagators.extrapolation import Extrapolation
from ..methods.sampled import ReadsProgram
from ..training.problem import Problem
from ..training.raw_problem import RawProblem
from ..results import OrderParameters, order_parameters
from ..results.order_parameters import Number, Numbers, of_numbers
from ..results.read_order_parameters import require_parameters
from ..results.sampled_order_parameters import of_batch

DEPTHS = 3


def dmft(raw: RawProblem | Problem, method: Value = "auto", layer_times: Value = None) -> OrderParameters:
    """Solve a network's DMFT, at finite or infinite depth: outputs, kernels, responses and fields.

    raw: a tp.theory.RawProblem, or a tp.Problem of any optimizer with one learning rate, which then stands for eta0
    mu0; a finite width trains one real network, whose kernels are then those of its neurons. method: as in
    ``tp.train``; "auto" is exact for linear networks of one matrix a block, particles for others. At infinite depth
    these others are sampled at depths 8, 16 and 32 with common draws and extrapolated batch by batch; method is then
    "auto" or a ``tp.methods.Particles``, whose ``coarsest`` is 8 unless it is given. layer_times: in the limit,
    (nodes,): any for linear networks, multiples of 1 / coarsest for others, which are all of them by default.

    Raises ``ValueError`` for what is not allowed, as ``tp.theory.order_parameters``, and ``Divergence`` where there is
    no limit. Source: Depthwise
    Hyperparameter Transfer, propositions 1 and 3, (38), (39) and appendix K.4 [depthwise_transfer/proposition_3],
    whichever limit is first [depthwise_transfer/infinite_depth_action]; in a finite network fields obey identities
    [depthwise_transfer/finite_network], of momentum [depthwise_transfer/momentum], decay
    [depthwise_transfer/weight_decay], a trained embedding and readout [depthwise_transfer/embedding_and_readout]
    too, and what they are off by has the forms of its appendices H and J [depthwise_transfer/finite_size].

    >>> import tpcalc as tp
    >>> task = tp.Task([1, 0.8], [1, -0.7])
    >>> raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=0.5), tp.ResNet("tanh", "pre_nonlin"), task, depth=4)
    >>> found = tp.theory.dmft(raw, tp.methods.Particles(samples=512, batches=2))
    >>> found.Phi.shape, found.A.shape
    ((5, 2, 1, 2, 1), (4, 2, 1, 2, 1))
    """
    if not isinstance(raw, Problem):
        _checks.instance("raw", raw, RawProblem, "a tp.theory.RawProblem or a tp.Problem")
    problem, known = (raw, None) if isinstance(raw, Problem) else (raw.problem, raw)
    require_parameters(problem, "raw")
    sampled = method
    if problem.layers is not None or problem.is_linear:
        if problem.layers is not None and layer_times is not None:
            raise ValueError(f"layer_times: got {_checks.short(layer_times)} at depth {problem.layers}, where all "
                             "nodes are; expected None")
        solver = chosen_method(problem, method, {})
        run = solver.solve_with_blocks(problem) if isinstance(solver, ReadsProgram) else solver.solve(problem, "all")
        return order_parameters(run, known, layer_times)
    if isinstance(method, str) and method.lower() == "auto":
        sampled = Particles(coarsest=CommonDraws.coarsest)
    if not isinstance(sampled, Particles):
        raise NotCovered(f"method: got {_checks.short(method)} at infinite depth for blocks that are sampled; "
                         "expected 'auto' and tp.methods.Particles")
    return _extrapolated(problem, known, sampled, layer_times)


def _extrapolated(limit: Problem, raw: RawProblem | None, method: Particles, layer_times: Value) -> OrderParameters:
    """Every number at three depths, batch by batch; those of matrices are of the blocks at a node."""
    coarsest = method.coarsest or CommonDraws.coarsest
    steps = np.arange(coarsest + 1)
    if layer_times is not None:
        times = _checks.finite_array("layer_times", layer_times)
        steps = np.rint(times * coarsest).astype(int)
        if times.ndim != 1 or not len(times) or np.any(np.abs(steps - times * coarsest) > 1e-9) or np.any(
                (steps < 0) | (steps > coarsest)):
            raise ValueError(f"layer_times: got {_checks.short(layer_times)}; expected multiples of 1 / "
                             f"{coarsest} from 0 to 1, at which all depths have nodes")
    orders = depth_orders(limit.net, limit.scale)
    levels, last = list[list[Numbers]](), None
    for level in range(DEPTHS):
        depth = coarsest * 2**level
        problem = replace(limit, depth=depth)
        known = None if raw is None else replace(raw, problem=problem)
        last = replace(method, coarsest=coarsest).solve_with_blocks(problem)
        assert last.blocks is not None
        batches = [of_batch(last, known, record)[0] for record in last.blocks()]
        levels.append([_at(one, steps * 2**level, depth) for one in batches])
    assert last is not None
    flat = [[np.concatenate([value.ravel() for value in one.values()]) for one in level] for level in levels]
    found = Extrapolation(np.array(flat).transpose(1, 0, 2), np.array(orders.first(DEPTHS)), coarsest)
    shapes = {key: value.shape for key, value in levels[0][0].items()}

    def split(values: np.ndarray) -> Numbers:
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
        return {key: part.reshape(shape) for (key, shape), part in zip(shapes.items(), np.split(values, ends[:-1]))}

    return of_numbers(last, steps / coarsest, split(found.limit), split(found.standard_error), split(found.bias_bound))


def _at(numbers: Numbers, nodes: np.ndarray, depth: int) -> Numbers:
    """What stands at these nodes: of matrices what the block after a node reads, and what comes back to that before."""
    def at(key: Number) -> np.ndarray:
        matrix, what = key
        if not matrix:
            return numbers[key][nodes] if what in ("H", "Phi", "G") else numbers[key]
        return numbers[key][np.minimum(nodes, depth - 1) if what in ("Phi", "A") else np.maximum(nodes - 1, 0)]
    return {key: at(key) for key in numbers}
