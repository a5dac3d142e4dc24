"""Callbacks in trainings: real ones of transformers, and hooks of Lightning called as Lightning calls them."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")
PlanWatch = pytest.importorskip("tpcalc.torch.callbacks").PlanWatch
from torch import nn  # noqa: E402
import tpcalc as tp  # noqa: E402

MODULES = {"hf": "transformers", "lightning": "lightning.pytorch"}


@pytest.fixture(scope="module")
def plan() -> Any:
    return tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=4))


class Labelled(nn.Module):  # type: ignore[misc,name-defined]
    """A model that returns its loss, as trainers ask for it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Any, labels: Any = None) -> Any:
        found = self.model(tokens)
        return {"loss": nn.functional.cross_entropy(found.flatten(0, 1), tokens.flatten()), "logits": found}


DATA = [{"tokens": torch.arange(8) * k % 17, "labels": torch.arange(8)} for k in range(1, 65)]


def optimizer_of(plan: Any, model: Any) -> Any:
    return torch.optim.AdamW(plan.groups(model, lr=1e-3))


def step_of(model: Any, optimizer: Any, schedule: Any, i: int) -> None:
    optimizer.zero_grad()
    model(DATA[i % 64]["tokens"][None])["loss"].backward()
    optimizer.step()
    schedule.step()


def watched(watch: Any, model: Any, optimizer: Any, schedule: Any, steps: int) -> None:
    """A loop that calls what callbacks call."""
    watch.begin(model, [optimizer], 0)
    for i in range(steps):
        watch.before(model, i)
        step_of(model, optimizer, schedule, i)
        watch.after(model, [optimizer], i + 1)


def flat(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)


def test_sizes_are_those_of_updates(plan: Any) -> None:
    model = Labelled(plan.apply_(models.GPT(4)))
    optimizer, said = optimizer_of(plan, model), {}
    watch = PlanWatch(plan, at=(1, 3), log=said.__setitem__)
    before = {name: p.detach().clone() for name, p in model.model.named_parameters()}
    watched(watch, model, optimizer, flat(optimizer), 4)
    assert list(said) == [1, 3] and said == watch.sizes
    patterns = {entry.parameter.pattern for entry in plan.entries}
    assert set(said[1]) == patterns
    for pattern in ("h.*.mlp.2.weight", "wpe.weight"):  # Adam's first step: its rate at every entry with a gradient
        entry = next(one for one in plan.entries if one.parameter.pattern == pattern)
        sizes = [float(before[name].square().mean().sqrt()) for name in entry.parameter.names]
        expected = 1e-3 * entry.factor("lr") * len(sizes) / sum(sizes)
        assert said[1][pattern] == pytest.approx(expected, rel=0.02)


def test_a_plan_that_is_undone_stops_the_training(plan: Any) -> None:
    model = Labelled(plan.apply_(models.GPT(4)))
    optimizer = optimizer_of(plan, model)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=20)
    with pytest.raises(ValueError, match="^optimizer: got a learning rate of"):
        watched(PlanWatch(plan), model, optimizer, cycle, 2)
    with pytest.raises(ValueError, match="^optimizer: got group 0 of role None"):
        other = torch.optim.AdamW(model.parameters())
        watched(PlanWatch(plan), model, other, flat(other), 2)
    deeper = tpt.plan(models.GPT, dict(n_layer=1), dict(n_layer=4))
    with pytest.raises(ValueError, match="^model: got one that carries another plan"):
        watched(PlanWatch(deeper), model, optimizer, flat(optimizer), 2)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer_of(plan, model), lambda step: float(step > 1))
    watched(PlanWatch(plan), model, warm.optimizer, warm, 4)  # rates of 0 say nothing


def test_models_are_set_where_it_is_asked_for(plan: Any) -> None:
    torch.manual_seed(0)
    bare = models.GPT(4)
    optimizer = optimizer_of(plan, bare)
    with pytest.raises(ValueError, match="^model: got one that carries no plan; expected plan.apply_"):
        PlanWatch(plan).begin(bare, [optimizer], 0)
    start = {name: p.detach().clone() for name, p in bare.named_parameters()}
    PlanWatch(plan, apply=True).begin(bare, [optimizer], 7)  # goes on from a checkpoint
    assert all(torch.equal(p, start[name]) for name, p in bare.named_parameters())
    torch.manual_seed(0)
    fresh = models.GPT(4)
    PlanWatch(plan, apply=True).begin(fresh, [optimizer_of(plan, fresh)], 0)
    torch.manual_seed(0)
    wanted = plan.apply_(models.GPT(4))
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), wanted.parameters()))


