"""Order parameters of dynamical mean field theory, as views of a run: kernels and responses indexed (t, i, s, j)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Mapping

import numpy as np
import sympy as sp

from .. import _checks
from .._types import Value
from ..errors import NotCovered
from ..propagators.covariances import inverse
from ..optimizers import SGD
from ..models.activations import H as VARIABLE, activation, is_linear
from ..data.losses import derivative
from ..training.raw_problem import RawProblem
from .details import DenseDetails, PropagatorDetails
from .responses import responses
from .run import Details, Run
from .sampled import SampledDetails
from .tangent import tangent_kernel

TIMES = 9           # layer times of the limit, unless they are given
NUMBERS = ("f", "Delta", "H", "Phi", "G", "A", "B", "K")
FLAT = 1e-8         # a slope of the activation through which nothing is seen of what comes back


@dataclass(frozen=True, eq=False, repr=False)
class Fields:
    """The fields of single sites, as samples: (nodes or layers, t, i, samples) each.

    h, g: at the L + 1 nodes; chi = W(0) phi(h) and its Gaussian part u, of the L blocks; xi = W(0)^T g and its Gaussian
    part r, of the L blocks, or None where the activation has slope 0 on a sample, which xi does not get through.
    """

    h: np.ndarray
    g: np.ndarray
    chi: np.ndarray
    u: np.ndarray
    xi: np.ndarray | None
    r: np.ndarray | None


@dataclass(frozen=True, eq=False, repr=False)
class OrderParameters:
    """The order parameters of a residual network's DMFT, with its letters, indices (t, i, s, j) and units.

    layer_times: (nodes,), of all nodes l / L at finite depth; f, Delta: (t, i), outputs and -dloss/df; H, Phi, G:
    (nodes, t, i, s, j), <h h'>, <phi(h) phi(h')>, <g g'>; A, B: responses over eta0 mu0, (L, t, i, s, j) at finite
    depth, A[l - 1] and B[l - 1] of block l with G of the node after it and Phi of the node before it, and (nodes, ...)
    in the limit; K: (t, i, s, j), the tangent kernel; fields: samples, or None where the run has none.

    standard_errors: by name, of what is a mean over batches of samples, else empty; bias_bounds: by name, where depths
    were extrapolated.

    A block adds eps u + (eta0 mu0 / L) sum over earlier (s, j) of (Phi Delta branch^2 / batch + A) g to h. Where some g
    are combinations of others, as at the end of the network, only these sums mean anything, not A itself; so B.

    >>> import tpcalc as tp
    >>> raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=0.5), tp.ResNet(), tp.Task([1, 1], [1, 0]), depth=4)
    >>> found = tp.theory.dmft(raw)
    >>> found.layer_times.tolist(), found.G[:, 0, 0, 0, 0].round(4).tolist()
    ([0.0, 0.25, 0.5, 0.75, 1.0], [2.4414, 1.9531, 1.5625, 1.25, 1.0])
    """

    run: Run
    layer_times: np.ndarray
    f: np.ndarray
    Delta: np.ndarray
    H: np.ndarray
    Phi: np.ndarray
    G: np.ndarray
    A: np.ndarray
    B: np.ndarray
    K: np.ndarray
    fields: Fields | None = None
    standard_errors: Mapping[str, np.ndarray] = field(default_factory=dict)
    bias_bounds: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (f"OrderParameters(method={self.run.method!r}, nodes={len(self.layer_times)}, steps={self.f.shape[0]}, "
                f"batch={self.f.shape[1]})")


@dataclass(frozen=True)
class _Units:
    """What turns the run's conventions into the source's: f, Delta (t, i); chi (N,), dloss/df of the run; eta0 mu0."""

    f: np.ndarray
    Delta: np.ndarray
    chi: np.ndarray
    c: float


def order_parameters(run: Run, raw: RawProblem | None = None, layer_times: np.ndarray | None = None
                     ) -> OrderParameters:
    """Read the order parameters of the DMFT off a run.

    run: of a linear network with one matrix a block, exact or not, or of a network with "pre_nonlin" blocks by
    "particles", "conditioned" or "dense" at finite depth; raw: the problem in the source's units that was trained, None
    for mu0 = 1 and eta0 the learning rate; layer_times: in the limit, (nodes,), nine by default; at finite depth all
    nodes are given.

    In linear networks all inputs of a step have one g, so that A means something summed over them only.

    Raises ``ValueError`` for several outputs, other blocks, schedules without ``raw``, runs that know outputs alone,
    and inputs whose loss derivative vanishes, whose gradient is not known then (in a linear network: all of a step).
    Source: Depthwise Hyperparameter Transfer, (4), (25) [depthwise_transfer/fields_and_kernels], (39), (49) and (72)
    [depthwise_transfer/responses], whose responses are means of derivatives of fields
    [depthwise_transfer/field_derivatives], as they are to be read [depthwise_transfer/written_forms]; together they
    are the saddle [depthwise_transfer/saddle_point] of an action [depthwise_transfer/path_integral], which averages
    over weights make [depthwise_transfer/averages_over_weights]. Those of linear networks solve integral equations
    [depthwise_transfer/linear_equations]; sums over layers become integrals over layer time
    [depthwise_transfer/continuum].

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
    if run.task.d_out != 1:
        raise NotCovered(f"run: its task has {run.task.d_out} outputs; order parameters are found for one")
    if not run.linear and run.problem.resnet.block != "pre_nonlin" or run.problem.net.norm is not None or (
            not run.problem.net.is_usual):
        raise NotCovered(f"run: got one of {run.problem.net!r}; expected blocks W phi(h), which are 'pre_nonlin', or "
                         "linear ones of one matrix, with skip=None")
    if layer_times is not None and run.depth is not None:
        raise ValueError(f"layer_times: got {_checks.short(layer_times)} at depth {run.depth}, where all nodes are; "
                         "expected None")
    known = run.solved if run.depth is None or len(run.layer_times) == run.depth + 1 else run.details()
    if isinstance(known, PropagatorDetails):
        return _exact(run, known, _units(run, raw, run.outputs), layer_times)
    found = of_samples(run, raw, known)
    spread = len(found)**-0.5
    values = {name: np.array([getattr(one, name) for one in found]) for name in NUMBERS}
    errors = {name: spread * np.std(one, axis=0, ddof=1) for name, one in values.items()} if len(found) > 1 else {}
    means = {name: np.mean(one, axis=0) for name, one in values.items()}
    return OrderParameters(run, found[0].layer_times, **means, standard_errors=errors,
                           fields=_joined([one.fields for one in found if one.fields is not None]))


