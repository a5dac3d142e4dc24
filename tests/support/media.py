"""Reflection media and training through them, with the indexing of samples chosen by the test."""

from __future__ import annotations

import numpy as np

from tpcalc.media.reflection import PackedReflectionMedium, ReflectionMedium
from tpcalc.media.training import Trace, train_rows
from tpcalc.parametrizations import DepthScaling
from tpcalc.programs import SGD, Task
from tpcalc.programs.optimizers import rows_per_step, update_kernel


def reflect(task: Task, opt: SGD, scale: DepthScaling, depth: int, samples: str, packed: bool = False
            ) -> tuple[Trace, ReflectionMedium | PackedReflectionMedium]:
    """Train by the reflection form; samples: "plain" or "effective"; packed: the kernel for one row a step."""
    rho, w = opt.memory(task.steps)
    b = rows_per_step(task, samples)
    physics = (scale.multiplier(depth), scale.update_size(depth), np.repeat(rho, b), update_kernel(w, task, samples))
    medium: ReflectionMedium | PackedReflectionMedium
    if packed:
        assert b == 1
        medium = PackedReflectionMedium(depth, *physics)
    else:
        medium = ReflectionMedium(depth, b, *physics)
    return train_rows(task, medium, samples, lambda t: None), medium
