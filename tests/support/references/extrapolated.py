"""Particles at three depths and of two numbers, extrapolated to infinitely many of both: what depth=tp.oo should give.

Inputs may have several coordinates: x^0 is then a sum over initial vectors; the rest is the program of ``tp.program``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import sympy as sp

import tpcalc as tp
from reference.particles import run_particles
from tpcalc.programs.blocks import vector
from tpcalc.training.builders import BATCH, L, T
from tpcalc.programs.indices import i, t
from tpcalc.programs.language import Family, Scalar, Vector
from tpcalc.programs.program import Assign, Loop, Program, Statement

RUNS = ((1, 4096, 2), (2, 4096, 5), (4, 4096, 5), (1, 1024, 6))  # multiple of the depth, particles, batches a round
# of their means: three depths leave a remainder of order L^-3, and the bias of order 1/M is taken off at depth L
WEIGHTS = np.array([1, -6, 8, 0]) / 3 + np.array([1, 0, 0, -1]) / 3


def with_inputs(net: tp.ResNet, opt: tp.SGD, scale: tp.DepthScaling, d_in: int, batch: bool = False) -> Program:
    """The training program of one sample a step, or a batch, with d_in inputs xi_k and initial vectors U_k, all
    independent."""
    written = tp.program(net, opt, scale, batch=batch)
    sample = (t, i) if batch else (t,)
    U = tuple(Family(Vector, f"U{k}")() for k in range(d_in))
    xi = tuple(Family(Scalar, f"xi{k}")[sample] for k in range(d_in))
    entry = Assign(vector("x")[(*sample, 0)], sp.Add(*(x * u for x, u in zip(xi, U))))

    def entered(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(replace(s, body=entered(s.body)) if isinstance(s, Loop) else
                     entry if s.target == entry.target else s for s in body)

    old = Family(Scalar, "xi", r"\xi")[sample]
    changed = replace(written, vectors=(*U, *written.vectors[1:]), data=(*xi, *(d for d in written.data if d != old)),
                      body=entered(written.body))
    assert changed.body != written.body
    return changed


def particle_outputs(net: tp.ResNet, task: tp.Task, opt: tp.SGD, scale: tp.DepthScaling, depth: int, samples: int,
                     batches: int, seed: int) -> np.ndarray:
    """f_1, f_2, ... of every batch, shape (batches, (steps - 1) * samples of a step)."""
    batched = task.batch > 1
    shape = (task.steps, task.batch) if batched else (task.steps,)
    data = {"y": task.targets.reshape(shape), **{f"xi{k}": task.inputs[..., k].reshape(shape)
                                                 for k in range(task.d_in)}}
    sizes = {T: task.steps, L: depth, **({BATCH: task.batch} if batched else {})}
    run = run_particles(with_inputs(net, opt, scale, task.d_in, batched), sizes, data, samples, seed, batches, keep=())
    return np.array([batch.series("f")[1:].ravel() for batch in run.batches])


def one_round(net: tp.ResNet, task: tp.Task, opt: tp.SGD, scale: tp.DepthScaling, depth: int,
              seed: int) -> list[np.ndarray]:
    """Outputs of all batches of all ``RUNS``, with independent draws."""
    return [particle_outputs(net, task, opt, scale, multiple * depth, samples, batches, len(RUNS) * seed + k)
            for k, (multiple, samples, batches) in enumerate(RUNS)]


def extrapolated(rounds: list[list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and their standard errors at infinite depth and with infinitely many particles."""
    found = [np.concatenate(batches) for batches in zip(*rounds)]
    means = np.array([batches.mean(axis=0) for batches in found])
    squares = np.array([batches.var(axis=0, ddof=1) / len(batches) for batches in found])
    return WEIGHTS @ means, np.sqrt(WEIGHTS**2 @ squares)
