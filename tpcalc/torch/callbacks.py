"""Callbacks of trainers that hold a training against its plan, and log sizes of updates."""

from __future__ import annotations

import logging
from typing import Callable, Sequence

from torch import Tensor
from torch.nn import Module as Model

from .. import _checks
from .._types import Value
from ..errors import of_extra
from .model_plan import ModelPlan, carried_plan
from .reading.claims import rms_of

AT = (1, 10, 100)
Log = Callable[[int, dict[str, float]], None]


class PlanWatch:
    """What callbacks do, whatever calls them: ``begin``, then ``before`` and ``after`` every step.

    plan, at, log, apply: as in ``callback``; sizes: step -> pattern of parameters -> root mean square of what the step
    changed, over that before it.

    >>> import torch
    >>> from torch import nn
    >>> from tpcalc.torch import plan
    >>> def net(n):
    ...     return nn.Sequential(nn.Linear(3, n), nn.ReLU(), nn.Linear(n, 1))
    >>> found = plan(net, dict(n=16), dict(n=64))
    >>> model, watch = net(64), PlanWatch(found, at=(1,), apply=True)
    >>> optimizer = torch.optim.AdamW(found.groups(model, lr=1e-3))
    >>> watch.begin(model, [optimizer], 0)
    >>> watch.before(model, 0)
    >>> model(torch.ones(2, 3)).sum().backward()
    >>> optimizer.step()
    >>> watch.after(model, [optimizer], 1)
    >>> sorted(watch.sizes[1])
    ['0.bias', '0.weight', '2.bias', '2.weight']
    """

    def __init__(self, plan: ModelPlan, at: Sequence[int] = AT, log: Log | None = None, apply: bool = False) -> None:
        _checks.instance("plan", plan, ModelPlan, "a plan of one target")
        _checks.function("log", log, "a function of a step and sizes")
        self.plan, self.log, self.apply = plan, log or _logged, _checks.flag("apply", apply)
        self.at = _checks.sizes("at", at, growing=True)
        self.sizes: dict[int, dict[str, float]] = {}
        self._before: dict[str, Tensor] = {}

    def begin(self, model: Model, optimizers: Sequence[Value], step: int) -> None:
        """Before the first step, or the one behind ``step`` of a training that goes on, whose weights stay then.

        Raises ``ValueError`` for a model that carries another plan, or none while ``apply`` is False, and for groups
        that are not the plan's.
        """
        carried = carried_plan(model)
        if carried is None and not self.apply:
            raise ValueError("model: got one that carries no plan; expected plan.apply_(model) before, or apply=True, "
                             "which changes its weights")
        if carried is not None and carried.entries != self.plan.entries:
            raise ValueError(f"model: got one that carries another plan ({carried.title}); expected {self.plan.title}")
        for optimizer in optimizers:
            self.plan.rates(optimizer, 1.0)
        if carried is None:
            (self.plan.multiplied_ if step else self.plan.apply_)(model)

    def before(self, model: Model, step: int) -> None:
        """After ``step`` steps, before the next."""
        if step + 1 in self.at and not self._before:
            self._before = {name: p.detach().clone() for name, p in self.plan.named(model).items()}

    def after(self, model: Model, optimizers: Sequence[Value], step: int) -> None:
        """After ``step`` steps, and schedulers: raises ``ValueError`` where rates have not the plan's factors."""
        for optimizer in optimizers:
            if any(group["lr"] for group in optimizer.param_groups):  # a rate of 0 says nothing
                self.plan.check(optimizer)
        if step not in self.at or not self._before:
            return
        changes: dict[str, list[tuple[float, float]]] = {}
        for name, p in self.plan.named(model).items():
            old = self._before[name]
            if p.requires_grad:
                changes.setdefault(self.plan.entry(name).parameter.pattern, []).append(
                    (rms_of(p.detach() - old), rms_of(old)))
        self._before = {}
        self.sizes[step] = {pattern: sum(a for a, _ in pairs) / total if (total := sum(b for _, b in pairs)) else float(
            "inf") for pattern, pairs in changes.items()}
        self.log(step, self.sizes[step])


