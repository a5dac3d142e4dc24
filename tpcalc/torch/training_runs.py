"""One training of a live model at one depth, rate and seed, by a plan: a job that any executor takes."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from inspect import signature
from itertools import islice
from typing import Callable, Iterable, Sequence

import torch
from torch.nn import Module as Model

from .._checks import short
from .._types import Fields
from ..groups.classes import begins_otherwise, name_of
from .begun import GENERATOR, Begun
from .model_plan import ModelPlan
from .streams import Loss, build

Optimize = Callable[[list[Fields]], torch.optim.Optimizer]
Data = Callable[[int], Iterable[object]]
OPTIMIZERS: dict[str, Optimize] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
SCALAR = "a function of model and batch that returns a tensor of one number, with a gradient in parameters"
GROUPS = "a function of parameter groups that returns a torch.optim.Optimizer with these groups and their rates"
EXCESS = 2.0  # times the first loss, and that of the model as it began on the same batch: a training diverges


@dataclass(frozen=True)
class OfDepth:
    """``make`` with its argument by name, as plans call it."""

    make: Callable[[int], Model]

    def __call__(self, depth: int) -> Model:
        return self.make(depth)


@dataclass(frozen=True)
class TrainingScript:
    """What all trainings of a sweep have in common.

    last: how many of the last losses are averaged; draws: do loss or data draw from torch's generators, so that threads
    have to take turns?; eps: the optimizer's at the base, None where it has none; begun: in other processes all of this
    has to be what it was where the sweep was begun.
    """

    make: OfDepth
    loss: Loss
    data: Data
    optimizer: Optimize
    steps: int
    last: int
    weight_decay: float
    draws: bool = False
    eps: float | None = None
    begun: Begun | None = None

    def model(self, depth: int, seed: int) -> Model:
        with GENERATOR:
            return build(self.make, {"depth": depth}, seed)

    def value(self, model: Model, batch: object) -> torch.Tensor:
        """The loss; raises ``ValueError`` for what is none."""
        found = self.loss(model, batch)
        if (not isinstance(found, torch.Tensor) or found.numel() != 1 or found.is_complex()
                or not found.requires_grad):
            what = (f"a tensor of shape {tuple(found.shape)}" if found.numel() != 1 else "a complex number"
                    if found.is_complex() else "a tensor without a gradient"
                    ) if isinstance(found, torch.Tensor) else short(found)
            raise ValueError(f"loss: it returned {what}; expected {SCALAR}")
        return found.reshape(())

    def batches(self, seed: int) -> Iterable[object]:
        """One batch a step; raises ``ValueError`` where there are fewer."""
        given = self.data(seed)
        if not isinstance(given, Iterable):
            raise ValueError(f"data: it returned {short(given)} for seed {seed}; expected an iterator of batches")
        count = 0
        for count, batch in enumerate(islice(given, self.steps), start=1):
            yield batch
        if count < self.steps:
            raise ValueError(f"data: its batches for seed {seed} end after {count}; expected one a step, {self.steps}")

    def trainer(self, groups: list[Fields]) -> torch.optim.Optimizer:
        """An optimizer of these groups; raises ``ValueError`` where it has others, or settings of its own that groups
        or ``weight_decay`` say."""
        wanted = _settings(groups)
        found = self.optimizer(groups)
        if not isinstance(found, torch.optim.Optimizer):
            raise ValueError(f"optimizer: it returned {short(found)}; expected {GROUPS}")
        got = _settings(found.param_groups)
        if got.keys() != wanted.keys() or any(got[p] != {**got[p], **wanted[p]} for p in wanted):
            raise ValueError(f"optimizer: it returned one with other groups or settings; expected {GROUPS}")
        own, usual = found.defaults.get("weight_decay"), signature(type(found)).parameters.get("weight_decay")
        if own and (usual is None or own != usual.default):
            raise ValueError(f"optimizer: it sets weight_decay={own:g}, which groups say; expected weight_decay= "
                             "beside optimizer")
        return found


def _settings(groups: Sequence[Fields]) -> dict[int, Fields]:
    """Parameter -> rate, weight decay and eps, where a group says them."""
    return {id(p): {name: group[name] for name in ("lr", "weight_decay", "eps") if name in group}
            for group in groups for p in group["params"]}


def law_of(trainer: torch.optim.Optimizer) -> str | None:
    """The optimizer's name in plans, or None for one that plans do not know."""
    name = name_of(trainer)
    if begins_otherwise(trainer):
        return None
    return "momentum" if name == "sgd" and any(group.get("momentum") for group in trainer.param_groups) else name


def plain_groups(model: Model, rate: float, weight_decay: float) -> list[Fields]:
    """All parameters at one rate; vectors do not decay."""
    trained = [p for p in model.parameters() if p.requires_grad]
    sides = [p for p in trained if p.dim() > 1], [p for p in trained if p.dim() <= 1]
    return [{"params": side, "lr": rate, "weight_decay": decay} for side, decay in zip(sides, (weight_decay, 0.0))
            if side]


@dataclass(frozen=True)
class TrainingRun:
    """One training; plan: None leaves the model as it is made."""

    script: TrainingScript
    depth: int
    rate: float
    seed: int
    plan: ModelPlan | None = None

    def result(self) -> tuple[float | None, int]:
        """(mean of the last losses, the number of steps), or (None, the step at which the training diverges)."""
        if self.script.begun is not None:
            self.script.begun.require(self.script, self.depth)
        with GENERATOR if self.script.draws else nullcontext(), torch.random.fork_rng(
                range(torch.cuda.device_count()), enabled=self.script.draws):
            model, groups = self.start()
            if self.script.draws:
                torch.manual_seed(self.seed)
            return self._trained(model, self.script.trainer(groups))

    def start(self) -> tuple[Model, list[Fields]]:
        """The model as its training begins, and its groups."""
        decay, model = self.script.weight_decay, self.script.model(self.depth, self.seed)
        if self.plan is None:
            return model, plain_groups(model, self.rate, decay)
        with GENERATOR:
            self.plan.apply_(model, self.seed)
        return model, self.plan.groups(model, self.rate, decay, self.script.eps)

    def _trained(self, model: Model, trainer: torch.optim.Optimizer) -> tuple[float | None, int]:
        losses: list[float] = []
        begun: Model | None = None
        for step, batch in enumerate(self.script.batches(self.seed)):
            value = self.script.value(model, batch)
            losses.append(float(value.detach()))
            if step == 0 and losses[0] <= 0:
                raise ValueError(f"loss: it is {losses[0]:g} at the start of depth {self.depth}, seed {self.seed}; "
                                 "expected a positive number, of which twice as much is a training that diverges")
            if not math.isfinite(losses[-1]):
                return None, step
            if losses[-1] > EXCESS * losses[0]:  # is it the training, or the batch?
                with torch.random.fork_rng(range(torch.cuda.device_count()), enabled=self.script.draws):
                    begun = begun or self.start()[0]
                    excess = losses[-1] > EXCESS * float(self.script.value(begun, batch).detach())
                if excess:
                    return None, step
            trainer.zero_grad()
            value.backward()
            trainer.step()
        return math.fsum(losses[-self.script.last:]) / self.script.last, self.script.steps


def is_outcome(result: object) -> bool:
    """Is this what ``TrainingRun.result`` returns, as JSON gives it back?"""
    if not isinstance(result, list) or len(result) != 2 or not isinstance(result[1], int):
        return False
    return result[0] is None or isinstance(result[0], float) and math.isfinite(result[0])