def of_samples(run: Run, raw: RawProblem | None, known: Details) -> list[OrderParameters]:
    """The order parameters of every batch of samples; raises ``ValueError`` for a run that has none."""
    parts = known.batches if isinstance(known, SampledDetails) else (known,)
    if not all(isinstance(part, DenseDetails) for part in parts):
        raise NotCovered(f"run: got one by method={run.method!r}, which knows no layers as samples or rows; expected "
                         "reflection, collocation, particles, conditioned and dense")
    return [_sampled(run, part, _units(run, raw, part.solution.outputs)) for part in parts
            if isinstance(part, DenseDetails)]


def _units(run: Run, raw: RawProblem | None, outputs: np.ndarray) -> _Units:
    task = run.task
    chi = np.array([derivative(task.loss, f, y)[:, 0] for f, y in zip(outputs, task.targets)])
    if raw is None:
        rate = getattr(run.problem.opt, "lr")
        if not isinstance(run.problem.opt, SGD) or not isinstance(rate, float) or rate == 0:
            raise ValueError(f"raw: got None with {_checks.short(run.problem.opt)}; expected the tp.theory.RawProblem "
                             "that was trained, or a tp.SGD of one learning rate, which stands for its eta0 mu0")
        return _Units(outputs[..., 0], -chi, chi.ravel(), rate)
    f = raw.output_scale * outputs
    Delta = -np.array([derivative(raw.task.loss, one, y)[:, 0] for one, y in zip(f, raw.task.targets)])
    return _Units(f[..., 0], Delta, chi.ravel(), raw.scaling.eta0 * raw.scaling.mu0)


def _exact(run: Run, known: PropagatorDetails, units: _Units, layer_times: np.ndarray | None) -> OrderParameters:
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
    K = tangent_kernel(run)
    return _indexed(run, units, times, H, H, G, A, B, _with_embedding_readout(run, K, H[-1], G[0]))