def callback(plan: ModelPlan, trainer: str = "hf", at: Sequence[int] = AT, log: Log | None = None,
             apply: bool = False) -> Value:
    """A callback for ``transformers.Trainer`` or Lightning's: rates are held against the plan after every step.

    Parameters
    ----------
    plan:
        of the model that is trained. Trainers take optimizers with its groups: ``Trainer(optimizers=...)``, or
        ``configure_optimizers``.
    trainer:
        "hf" or "lightning".
    at:
        steps whose updates are measured: by pattern, what one step changes relative to what was there. All
        parameters are copied at these steps.
    log:
        a function of step and sizes; None is the logger "tpcalc", and besides the trainer's own log: ``log_history`` of
        transformers, ``log_dict`` of Lightning.
    apply:
        whether ``plan.apply_`` is called as training begins, for a model that carries no plan; where it goes on from a
        checkpoint, ``multiplied_``, so that weights stay. False refuses such a model.

    The callback's ``watch.sizes`` has all sizes. Raises ``MissingExtra`` without the trainer's package, and in training
    ``ValueError`` where something is not the plan's.

    >>> import torch
    >>> from torch import nn
    >>> from tpcalc.torch import plan
    >>> def net(n):
    ...     return nn.Sequential(nn.Linear(3, n), nn.ReLU(), nn.Linear(n, 1))
    >>> callback(plan(net, dict(n=16), dict(n=64)), trainer="keras")
    Traceback (most recent call last):
    ...
    ValueError: trainer: got 'keras'; expected 'hf', 'lightning'
    """
    watch = PlanWatch(plan, at, log, apply)
    return TRAINERS[_checks.choice("trainer", trainer, TRAINERS)](watch)


def _logged(step: int, sizes: dict[str, float]) -> None:
    for pattern, size in sizes.items():
        logging.getLogger("tpcalc").info("step %d: update of %s, relative: %.3g", step, pattern, size)


def _named(sizes: dict[str, float]) -> dict[str, float]:
    return {f"update/{pattern}": size for pattern, size in sizes.items()}


def _of_package(package: str, name: str, extra: str) -> Value:
    """The class of a trainer's callbacks; raises ``MissingExtra``."""
    return getattr(of_extra(package, extra, f"callback(trainer={extra!r})"), name)


def _hugging_face(watch: PlanWatch) -> Value:
    kind = _of_package("transformers", "TrainerCallback", "hf")

    class OfTrainer(kind):  # type: ignore[valid-type,misc]
        """Hooks of ``transformers.Trainer``."""

        def __init__(self) -> None:
            self.watch = watch

        def on_train_begin(self, args: Value, state: Value, control: Value, **given: Value) -> None:
            watch.begin(given["model"], [given["optimizer"]], state.global_step)

        def on_step_begin(self, args: Value, state: Value, control: Value, **given: Value) -> None:
            watch.before(given["model"], state.global_step)

        def on_step_end(self, args: Value, state: Value, control: Value, **given: Value) -> None:
            watch.after(given["model"], [given["optimizer"]], state.global_step)
            if state.global_step in watch.sizes:
                state.log_history.append({"step": state.global_step, **_named(watch.sizes[state.global_step])})

    return OfTrainer()


def _lightning(watch: PlanWatch) -> Value:
    kind = _of_package("lightning.pytorch", "Callback", "lightning")

    class OfLightning(kind):  # type: ignore[valid-type,misc]
        """Hooks of Lightning's ``Trainer``."""

        def __init__(self) -> None:
            super().__init__()
            self.watch, self.steps = watch, 0

        def on_train_start(self, trainer: Value, module: Value) -> None:
            watch.begin(module, trainer.optimizers, trainer.global_step)
            self.steps = self._done(trainer)

        def on_train_batch_start(self, trainer: Value, module: Value, *given: Value) -> None:
            watch.before(module, self._done(trainer))

        def on_train_batch_end(self, trainer: Value, module: Value, *given: Value) -> None:
            if (step := self._done(trainer)) > self.steps:  # gradients of several batches may make one step
                self.steps = step
                watch.after(module, trainer.optimizers, step)
                if step in watch.sizes:
                    module.log_dict(_named(watch.sizes[step]))

        @staticmethod
        def _done(trainer: Value) -> int:
            """Steps of all optimizers, which Lightning counts one by one."""
            return int(trainer.global_step) // len(trainer.optimizers)

    return OfLightning()


TRAINERS: dict[str, Callable[[PlanWatch], Value]] = {"hf": _hugging_face, "lightning": _lightning}
