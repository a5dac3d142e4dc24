"""A scheduler of the base's learning rate, whose rates all groups of a plan follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import torch

from .. import _checks
from .._types import Fields, Value

if TYPE_CHECKING:
    from .model_plan import ModelPlan

CYCLED = ("betas", "momentum")  # what schedulers set besides the learning rate


class _BaseGroup(torch.optim.Optimizer):  # type: ignore[misc]
    """What a scheduler is given: one group, of the base's rate, and steps that do nothing."""

    def __init__(self, settings: Fields) -> None:
        super().__init__([{"params": [torch.zeros(1)], **settings}], settings)

    def step(self, closure: Value = None) -> None:
        """Nothing; schedulers count that it was called."""


class PlanScheduler(torch.optim.lr_scheduler.LRScheduler):  # type: ignore[misc]
    """A scheduler for an optimizer with a plan's groups, as ``ModelPlan.scheduler`` returns it: what it wraps sets the
    base's rate, and groups have that times their factors. Muon's rate stays the same multiple of the others.

    plan, optimizer: whose groups follow; make: a function of an optimizer with one group that returns the scheduler.
    """

    def __init__(self, plan: ModelPlan, optimizer: Value, make: Callable[[torch.optim.Optimizer], Value]) -> None:
        # not that of its class, by which trainers know schedulers: it would set rates itself
        _checks.function("make", make, "a function of an optimizer that returns a scheduler", optional=False)
        rates = plan.check(optimizer)
        lr = rates.get("lr") or rates["muon_lr"]
        self.plan, self.optimizer = plan, optimizer
        self._muon = rates["muon_lr"] / lr if "muon_lr" in rates else None
        own = {name: optimizer.param_groups[0][name] for name in CYCLED
               if all(name in group for group in optimizer.param_groups)}
        self._base = _BaseGroup({"lr": lr, **own})
        self._scheduler = make(self._base)
        if getattr(self._scheduler, "optimizer", None) is not self._base or not hasattr(self._scheduler, "step"):
            raise ValueError(f"make: it returned {_checks.short(self._scheduler)}; expected a scheduler of the "
                             "optimizer that it is given")
        self._set()

    def step(self, *args: Value, **given: Value) -> None:
        """One step of the scheduler, after one of the optimizer; arguments are the scheduler's own."""
        self._base.step()
        self._scheduler.step(*args, **given)
        self._set()

    def get_last_lr(self) -> list[float]:
        """The rate of every group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> Fields:
        """What ``load_state_dict`` takes: the scheduler's own, and the base's group."""
        return {"scheduler": self._scheduler.state_dict(), "base": self._group()}

    def load_state_dict(self, state: Fields) -> None:
        self._scheduler.load_state_dict(state["scheduler"])
        self._base.param_groups[0].update(state["base"])
        self._set()

    def _group(self) -> Fields:
        return {name: value for name, value in self._base.param_groups[0].items() if name != "params"}

    def _set(self) -> None:
        base = self._group()
        self.plan.set_lr(self.optimizer, base["lr"], None if self._muon is None else base["lr"] * self._muon)
        for group in self.optimizer.param_groups:
            group.update({name: base[name] for name in CYCLED if name in base})
