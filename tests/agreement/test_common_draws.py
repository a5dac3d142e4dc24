"""Infinite depth by common draws, against what is known, and against particles whose depths share nothing.

References: particles with control variates of their own and dense networks of width 256 to 1024, made elsewhere, with
their standard errors in the last digits; first reference task.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters.common_draws import Refinement
from tpcalc.interpreters.lowered_particles import particles
from tpcalc.interpreters.refined import at_depths
from tpcalc.propagators.depth_orders import depth_orders
from tpcalc.propagators.extrapolation import depth_weights
from tpcalc.methods.sampled import training

pytestmark = pytest.mark.slow
SCALE, ODE = tp.DepthScaling(), tp.DepthScaling(1, 0)
TASK = tp.Task([1, 0.8, -0.6, 1.1], [1, -0.7, 0.5, 1.2])
h = sp.Symbol("h", real=True)


def problem(net: tp.ResNet, opt: object, scale: tp.DepthScaling = SCALE, task: tp.Task = TASK) -> tp.Problem:
    return tp.Problem(net, task, opt, scale, tp.oo)  # type: ignore[arg-type]


KNOWN = {  # outputs f_1, f_2, f_3 and their standard errors
    "pre tanh": (problem(tp.ResNet("tanh", "pre_nonlin"), tp.SGD(1.0)),
                 [0.4664, -0.0086, -0.1387], [3e-4, 1e-4, 2e-4]),
    "pre relu": (problem(tp.ResNet("relu", "pre_nonlin"), tp.SGD(1.0)),
                 [0.6430, -0.0101, -0.0322], [4e-4, 1e-4, 4e-4]),
    "pre sqrt 2 relu": (problem(tp.ResNet(sp.sqrt(2) * sp.Max(h, 0), "pre_nonlin"), tp.SGD(1.0)),
                        [2.164, -0.355, -0.361], [1e-2, 3e-3, 4e-3]),
    "SignSGD": (problem(tp.ResNet(), tp.SignSGD(0.5)), [0.4198, -0.01516, -0.4873], [2e-4, 4e-5, 3e-4]),
    "SignSGD, tanh": (problem(tp.ResNet("tanh"), tp.SignSGD(0.5)), [0.2053, -0.0006, -0.2089], [2e-4, 1e-4, 2e-4]),
    "alpha = 1, tanh": (problem(tp.ResNet("tanh"), tp.SGD(1.0), ODE), [0.3150, -0.1214, 0.0753], [3e-4, 3e-4, 4e-4]),
}


@lru_cache(maxsize=None)
def known(name: str) -> tp.Run:
    return tp.train(KNOWN[name][0], method=tp.methods.CommonDraws(seed=1))


def test_references() -> None:
    """z of all references, with both standard errors and no allowance for bias."""
    found = {}
    for name, (asked, values, errors) in KNOWN.items():
        run = known(name)
        assert run.standard_error is not None
        error = np.hypot(errors, run.standard_error[1:, 0, 0])
        found[name] = (run.outputs[1:, 0, 0] - values) / error
        print(f"{name:16} {run.outputs[1:, 0, 0].round(4)} +- {run.standard_error[1:, 0, 0].round(4)}, error estimate "
              f"{run.error_estimate:.1e}, z {found[name].round(2)}; {run.notes[0][:70]}")
    z = np.concatenate(list(found.values()))
    print(f"rms z {np.sqrt(np.mean(z**2)):.2f}, largest {np.max(np.abs(z)):.2f}")
    assert np.sqrt(np.mean(z**2)) <= 1.3 and np.max(np.abs(z)) <= 4


NETS = (tp.ResNet(), tp.ResNet("tanh"), tp.ResNet("relu"), tp.ResNet("tanh", "mlp"),
        tp.ResNet(sp.sin(h + sp.Rational(1, 2))), tp.ResNet("erf", "glu"),
        tp.ResNet("erf", train_embedding_readout=True),
        tp.ResNet("tanh", norm="rms"), tp.ResNet(train_embedding_readout=True), tp.ResNet("abs"))
KINDS = ({}, dict(momentum=0.5), dict(weight_decay=0.2), dict(momentum=0.4, nesterov=True))


def drawn(number: int) -> tp.Problem:
    """A random problem that closes: ten kinds of networks, one to three steps after the first, one or two inputs."""
    rng = np.random.default_rng([14, number])
    net = NETS[number % len(NETS)]
    steps, batch = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    task = tp.Task(0.7 * rng.normal(size=(steps, batch, 2)), rng.normal(size=(steps, batch, 1)))
    kind = KINDS[int(rng.integers(4))] if not net.train_embedding_readout else {}
    scale = ODE if net.is_plain and rng.random() < 0.3 else SCALE
    return problem(net, tp.SGD(float(rng.uniform(0.2, 0.8)), **kind), scale, task)


def test_a_hundred_random_problems_whose_limit_is_known() -> None:
    """The error estimate of the last step, against the truth."""
    method = tp.methods.CommonDraws(budget=2e6)  # one round
    ratios, spent = [], []
    for number in range(100):
        asked = drawn(number)
        truth, run = tp.train(asked), tp.train(asked, method=method)
        assert truth.method == "collocation" and truth.exact
        error = float(np.max(np.abs(run.outputs[-1] - truth.outputs[-1])))
        ratios.append(error / run.error_estimate)
        spent.append(run.error_estimate)
        depths = run.notes[0].split("depths ")[1].split(" with")[0]
        print(f"{number:3} {asked.net.phi!s:12} {asked.net.block!s:5} error {error:.1e} estimate "
              f"{run.error_estimate:.1e} ratio {ratios[-1]:.2f} depths {depths}", flush=True)
    found = np.array(ratios)
    print(f"beyond the estimate {np.sum(found > 1)}, largest {found.max():.2f}, median estimate / error "
          f"{np.median(1 / found):.2f}, median estimate {np.median(spent):.1e}")
    assert np.sum(found > 1) <= 13 and found.max() <= 3 and np.median(1 / found) <= 10


@pytest.mark.parametrize("name", ["pre tanh", "SignSGD"])
def test_the_cost_against_depths_that_share_nothing(name: str) -> None:
    """Particles times layers for one standard error of the limit: plain particles at the same depths with the same
    weights, and with batches divided among depths as is best for them."""
    asked, run = KNOWN[name][0], known(name)
    assert run.standard_error is not None
    (batches, samples), depths = _counts(run), np.array([8, 16, 32])
    runs = 1 if isinstance(asked.opt, tp.SGD) else 2
    ours = runs * batches * samples * depths.sum() * np.max(run.standard_error) ** 2
    variances = np.array([_variance(asked, int(depth), samples) for depth in depths])  # (depths, steps)
    weights = depth_weights(np.array([1.0, 2.0]))
    equal = samples * depths.sum() * np.max(weights**2 @ variances)
    best = samples * np.max((np.abs(weights) * np.sqrt(depths) @ np.sqrt(variances)) ** 2)
    print(f"{name}: particles times layers at a standard error of 1e-3: {ours / 1e-6:.1e} with common draws; "
          f"{equal / 1e-6:.1e} without ({equal / ours:.1f} times), {best / 1e-6:.1e} at their best ({best / ours:.1f})")
    assert equal >= 5 * ours


def _counts(run: tp.Run) -> tuple[int, int]:
    words = run.notes[0].split()
    return int(words[2]), int(words[5])


def _variance(asked: tp.Problem, depth: int, samples: int) -> np.ndarray:
    """Of an output of one batch of plain particles."""
    job = training(replace(asked, depth=depth))
    plain = particles(job.program(), job.sizes(), job.data(), samples, 2, 48)
    return np.asarray(plain.error_series("f") ** 2 * 48).ravel()


@pytest.mark.parametrize("net", [tp.ResNet(), tp.ResNet("tanh"), tp.ResNet("tanh", "mlp")], ids=repr)
@pytest.mark.parametrize("alpha, known", [(sp.Rational(3, 5), 0.4), (sp.Rational(3, 4), 0.01),
                                          (sp.Rational(9, 10), 0.05)], ids=str)
def test_between_depth_mup_and_the_ode(net: tp.ResNet, alpha: sp.Rational, known: float) -> None:
    """1/2 < alpha < 1, where corrections fall like L^(1 - 2 alpha), and L^(2 alpha - 2) inside of activations: slowly.

    Where several of them cancel at the depths that are affordable, outputs do not settle, and that is said.
    """
    asked = problem(net, tp.SGD(0.7), tp.DepthScaling(alpha, 1 - alpha))
    truth = tp.train(asked)
    try:
        run = tp.train(asked, method=tp.methods.CommonDraws(budget=1e7))
    except tp.Divergence as refusal:
        print(f"{net.phi} {net.block} alpha = {alpha}: {refusal}")
        assert "do not settle" in str(refusal) and net.block == "mlp"
        return
    error = np.abs(run.outputs - truth.outputs).max()
    print(f"{net.phi} {net.block} alpha = {alpha}: error {error:.1e}, estimate {run.error_estimate:.1e}; "
          f"{run.notes[0]}")
    assert truth.method == "collocation" and error < 2 * run.error_estimate < 2 * known


BATCHES = np.random.default_rng(5).normal(size=(2, 3, 3, 1))
THREE, ADAM = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5]), tp.Adam(0.5, beta1=0.9, beta2=0.99, eps=0.01)
POWERS = {  # what had not been tested: the problem, the mirror, particles and the coarsest depth
    "Adam": (problem(tp.ResNet(), ADAM, task=THREE), (), 1024, 8),
    "batches, pre tanh": (problem(tp.ResNet("tanh", "pre_nonlin"), tp.SGD(1.0),
                                  task=tp.Task(BATCHES[0] / 2, BATCHES[1])),
                          (), 2048, 8),
    "trained ends, pre tanh": (problem(tp.ResNet("tanh", "pre_nonlin", train_embedding_readout=True), tp.SGD(0.5)), (),
                               2048, 8),
    "trained ends, alpha = 1, tanh": (problem(tp.ResNet("tanh", train_embedding_readout=True), tp.SGD(0.5), ODE), (),
                                      2048, 8),
    "alpha = 3/4, pre tanh": (problem(tp.ResNet("tanh", "pre_nonlin"), tp.SGD(1.0), tp.DepthScaling(0.75, 0.25)), (),
                              2048,
                              8),
    "alpha = 9/10, tanh": (problem(tp.ResNet("tanh"), tp.SGD(1.0), tp.DepthScaling(0.9, 0.1)), (), 2048, 8)}


@pytest.mark.parametrize("name", POWERS)
def test_the_power_of_the_bias(name: str) -> None:
    """Changes over three doublings of the depth against c 2^(-p j), one p for all outputs: p is the derived one, up to
    the next powers, and nearer to it than to its half or its double."""
    asked, mirror, samples, coarsest = POWERS[name]
    derived = depth_orders(asked.net, asked.scale).first(1)[0]
    levels = [Refinement(coarsest, level) for level in range(4)]
    jobs = [training(replace(asked, depth=level.depth)) for level in levels]
    values = np.array([at_depths([(job.program(), job.sizes()) for job in jobs], jobs[0].data(), "mse", samples, 4,
                                 batch, levels, mirror, "f") for batch in range(16)]).reshape(16, 4, -1)
    changes = np.diff(values, axis=1)
    mean, error = changes.mean(axis=0), changes.std(axis=0, ddof=1) / 4
    moving = np.all(error > 1e-12, axis=0)
    mean, weights = mean[:, moving], 1 / error[:, moving] ** 2
    powers = np.linspace(0.02, 3, 299)
    misfit = []
    for power in powers:
        shape = 2.0 ** (-power * np.arange(3))[:, None]
        size = np.sum(weights * shape * mean, axis=0) / np.sum(weights * shape**2, axis=0)
        misfit.append(np.sum(weights * (mean - size * shape) ** 2))
    found = powers[int(np.argmin(misfit))]
    at = {power: misfit[int(np.argmin(np.abs(powers - power)))] for power in (derived, derived / 2, 2 * derived)}
    print(f"{name}: power {found:.2f}, derived {derived:.2f}; chi^2 {min(misfit):.1f} of "
          f"{mean.size - mean.shape[1] - 1}, " + ", ".join(f"{chi:.1f} at {power:.2f}" for power, chi in at.items()))
    assert abs(found - derived) < 0.2 * max(1.0, derived)
    assert at[derived] < min(at[derived / 2], at[2 * derived])
