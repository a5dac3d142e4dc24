"""What trainings of a sweep start from: other processes, and later calls, have to start from the same."""

from __future__ import annotations

import math
import os
import platform
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import Module as Model

from ..studies.fingerprints import content
from ..studies.written_code import code_of, written

if TYPE_CHECKING:
    from .training_runs import TrainingScript

GENERATOR = threading.RLock()  # threads share torch's generator: one draws at a time
UNUSED = 0x5eed  # a seed that nobody else sets: torch's generator is then as it was where nothing was drawn from it
CLOSE = 1e-4  # relative, of starts of trainings that are the same on another machine
_checked: set[tuple["Begun", int]] = set()  # with depths, of sweeps that this process has been held against


@dataclass(frozen=True)
class Begun:
    """process: the one where the sweep was begun; same: digests and settings by name; starts: depth -> size of the
    parameters and first loss, of seed 0."""

    process: tuple[str, int]
    same: tuple[tuple[str, str], ...]
    starts: tuple[tuple[int, tuple[float, float]], ...]

    @classmethod
    def here(cls, script: "TrainingScript", starts: Mapping[int, tuple[float, float]]) -> "Begun":
        """What trainings start from in this process."""
        return cls(_this_process(), _same(script), tuple(starts.items()))

    def require(self, script: "TrainingScript", depth: int) -> None:
        """Raise ``ValueError`` in a process whose functions, or what they read, are not those of the first one."""
        if self.process == _this_process() or (self, depth) in _checked:
            return
        for (name, was), (_, found) in zip(self.same, _same(script)):
            if was != found:
                raise ValueError(f"{name}: in another process it is written otherwise, or reads other values, than "
                                 "where the sweep was begun; expected the same in all, such as values that are set "
                                 "where modules are imported, or functools.partial")
        with GENERATOR, torch.random.fork_rng(devices=[]):
            batch = next(iter(script.batches(0)))
            first = first_of(script, depth, batch)
        if differs := otherwise(dict(self.starts)[depth], first):
            raise ValueError(f"{differs}: in another process trainings at depth {depth} start otherwise than where the "
                             "sweep was begun; expected the same in all")
        _checked.add((self, depth))


def codes(script: "TrainingScript") -> dict[str, str]:
    """Digests of the functions that a sweep is given."""
    return {"make": code_of(script.make.make), "loss": code_of(script.loss), "data": code_of(script.data),
            "optimizer": code_of(script.optimizer)}


def first_of(script: "TrainingScript", depth: int, batch: object) -> tuple[float, float]:
    """The size of the parameters of seed 0, and the first loss; whatever it draws, it draws the same."""
    model = script.model(depth, 0)
    torch.manual_seed(UNUSED)
    return sum_of_squares(model), float(script.value(model, batch).detach())


def otherwise(one: Sequence[float], other: Sequence[float]) -> str | None:
    """Which of make and loss starts otherwise, None where both do not."""
    return next((name for name, old, new in zip(("make", "loss"), one, other)
                 if not math.isclose(old, new, rel_tol=CLOSE)), None)


def sum_of_squares(model: Model) -> float:
    """The sum of squares of all parameters."""
    return math.fsum(float(p.detach().abs().double().square().sum()) for p in model.parameters())


def _same(script: "TrainingScript") -> tuple[tuple[str, str], ...]:
    return *codes(script).items(), ("torch.get_default_dtype()", str(torch.get_default_dtype()))


def _this_process() -> tuple[str, int]:
    return platform.node(), os.getpid()


@written.register(Tensor)
def _tensor(value: Tensor, seen: set[int]) -> object:
    """The values of a tensor that a function reads; of one whose values are nowhere its class."""
    if value.is_meta or value.is_quantized or value.layout != torch.strided:
        return type(value).__name__
    parts = torch.view_as_real(value) if value.is_complex() else value
    return content(parts.detach().cpu().double().numpy())


@written.register(Model)
def _module(value: Model, seen: set[int]) -> object:
    """The class of a module and its values."""
    return [written(type(value), seen), value.training, written(dict(value.state_dict()), seen)]
