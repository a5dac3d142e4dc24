"""Tasks: shapes, losses, the digits, and what is refused."""

from __future__ import annotations

import sys
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from support.closeness import assert_close

NAN, INF = float("nan"), float("inf")


def test_one_dimensional_data_is_one_scalar_a_step() -> None:
    task = tp.Task((1, 2, 3), [4.0, 5.0, 6.0])
    assert (task.steps, task.batch, task.d_in, task.d_out) == (3, 1, 1, 1)
    assert np.array_equal(task.inputs[:, 0, 0], [1, 2, 3]) and task.inputs.dtype == np.float64
    assert "steps=3, batch=1, d_in=1, d_out=1" in repr(task)


def test_a_task_keeps_its_own_copy_of_the_data() -> None:
    xi = np.ones((2, 1, 1))
    task = tp.Task(xi, xi)
    xi[:] = 7
    assert np.all(task.inputs == 1) and np.all(task.targets == 1)


def test_losses_are_means_over_the_batch_of_half_the_squared_distance() -> None:
    rng = np.random.default_rng(0)
    f, y = rng.normal(size=(2, 3, 4, 2))
    task = tp.Task(np.ones((3, 4, 1)), y)
    assert_close(task.losses(f), 0.5 * ((f - y) ** 2).sum(axis=2).mean(axis=1), 1e-15)


def test_the_derivative_of_the_loss_is_its_derivative() -> None:
    """Central differences are exact for a quadratic, but for round-off."""
    rng = np.random.default_rng(0)
    task = tp.Task((1.0,), (1.0,))
    f, y, direction = rng.normal(size=(3, 5, 2))
    h = 1e-4
    measured = (task.loss.value(f + h * direction, y) - task.loss.value(f - h * direction, y)) / (2 * h)
    assert_close(np.sum(task.loss.derivative(f, y) * direction, axis=1), measured, 1e-10)


@pytest.mark.parametrize("name, position", [("inputs", 0), ("targets", 1)])
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_data_that_is_not_finite_is_refused(name: str, position: int, bad: float) -> None:
    data = [np.zeros((2, 3, 2)), np.zeros((2, 3, 2))]
    data[position][1, 2, 0] = bad
    with pytest.raises(ValueError) as caught:
        tp.Task(*data)
    assert str(caught.value) == (f"{name}: 1 values are NaN or infinite (the first at index (1, 2, 0)); expected "
                                 "finite numbers")


