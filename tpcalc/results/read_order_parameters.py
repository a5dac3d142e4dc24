"""The order parameters of a run: read off reflections where it is linear and exact, off samples elsewhere."""

from __future__ import annotations

import numpy as np

from .. import _checks
from .._types import Value
from ..errors import NotCovered
from ..models.networks import Residual
from ..optimizers import SGD
from ..propagators.covariances import inverse
from ..training.initial_products import block_products
from ..training.problem import Problem
from ..training.raw_problem import RawProblem
from .details import BlockDetails, PropagatorDetails
from .order_parameters import Numbers, OrderParameters, indexed, of_numbers
from .run import Run
from .sampled_order_parameters import joined_fields, means, of_batch, with_embedding_readout
from .tangent import tangent_kernel
from .units import Units

TIMES = 9           # layer times of the limit, unless they are given


def order_parameters(run: Run, raw: RawProblem | None = None, layer_times: np.ndarray | None = None
                     ) -> OrderParameters:
    """Read the order parameters of the DMFT off a run.

    run: of a linear network with one matrix a block and a tp.SGD, exact or not, or of any network whose layers are
    x + eps block(x) by "particles", "conditioned" or "dense" at finite depth, whatever its optimizer; raw: the problem
    in the source's units that was trained, None for mu0 = 1 and eta0 the learning rate; layer_times: in the limit,
    (nodes,), nine by default; at finite depth all nodes are given.

    Of a sampled run what matrices met is kept by training once more. In linear networks all inputs of a step have one
    g, so that A means something summed over them only.

    Raises ``ValueError`` for several outputs, blocks with a matrix that makes several products, schedules without
    ``raw``, runs that know outputs alone, and inputs whose loss derivative vanishes, whose gradient is not known then
    (in a linear network: all of a step; with positions, where g is the loss's own, responses to a g of 0 are 0).
    Source: Depthwise Hyperparameter Transfer, (4), (25) [depthwise_transfer/fields_and_kernels], (39), (49) and (72)
    [depthwise_transfer/responses], whose responses are means of derivatives of fields
    [depthwise_transfer/field_derivatives], as they are to be read [depthwise_transfer/written_forms]; together they
    are the saddle [depthwise_transfer/saddle_point] of an action [depthwise_transfer/path_integral], which averages
    over weights make [depthwise_transfer/averages_over_weights]. Those of linear networks solve integral equations
    [depthwise_transfer/linear_equations]; sums over layers become integrals over layer time
    [depthwise_transfer/continuum]. Of several matrices every one has responses
    [depthwise_transfer/within_blocks].

    >>> import tpcalc as tp
    >>> run = tp.train(tp.ResNet(), tp.Task([1, 1], [1, 0]), tp.SGD(1.0), tp.DepthScaling(), depth=tp.oo)
    >>> dmft = tp.theory.order_parameters(run, layer_times=[0, 0.5, 1])
    >>> dmft.H[:, 0, 0, 0, 0].round(4).tolist(), dmft.A[1:, 1, 0, 0, 0].round(4).tolist()  # e^tau, tau e^tau
    ([1.0, 1.6487, 2.7183], [0.8244, 2.7183])
    """
    _checks.instance("run", run, Run)
    if raw is not None:
        _checks.instance("raw", raw, RawProblem, "a tp.theory.RawProblem or None")
        if raw.problem != run.problem:
            raise ValueError("raw: got the problem of another run; expected that of this one, or None")
    require_parameters(run.problem, "run")
    if layer_times is not None and run.depth is not None:
        raise ValueError(f"layer_times: got {_checks.short(layer_times)} at depth {run.depth}, where all nodes are; "
                         "expected None")
    if run.blocks is not None:
        batches = [of_batch(run, raw, record) for record in run.blocks()]
        numbers, errors = means([one for one, _ in batches])
        assert run.depth is not None
        return of_numbers(run, np.arange(run.depth + 1) / run.depth, numbers, errors,
                          fields=joined_fields([fields for _, fields in batches]))
    known = run.solved if run.depth is None or len(run.layer_times) == run.depth + 1 else run.details()
    if not isinstance(known, PropagatorDetails) or isinstance(known, BlockDetails) or not isinstance(
            run.problem.opt, SGD):
        raise NotCovered(f"run: got one by method={run.method!r} of {run.problem.net!r}, trained by "
                         f"{_checks.short(run.problem.opt)}; expected linear networks of one matrix a block and a "
                         "tp.SGD by 'reflection' or 'collocation', and 'particles', 'conditioned' and 'dense' "
                         "for any, at finite depth")
    return _exact(run, known, Units.of(run, raw, run.outputs), layer_times)


