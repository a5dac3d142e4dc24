"""Reflection media and training through them, with the indexing of samples chosen by the test."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpcalc.action.densities import Derivative
from tpcalc.propagators.blocks import Kernel, Pairs
from tpcalc.propagators.covariances import inverse
from tpcalc.propagators.reflection import PackedReflectionPropagator, ReflectionPropagator
from tpcalc.propagators.training import Trace, train_rows
from tpcalc.scaling import DepthScaling
from tpcalc.optimizers import SGD
from tpcalc.data import Task
from tpcalc.optimizers.sgd import rows_per_step, update_kernel


def reflect(task: Task, opt: SGD, scale: DepthScaling, depth: int, samples: str, packed: bool = False
            ) -> tuple[Trace, ReflectionPropagator | PackedReflectionPropagator]:
    """Train by the reflection form; samples: "plain" or "effective"; packed: the kernel for one row a step."""
    rho, w = opt.memory(task.steps)
    b = rows_per_step(task, samples)
    physics = (scale.multiplier(depth), scale.update_size(depth), np.repeat(rho, b), update_kernel(w, task, samples))
    propagator: ReflectionPropagator | PackedReflectionPropagator
    if packed:
        assert b == 1
        propagator = PackedReflectionPropagator(depth, *physics)
    else:
        propagator = ReflectionPropagator(depth, b, *physics)
    return train_rows(task, propagator, samples, lambda t: None), propagator


def cross_covariance(p: np.ndarray, q: np.ndarray, s: np.ndarray, r: np.ndarray) -> np.ndarray:
    """<x_a | delta_b> = G (P R + S Q^T) G'^T at one node, shape (..., N, N)."""
    return inverse(p, q) @ (p @ r + s @ np.swapaxes(q, -1, -2)) @ np.swapaxes(inverse(q, p), -1, -2)


class ByHand:
    """A block whose kernels are typed: kappa, kappa_12, theta; kappa_12, kappa_12,12, theta_12; and twice the
    derivatives of the first three in the variance of the first slot. Index 12 is the derivative in the covariance."""

    size = 1

    def forward(self, pairs: Pairs) -> tuple[Any, Any, Any]:
        raise NotImplementedError

    def backward(self, pairs: Pairs) -> tuple[Any, Any, Any]:
        raise NotImplementedError

    def diagonal(self, pairs: Pairs) -> tuple[Any, Any, Any]:
        raise NotImplementedError

    def derivatives(self, pairs: Pairs, asked: tuple[Derivative, ...]) -> tuple[Kernel, ...]:
        orders = (("kappa", 0), ("kappa", 1), ("theta", 0))
        known = {Derivative(kernel, n): value for (kernel, n), value in zip(orders, self.forward(pairs))}
        known |= {Derivative(kernel, n + 1): value for (kernel, n), value in zip(orders, self.backward(pairs))}
        known |= {Derivative(kernel, n, 1): value / 2 for (kernel, n), value in zip(orders, self.diagonal(pairs))}
        return tuple(known[one] for one in asked)
