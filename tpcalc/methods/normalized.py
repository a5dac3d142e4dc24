"""Where gradients that are normalised vanish at infinite width alone: there is no limit that networks would have."""

from __future__ import annotations

import numpy as np

from ..errors import Divergence
from ..interpreters.lowered_particles import LoweredParticles
from ..media.muon import CERTAIN, NOTHING
from ..programs import NormalizedSGD
from ..programs.blocks import matrix
from ..programs.losses import derivative
from ..programs.normalized import norm_of
from ..programs.problem import Problem
from .fluctuations import FALLS, SPREAD

ALLOWED = ("and networks of finite width move along a fluctuation there, by as much as elsewhere; allowed are losses "
           "whose derivatives differ from 0, such as targets other than 0 at the first step, or a finite width")


def require_gradients(problem: Problem, outputs: np.ndarray, error: np.ndarray | float) -> None:
    """Raise ``Divergence`` where all loss derivatives of a step are 0 at infinite width, naming the step.

    outputs: (steps, batch, [positions,] d_out), known to ``error``. Once a buffer remembers a gradient, later ones
    may vanish: what is normalised does not.
    """
    assert isinstance(problem.opt, NormalizedSGD)
    task = problem.task
    found = [np.abs(derivative(task.loss, f, y)) for f, y in zip(outputs, task.targets)][:-1]
    largest = max((float(np.max(chi)) for chi in found), default=0.0)
    for step, (chi, known) in enumerate(zip(found, np.broadcast_to(error, outputs.shape))):
        if np.all(chi <= np.maximum(NOTHING * largest, CERTAIN * known)):
            raise Divergence(f"opt: {problem.opt!r} given; at step {step} all loss derivatives vanish at infinite "
                             f"width (the largest is {np.max(chi):.1e}, of all steps {largest:.1e}, known to "
                             f"{np.max(known):.1e}), {ALLOWED}", step)
        if problem.opt.momentum:
            return


def require_norms(problem: Problem, found: LoweredParticles, fewer: LoweredParticles) -> None:
    """Raise ``Divergence`` where a norm that a matrix's step is divided by cannot be told from a fluctuation: where
    batches of particles do not agree on it, or where it falls with their number.

    fewer: the same with a quarter of the particles in a batch, of which fluctuations are twice as large.
    """
    for name in problem.net.matrices_of_block:
        family = norm_of(matrix(name))
        for member in [m for m in found.batches[0].scalars if m.name == family.name and m == family[m.indices]]:
            step, layer = map(int, member.indices)
            values, others = ([run.scalars[member] for run in one.batches] for one in (found, fewer))
            mean, spread = float(np.mean(values)), float(np.std(values, ddof=1))
            before = float(np.mean(others))
            if step < problem.task.steps - 1 and (spread > SPREAD * mean or before > FALLS * mean):
                raise Divergence(f"opt: {problem.opt!r} given; at step {step}, layer {layer} what {name} moves along "
                                 f"has the norm {mean:.2e} with a standard deviation of {spread:.1e} between batches "
                                 f"of {found.samples} particles, and {before:.2e} with {fewer.samples}: it cannot be "
                                 f"told from one that vanishes at infinite width, {ALLOWED}, or more samples", step,
                                 layer)