def require_parameters(problem: Problem, name: str) -> None:
    """Raise ``NotCovered`` for a problem whose networks have no order parameters here; name: what has it."""
    if problem.task.d_out != 1:
        raise NotCovered(f"{name}: its task has {problem.task.d_out} outputs; order parameters are found for one")
    assert isinstance(problem.net, Residual)
    problem.net.require_added()
    block_products(problem.net)
    problem.depth_scaling  # one exponent for all matrices, which the units of responses are made of


def _exact(run: Run, known: PropagatorDetails, units: Units, layer_times: np.ndarray | None) -> OrderParameters:
    """From rows of reflections: A is G P chi, of a row of g itself; B likewise."""
    propagator: Value = known.propagator
    steps, batch = run.task.steps, run.task.batch
    chi = units.chi.reshape(steps, batch)
    largest = np.argmax(np.abs(chi), axis=1)
    if np.any(np.max(np.abs(chi), axis=1) == 0):
        raise ValueError(f"run: the loss derivative of step {int(np.argmin(np.max(np.abs(chi), axis=1)))} vanishes for "
                         "all inputs, so that no gradient is known there")
    rows = np.repeat(np.arange(steps) * batch + largest, batch)  # whose g is that of a row
    if run.depth is None:
        times = np.linspace(0, 1, TIMES) if layer_times is None else _checks.finite_array("layer_times", layer_times)
        if times.ndim != 1 or not len(times) or np.min(times) < 0 or np.max(times) > 1:
            raise ValueError(f"layer_times: got {_checks.short(layer_times)}; expected numbers from 0 to 1")
        P, Q = (propagator.mesh.evaluate(nodal, times) for nodal in (propagator.P, propagator.Q))
        noise, before, after = float(propagator.noise), (P, Q), (P, Q)
    else:
        times = np.arange(run.depth + 1) / run.depth
        _checks.memory(60.0 * len(times) * (steps * batch)**2, f"order parameters at depth {run.depth}",
                       "a smaller depth fits")
        P, Q = propagator.P[:], propagator.Q[:]
        noise, before, after = run.depth * propagator.eps**2, (P[:-1], Q[:-1]), (P[1:], Q[1:])
    weights = propagator.rho[:, None] * propagator.rho * noise / units.c
    A = weights * (inverse(*before) @ before[0]) * units.chi
    B = weights * (inverse(*after[::-1]) @ after[1])[:, rows] / units.chi[rows][:, None]
    H = known.covariance(True, times)
    G = known.covariance(False, times)[:, rows[:, None], rows] / np.outer(units.chi[rows], units.chi[rows])
    K = with_embedding_readout(run, tangent_kernel(run), H[-1], G[0])
    name, = run.problem.net.families_of_matrices
    read, given = (H, G) if run.depth is None else (H[:-1], G[1:])  # by the matrix of a block
    numbers: Numbers = {("", "f"): units.f, ("", "Delta"): units.Delta, ("", "H"): H, ("", "Phi"): H, ("", "G"): G,
                        ("", "K"): K, (name, "Phi"): read, (name, "G"): given, (name, "A"): A, (name, "B"): B}
    return of_numbers(run, times, indexed(numbers, (steps, batch)))
