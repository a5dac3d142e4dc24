"""What a report is asked for."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import sympy as sp

from .._types import Json
from .. import SGD, DepthScaling, ResNet, Task
from .data import load_task


def depth_scaling(alpha: Fraction, gamma: Fraction) -> DepthScaling:
    return DepthScaling(*(sp.Rational(e.numerator, e.denominator) for e in (alpha, gamma)))


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
        return depth_scaling(self.alpha, self.gamma)


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