def test_transformers_hooks(plan: Any) -> None:
    """Its own handler of callbacks in a loop."""
    transformers = pytest.importorskip("transformers")
    from transformers.trainer_callback import CallbackHandler
    model = Labelled(plan.apply_(models.GPT(4)))
    optimizer = optimizer_of(plan, model)
    schedule, callback = flat(optimizer), tpt.callback(plan, at=(1, 3))
    state, control = transformers.TrainerState(), transformers.TrainerControl()
    handler = CallbackHandler([callback], model, None, optimizer, schedule)
    handler.on_train_begin(None, state, control)
    for i in range(4):
        handler.on_step_begin(None, state, control)
        step_of(model, optimizer, schedule, i)
        state.global_step += 1
        handler.on_step_end(None, state, control)
    assert [one["step"] for one in state.log_history] == list(callback.watch.sizes) == [1, 3]
    pattern = "h.*.mlp.2.weight"
    assert state.log_history[1][f"update/{pattern}"] == callback.watch.sizes[3][pattern]


@pytest.mark.parametrize("trainer", MODULES)
def test_a_package_that_is_missing_is_named(plan: Any, trainer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULES[trainer], None)
    with pytest.raises(tp.MissingExtra, match=rf"^callback.trainer='{trainer}'. needs .* install 'tpcalc.{trainer}"):
        tpt.callback(plan, trainer)


class Hooks:
    """Lightning's base class has every hook."""


def test_lightnings_hooks(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two optimizers, whose steps Lightning counts both, and two batches a step."""
    module = ModuleType("lightning.pytorch")
    module.Callback = Hooks  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lightning", ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", module)
    model, logged = Labelled(plan.apply_(models.GPT(4))), []
    model.log_dict = logged.append  # type: ignore[assignment]
    groups = plan.groups(model, lr=1e-3)
    trainer = SimpleNamespace(global_step=0, optimizers=[torch.optim.AdamW(groups[:1]), torch.optim.AdamW(groups[1:])])
    callback = tpt.callback(plan, "lightning", at=(1, 2))
    assert isinstance(callback, Hooks)
    callback.on_train_start(trainer, model)
    for i in range(8):
        callback.on_train_batch_start(trainer, model, DATA[i], i)
        model(DATA[i]["tokens"][None])["loss"].backward()
        if i % 2:
            for optimizer in trainer.optimizers:
                optimizer.step()
                optimizer.zero_grad()
                trainer.global_step += 1
        callback.on_train_batch_end(trainer, model, None, DATA[i], i)
    assert list(callback.watch.sizes) == [1, 2] and len(logged) == 2
    assert logged[0]["update/h.*.mlp.2.weight"] == callback.watch.sizes[1]["h.*.mlp.2.weight"] > 0
    for group in trainer.optimizers[1].param_groups:
        group["lr"] = 1e-3
    with pytest.raises(ValueError, match="^optimizer: got a learning rate of"):
        trainer.global_step += 2
        callback.on_train_batch_end(trainer, model, None, DATA[0], 8)


def test_transformers_trainer(plan: Any, tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    model = Labelled(plan.apply_(models.GPT(4)))
    optimizer = optimizer_of(plan, model)
    cycle = plan.scheduler(optimizer, lambda base: torch.optim.lr_scheduler.OneCycleLR(
        base, max_lr=1e-3, total_steps=13))
    callback = tpt.callback(plan)
    trainer = transformers.Trainer(
        model, transformers.TrainingArguments(str(tmp_path), max_steps=12, use_cpu=True, report_to=[], save_steps=6,
                                              gradient_accumulation_steps=2, per_device_train_batch_size=2),
        train_dataset=DATA, optimizers=(optimizer, cycle), callbacks=[callback])
    trainer.train()
    assert list(callback.watch.sizes) == [1, 10]
    assert [one["step"] for one in trainer.state.log_history if "update/wte.weight" in one] == [1, 10]


def test_lightnings_trainer(plan: Any, tmp_path: Any) -> None:
    lightning = pytest.importorskip("lightning.pytorch")

    class Trained(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = plan.apply_(models.GPT(4))

        def training_step(self, batch: Any, index: int) -> Any:
            return nn.functional.cross_entropy(self.model(batch["tokens"]).flatten(0, 1), batch["tokens"].flatten())

        def configure_optimizers(self) -> Any:
            optimizer = optimizer_of(plan, self)
            scheduler = plan.scheduler(optimizer, lambda base: torch.optim.lr_scheduler.OneCycleLR(
                base, max_lr=1e-3, total_steps=20))
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    callback = tpt.callback(plan, "lightning")
    trainer = lightning.Trainer(max_steps=12, accelerator="cpu", callbacks=[callback], default_root_dir=tmp_path,
                                accumulate_grad_batches=2, logger=False, enable_progress_bar=False)
    trainer.fit(Trained(), torch.utils.data.DataLoader(DATA, batch_size=2))
    assert list(callback.watch.sizes) == [1, 10]
    assert "update/wte.weight" in trainer.logged_metrics or "update/wte.weight" in trainer.callback_metrics
