"""Tasks from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.reports.options import load_task

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(7, 2)), RNG.normal(size=(7, 1))


def test_the_digits() -> None:
    mine, library = load_task("digits", 2, 5, 1), tp.tasks.digits(2, 5, seed=1)
    assert np.array_equal(mine.inputs, library.inputs) and np.array_equal(mine.targets, library.targets)
    assert load_task("digits", None, None, 0).inputs.shape == (10, 64, 64)


@pytest.mark.parametrize("steps, batch, shape", [
    (None, None, (1, 7)), (3, 2, (3, 2)), (3, None, (3, 2)), (None, 2, (3, 2)), (7, None, (7, 1)), (1, 7, (1, 7))])
def test_samples_are_cut_in_their_order(steps: int | None, batch: int | None, shape: tuple[int, int],
                                        tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", inputs=X, targets=Y)
    lines = ["x1,x2,y", *(f"{a!r},{b!r},{c!r}" for (a, b), c in zip(X.tolist(), Y[:, 0].tolist()))]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n\n")
    for name in ("a.npz", "a.csv"):
        task = load_task(str(tmp_path / name), steps, batch, 0)
        used = shape[0] * shape[1]
        assert task.inputs.shape == (*shape, 2) and task.targets.shape == (*shape, 1)
        assert np.array_equal(task.inputs.reshape(-1, 2), X[:used])
        assert np.array_equal(task.targets.reshape(-1, 1), Y[:used])


def test_targets_without_a_dimension(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", inputs=X, targets=Y[:, 0])
    assert load_task(str(tmp_path / "a.npz"), 7, 1, 0).targets.shape == (7, 1, 1)


def test_arrays_with_steps_are_taken_as_they_are(tmp_path: Path) -> None:
    inputs, targets = RNG.normal(size=(3, 2, 4)), RNG.normal(size=(3, 2, 5))
    np.savez(tmp_path / "a.npz", inputs=inputs, targets=targets)
    task = load_task(str(tmp_path / "a.npz"), 3, None, 0)
    assert np.array_equal(task.inputs, inputs) and np.array_equal(task.targets, targets)
    np.savez(tmp_path / "b.npz", inputs=np.arange(1.0, 4), targets=np.arange(3.0))
    assert load_task(str(tmp_path / "b.npz"), None, None, 0).inputs.shape == (3, 1, 1)


@pytest.mark.parametrize("steps, batch", [(8, 1), (4, 2), (1, 8)])
def test_more_than_there_is(steps: int, batch: int, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", inputs=X, targets=Y)
    with pytest.raises(ValueError, match="7 samples"):
        load_task(str(tmp_path / "a.npz"), steps, batch, 0)
