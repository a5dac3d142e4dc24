"""The neural tangent kernel of a residual network along its training."""

from __future__ import annotations

from typing import Callable, cast

import numpy as np

from .. import _checks
from ..action.densities import THETA, Derivative
from ..errors import NotCovered
from ..propagators.blocks import BlockKernels, Pairs
from ..propagators.collocation import CollocationPropagator
from .details import BlockDetails
from .run import Run

PART = 64            # nodes whose covariances are held at once
MOST_POINTS = 1024
AGREE = 1e-12


def tangent_kernel(run: Run) -> np.ndarray:
    """The tangent kernel K_ab = 1/L sum over layers of <x_a^(l-1) | x_b^(l-1)> <g_a^l | g_b^l>.

    It is the integral over layer time at tp.oo.

    Rows are (step, input), flattened, each with the weights of its own step; g = delta / chi is the gradient of the
    output itself, normalized. So for one and the same step K is the tangent kernel: under gradient flow the outputs of
    step t move by df_a/dt = -L eps g_L sum_b K_ab chi_b / batch, with the branch multiplier eps, the size g_L of an
    update and L eps g_L = 1 at alpha + gamma = 1 (branch and base depth 1). Shape (N, N), N = steps * batch.

    In a linear network g is the same for all inputs of a step, and is read off the input whose chi is largest. Blocks
    that close on kernels, at tp.oo, have theta_ab, the overlap of their gradients in their own matrices, in place of
    <x_a | x_b>, and a g for every input: its chi must not be 0.

    Covariances of all layers are needed: unless the run has ``keep_nodes="all"``, it is trained once more. At
    tp.oo the integral is Gauss's, with ever more points until it stays the same to 1e-12.

    Raises ``ValueError`` for several outputs, for a step at which chi vanishes for every input (in nonlinear networks,
    for any), for a real network that kept only some of its layers, at finite depth for all but linear networks of one
    matrix a block, for layers that are visited several times, and for sampled runs of infinite width. Source: Depthwise
    Hyperparameter Transfer, (11) to (16) and (128), with frozen embedding and readout
    [depthwise_transfer/tangent_kernel], for a read-out of the stream itself; where features are read, gradient kernels
    begin otherwise [depthwise_transfer/last_gradient_kernel]. At initialization it is H_0 G_0
    [depthwise_transfer/one_step_finite_depth].

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> kernel = tp.theory.tangent_kernel(tp.train(net, task, opt, scale, depth=tp.oo))
    >>> kernel.shape, round(float(kernel[0, 0]), 4)
    ((2, 2), 2.7183)
    """
    _checks.instance("run", run, Run)
    task = run.task
    if task.d_out != 1:
        raise NotCovered(f"run: its task has {task.d_out} outputs; the tangent kernel is found for one")
    run.problem.net.require_one_visit("the tangent kernel of a run is found")
    if not run.linear and run.depth is not None:
        raise NotCovered(f"run: got one of {run.problem.net!r} at finite depth; there the tangent kernel is found "
                         "of linear blocks of one matrix; expected these, or depth=tp.oo")
    if run.width is not None and run.depth is not None and len(run.layer_times) != run.depth + 1:
        raise ValueError(f"run: {len(run.layer_times)} of {run.depth + 1} nodes kept; expected all of them, "
                         "keep_nodes='all'")
    if run.width is None and not run.exact:
        raise NotCovered(f"run: got one by method={run.method!r}, whose gradients are sampled; expected the exact "
                         "methods at width=tp.oo, and real networks")
    chi = np.array([task.loss.derivative(f, y)[:, 0] for f, y in zip(run.outputs, task.targets)])
    if not run.linear:
        return _of_blocks(run, chi.ravel())
    inputs = np.argmax(np.abs(chi), axis=1)
    largest = chi[np.arange(task.steps), inputs]
    if np.any(largest == 0):
        raise ValueError(f"run: the loss derivative of step {int(np.argmin(np.abs(largest)))} vanishes for all inputs, "
                         "so that no gradient is known there")
    rows = np.arange(task.steps) * task.batch + inputs
    steps = np.repeat(np.arange(task.steps), task.batch)

    def product(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
        """<x|x> <g|g> at every place, (places, N, N)."""
        gradients = backward[:, rows[:, None], rows] / np.outer(largest, largest)
        return forward * gradients[:, steps[:, None], steps]

    if run.width is not None:
        return product(run.forward_covariance[:-1], run.backward_covariance[1:]).mean(axis=0)
    known = run.details()
    if run.depth is None:
        return _integral(lambda p: product(known.covariance(True, p), known.covariance(False, p)))
    nodes, total = np.arange(run.depth + 1) / run.depth, np.zeros((len(steps), len(steps)))
    for start in range(0, run.depth, PART):
        part = slice(start, start + PART)
        total += product(known.covariance(True, nodes[:-1][part]), known.covariance(False, nodes[1:][part])).sum(axis=0)
    return total / run.depth


def _of_blocks(run: Run, chi: np.ndarray) -> np.ndarray:
    """The integral over layer time of theta_ab <g_a|g_b>, by collocation; chi: (N,)."""
    if np.any(chi == 0):
        step, sample = divmod(int(np.argmin(np.abs(chi))), run.task.batch)
        raise ValueError(f"run: the loss derivative of step {step}, input {sample} vanishes, so that its gradient is "
                         "not known")
    known = run.details()
    assert isinstance(known, BlockDetails) and isinstance(known.propagator, CollocationPropagator)
    propagator = known.propagator
    variances, rho = np.diagonal(propagator.C0, axis1=1, axis2=2), propagator.rho
    pairs = Pairs(propagator.C0, variances, variances, np.outer(rho, rho), rho[:, None]**2, rho**2)
    theta, = cast(BlockKernels, propagator.block).derivatives(pairs, (Derivative(THETA),))
    return propagator.mesh.cumulative(theta * propagator.C1 / np.outer(chi, chi))[-1]


def _integral(function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Over layer time from 0 to 1; ``function``: layer times -> values there, (times, ...)."""
    points, before, value = 8, np.array(np.inf), np.array(0.0)
    while points <= MOST_POINTS and np.max(np.abs(value - before)) > AGREE * np.max(np.abs(value)):
        points, before = 2 * points, value
        times, weights = np.polynomial.legendre.leggauss(points)
        value = np.tensordot(weights / 2, function((times + 1) / 2), 1)
    return value