@pytest.mark.parametrize("inputs, targets, said", [
    ((1, 2, 3), (1, 2), "inputs, targets: got 3 steps of 1 and targets of 2 steps of 1; expected as many"),
    (np.zeros((2, 3, 1)), np.zeros((2, 4, 1)), "inputs, targets: got 2 steps of 3 and targets of 2 steps of 4; "
                                               "expected as many"),
    (np.zeros((2, 3)), (1, 2), "inputs: got shape (2, 3); expected (steps, batch, dimension) or (steps,)"),
    ((1, 2), np.zeros((4, 1)), "targets: got shape (4, 1); expected (steps, batch, dimension) or (steps,)"),
    ((), (), "inputs: got shape (0, 1, 1); expected (steps, batch, dimension) or (steps,), none of them 0"),
    (np.zeros((2, 0, 1)), np.zeros((2, 0, 1)), "inputs: got shape (2, 0, 1)"),
    (3.0, 4.0, "inputs: got shape ()"),
    ("abc", (1,), "inputs: got 'abc'"),
    ([[1], [1, 2]], (1, 2), "inputs: got [[1], [1, 2]]"),
    ((1j, 2), (1, 2), "inputs: got (1j, 2)"),
    (None, (1, 2), "inputs: "),
])
def test_data_that_does_not_fit_is_refused(inputs: Any, targets: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.Task(inputs, targets)
    assert said in str(caught.value)


@pytest.mark.parametrize("probes, said", [(np.zeros((3, 3)), "probes: got shape (3, 3); expected (m, 2)"),
                                          (np.zeros(2), "probes: got shape (2,); expected (m, 2)"),
                                          (np.full((1, 2), NAN), "probes: 2 values are NaN or infinite")])
def test_probes_that_do_not_fit_are_refused(probes: np.ndarray, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.Task(np.zeros((2, 1, 2)), np.zeros((2, 1, 1)), probes=probes)
    assert said in str(caught.value)


@pytest.mark.parametrize("loss", ["hinge", None, 3, object()])
def test_an_unknown_loss_is_refused(loss: Any) -> None:
    with pytest.raises(ValueError) as caught:
        tp.Task((1.0,), (1.0,), loss=loss)
    message = str(caught.value)
    allowed = "'mse', 'logistic', 'softmax' or an object with value(f, y) and derivative(f, y)"
    assert f"loss: got {loss!r}; expected {allowed}" in message


def test_digits_are_normalized_images_with_one_hot_targets() -> None:
    pytest.importorskip("sklearn")
    task = tp.tasks.digits(steps=28, batch=64)  # almost all of the 1797
    assert (task.steps, task.batch, task.d_in, task.d_out) == (28, 64, 64, 10)
    assert abs(np.mean(np.sum(task.inputs**2, axis=2)) - 1) < 1e-3
    assert np.array_equal(np.sort(np.unique(task.targets)), [0, 1]) and np.all(task.targets.sum(axis=2) == 1)
    again, other = tp.tasks.digits(28, 64), tp.tasks.digits(28, 64, seed=1)
    assert np.array_equal(task.inputs, again.inputs) and not np.array_equal(task.inputs, other.inputs)
    flat = task.inputs.reshape(-1, 64)
    assert len(np.unique(flat, axis=0)) == len(flat)  # drawn without replacement


@pytest.mark.parametrize("given, said", [((30, 64), "steps, batch: got 30, 64; expected at most 1797 images"),
                                         ((0, 64), "steps: got 0; expected a whole number of at least 1"),
                                         ((1, 2.5), "batch: got 2.5; expected a whole number of at least 1")])
def test_more_digits_than_there_are_are_refused(given: tuple, said: str) -> None:
    pytest.importorskip("sklearn")
    with pytest.raises(ValueError) as caught:
        tp.tasks.digits(*given)
    assert said in str(caught.value)


def test_digits_name_the_extra_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(tp.MissingExtra, match=r"scikit-learn.*pip install 'tpcalc\[report\]'"):
        tp.tasks.digits()


class Tensor:
    """What has a gradient, and hands out its numbers only when asked to leave it."""

    def __init__(self, values: Any, attached: bool = True) -> None:
        self.values, self.attached = np.asarray(values), attached

    def detach(self) -> "Tensor":
        return Tensor(self.values, False)

    def cpu(self) -> "Tensor":
        return self

    def __array__(self, *arguments: Any, **options: Any) -> np.ndarray:
        if self.attached:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return self.values


@pytest.mark.parametrize("targets, read", [
    (np.arange(6.0), np.arange(6.0).reshape(3, 2, 1)),
    (np.arange(6.0).reshape(3, 2), np.arange(6.0).reshape(3, 2, 1)),
    (np.arange(12.0).reshape(6, 2), np.arange(12.0).reshape(3, 2, 2)),
    (Tensor(np.arange(6.0)), np.arange(6.0).reshape(3, 2, 1)),
])
def test_targets_that_can_be_meant_in_one_way_are_read(targets: Any, read: np.ndarray) -> None:
    assert np.array_equal(tp.Task(np.ones((3, 2, 4)), targets).targets, read)


def test_a_table_of_targets_beside_one_input_a_step() -> None:
    table = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(tp.Task([1.0, 2.0, 3.0], table).targets, table[:, None])


def test_probes_of_scalars_and_tensors_as_inputs() -> None:
    task = tp.Task(Tensor([1.0, 2.0]), [1.0, 2.0], probes=[3.0, 4.0, 5.0])
    assert task.probes.shape == (3, 1) and task.inputs.shape == (2, 1, 1)


def test_lines_of_samples_are_told_how_to_be_cut() -> None:
    with pytest.raises(ValueError, match=r"inputs.reshape\(steps, batch, 4\), one sample a step inputs.reshape\(6, 1,"):
        tp.Task(np.ones((6, 4)), np.ones(6))


def test_tensors_of_torch() -> None:
    """With gradients, in half precision, a batch or a number a step; complex ones and unfinished shapes are refused."""
    torch = pytest.importorskip("torch")
    inputs, targets = torch.arange(24.0).reshape(4, 2, 3), torch.arange(8.0).reshape(4, 2)
    plain = tp.Task(inputs.numpy(), targets.numpy())
    for given in (inputs.clone().requires_grad_(), inputs.double(), inputs.to(torch.bfloat16), inputs.to(torch.int64)):
        task = tp.Task(given, targets.requires_grad_())
        assert np.array_equal(task.inputs, plain.inputs) and np.array_equal(task.targets, plain.targets)
    assert tp.Task(inputs[:, 0, 0], targets[:, 0]).inputs.shape == (4, 1, 1)
    with pytest.raises(ValueError, match=r"(?s)inputs: .*complex64"):
        tp.Task(inputs.to(torch.complex64), targets)
    with pytest.raises(ValueError, match=r"inputs.reshape\(steps, batch, 3\)"):
        tp.Task(inputs[0], targets[0])


def test_columns_of_a_table() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"x": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0]})
    task = tp.Task(table["x"], table["y"])
    assert task.inputs.ravel().tolist() == [1.0, 2.0, 3.0] and task.targets.shape == (3, 1, 1)
    assert tp.Task([1.0, 2.0, 3.0], table).targets.tolist() == [[[1.0, 4.0]], [[2.0, 5.0]], [[3.0, 6.0]]]
    with pytest.raises(ValueError, match=r"inputs.reshape\(steps, batch, 2\)"):
        tp.Task(table, table["y"])


def test_text_is_cut_from_one_place_at_a_time() -> None:
    """Targets follow inputs in the text itself, whatever the seed; the same seed draws the same."""
    found, again = tp.tasks.text(4, 3, 20), tp.tasks.text(4, 3, 20)
    assert np.array_equal(found.inputs, again.inputs) and not np.array_equal(
        found.inputs, tp.tasks.text(4, 3, 20, seed=1).inputs)
    written = "".join(topics[name] for name in sorted(topics))
    for one, other in zip(found.inputs.reshape(-1, 20), found.targets.reshape(-1, 20)):
        words, following = ("".join(found.alphabet[number] for number in row) for row in (one, other))
        assert words + following[-1] in written and words[1:] == following[:-1]
    for bad in (dict(steps=0), dict(batch=1.5), dict(positions=10**9)):
        with pytest.raises(ValueError, match=next(iter(bad))):
            tp.tasks.text(**{"steps": 1, "batch": 1, "positions": 1, **bad})  # type: ignore[arg-type]
