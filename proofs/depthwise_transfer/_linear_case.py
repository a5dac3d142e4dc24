"""A linear network in the source's units, where every kernel and every field derivative of the DMFT is known."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

import tpcalc as tp

MU0, ETA0, TAU, DEPTH = 0.7, 0.8, 0.4, 6
C = MU0 * ETA0
TASK = tp.Task([1.0, 0.8, -0.6, 1.1], [0.9, -0.7, 0.5, 1.2])
STEPS, NODES, STEP = 4, 17, 1e-9
TIMES = (1 - np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)) / 2


class Case:
    """One input a step, four steps; kernels (t, s) at layer time TAU, slopes by interpolation, derivatives of fields.

    gh: <g_t h_s>; before: dh_t(TAU) / du_s a little later, h anticipating its noise; behind: dg_t(TAU) / dr_s a little
    earlier.
    """

    def __init__(self) -> None:
        self.raw = tp.raw_problem(tp.DepthwiseScaling(mu0=MU0, eta0=ETA0), tp.ResNet(), TASK, tp.oo)
        self.run = run = tp.train(self.raw.problem)
        found = tp.order_parameters(run, self.raw, np.append(TIMES, TAU))
        self.curves = {name: getattr(found, name)[:, :, 0, :, 0] for name in "HGAB"}
        self.H, self.G, self.A, self.B = (self.curves[name][-1] for name in "HGAB")
        self.f, self.Delta = found.f[:, 0], found.Delta[:, 0]
        self.chi = (run.outputs - self.raw.problem.task.targets).ravel()
        self.earlier = np.tril(np.ones((STEPS, STEPS)), -1)
        self.Ch, self.Cg = self.kernels("H", "A")[-1], self.kernels("G", "B")[-1]
        self.gh = self.table(lambda t, s: run.cross_covariance(t, s, 1, 0, TAU, TAU) / self.chi[t])
        self.before = self.table(lambda t, s: run.gamma(t, s, 0, 0, TAU - STEP, TAU))
        self.behind = self.table(lambda t, s: run.gamma(t, s, 1, 1, TAU + STEP, TAU) * self.chi[s] / self.chi[t])

    def kernels(self, covariance: str, response: str) -> np.ndarray:
        """C_h or C_g at all layer times."""
        found: np.ndarray = self.earlier * self.curves[covariance] * self.Delta + self.curves[response]
        return found

    @staticmethod
    def table(entry: object) -> np.ndarray:
        return np.array([[entry(t, s) for s in range(STEPS)] for t in range(STEPS)])  # type: ignore[operator]

    def slope(self, name: str) -> np.ndarray:
        """The derivative in layer time, by Chebyshev interpolation."""
        return self.table(lambda t, s: curve(self.curves[name][:-1, t, s]).deriv()(TAU))


def curve(values: np.ndarray) -> np.polynomial.Chebyshev:
    return np.polynomial.Chebyshev.fit(TIMES, values, NODES - 1, domain=[0, 1])


@lru_cache(maxsize=None)
def case() -> Case:
    return Case()