def _sampled(run: Run, known: DenseDetails, units: _Units) -> OrderParameters:
    """From vectors at all nodes, by what blocks add to the stream and what W forgot of its start."""
    x, delta = known.solution.x, known.solution.delta
    assert x is not None and delta is not None and run.depth is not None and isinstance(run.problem.opt, SGD)
    task, n, scale, chi = run.task, x.shape[-1], run.problem.depth_scaling, units.chi
    if np.any(chi == 0):
        step, sample = divmod(int(np.argmin(np.abs(chi))), task.batch)
        raise ValueError(f"run: the loss derivative of step {step}, input {sample} vanishes, so that its gradient is "
                         "not known")
    eps, update = scale.multiplier(run.depth), scale.update_factor(run.depth)
    rho, w = run.problem.opt.memory(task.steps)
    rho, w = np.repeat(rho, task.batch), np.kron(w, np.ones((task.batch, task.batch))) / task.batch
    phi, slope = _functions(run)
    features, g = phi(x), delta / chi[:, None]
    H, Phi, G = (v @ v.transpose(0, 2, 1) / n for v in (x, features, g))
    learned = update * (w * Phi[:-1]) @ delta[1:]
    source = ((x[1:] - x[:-1]) / eps + learned) / rho[:, None]
    slopes = slope(x[:-1])
    seen = bool(np.min(np.abs(slopes)) > FLAT)
    back = None
    if seen:
        returned = (delta[:-1] - delta[1:]) / (eps * slopes)
        memory = update * (w * np.einsum("a,lab,b->lab", chi, G[1:], chi)) @ features[:-1]
        back = (returned + memory) / (rho * chi)[:, None]
    overlap = source @ g[1:].transpose(0, 2, 1) / n
    pairs = [responses(*of, task.batch) for of in zip(overlap, Phi[:-1], G[1:])]
    A, B = (np.array([getattr(pair, name) for pair in pairs]) for name in "AB")
    K = _with_embedding_readout(run, np.mean(Phi[:-1] * G[1:], axis=0), H[-1], G[0])
    shape = (task.steps, task.batch, n)
    sites = [one.reshape(len(one), *shape) for one in (x, g, source, source - A @ g[1:])]
    xi_and_r = [None if one is None else one.reshape(len(one), *shape)
                for one in (back, None if back is None else back - B @ features[:-1])]
    fields = Fields(sites[0], sites[1], sites[2], sites[3], *xi_and_r)
    size = run.depth * eps / units.c
    return _indexed(run, units, np.arange(run.depth + 1) / run.depth, H, Phi, G, size * A, size * B, K, fields)


def _with_embedding_readout(run: Run, body: np.ndarray, last: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The tangent kernel with what trained embedding and readout add: the features at the end, and the gradients at
    the start."""
    if not run.problem.net.train_embedding_readout:
        return body
    inputs = run.task.inputs.reshape(-1, run.task.d_in)
    return body + last + first * (inputs @ inputs.T)


def _functions(run: Run) -> tuple[Callable[[np.ndarray], np.ndarray], ...]:
    phi = activation(run.problem.net.phi)(VARIABLE)
    if is_linear(run.problem.net.phi):
        return (lambda h: h), np.ones_like
    return tuple(sp.lambdify(VARIABLE, f, ["scipy", "numpy"]) for f in (phi, phi.diff(VARIABLE)))


def _indexed(run: Run, units: _Units, times: np.ndarray, H: np.ndarray, Phi: np.ndarray, G: np.ndarray, A: np.ndarray,
             B: np.ndarray, K: np.ndarray, fields: Fields | None = None) -> OrderParameters:
    shape = (run.task.steps, run.task.batch) * 2
    H, Phi, G, A, B, K = (kernel.reshape(*kernel.shape[:-2], *shape) for kernel in (H, Phi, G, A, B, K))
    return OrderParameters(run, times, units.f, units.Delta, H, Phi, G, A, B, K, fields)


def _joined(parts: list[Fields]) -> Fields:
    def all_of(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts], axis=-1)
    seen = all(part.xi is not None for part in parts)
    xi_and_r = [all_of(name) if seen else None for name in ("xi", "r")]
    return Fields(all_of("h"), all_of("g"), all_of("chi"), all_of("u"), *xi_and_r)
