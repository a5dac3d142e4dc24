"""Where gradients vanish at infinite width alone, with updates whose size does not follow theirs: there is no limit
that networks of any usual width would show."""

from __future__ import annotations

import numpy as np

from .._checks import short
from ..errors import Divergence
from ..interpreters.lowered_particles import LoweredParticles
from ..propagators.muon import CERTAIN, NOTHING
from ..optimizers.updates import unclipped
from ..programs.blocks import matrix
from ..data.losses import derivative
from ..optimizers.normalized import norm_of
from ..training.problem import Problem
from ..optimizers.sign_ambiguity import first_undecided
from .fluctuations import FALLS, SPREAD

FLUCTUATION = 1e-3  # of a gradient that vanishes at infinite width, in networks of a million neurons
FELT = 0.1  # of an update of order one
ALLOWED = ("where networks move along a fluctuation; expected loss derivatives other than 0, a larger eps, or a finite "
           "width")


def require_gradients(problem: Problem, outputs: np.ndarray, error: np.ndarray | float) -> None:
    """Raise ``Divergence`` where all loss derivatives of a step are 0 at infinite width, naming the step, and the
    optimizer moves by as much along a fluctuation of networks as along a gradient.

    outputs: (steps, batch, [positions,] d_out), known to ``error``. Once a gradient is remembered, later ones may
    vanish with an optimizer whose updates then follow it. In causal attention the first position has no choice: where
    nothing comes from later ones, queries and keys have no gradient.
    """
    task, opt = problem.task, unclipped(problem.opt)
    found = [np.abs(derivative(task.loss, f, y)) for f, y in zip(outputs, task.targets)][:-1]
    errors = np.broadcast_to(error, outputs.shape)
    first, where = (1, " after the first position") if any(one.causal for one in problem.net.chooses) else (0, "")
    if first:
        found, errors = [chi[:, first:] for chi in found], errors[:, :, first:]
    largest = max((float(np.max(chi)) for chi in found), default=0.0)
    step = first_undecided(opt, [bool(np.all(chi <= np.maximum(NOTHING * largest, CERTAIN * known)))
                                 for chi, known in zip(found, errors)], FLUCTUATION, FELT)
    if step is not None:
        raise Divergence(f"opt: got {short(problem.opt)}; at step {step} all loss derivatives{where} vanish at "
                         f"infinite width (the largest is {np.max(found[step]):.1e}, of all steps {largest:.1e}, known "
                         f"to {np.max(errors[step]):.1e}), {ALLOWED}", step)


def require_norms(problem: Problem, found: LoweredParticles, fewer: LoweredParticles) -> None:
    """Raise ``Divergence`` where a norm that a matrix's step is divided by cannot be told from a fluctuation: where
    batches of particles do not agree on it, or where it falls with their number.

    fewer: the same with a quarter of the particles in a batch, of which fluctuations are twice as large.
    """
    for name in problem.net.families_of_matrices:
        family = norm_of(matrix(name))
        for member in [m for m in found.batches[0].scalars if m.name == family.name and m == family[m.indices]]:
            step, layer = map(int, member.indices)
            values, others = ([run.scalars[member] for run in one.batches] for one in (found, fewer))
            mean, spread = float(np.mean(values)), float(np.std(values, ddof=1))
            before = float(np.mean(others))
            if step < problem.task.steps - 1 and (spread > SPREAD * mean or before > FALLS * mean):
                raise Divergence(f"opt: got {problem.opt!r}; at step {step}, layer {layer} the norm of what {name} "
                                 f"moves along, {mean:.2e} +- {spread:.1e} with {found.samples} particles and "
                                 f"{before:.2e} with {fewer.samples}, may be 0, {ALLOWED}, or more samples", step,
                                 layer)
