"""Real networks of finite width against infinite width: within standard errors over seeds, error like n^-1/2."""

from __future__ import annotations

from typing import Callable

import numpy as np
import pytest

import tpcalc as tp

NET = tp.ResNet("linear")
HALF, THREE_QUARTERS, ONE = tp.DepthScaling(), tp.DepthScaling(0.75, 0.25), tp.DepthScaling(1, 0)


def task_of(steps: int, batch: int, d_in: int, d_out: int, probes: int = 0) -> tp.Task:
    rng = np.random.default_rng([steps, batch, d_in, d_out])
    return tp.Task(rng.normal(size=(steps, batch, d_in)) / np.sqrt(d_in), rng.normal(size=(steps, batch, d_out)),
                   probes=rng.normal(size=(probes, d_in)) / np.sqrt(d_in) if probes else None)


CASES = {
    "one input, one output": (task_of(4, 1, 1, 1), HALF, 4),
    "batch of three, two outputs": (task_of(3, 3, 4, 2), HALF, 5),
    "probes, (3/4, 1/4)": (task_of(4, 2, 3, 3, probes=2), THREE_QUARTERS, 4),
    "batch, (1, 0)": (task_of(4, 4, 2, 1), ONE, 6),
}


def z_scores(width: int, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """(mean over seeds - infinite width) / standard error: of all outputs, of covariances at 0, 1/2 and 1.

    All cases pooled; every case has seeds of its own, so that luck is not shared.
    """
    outputs, covariances = [], []
    where = [0, 0.5, 1]
    for i, (task, scale, depth) in enumerate(CASES.values()):
        opt = tp.SGD(np.linspace(0.6, 0.3, task.steps))
        exact = tp.train(NET, task, opt, scale, depth, keep_nodes=where)
        first = 10000 * (i + 1) + width
        runs = [tp.train(NET, task, opt, scale, depth, width=width, seed=seed, keep_nodes=where)
                for seed in range(first, first + seeds)]

        def score(read: Callable[[tp.Run], np.ndarray]) -> np.ndarray:
            values = np.array([read(run) for run in runs])
            return (values.mean(axis=0) - read(exact)) / (values.std(axis=0, ddof=1) / np.sqrt(seeds))

        outputs.append(score(lambda run: run.outputs.ravel()))
        if task.probes is not None:
            outputs.append(score(lambda run: run.probe_outputs.ravel()))
        covariances += [score(lambda run: run.forward_covariance.ravel()),
                        score(lambda run: run.backward_covariance.ravel())]
    return np.concatenate(outputs), np.concatenate(covariances)


def assert_within_standard_errors(width: int, seeds: int) -> None:
    """rms and largest z-score: of some 80 outputs, about 15 of them independent, and of 2500 covariances, which read
    some 50 independent averages along many directions (hence the wider bound). The number of seeds is such that the
    bias, of order 1/n, stays within the standard error."""
    for z, largest in zip(z_scores(width, seeds), (4.5, 6.5)):
        assert 0.5 < np.sqrt(np.mean(z**2)) < 1.6
        assert np.max(np.abs(z)) < largest


@pytest.mark.parametrize("width, seeds", [(128, 24), pytest.param(256, 40, marks=pytest.mark.nightly),
                                          pytest.param(1024, 24, marks=pytest.mark.slow)])
def test_dense_networks_agree_with_infinite_width_within_standard_errors(width: int, seeds: int) -> None:
    assert_within_standard_errors(width, seeds)


def test_a_wrong_learning_rate_is_told_apart() -> None:
    """The same comparison with 40 % more learning rate is off by far: the one above can fail."""
    task, scale, depth = CASES["batch of three, two outputs"]
    exact = tp.train(NET, task, tp.SGD(0.5), scale, depth).outputs[1:]
    seen = np.array([tp.train(NET, task, tp.SGD(0.7), scale, depth, width=1024, seed=seed).outputs[1:]
                     for seed in range(10)])
    z = (seen.mean(axis=0) - exact) / (seen.std(axis=0, ddof=1) / np.sqrt(10))
    assert np.sqrt(np.mean(z**2)) > 3


def width_slope(seeds: int) -> float:
    """d log(rms error) / d log n over n = 64 .. 512."""
    task, scale, depth = CASES["batch of three, two outputs"]
    widths = np.array([64, 128, 256, 512])
    exact = tp.train(NET, task, tp.SGD(0.5), scale, depth).outputs
    errors = [np.sqrt(np.mean([(tp.train(NET, task, tp.SGD(0.5), scale, depth, width=int(n), seed=int(n) + 10000 * seed)
                                .outputs - exact) ** 2 for seed in range(seeds)])) for n in widths]
    return float(np.polyfit(np.log(widths), np.log(errors), 1)[0])


def test_the_error_falls_like_the_square_root_of_the_width() -> None:
    """Three standard errors of the slope: rms over 80 seeds of a few independent outputs is known to about 4 %."""
    assert abs(width_slope(80) + 0.5) < 0.08


@pytest.mark.slow
def test_the_error_falls_like_the_square_root_of_the_width_closely() -> None:
    assert abs(width_slope(400) + 0.5) < 0.025


@pytest.mark.slow
@pytest.mark.parametrize("name", ["outputs", "forward_covariance", "backward_covariance"])
def test_the_mean_over_networks_is_off_by_one_over_the_width(name: str) -> None:
    """Visible at n = 64, half of it at n = 128, and gone to standard errors when extrapolated in 1/n."""
    task, scale, depth = CASES["batch of three, two outputs"]
    opt, where = tp.SGD([0.6, 0.45, 0.3]), [0, 0.5, 1]
    exact = getattr(tp.train(NET, task, opt, scale, depth, keep_nodes=where), name)
    biases, errors = [], []
    for width, seeds in ((64, 4000), (128, 3000)):
        values = np.array([getattr(tp.train(NET, task, opt, scale, depth, width=width, seed=100000 * width + seed,
                                            keep_nodes=where), name) for seed in range(seeds)])
        biases.append(values.mean(axis=0) - exact)
        errors.append(values.std(axis=0, ddof=1) / np.sqrt(seeds))
    assert np.max(np.abs(biases[0]) / errors[0]) > 5
    z = (2 * biases[1] - biases[0]) / np.sqrt(4 * errors[1] ** 2 + errors[0] ** 2)
    assert np.sqrt(np.mean(z**2)) < 1.8 and np.max(np.abs(z)) < 5


def test_the_error_estimate_is_the_scale_of_the_fluctuation() -> None:
    """Of the first outputs, exactly normal with standard deviation |x^L| / n: between one and three times that of
    all outputs over seeds, and falling like n^-1/2."""
    task, scale, depth = CASES["batch of three, two outputs"]
    runs = [tp.train(NET, task, tp.SGD(0.5), scale, depth, width=256, seed=seed) for seed in range(40)]
    spread = np.sqrt(np.mean([run.outputs[0] ** 2 for run in runs]))
    estimate = np.mean([run.error_estimate for run in runs])
    assert 1 <= estimate / spread < 3  # the estimate is that of the largest input of the batch
    wide = tp.train(NET, task, tp.SGD(0.5), scale, depth, width=1024).error_estimate
    assert 0.4 < wide / estimate < 0.6
