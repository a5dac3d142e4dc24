"""Optima of sweeps, their errors and what is said to move, against laws of their seeds that are known."""

from __future__ import annotations

import functools
import math
from typing import Any, Iterator

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
sweeps = pytest.importorskip("tpcalc.torch.sweep")

GRID = 2.0 ** np.arange(-9.0, -2.0)


def synthetic(octaves: Any, noise: float = 0.0, grid: Any = GRID, recipes: tuple[str, ...] = ("a",)) -> Any:
    """Parabolas in log2 of the rate, least at ``octaves`` (d, s), for every recipe; losses (1, d, k, s)."""
    at = np.asarray(octaves, dtype=float)
    losses = 1 + 0.1 * (np.log2(grid)[None, :, None] - at[:, None, :])**2
    return sweeps.TransferSweep(recipes, tuple(2**j for j in range(1, len(at) + 1)), grid, losses[None], {})


def test_what_is_not_resolved() -> None:
    still = synthetic([[-6.0, -6.1, -5.9], [-6.05, -6.1, -5.95]])
    assert still.moves == {"a": "no"} and np.allclose(still.optima, 2.0**np.array([[-6.0, -6.0333333]]))
    assert synthetic([[-4.0, -4.1, -3.9], [-6.05, -6.1, -5.95]]).moves == {"a": "yes"}
    noisy = synthetic([[-6.0, -6.1, -5.9], [-6.0, -7.3, -4.6]])
    assert noisy.moves == {"a": "not resolved"}  # seeds differ by more than depths do
    ends = synthetic([[-6.0, -6.1, -5.9], [-12.0, -12.1, -11.9]])
    assert ends.moves == {"a": "not resolved"} and ends.reasons["a"] == "the grid ends at the optimum of depth 4"
    assert np.isnan(ends.errors).tolist() == [[False, True]]
    assert "<0.00195" in str(ends) and ends.bracketed.tolist() == [[True, False]]
    assert synthetic([[-6.0], [-4.0]]).reasons == {"a": "one seed has no error"}
    assert np.isnan(synthetic([[-6.0], [-4.0]]).errors).all()
    assert synthetic([[-6.0, -6.1]]).reasons == {"a": "there is one depth"}
    cut = still.losses.copy()
    cut[0, 1, 5:] = math.inf  # next to the best rate of depth 4 all diverge, so that it may be half a step off
    cut[0, 1, 4] = 0.5
    edge = sweeps.TransferSweep(("a",), (2, 4), GRID, cut, {})
    assert edge.bracketed.all() and edge.optima[0, 1] == GRID[4] and edge.moves == {"a": "not resolved"}
    assert edge.errors[0, 1] == pytest.approx(0.68 / 2, abs=0.01)
    lost = sweeps.TransferSweep(("a",), (2, 4), GRID, np.full_like(still.losses, math.inf), {})
    assert lost.moves == {"a": "not resolved"} and "no rate is best at depth 2" in lost.reasons["a"]


@pytest.mark.parametrize("seeds", [2, 3, 8])
def test_errors_cover_as_often_as_they_say(seeds: int) -> None:
    """Seeds whose optima are normal: 68% of sweeps have the mean of many within the error."""
    draw, count = np.random.default_rng(seeds), 1000
    found = synthetic(-6 + 0.4 * draw.standard_normal((count, seeds)).clip(-5, 5), grid=2.0 ** np.arange(-9, -2, 1.0))
    covered = np.mean(np.abs(np.log2(found.optima[0]) + 6) < found.errors[0])
    assert covered == pytest.approx(0.683, abs=3.5 * math.sqrt(0.683 * 0.317 / count))
    two = synthetic(-6 + 0.4 * draw.standard_normal((2, seeds)))
    assert two.moves["a"] in ("yes", "no", "not resolved")


def test_no_and_yes_are_wrong_as_seldom_as_they_say() -> None:
    """An optimum that moves by just half a step: "yes" and "no" are both wrong, each in about 5% of sweeps."""
    draw, count, answers = np.random.default_rng(0), 400, []
    for _ in range(count):
        seeds = 0.3 * draw.standard_normal(3)
        answers.append(synthetic([-6 + seeds, -5.5 + seeds + 0.02 * draw.standard_normal(3)]).moves["a"])
    for answer in ("yes", "no"):
        assert answers.count(answer) / count == pytest.approx(0.05, abs=3.5 * math.sqrt(0.05 * 0.95 / count))


