"""Laws of fluctuations at rates up to 8: layers against whole matrices, layer time against layers, and symmetries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import tpcalc as tp
from support.references.depth_extrapolation import infinite_depth as extrapolated
from support.references.overlap_action import training
from tpcalc.finite_width import tilted_limit
from tpcalc.finite_width.fluctuations import Fluctuations

RATES = (8.0, 1.0, 4.0, 2.0)
ALPHAS = (0.5, 1.0)


class Drawn(NamedTuple):
    net: tp.ResNet
    task: tp.Task
    optimizer: tp.SGD
    scale: tp.DepthScaling

    def at(self, depth: int) -> Fluctuations:
        return tp.train(*self, depth).fluctuations


def drawn(seed: int, longest: int) -> Drawn:
    """Random data and sizes; ends, momentum and decay in turn, so that few seeds have them all."""
    rng = np.random.default_rng(seed)
    steps, batch = int(rng.integers(2, longest + 1)), int(rng.integers(1, 3))
    d_in, d_out = (int(d) for d in rng.integers(1, 3, 2))
    task = tp.Task(rng.normal(size=(steps, batch, d_in)) / 2, rng.normal(size=(steps, batch, d_out)) / 2)
    eta = RATES[seed % 4]
    opt = tp.SGD(eta, momentum=0.4 * (seed % 3 == 1), weight_decay=0.3 / eta * (seed % 3 == 2))
    alpha = ALPHAS[seed // 2 % 2]
    return Drawn(tp.ResNet(train_embedding_readout=seed % 5 == 1), task, opt, tp.DepthScaling(alpha, 1 - alpha))


def layers(limit: Fluctuations, depth: int) -> Fluctuations:
    """Layers that share the constants of the limit: a power series in 1/L, at any alpha."""
    return Fluctuations(limit.task, limit.optimizer, depth, limit.noise / depth, limit.drift / depth,
                        limit.train_embedding_readout)


def largest(values: np.ndarray) -> float:
    return float(np.max(np.abs(values)))


def many(fast: int, slow: int) -> list:
    return [*range(fast), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(fast, slow))]


@pytest.mark.parametrize("seed", many(4, 16))
def test_layers_are_whole_matrices_over_all_overlaps(seed: int) -> None:
    case, depth = drawn(seed, 2), 1 + seed % 2
    inputs, targets = case.task.inputs, case.task.targets
    action, wanted = training(inputs, targets, depth, case.scale.multiplier(depth), case.scale.update_size(depth),
                              *case.optimizer.memory(len(inputs)), case.net.train_embedding_readout)
    _, covariance, bias = action.fluctuations(wanted)
    found, size = case.at(depth), largest(covariance)
    assert largest(found.covariance.ravel() - covariance.ravel()) <= 1e-11 * size
    assert largest(found.bias.ravel() - bias) <= 1e-11 * size


THICK = 16  # trained ends, momentum and a rate of 8: a series in 1/L from thousands of layers on


@pytest.mark.parametrize("seed", [seed for seed in many(4, 20) if THICK not in getattr(seed, "values", ())])
def test_layer_time_is_the_limit_of_layers(seed: int) -> None:
    """Within both estimates, of which that of layers is below a millionth of the covariances."""
    limit = drawn(seed, 2 if seed < 4 else 3).at(tp.oo)
    size = largest(limit.covariance)
    for name in ("covariance", "bias"):
        expected = extrapolated(lambda depth: getattr(layers(limit, depth), name).ravel(), 1e-9)
        assert expected.error <= 1e-6 * size
        own = getattr(limit, f"{name}_error")
        assert own <= 1e-10 * size
        assert largest(getattr(limit, name).ravel() - expected.value) <= 10 * expected.error + own + 1e-12 * size


@pytest.mark.slow
def test_a_limit_that_thousands_of_layers_are_far_from_is_theirs() -> None:
    """Sigma at 2048 layers is off by a quarter of its size; polynomials in 1/L through seven depths are by 1e-8."""
    limit = drawn(THICK, 3).at(tp.oo)
    depths, size = np.array([2048, 3072, 4096, 6144, 8192, 12288, 16384]), largest(limit.covariance)
    weights = [np.prod([depth / (depth - other) for other in depths if other != depth]) for depth in depths]
    found = [layers(limit, int(depth)).covariance for depth in depths]
    assert largest(found[0] - limit.covariance) > 0.1 * size
    assert largest(np.tensordot(weights, found, 1) - limit.covariance) <= 1e-8 * size
    assert limit.covariance_error <= 1e-10 * size


def test_thick_layers_in_which_values_explode_are_refused_by_name() -> None:
    limit = drawn(THICK, 3).at(tp.oo)
    with pytest.raises(tp.Divergence, match="fluctuations: values of order 0 in the tilt are not finite at depth 4"):
        layers(limit, 4).covariance


@pytest.mark.parametrize("depth", [3, tp.oo])
@pytest.mark.parametrize("seed", many(2, 8))
def test_samples_and_outputs_have_no_order(seed: int, depth: int) -> None:
    case = drawn(seed, 2)
    task = case.task
    task = tp.Task(np.concatenate([task.inputs, 0.7 * task.inputs[:, ::-1]], axis=1)[:, :2],
                   np.concatenate([task.targets, -task.targets[:, ::-1]], axis=1)[:, :2])
    task = tp.Task(task.inputs, np.concatenate([task.targets, 0.3 - task.targets], axis=2)[..., :2])
    turned = tp.Task(task.inputs[:, ::-1], task.targets[:, ::-1, ::-1])
    one, two = (case._replace(task=given).at(depth) for given in (task, turned))
    size = largest(one.covariance)
    allowed = 1e-11 * size
    assert largest(one.covariance - two.covariance[:, ::-1, ::-1, :, ::-1, ::-1]) <= (
        allowed + one.covariance_error + two.covariance_error)
    assert largest(one.bias - two.bias[:, ::-1, ::-1]) <= allowed + one.bias_error + two.bias_error
    assert largest(two.bias - two.bias[:, ::-1]) > 1e-6 * size  # samples differ


@pytest.mark.parametrize("seed", many(3, 10))
def test_other_meshes_and_tolerances_agree_within_the_estimates(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = drawn(seed, 2)
    one = case.at(tp.oo)
    known = one.covariance, one.bias
    for coarse, fine, tolerance in ((14, 16, 1e-7), (22, 25, 1e-11)):
        monkeypatch.setattr(tilted_limit, "COARSE", coarse)
        monkeypatch.setattr(tilted_limit, "FINE", fine)
        monkeypatch.setattr("tpcalc.finite_width.fluctuations.TOLERANCE", tolerance)
        two = case.at(tp.oo)
        assert largest(known[0] - two.covariance) <= one.covariance_error + two.covariance_error
        assert largest(known[1] - two.bias) <= one.bias_error + two.bias_error
