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
from support.references.extrapolated import particle_outputs

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
        rng, location = self.rng(), list(NETS).index(self.name)
        steps, batch = 3 + (location + self.number) % 2, 1 + self.number
        task = tp.Task(0.8 * rng.normal(size=(steps, batch, 2)), rng.normal(size=(steps, batch, 1)))
        return task, tp.SGD(rng.uniform(0.3, 1), **KINDS[(2 * location + self.number) % 4])

    def limit(self, faster: float = 1.0) -> np.ndarray:
        """f_1, f_2, ... of depth=tp.oo, for the learning rate or one that is larger by a factor."""
        task, opt = self.task()
        changed = tp.SGD(faster * opt.lr, momentum=opt.momentum, nesterov=opt.nesterov, weight_decay=opt.weight_decay)
        return tp.train(NETS[self.name], task, changed, SCALE, depth=tp.oo).outputs[1:].ravel()


TASKS = tuple(Drawn(name, number) for name in NETS for number in (0, 1))


@dataclass(frozen=True)
class Sample:
    """Means and standard errors of outputs, (depths + 1, outputs), and their correlations at the first depth."""

    means: np.ndarray
    errors: np.ndarray
    correlations: np.ndarray

    def extrapolated(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Outputs at infinite depth, their standard errors, and what the first depth changed in them: a bound on the
        remainder, which is smaller by another power of the depth."""
        value = (FOUR + BIAS) @ self.means
        return value, np.sqrt((FOUR + BIAS) ** 2 @ self.errors**2), np.abs(value - (THREE + BIAS) @ self.means)


@lru_cache(maxsize=None)
def sampled(drawn: Drawn) -> Sample:
    task, opt = drawn.task()
    runs = [(int(depth), SAMPLES) for depth in DEPTHS] + [(int(DEPTHS[0]), FEW)]
    first = 1000 * TASKS.index(drawn)
    found = [particle_outputs(NETS[drawn.name], task, opt, SCALE, depth, samples, BATCHES, first + k)
             for k, (depth, samples) in enumerate(runs)]
    return Sample(np.mean(found, axis=1), np.std(found, axis=1, ddof=1) / np.sqrt(BATCHES),
                  np.corrcoef(found[0].T))


@pytest.mark.slow
def test_random_tasks_against_particles(capsys: pytest.CaptureFixture[str]) -> None:
    """z-scores of all outputs of all tasks. Errors: of 16 independent batches, with the bound on the remainder added.

    Outputs of one task are correlated: their sum of squares is like chi^2 of fewer degrees of freedom (Satterthwaite),
    times what 15 degrees of freedom of the errors add to it (15 / 13). Learning rates larger by 20 percent are told
    apart.
    """
    scores, others, squares = [], [], 0.0
    for drawn in TASKS:
        sample = sampled(drawn)
        value, error, remainder = sample.extrapolated()
        z, other = ((value - limit) / np.hypot(error, remainder) for limit in (drawn.limit(), drawn.limit(1.2)))
        scores.append(z)
        others.append(other)
        squares += np.sum(sample.correlations**2)
        with capsys.disabled():
            print(f"\n{drawn.name}, {'one sample' if drawn.number == 0 else 'two samples'} a step: z", z.round(1),
                  "errors", error.round(4), "remainders", remainder.round(4), end="", flush=True)
    z = np.concatenate(scores)
    rms, largest = np.sqrt(np.mean(z**2)), np.max(np.abs(z))
    degrees = len(z) ** 2 / squares
    low, high = np.sqrt(stats.chi2.ppf([FALSE_ALARM, 1 - FALSE_ALARM], degrees) / degrees)
    high *= np.sqrt(15 / 13)
    apart = np.sqrt(np.mean(np.concatenate(others) ** 2))
    with capsys.disabled():
        print(f"\n{len(TASKS)} tasks, {len(z)} outputs: rms z {rms:.2f} (allowed {low:.2f} to {high:.2f}), largest "
              f"{largest:.1f}; at learning rates 1.2 times as large rms z {apart:.1f}")
    assert low < rms < high < apart
    assert largest < stats.t(BATCHES - 1).isf(FALSE_ALARM / (2 * len(z)))


def misfit(drawn: tuple[Drawn, ...], power: float) -> float:
    """chi^2 of f_L - f_oo = c / L^power + d / L^2, with c and d of each output."""
    total = 0.0
    for one in drawn:
        sample = sampled(one)
        distance, errors = (sample.means - one.limit())[:-1], sample.errors[:-1]
        for values, error in zip(distance.T, errors.T):
            design = np.stack([DEPTHS**-power, DEPTHS**-2.0], axis=1) / error[:, None]
            left = values / error - design @ np.linalg.lstsq(design, values / error, rcond=None)[0]
            total += float(left @ left)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_the_distance_to_the_limit_falls_like_one_over_the_depth(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The power that fits best, and that 1/2 and 3/2 do not fit: the second order is fitted too, because at L = 8 it is
    still a third of the first for relu."""
    drawn = tuple(one for one in TASKS if one.name == name)
    powers = np.linspace(0.3, 1.7, 141)
    found = np.array([misfit(drawn, float(power)) for power in powers])
    excess = found - found.min()
    best, within = powers[np.argmin(found)], powers[excess < 1]
    half, one, more = (excess[np.argmin(np.abs(powers - power))] for power in (0.5, 1.0, 1.5))
    with capsys.disabled():
        print(f"\n{name}: |f_L - f_oo| falls like L^-{best:.2f}, {within.min():.2f} to {within.max():.2f}; chi^2 above "
              f"the least {half:.0f} at 1/2, {one:.1f} at 1, {more:.0f} at 3/2")
    assert one < stats.chi2(1).isf(FALSE_ALARM) and min(half, more) > stats.chi2(1).isf(0.01)
    assert abs(best - 1) < 0.25
