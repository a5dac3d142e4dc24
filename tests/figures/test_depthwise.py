"""Conclusions of Depthwise Hyperparameter Transfer's figures, on losses whose answers are known."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from tpcalc import DepthScaling
from tpcalc.figures.depthwise.kernels import converges
from tpcalc.figures.figure import Sizes, figure_of
from tpcalc.figures.trainings import RealTraining

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
Loss = Callable[[RealTraining], float]
LEAST_DEPTH, LEAST_WIDTH = 2, 8  # at toy size
ODE, DEEP = DepthScaling(1, 0), DepthScaling()


def judged(key: str, early: Loss, end: Loss | None = None) -> list[bool | None]:
    """What the figure's conclusions are when trainings have these losses in their first half and their second."""
    asked = figure_of(key).asks(Sizes("toy"))  # type: ignore[misc]
    trainings = next(asked)

    def steps(one: RealTraining) -> np.ndarray:
        half = one.data.steps // 2
        return np.repeat([early(one), (end or early)(one)], half) + 1e-4 * one.seed

    losses = np.array([steps(one) for one in trainings.ravel()]).reshape(*trainings.shape, -1)
    with pytest.raises(StopIteration) as done:
        asked.send(losses)
    return [one.agrees for one in done.value.value.conclusions]


def rate(one: RealTraining) -> float:
    return float(np.max(one.opt.lr))


def deeper(one: RealTraining) -> float:
    """Octaves above the least depth."""
    return float(np.log2(one.depth / LEAST_DEPTH))


def wider(one: RealTraining) -> float:
    return float(np.log2(one.width / LEAST_WIDTH))


def valley(one: RealTraining, low: float) -> float:
    """A parabola in the octaves of the rate with its minimum at a power of 2."""
    return 0.1 + 0.05 * (np.log2(rate(one)) - low) ** 2


def is_muP_alone(one: RealTraining) -> bool:
    return one.scale == DepthScaling(0, 0)


def test_rates_that_move_with_depth_under_muP_alone() -> None:
    for muP_moves, ours_moves, answers in ((-2, 0, [True] * 4), (0, 0, [True, True, True, False]),
                                           (-2, 2, [False, True, True, True]), (2, 0, [True] * 4)):
        def low(one: RealTraining) -> float:
            return -1 + (muP_moves if is_muP_alone(one) else ours_moves) * deeper(one)
        assert judged("depthwise/1", lambda one: valley(one, low(one))) == answers


def test_rates_that_move_with_width() -> None:
    assert judged("depthwise/1", lambda one: valley(one, -1 + 2 * wider(one)))[1:3] == [False, False]
    assert judged("depthwise/B2", lambda one: valley(one, -1 - 2 * wider(one))) == [True, False, True]
    assert judged("depthwise/B2", lambda one: valley(one, -1)) == [False] * 3


@pytest.mark.parametrize("factors, powers, answers", [
    ({1: 2, 2: 1, 4: 2}, {1: 0.1, 2: 0.1, 4: 0.3}, [False, True]), ({1: 2, 2: 1, 4: 2}, {1: 0.1, 2: 0.1, 4: 0.09},
                                                                    [True, False]),
    ({1: 1, 2: 2, 4: 3}, {1: 0.1, 2: 0.1, 4: 0.2}, [False, True])])
def test_power_laws_of_parameters(factors: dict[int, float], powers: dict[int, float], answers: list[bool]) -> None:
    """The least loss over all rates is a power law of the number of parameters at every depth."""
    def loss(one: RealTraining) -> float:
        task = one.data.task(0)
        parameters = one.depth * one.width**2 + one.width * (task.d_in + task.d_out)
        return 10 * factors[one.depth] * parameters ** -powers[one.depth] * (1 + rate(one))
    assert judged("depthwise/B1", loss) == answers


def test_norms_that_keep_rates() -> None:
    """Octaves by which best rates move with depth: muP without norm and with it, branches of 1/sqrt(L)."""
    def answers(plain: float, normed: float, ours: float) -> list[bool | None]:
        return judged("depthwise/B4", lambda one: valley(one, -3 + deeper(one) * (
            ours if not is_muP_alone(one) else normed if one.net.norm else plain)))
    assert answers(2, 1, 0) == [True] * 4 and answers(1, 2, 0) == [False, True, True, True]
    assert answers(-2, -1, 0) == [True] * 4 and answers(2, 0, 2) == [True, False, False, False]


def test_vision_transformers_that_gain_by_depth() -> None:
    """Both with branches of 1/sqrt(L) and LayerNorm; toy depths are 1 and 2."""
    def loss(more: float) -> Loss:
        return lambda one: valley(one, -2) + 2 - one.depth * (more if one.scale.alpha > 0 else 0.5)
    assert judged("depthwise/3", loss(0.8)) == [True] * 4 and judged("depthwise/3", loss(0.2)) == [True] * 3 + [False]


def test_early_and_late_depths_of_both_limits() -> None:
    def answers(ode: float, sde: float, moves: float) -> list[bool | None]:
        return judged("depthwise/M1", lambda one: 2 + deeper(one) * (ode if one.scale == ODE else sde),
                      lambda one: valley(one, -1 + moves * deeper(one)))
    assert answers(-1, 1, 0) == [True] * 4 and answers(1, -1, 2) == [False] * 4


def test_early_rates_are_late_ones() -> None:
    def answers(early: float, end: float, deep: float) -> list[bool | None]:
        return judged("depthwise/B3", lambda one: valley(one, early + deep * deeper(one)),
                      lambda one: valley(one, end + deep * deeper(one)))
    assert answers(-0.5, -0.5, 0) == [True, True] and answers(-1, 1, 0) == [False, True]
    assert answers(-0.5, -0.5, 1.5) == [True, False]


SETTINGS: dict[str, Callable[[Any], float]] = {
    "4": lambda one: one.opt.momentum + getattr(one.data, "richness", 1.0), "B8": lambda one: 20 * one.opt.weight_decay}


@pytest.mark.parametrize("key", SETTINGS)
def test_losses_over_steps_that_depend_on_the_setting_alone(key: str) -> None:
    setting = SETTINGS[key]
    assert set(judged(f"depthwise/{key}", setting)) == {True}
    assert set(judged(f"depthwise/{key}", lambda one: setting(one) + 2 * deeper(one))) == {False}


def test_losses_over_steps_of_rates() -> None:
    assert judged("depthwise/B6", lambda one: valley(one, -3.5)) == [True, True]
    assert judged("depthwise/B6", lambda one: valley(one, -3.5 + 2 * deeper(one)))[1] is False


def test_falling_distances_are_no_disagreement() -> None:
    """At toy size depths are too small for 1/L, which refutes nothing."""
    assert [converges(powers) for powers in ([-1.0, -0.9], [-1.0, -0.6], [-1.0, 0.1])] == [True, None, False]
    asked = figure_of("depthwise/7").asks(Sizes("toy"))  # type: ignore[misc]
    next(asked)
    with pytest.raises(StopIteration) as done:
        next(asked)
    first = done.value.value.conclusions[0]
    assert first.agrees is None and "L^-0.86 and L^-0.63" in first.numbers
