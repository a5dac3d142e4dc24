"""The dynamical mean field theory of a residual network in one call: solved, sampled, or extrapolated in the depth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._types import Value
from .. import _checks
from ..errors import NotCovered
from ..methods import CommonDraws, Particles
from ..methods.choice import chosen_method
from ..methods.depth_orders import depth_orders
from ..methods.extrapolation import Extrapolation
from ..training.raw_problem import RawProblem
from ..results.order_parameters import NUMBERS, OrderParameters, of_samples, order_parameters

DEPTHS = 3


def dmft(raw: RawProblem, method: Value = "auto", layer_times: Value = None) -> OrderParameters:
    """Solve a network's DMFT, at finite or infinite depth: outputs, kernels, responses and fields.

    raw: a tp.theory.RawProblem of linear or "pre_nonlin" blocks; a finite width trains one real network, whose kernels
    are then those of its neurons. method: as in ``tp.train``; "auto" is exact for linear networks, particles for
    others. At infinite depth networks that are not linear are sampled at depths 8, 16 and 32 with common draws and
    extrapolated batch by batch; method is then "auto" or a ``tp.methods.Particles``, whose ``coarsest`` is 8 unless
    it is given. layer_times: in the limit, (nodes,): any for linear networks, multiples of 1 / coarsest for others,
    which are all of them by default.

    Raises ``ValueError`` for what is not allowed, ``Divergence`` where there is no limit. Source: Depthwise
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
    _checks.instance("raw", raw, RawProblem)
    problem, sampled = raw.problem, method
    if problem.layers is not None or problem.is_linear:
        if problem.layers is not None and layer_times is not None:
            raise ValueError(f"layer_times: got {_checks.short(layer_times)} at depth {problem.layers}, where all "
                             "nodes are; expected None")
        solver = chosen_method(problem, method, {})
        return order_parameters(solver.solve(problem, "all"), raw, layer_times)
    if isinstance(method, str) and method.lower() == "auto":
        sampled = Particles(coarsest=CommonDraws.coarsest)
    if not isinstance(sampled, Particles):
        raise NotCovered(f"method: got {_checks.short(method)} at infinite depth for blocks that are sampled; "
                         "expected 'auto' and tp.methods.Particles")
    return _extrapolated(raw, sampled, layer_times)


def _extrapolated(raw: RawProblem, method: Particles, layer_times: Value) -> OrderParameters:
    """Every number at three depths, batch by batch; responses are those of the block after (A), before (B) a node."""
    coarsest = method.coarsest or CommonDraws.coarsest
    steps = np.arange(coarsest + 1)
    if layer_times is not None:
        times = _checks.finite_array("layer_times", layer_times)
        steps = np.rint(times * coarsest).astype(int)
        if times.ndim != 1 or not len(times) or np.any(np.abs(steps - times * coarsest) > 1e-9) or np.any(
                (steps < 0) | (steps > coarsest)):
            raise ValueError(f"layer_times: got {_checks.short(layer_times)}; expected multiples of 1 / "
                             f"{coarsest} from 0 to 1, at which all depths have nodes")
    orders = depth_orders(raw.problem.net, raw.problem.scale)
    levels, last = [], None
    for level in range(DEPTHS):
        depth = coarsest * 2**level
        problem = replace(raw.problem, depth=depth)
        last = replace(method, coarsest=coarsest).solve(problem, "all")
        nodes = steps * 2**level
        locations = {**dict.fromkeys(("H", "Phi", "G"), nodes), "A": np.minimum(nodes, depth - 1),
                     "B": np.maximum(nodes - 1, 0)}
        batches = of_samples(last, replace(raw, problem=problem), last.solved)
        levels.append([np.concatenate([_at(one, name, locations).ravel() for name in NUMBERS]) for one in batches])
    assert last is not None
    powers = np.array(orders.first(DEPTHS))
    found = Extrapolation(np.array(levels).transpose(1, 0, 2), powers, coarsest)
    shapes = {name: _at(batches[0], name, locations).shape for name in NUMBERS}

    def split(values: np.ndarray) -> dict[str, np.ndarray]:
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
        return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), np.split(values, ends[:-1]))}

    return OrderParameters(last, steps / coarsest, **split(found.limit), fields=None,
                           standard_errors=split(found.standard_error), bias_bounds=split(found.bias_bound))


def _at(one: OrderParameters, name: str, locations: dict[str, np.ndarray]) -> np.ndarray:
    value: np.ndarray = getattr(one, name)
    return value[locations[name]] if name in locations else value
