"""Tasks from names and files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from .. import Task, tasks
from .._files import arrays_of, text_of

SHAPES = "arrays 'inputs' and 'targets' of shape (steps, batch, dimension), (samples, dimension) or (steps,)"


def load_task(source: str, steps: int | None, batch: int | None, seed: int) -> Task:
    """The digits, or a file's data: .npz with inputs and targets, .csv with a header x..., y....

    Samples without steps (two-dimensional arrays, lines of a .csv) are cut in their order into ``steps``
    (default 10, or as many as there are) of ``batch`` (default 64, or as many as there are).
    Raises ``ValueError`` for anything else, naming the file.
    """
    if source == "digits":
        return tasks.digits(steps=steps or 10, batch=batch or 64, seed=seed)
    path = Path(source)
    if path.suffix not in (".npz", ".csv"):
        raise ValueError(f"task: got {source!r}; expected digits, or a file that ends in .npz or .csv")
    try:
        inputs, targets = _read_npz(path) if path.suffix == ".npz" else _read_csv(path)
    except OSError as error:
        raise ValueError(f"task: {source!r} cannot be read ({error.strerror or error})") from None
    except (csv.Error, ValueError) as error:
        raise ValueError(f"task: {source!r}: {error}") from None
    if inputs.ndim == 2 and targets.ndim in (1, 2):
        return Task(*_cut(source, inputs, targets if targets.ndim == 2 else targets[:, None], steps, batch))
    task = Task(inputs, targets)
    for name, asked, found in (("steps", steps, task.steps), ("batch", batch, task.batch)):
        if asked not in (None, found):
            raise ValueError(f"{name}: got {asked}; expected {found}, as {source!r} has it, or nothing")
    return task


def _read_npz(path: Path) -> tuple[np.ndarray, np.ndarray]:
    found = arrays_of(path)
    if not {"inputs", "targets"} <= set(found):
        raise ValueError(f"got {', '.join(found)}; expected {SHAPES}")
    arrays = found["inputs"], found["targets"]
    for name, array in zip(("inputs", "targets"), arrays):
        if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array) or array.ndim not in (1, 2, 3):
            raise ValueError(f"got {name} of shape {array.shape} and type {array.dtype}; expected {SHAPES}")
    return arrays


def _read_csv(path: Path) -> tuple[np.ndarray, np.ndarray]:
    lines = [line for line in csv.reader(io.StringIO(text_of(path), newline="")) if line]
    header = [name.strip() for name in lines[0]] if lines else []
    x = [i for i, name in enumerate(header) if name.startswith(("x", "input"))]
    y = [i for i, name in enumerate(header) if name.startswith(("y", "target"))]
    if not x or not y or len(x) + len(y) < len(header):
        raise ValueError(f"got a header {','.join(header)[:80]!r}; expected names that start with x or input, and "
                         "names that start with y or target")
    if len(lines) < 2:
        raise ValueError("got no line after the header; expected one line a sample")
    values = np.empty((len(lines) - 1, len(header)))
    for number, line in enumerate(lines[1:], start=2):
        try:
            if len(line) != len(header):  # one number would fill the row
                raise ValueError
            values[number - 2] = [float(cell) for cell in line]
        except ValueError:
            raise ValueError(f"line {number} has {','.join(line)[:80]!r}; expected {len(header)} numbers") from None
    return values[:, x], values[:, y]


def _cut(source: str, inputs: np.ndarray, targets: np.ndarray, steps: int | None,
         batch: int | None) -> tuple[np.ndarray, np.ndarray]:
    if len(inputs) != len(targets):
        raise ValueError(f"task: {source!r} has {len(inputs)} inputs and {len(targets)} targets; they must be as many")
    samples = len(inputs)
    b = batch or min(64, max(1, samples // (steps or 1)))
    t = steps or max(1, min(10, samples // b))
    if t * b > samples:
        raise ValueError(f"steps, batch: got {t}, {b}; expected at most {samples} samples, those of {source!r}")
    return inputs[: t * b].reshape(t, b, -1), targets[: t * b].reshape(t, b, -1)
