"""Coefficients of a linear network's kets by the recursion that is derived from its program and compiled.

Nothing about the network is written here: equations come from ``calculus.recursion``, their kernel from
``lowering.recursions``. A kernel serves all tasks, depths, exponents and learning rates of one shape. Source: Tensor
Programs VI, Lemma D.1 [tensor_programs_vi/lemma_d1].
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp

from ..calculus.equations import kets
from ..lowering.recursions import Recursion, recursion
from ..errors import Divergence, NotCovered
from ..scaling import DepthScaling
from ..optimizers import SGD
from ..models import ResNet
from ..data import Task
from ..training.builders import program
from .coefficients import KetCoefficients

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)


def not_generated(task: Task) -> str | None:
    """Why the loss of a task cannot go into generated code, or None."""
    if hasattr(task.loss, "expression"):
        return None
    return (f"loss: got {task.loss!r}, without expression(f, y); generated=True differentiates the loss of one "
            "sample as an expression; expected 'mse', 'logistic', 'softmax', an object that has it, or "
            "generated=False")


def read_generated(task: Task, optimizer: SGD, scale: DepthScaling, depth: int, train_embedding_readout: bool = False
                   ) -> KetCoefficients:
    """Train at infinite width by the generated recursion; equal to ``read_coefficients`` up to rounding.

    The first call for a shape (several inputs, outputs, a batch, probes, trained embedding and readout; momentum,
    decay) derives and compiles, which takes seconds; later processes find the kernel on disk. Raises ``ValueError``
    for a loss without an expression, ``MemoryError`` before the work, ``Divergence`` naming the step where the
    solution blows up."""
    reason = not_generated(task)
    if reason is not None:
        raise NotCovered(reason)
    probes = 0 if task.probes is None else len(task.probes)
    batched = task.batch > 1 or probes > 0
    derived = _derived(replace(optimizer, lr=(1.0,)), replace(scale, alpha=ALPHA, gamma=GAMMA), batched, task.d_in,
                       task.d_out, probes, train_embedding_readout)
    kernel = derived.compile(task.loss)
    inputs = task.inputs
    if task.probes is not None:
        inputs = np.concatenate([inputs, np.broadcast_to(task.probes, (task.steps, *task.probes.shape))], axis=1)
    sizes = {"T": task.steps, "L": depth, **({"B": task.batch} if batched else {})}
    numbers = {"alpha": float(scale.alpha), "gamma": float(scale.gamma)}
    arrays = kernel.evaluate(**sizes, xi=_as_read(inputs, batched), y=_as_read(task.targets, batched),
                             eta=optimizer.schedule(task.steps), **{n: numbers[n] for n in kernel.parameters})
    outputs = arrays["f"].reshape(task.steps, task.batch + probes, task.d_out)
    finite = np.isfinite(outputs).all(axis=(1, 2))
    if not finite.all():
        step = int(np.argmin(finite))
        raise Divergence(f"training diverges at step {step} of the generated recursion", step=step)
    numbers_of = {v.name: number for number, v in enumerate(derived.setting.families)}
    return _record(task, arrays, outputs, depth, numbers_of["x"], numbers_of["dx"])


def _as_read(values: np.ndarray, batched: bool) -> np.ndarray:
    """An array (steps, samples, dimension) as the program reads it: without axes of one."""
    values = values[:, :, 0] if values.shape[2] == 1 else values
    return values if batched else values[:, 0]


@lru_cache(maxsize=32)
def _derived(optimizer: SGD, scale: DepthScaling, batched: bool, d_in: int, d_out: int, probes: int,
             train_embedding_readout: bool) -> Recursion:
    """The learning rates are data and the exponents symbols, so that they are not in the source."""
    return recursion(kets(program(ResNet(train_embedding_readout=train_embedding_readout), optimizer, scale, batched,
                                  d_in, d_out, probes)))


def _record(task: Task, arrays: dict[str, np.ndarray], outputs: np.ndarray, depth: int, forward: int, backward: int
            ) -> KetCoefficients:
    """The kernel's arrays in the oracle's layout: hats of samples as one axis, coefficients without sqrt(L)."""
    steps, batch, ends = task.steps, task.batch, task.d_in + task.d_out
    samples = steps * batch

    def kets_of(number: int) -> tuple[np.ndarray, np.ndarray]:
        gamma = arrays[f"Gamma{number}"]  # [t, (i,) l, r + 1, b, (j,) m]
        gamma = gamma if gamma.ndim == 7 else gamma[:, None, :, :, :, None]
        gamma = gamma[:steps, :batch]
        hats = gamma[:, :, :, 1:, :2, :batch, 1:].transpose(0, 1, 2, 4, 6, 3, 5)
        return (hats.reshape(samples, depth + 1, 2, depth, samples) / np.sqrt(depth),
                gamma[:, :, :, 0, :ends, 0, 0].reshape(samples, depth + 1, ends))

    def covariance(number: int) -> np.ndarray:
        c = arrays[f"C{number}_{number}"]  # [t, (i,) s, (j,) l]
        c = c if c.ndim == 5 else c[:, None, :, None]
        return np.moveaxis(c[:, :batch, :, :batch, 1:], -1, 0).reshape(depth, samples, samples)

    (x, x_outputs), (delta, delta_inputs) = kets_of(forward), kets_of(backward)
    probed = None if task.probes is None else outputs[:, batch:].copy()
    return KetCoefficients(outputs[:, :batch].copy(), probed, x, x_outputs, delta, delta_inputs,
                           np.stack([covariance(0), covariance(1)]))
