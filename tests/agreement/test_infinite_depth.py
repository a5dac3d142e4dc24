"""Nonlinear networks at infinite depth against sampling, on random tasks: nothing here was used to build the solver.

Particles at L = 8, 16, 32, 64, with draws of their own at every depth. Inputs have two coordinates, because inputs on a
line are collinear, where kinks converge more slowly than 1/L.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
import sympy as sp
from scipy import stats
from support.extrapolated import particle_outputs

import tpcalc as tp
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec

h = sp.Symbol("h", real=True)
FALSE_ALARM = 1e-4  # of a whole test; seeds are fixed
SCALE = tp.DepthScaling()
DEPTHS, SAMPLES, FEW, BATCHES = np.array([8, 16, 32, 64]), 8192, 1024, 16
# weights of the depths, exact for polynomials in 1/L, of degree 3 and of degree 2 without the first; then of the first
# depth with few particles, which takes the bias of order 1/M off
FOUR, THREE = np.array([-1, 14, -56, 64, 0]) / 21, np.array([0, 1, -6, 8, 0]) / 3
BIAS = np.array([1, 0, 0, 0, -1]) / (SAMPLES / FEW - 1)


def mixed(branch: Branch) -> sp.Expr:
    """A user's block: W3 (phi(u) + u phi(v) / 2) for u = W1 x, v = W2 x."""
    u, v = (branch.let(name, MatVec(branch.weights(matrix), branch.x)) for name, matrix in (("h", "W1"), ("v", "W2")))
    return MatVec(branch.weights("W3"), branch.let("z", branch.phi(u) + u * branch.phi(v) / 2))


NETS = {"tanh": tp.ResNet("tanh"), "relu": tp.ResNet("relu"), "abs": tp.ResNet("abs"),
        "erf, two matrices": tp.ResNet("erf", "mlp"), "log(1 + exp h)": tp.ResNet(sp.log(1 + sp.exp(h))),
        "user's block": tp.ResNet("tanh", mixed)}
KINDS = ({}, dict(momentum=0.5), dict(weight_decay=0.3), dict(momentum=0.4, nesterov=True, weight_decay=0.2))


@dataclass(frozen=True)
class Drawn:
    """A random task and optimizer; number: 0 for one sample a step, 1 for two."""

    name: str
    number: int

    def rng(self) -> np.random.Generator:
        return np.random.default_rng([2026, list(NETS).index(self.name), self.number])

    def task(self) -> tuple[tp.Task, tp.SGD]:
        rng, place = self.rng(), list(NETS).index(self.name)
        steps, batch = 3 + (place + self.number) % 2, 1 + self.number
        task = tp.Task(0.8 * rng.normal(size=(steps, batch, 2)), rng.normal(size=(steps, batch, 1)))
        return task, tp.SGD(rng.uniform(0.3, 1), **KINDS[(2 * place + self.number) % 4])

    def limit(self, faster: float = 1.0) -> np.ndarray:
        """f_1, f_2, ... of depth=tp.oo, for the learning rate or one that is larger by a factor."""
        task, opt = self.task()
        changed = tp.SGD(faster * opt.lr, momentum=opt.momentum, nesterov=opt.nesterov, weight_decay=opt.weight_decay)
        return tp.train(NETS[self.name], task, changed, SCALE, depth=tp.oo).outputs[1:].ravel()


TASKS = tuple(Drawn(name, number) for name in NETS for number in (0, 1))


@lru_cache(maxsize=None)
def sampled(drawn: Drawn) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors of the outputs, (depths + 1, outputs) both, and the correlations of the outputs."""
    task, opt = drawn.task()
    runs = [(int(depth), SAMPLES) for depth in DEPTHS] + [(int(DEPTHS[0]), FEW)]
    first = 1000 * TASKS.index(drawn)
    found = [particle_outputs(NETS[drawn.name], task, opt, SCALE, depth, samples, BATCHES, first + k)
             for k, (depth, samples) in enumerate(runs)]
    print(f"{drawn.name}, batches of {task.batch}: sampled", flush=True)
    return (np.mean(found, axis=1), np.std(found, axis=1, ddof=1) / np.sqrt(BATCHES))
