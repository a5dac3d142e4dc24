"""Particles at several depths, extrapolated to infinite depth: what simulations say of depth=tp.oo.

Inputs may have several coordinates: x^0 is then a sum over initial vectors, and the rest is the program of ``tp.program``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters import run_particles
from tpcalc.programs.builders import L, T
from tpcalc.programs.indices import t
from tpcalc.programs.language import Family, Scal, Vec
from tpcalc.programs.program import Assign, Loop, Program

WEIGHTS = np.array([1, -6, 8]) / 3  # of depths L, 2L, 4L: what is left falls like L^-3


def with_inputs(net: tp.ResNet, opt: tp.SGD, scale: tp.DepthScaling, d_in: int) -> Program:
    """The training program of one sample a step, with d_in inputs xi_k and initial vectors U_k, all independent."""
    written = tp.program(net, opt, scale)
    place, loop = next((i, s) for i, s in enumerate(written.body) if isinstance(s, Loop) and s.index == t)
    first = loop.body[0]
    assert isinstance(first, Assign) and str(first.target) == "x[t, 0]"
    U = tuple(Family(Vec, f"U{k}")() for k in range(d_in))
    xi = tuple(Family(Scal, f"xi{k}")[t] for k in range(d_in))
    entry = Assign(first.target, sp.Add(*(x * u for x, u in zip(xi, U))))
    body = list(written.body)
    body[place] = replace(loop, body=(entry, *loop.body[1:]))
    old = Family(Scal, "xi", r"\xi")[t]
    return replace(written, vectors=(*U, *written.vectors[1:]), data=(*xi, *(d for d in written.data if d != old)),
                   body=tuple(body))


def particle_outputs(net: tp.ResNet, task: tp.Task, opt: tp.SGD, scale: tp.DepthScaling, depth: int, samples: int,
                     batches: int, seed: int) -> np.ndarray:
    """f_1, f_2, ... of every batch, shape (batches, steps - 1)."""
    inputs, y = task.inputs[:, 0], task.targets.ravel()
    data = {"y": y, **{f"xi{k}": inputs[:, k] for k in range(inputs.shape[1])}}
    run = run_particles(with_inputs(net, opt, scale, inputs.shape[1]), {T: len(y), L: depth}, data, samples, seed,
                        batches, keep=())
    return np.array([batch.series("f")[1:] for batch in run.batches])


def extrapolated(found: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Values and standard errors at infinite depth, from batches at depths L, 2L, 4L."""
    means = [batches.mean(axis=0) for batches in found]
    squares = [batches.var(axis=0, ddof=1) / len(batches) for batches in found]
    return WEIGHTS @ np.array(means), np.sqrt(WEIGHTS**2 @ np.array(squares))
