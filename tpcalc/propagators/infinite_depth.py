"""The infinite-depth problem of any residual network: its place in the (alpha, gamma) plane and its block's kernels."""

from __future__ import annotations

import numpy as np

from ..action.laws import KAPPA, Derivative
from ..errors import NotCovered
from ..scaling import DepthScaling
from ..optimizers import SGD, Muon
from ..models import ResNet
from ..data import Task
from .laws.pair_kernels import kernels_of
from .blocks import BlockKernels, Pairs
from .limit_cell import LimitCell, limit_cell


def infinite_depth_problem(net: ResNet, task: Task, opt: SGD | Muon, scale: DepthScaling
                           ) -> tuple[LimitCell, BlockKernels]:
    """Which densities survive at ``scale``, and the kernels through which the block enters them.

    What survives is read off the powers of L in the net's own program (``limit_cell``). Below alpha = 1 the stream
    stays Gaussian, and training closes on kernels.

    Raises ``ValueError`` where a nonlinear network does not close (alpha >= 1, blocks that act on the stream
    first, weights that decay to 0, inputs too large for quadrature), ``Divergence`` where there is no limit.
    """
    block = kernels_of(net)
    if block.is_linear:
        return limit_cell(scale), block
    if scale.alpha >= 1:
        raise NotCovered(f"alpha: got {scale.alpha} with depth=tp.oo for {net!r}; this solver takes alpha < 1: from "
                         "1 on updates move arguments of functions as much as initial matrices do, and nothing closes "
                         "on kernels; expected 'particles' at finite depth")
    cell = limit_cell(scale, net)
    if np.any(opt.memory(task.steps)[0] == 0):
        raise NotCovered(f"opt: got {opt!r}; nonlinear blocks at depth=tp.oo take weight decay that leaves something "
                         "of the initial matrices at every step")
    inputs = [task.inputs.reshape(-1, task.d_in)] + ([] if task.probes is None else [task.probes])
    largest = np.array([max(float(np.max(np.sum(x**2, axis=1))) for x in inputs)])
    kappa, = block.derivatives(Pairs(largest[:, None], largest, largest, 1.0), (Derivative(KAPPA),))
    if not np.all(np.isfinite(kappa)):
        raise NotCovered(f"task: got inputs with |xi|^2 up to {largest[0]:.3g}; quadrature does not resolve {net!r} "
                         "at such variances; expected smaller inputs, or activations with closed forms")
    return cell, block
