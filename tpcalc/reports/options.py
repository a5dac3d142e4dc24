"""What a report is asked for, and tasks from names and files."""

from __future__ import annotations

import csv
import hashlib
import io
import shlex
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np

from .._files import arrays_of, text_of
from .._types import Json
from .. import SGD, DepthScaling, ResNet, Task, tasks

SHAPES = "arrays 'inputs' and 'targets' of shape (steps, batch, dimension), (samples, dimension) or (steps,)"


def require_seeds(seeds: int) -> None:
    if seeds < 2:
        raise ValueError(f"seeds: got {seeds}; expected a whole number of at least 2, to measure a spread")


@dataclass(frozen=True)
class Descent:
    """Plain gradient descent at a depth scaling; lr: one learning rate, or one a step."""

    alpha: Fraction = Fraction(1, 2)
    gamma: Fraction = Fraction(1, 2)
    lr: tuple[float, ...] = (1.0,)

    @property
    def opt(self) -> SGD:
        return SGD(lr=self.lr[0] if len(self.lr) == 1 else self.lr)

    @property
    def scale(self) -> DepthScaling:
        return DepthScaling(self.alpha, self.gamma)


@dataclass(frozen=True)
class Setup(Descent):
    """One training: scaling, learning rates and data; all checks of them are made when it is built."""

    source: str = "digits"
    steps: int | None = None
    batch: int | None = None
    data_seed: int = 0
    net: ResNet = field(default_factory=ResNet)
    task: Task = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", load_task(self.source, self.steps, self.batch, self.data_seed))
        self.opt.schedule(self.task.steps)

    @property
    def network(self) -> str:
        """The network in words, with its article."""
        net = self.net
        article = "An" if str(net.phi)[0] in "aeiou" else "A"
        block = "" if net.is_plain or net.block == "post_nonlin" else f" with {net.block} blocks"
        norm = "" if net.norm is None else f"{' and' if block else ' with'} inputs of blocks divided by their norms"
        return f"{article} {net.phi} residual network{block}{norm}"

    @cached_property
    def numbers(self) -> Json:
        """Everything the results depend on; the data by their digest."""
        data = hashlib.sha256(self.task.inputs.tobytes() + self.task.targets.tobytes()).hexdigest()
        return {"alpha": str(self.alpha), "gamma": str(self.gamma), "lr": list(self.lr), "task": self.source,
                "inputs": list(self.task.inputs.shape), "targets": list(self.task.targets.shape), "data": data,
                "net": repr(self.net)}

    def arguments(self) -> list[str]:
        """The command line that says the same."""
        given = ["--alpha", str(self.alpha), "--gamma", str(self.gamma), "--lr", ",".join(f"{r:g}" for r in self.lr),
                 "--task", self.source, "--steps", str(self.task.steps), "--batch", str(self.task.batch)]
        for name, default in (("phi", "linear"), ("block", "post_nonlin"), ("norm", None)):
            value = getattr(self.net, name)
            given += [] if value == default else [f"--{name}", str(value)]
        return given + (["--data-seed", str(self.data_seed)] if self.source == "digits" else [])


@dataclass(frozen=True)
class ReportOptions:
    """A setup, the depths of the convergence table, and the real networks to compare with."""

    setup: Setup
    depths: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024)
    widths: tuple[int, ...] = (128, 256, 512)
    network_depth: int = 16
    seeds: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        require_seeds(self.seeds)

    @property
    def numbers(self) -> Json:
        """Those of the setup."""
        return self.setup.numbers

    def command(self) -> str:
        """The command line of this report."""
        own = ["--depths", ",".join(map(str, self.depths)), "--widths", ",".join(map(str, self.widths)),
               "--network-depth", str(self.network_depth), "--seeds", str(self.seeds), "--seed", str(self.seed)]
        return shlex.join(["tpcalc", "report", *self.setup.arguments(), *own])


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
    reader = csv.reader(io.StringIO(text_of(path), newline=""))
    lines = [(reader.line_num, line) for line in reader if len(line) > 1 or line and line[0].strip()]
    header = [name.strip() for name in lines[0][1]] if lines else []
    x = [i for i, name in enumerate(header) if name.startswith(("x", "input"))]
    y = [i for i, name in enumerate(header) if name.startswith(("y", "target"))]
    if not x or not y or len(x) + len(y) < len(header):
        raise ValueError(f"got a header {','.join(header)[:80]!r}; expected names that start with x or input, and "
                         "names that start with y or target")
    if len(lines) < 2:
        raise ValueError("got no line after the header; expected one line a sample")
    values = np.empty((len(lines) - 1, len(header)))
    for row, (number, line) in zip(values, lines[1:]):
        try:
            if len(line) != len(header) or any("_" in cell for cell in line):  # one number would fill the row
                raise ValueError
            row[:] = [float(cell) for cell in line]
        except ValueError:
            raise ValueError(f"line {number} has {_written(line)[:80]!r}; expected {len(header)} numbers") from None
        if not np.isfinite(row).all():
            raise ValueError(f"line {number} has {_written(line)[:80]!r}; expected {len(header)} finite numbers")
    return values[:, x], values[:, y]


def _written(line: list[str]) -> str:
    """Cells as a file has them, those with commas in quotes."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(line)
    return text.getvalue()


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
