"""Learning rates of groups: names as wrappers give them, Muon's own rate, and schedules that undo a plan."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")
from torch import nn  # noqa: E402

from tpcalc.errors import NotCovered  # noqa: E402


@pytest.fixture(scope="module")
def plan() -> Any:
    return tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=8))


@pytest.fixture(scope="module")
def muon() -> Any:
    return tpt.plan(models.GPT, dict(n_layer=2, n=32), dict(n_layer=8, n=64), optimizer="muon")


class Renamed:
    """A model whose names are given."""

    def __init__(self, model: Any, rename: Any) -> None:
        self.model, self.rename = model, rename

    def named_parameters(self) -> Any:
        return [(self.rename(name), p) for name, p in self.model.named_parameters()]


WRAPPED = {
    "compiled": lambda name: f"_orig_mod.{name}", "distributed": lambda name: f"module.{name}",
    "both": lambda name: f"module._orig_mod.{name}",
    "checkpointed": lambda name: name.replace(".mlp.", "._checkpoint_wrapped_module.mlp."),
    "sharded": lambda name: "_fsdp_wrapped_module." + name.replace(".attn.", ".attn._fsdp_wrapped_module."),
    "blocks": lambda name: name.replace("h.3.", "h.3.module.").replace(".mlp.", ".module.mlp."),
    "lightning": lambda name: f"model.{name}", "deeper": lambda name: f"net.module.model._orig_mod.{name}"}


@pytest.mark.parametrize("how", WRAPPED)
def test_names_that_wrappers_give_are_the_plans(plan: Any, how: str) -> None:
    model = models.GPT(8)
    for group, other in zip(plan.groups(Renamed(model, WRAPPED[how]), 1e-3), plan.groups(model, 1e-3), strict=True):
        assert {**group, "params": 0} == {**other, "params": 0}
        assert list(map(id, group["params"])) == list(map(id, other["params"]))


def test_other_names_are_refused(plan: Any) -> None:
    model = models.GPT(8)
    with pytest.raises(ValueError, match="^model: got x.h.0.ln1.weight of shape .*; expected no such parameter"):
        plan.groups(Renamed(model, lambda name: f"x.{name}" if name.startswith("h.") else name), 1e-3)
    with pytest.raises(ValueError, match="^model: got h.0.ln1.weight and h.0.module.ln1.weight, which are one name"):
        pairs = [("h.0.module.ln1.weight", nn.Parameter(torch.ones(32))), *model.named_parameters()]
        wrapped = Renamed(model, None)
        wrapped.named_parameters = lambda: pairs  # type: ignore[method-assign]
        plan.groups(wrapped, 1e-3)
    with pytest.raises(ValueError, match="^model: got 3; expected one with named_parameters"):
        plan.groups(3, 1e-3)


def test_factors_are_in_groups(plan: Any) -> None:
    model = models.GPT(8)
    by_id = {id(p): plan.entry(name).factor("lr") for name, p in model.named_parameters()}
    for group in plan.groups(model, lr=3e-3):
        assert {by_id[id(p)] for p in group["params"]} == {group["lr_scale"]}
        assert group["lr"] == pytest.approx(3e-3 * group["lr_scale"])
    assert len({group["lr_scale"] for group in plan.groups(model, lr=3e-3)}) == 3


def test_muons_own_rate(muon: Any, plan: Any) -> None:
    groups = muon.groups(models.GPT(8, 64), lr=1e-3, muon_lr=0.02)
    for group in groups:
        assert group["lr"] == pytest.approx((0.02 if group["use_muon"] else 1e-3) * group["lr_scale"])
    assert {group["use_muon"] for group in groups} == {True, False}
    optimizer = Named(groups)
    assert muon.check(optimizer) == pytest.approx({"lr": 1e-3, "muon_lr": 0.02})
    muon.set_lr(optimizer, 5e-4, muon_lr=0.01)
    assert muon.check(optimizer) == pytest.approx({"lr": 5e-4, "muon_lr": 0.01})
    with pytest.raises(ValueError, match="^muon_lr: got 0.02, and the plan is for adamw"):
        plan.groups(models.GPT(8), lr=1e-3, muon_lr=0.02)


class Named:
    """What has groups, as optimizers have, and wrappers of optimizers."""

    def __init__(self, groups: Any) -> None:
        self.param_groups = groups


def trainer(plan: Any, lr: float = 1e-3) -> Any:
    return torch.optim.AdamW(plan.groups(models.GPT(8), lr=lr, weight_decay=0.1))


def stepped(optimizer: Any, scheduler: Any, count: int) -> None:
    for _ in range(count):
        optimizer.step()
        scheduler.step()


def test_one_cycle_undoes_a_plan_and_takes_its_rates(plan: Any) -> None:
    optimizer = trainer(plan)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=10)
    stepped(optimizer, scheduler, 1)
    with pytest.raises(ValueError, match=r"^optimizer: got a learning rate of .* for role 'gain', which is 1 times the "
                                         r"base's and 0.5 times in the plan; expected rates of plan.set_lr"):
        plan.check(optimizer)
    optimizer = trainer(plan)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=plan.rates(optimizer, 1e-3), total_steps=10,
                                                    pct_start=0.3)
    found = []
    for _ in range(9):
        stepped(optimizer, scheduler, 1)
        found.append(plan.check(optimizer)["lr"])
    assert max(found) == pytest.approx(1e-3)


def test_nanogpts_loop_undoes_a_plan_and_set_lr_does_not(plan: Any) -> None:
    optimizer = trainer(plan)
    for group in optimizer.param_groups:
        group["lr"] = 6e-4
    with pytest.raises(ValueError, match="which is 1 times the base's and 0.5 times in the plan"):
        plan.check(optimizer)
    plan.set_lr(optimizer, 6e-4)
    assert plan.check(optimizer) == {"lr": pytest.approx(6e-4)}
    assert [group["lr"] for group in optimizer.param_groups] == [
        group["lr"] for group in plan.groups(models.GPT(8), lr=6e-4)]


@pytest.mark.parametrize("make", [
    lambda one: torch.optim.lr_scheduler.LambdaLR(one, lambda step: min(1.0, (step + 1) / 4)),
    lambda one: torch.optim.lr_scheduler.CosineAnnealingLR(one, 10),
    lambda one: torch.optim.lr_scheduler.LinearLR(one, 0.1, total_iters=4)])
def test_schedulers_that_multiply_keep_a_plan(plan: Any, make: Any) -> None:
    optimizer = trainer(plan)
    stepped(optimizer, make(optimizer), 3)
    assert 0 < plan.check(optimizer)["lr"] <= 1e-3


def test_a_least_rate_is_the_same_for_all_groups_and_undoes_a_plan(plan: Any) -> None:
    optimizer = trainer(plan)
    stepped(optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10, eta_min=1e-4), 9)
    with pytest.raises(ValueError, match="^optimizer: got a learning rate of"):
        plan.check(optimizer)


def test_a_rate_of_zero_says_nothing(plan: Any) -> None:
    optimizer = trainer(plan)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 4)
    with pytest.raises(ValueError, match="^optimizer: got a learning rate of 0 in all groups"):
        plan.check(optimizer)


@pytest.mark.parametrize("setting, words", [("eps", "an eps"), ("weight_decay", "a weight decay")])
def test_decay_and_eps_that_are_set_alike_are_told(plan: Any, setting: str, words: str) -> None:
    """A multiple of all keeps the plan, as a schedule of the decay does; one number for all does not."""
    optimizer = torch.optim.AdamW(plan.groups(models.GPT(8), 1e-3, weight_decay=0.1, eps=1e-8))
    for group in optimizer.param_groups:
        assert group[setting] == pytest.approx({"eps": 1e-8, "weight_decay": 0.1}[setting] * group[f"{setting}_scale"])
        group[setting] *= 0.5
    assert plan.check(optimizer) == {"lr": pytest.approx(1e-3)}
    for group in optimizer.param_groups:
        group[setting] = 0.1
    with pytest.raises(ValueError, match=f"^optimizer: got {words} of 0.1 for role '.*', which is .* in the plan; "
                                         "expected that of plan.groups"):
        plan.check(optimizer)


def test_vectors_that_decay_are_told(plan: Any) -> None:
    optimizer = torch.optim.AdamW(plan.groups(models.GPT(8), 1e-3))
    next(group for group in optimizer.param_groups if group["role"] == "gain")["weight_decay"] = 0.1
    with pytest.raises(ValueError, match="^optimizer: got a weight decay of 0.1 for role 'gain', which is not the "
                                         "base's 0"):
        plan.check(optimizer)


def test_a_state_that_is_loaded_keeps_factors(plan: Any) -> None:
    one, other = trainer(plan), trainer(plan, 5e-3)
    one.load_state_dict(other.state_dict())
    assert plan.check(one) == {"lr": pytest.approx(5e-3)}


def test_other_groups_are_refused(plan: Any, muon: Any) -> None:
    model = models.GPT(8)
    with pytest.raises(ValueError, match="^optimizer: got group 0 of role None with lr_scale None; expected the groups "
                                         "of this plan"):
        plan.set_lr(torch.optim.AdamW(model.parameters()), 1e-3)
    deeper = tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=32))
    with pytest.raises(ValueError, match="^optimizer: got group . of role '.*' with lr_scale 0.25"):
        plan.check(torch.optim.AdamW(deeper.groups(models.GPT(32), 1e-3)))
    with pytest.raises(ValueError, match="^optimizer: got 3; expected one with param_groups"):
        plan.rates(3, 1e-3)
    with pytest.raises(ValueError, match="^lr: got -1"):
        plan.rates(trainer(plan), -1)


class Muon(torch.optim.SGD):  # type: ignore[misc,name-defined]
    """In the place of a Muon that has no groups of its own."""


OTHERS = {
    "Muon": (Muon, "adamw", "^optimizer: got Muon, which moves weights as muon does, and the plan is for adamw"),
    "Rprop": (torch.optim.Rprop, "sgd", "^optimizer: got Rprop, whose steps are those of no optimizer of plans"),
    "Adafactor": (torch.optim.Adafactor, "adamw", "^optimizer: got Adafactor, which moves weights as adafactor does"),
    "Adam's decay": (torch.optim.Adam, "adamw", "^optimizer: got Adam with weight_decay=.*, which it adds")}


@pytest.mark.parametrize("name", OTHERS)
def test_optimizers_of_other_laws_are_refused(name: str) -> None:
    """By ``check``, and before an audit makes steps of them."""
    kind, planned, message = OTHERS[name]
    family = tpt.plan(models.ResMLP, dict(depth=2), optimizer=planned)
    decay = 0.1 if planned == "adamw" else 0.0
    with pytest.raises(ValueError, match=message):
        family.at(depth=4).check(kind(family.at(depth=4).groups(models.ResMLP(4), 1e-3, decay)))
    with pytest.raises(ValueError, match=message):
        tpt.audit(family, family.trainer(kind, weight_decay=decay), depth_key="depth")


def test_adam_whose_decay_is_decoupled_is_adamw() -> None:
    family = tpt.plan(models.ResMLP, dict(depth=2), optimizer="adamw")
    trainer = family.trainer(lambda groups: torch.optim.Adam(groups, decoupled_weight_decay=True), weight_decay=0.1)
    assert family.at(depth=4).check(trainer(family(depth=4))) == {"lr": pytest.approx(1e-3)}


@pytest.mark.parametrize("measure", [tpt.audit, tpt.depth_check])
def test_first_steps_of_radam_say_nothing_of_its_plan(measure: Any) -> None:
    """They are those of gradient descent, and go with the depth as these: a plan that is right was accused."""
    family = tpt.plan(models.ResMLP, dict(depth=2))
    with pytest.raises(NotCovered, match="^optimizer: got RAdam, whose first updates are those of gradient descent"):
        measure(family, family.trainer(torch.optim.RAdam), depths=(4, 16), depth_key="depth")