def test_yes_is_as_seldom_wrong_at_many_depths() -> None:
    """Nine depths, each just half a step away: one that is further by chance is no reason."""
    draw, count = np.random.default_rng(1), 200
    found = [synthetic(np.vstack([np.full((1, 5), -6.0), -5.5 + 0.1 * draw.standard_normal((9, 5))])).moves["a"]
             for _ in range(count)]
    assert found.count("yes") / count <= 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / count)


@pytest.mark.parametrize("at", [0.0, 0.25, 0.5, 0.75])
@pytest.mark.parametrize("shift", [0.0, 0.3, 0.4, 0.6, 0.7, 1.5])
def test_a_curve_that_is_steep_on_one_side_is_not_misjudged(at: float, shift: float) -> None:
    """exp(2.5 u) / 2.5 - u is least at 0; a parabola through points an octave apart is off by up to a third."""
    grid, draw = np.arange(-5.0, 6.0), np.random.default_rng(0)

    def curve(u: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(2.5 * u) / 2.5 - u)
    losses = np.stack([1 + 0.1 * curve(grid[:, None] - at - moved) + 5e-4 * draw.standard_normal((len(grid), 8))
                       for moved in (0.0, shift)])
    found = sweeps.TransferSweep(("a",), (2, 4), 2.0**grid, losses[None], {})
    assert found.moves["a"] in ("not resolved", "yes" if shift > 0.5 else "no"), found.reasons
    assert np.all(np.abs(np.log2(found.optima[0]) - [at, at + shift]) <= found.errors[0] / 0.683)


def test_seeds_that_are_one_say_nothing() -> None:
    found = synthetic([[-6.0, -6.0, -6.0], [-4.0, -4.1, -3.9]])
    assert found.moves == {"a": "not resolved"} and found.reasons["a"] == "two seeds have the same losses at depth 2"
    assert np.isnan(found.errors).tolist() == [[True, False]] == np.isnan(found.best_loss_errors).tolist()


def linear(depth: int) -> Any:
    return torch.nn.Linear(4, 1, bias=False)


@functools.cache
def regression(seed: int) -> tuple[Any, Any]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(12, 4, generator=draw)
    return x, x @ torch.ones(4, 1) + 0.5 * torch.randn(12, 1, generator=draw)


def of_regression(seed: int) -> Iterator[Any]:
    while True:
        yield regression(seed)


def error_of(model: Any, batch: Any) -> Any:
    return (model(batch[0]) - batch[1]).square().mean()


def test_errors_of_real_trainings_cover_an_optimum_of_many_seeds() -> None:
    """Linear regression on data of its own for every seed, and a closed form for the loss of every training."""
    seeds, rates, steps = 240, 2.0 ** np.arange(-6, 1.1, 0.5), 4
    found = tpt.transfer(linear, error_of, of_regression, [1], rates, steps, ["sp"], "sgd", seeds=seeds, last=1)
    x, y = regression(5)
    torch.manual_seed(5)
    w = torch.nn.Linear(4, 1, bias=False).weight.detach().T.double()
    second, moment = x.T.double() @ x.double() / 12, x.T.double() @ y.double() / 12
    best = torch.linalg.solve(second, moment)
    left = best + torch.linalg.matrix_power(torch.eye(4) - 2 * rates[3] * second, steps - 1) @ (w - best)
    assert found.losses[0, 0, 3, 5] == pytest.approx(float((x.double() @ left - y).square().mean()), rel=1e-4)
    covered, many = [], float(np.log2(found.optima[0, 0]))
    assert found.bracketed.all()
    for start in range(0, seeds, 3):
        few = sweeps.TransferSweep(("sp",), (1,), rates, found.losses[..., start:start + 3], {})
        covered.append(abs(float(np.log2(few.optima[0, 0])) - many) < few.errors[0, 0])
    assert np.mean(covered) == pytest.approx(0.683, abs=3 * math.sqrt(0.683 * 0.317 / len(covered)))
