"""Schedulers of the base's rate: groups follow with their factors, whatever rates a scheduler has of its own."""

from __future__ import annotations

from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")
schedulers = torch.optim.lr_scheduler

KINDS: dict[str, Callable[[Any], Any]] = {
    "one cycle": lambda base: schedulers.OneCycleLR(base, max_lr=1e-3, total_steps=20),
    "least rate": lambda base: schedulers.CosineAnnealingLR(base, 20, eta_min=1e-4),
    "cyclic": lambda base: schedulers.CyclicLR(base, 1e-4, 1e-3, step_size_up=4),
    "multiplied": lambda base: schedulers.LambdaLR(base, lambda step: 0.9**step),
    "in turn": lambda base: schedulers.SequentialLR(base, [
        schedulers.LinearLR(base, 0.1, total_iters=4), schedulers.CosineAnnealingLR(base, 16, eta_min=1e-4)], [4])}


@pytest.fixture(scope="module")
def plan() -> Any:
    return tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=8))


class Both(torch.optim.SGD):  # type: ignore[misc,name-defined]
    """In the place of an optimizer that has Muon and AdamW in it."""


def trainer(plan: Any) -> Any:
    return torch.optim.AdamW(plan.groups(models.GPT(8), lr=1e-3))


@pytest.mark.filterwarnings("error:Detected call")
@pytest.mark.parametrize("kind", KINDS)
def test_groups_follow_the_bases_rate(plan: Any, kind: str) -> None:
    """Which is that of an optimizer with one group."""
    plain = torch.optim.AdamW([torch.zeros(1)], lr=1e-3)
    alone, optimizer = KINDS[kind](plain), trainer(plan)
    scheduler = plan.scheduler(optimizer, KINDS[kind])
    for _ in range(15):
        assert plan.check(optimizer)["lr"] == pytest.approx(plain.param_groups[0]["lr"])
        assert scheduler.get_last_lr() == pytest.approx(plan.rates(optimizer, plain.param_groups[0]["lr"]))
        assert {group["betas"] for group in optimizer.param_groups} == {plain.param_groups[0]["betas"]}
        for one, other in ((plain, alone), (optimizer, scheduler)):
            one.step()
            other.step()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_loaded_goes_on(plan: Any, kind: str) -> None:
    optimizers = [trainer(plan), trainer(plan)]
    one, other = (plan.scheduler(optimizer, KINDS[kind]) for optimizer in optimizers)
    for _ in range(5):
        one.step()
    other.load_state_dict(one.state_dict())
    assert plan.check(optimizers[1]) == pytest.approx(plan.check(optimizers[0]))
    for _ in range(3):
        one.step()
        other.step()
    assert other.get_last_lr() == one.get_last_lr()


def test_a_plateau_takes_what_it_measures(plan: Any) -> None:
    optimizer = trainer(plan)
    scheduler = plan.scheduler(optimizer, lambda base: schedulers.ReduceLROnPlateau(base, patience=1, min_lr=5e-4))
    for _ in range(4):
        scheduler.step(1.0)
    assert plan.check(optimizer)["lr"] == pytest.approx(5e-4)


def test_muons_rate_stays_the_same_multiple() -> None:
    muon = tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=8), optimizer="muon-original")
    optimizer = Both(muon.groups(models.GPT(8), lr=1e-3, muon_lr=0.02))
    scheduler = muon.scheduler(optimizer, KINDS["one cycle"])
    for _ in range(15):
        scheduler.step()
        rates = muon.check(optimizer)
        assert rates["muon_lr"] == pytest.approx(20 * rates["lr"])
    matrices = torch.optim.Muon([one for one in optimizer.param_groups if one["use_muon"]])
    scheduler = muon.scheduler(matrices, lambda base: schedulers.ConstantLR(base, 0.5))
    assert muon.check(matrices)["muon_lr"] == pytest.approx(rates["muon_lr"] / 2)


def test_what_is_no_scheduler_is_refused(plan: Any) -> None:
    optimizer = trainer(plan)
    with pytest.raises(ValueError, match="^make: it returned <torch.*; expected a scheduler of the optimizer that"):
        plan.scheduler(optimizer, lambda base: schedulers.LambdaLR(optimizer, lambda step: 1.0))
    with pytest.raises(ValueError, match="^make: got 3; expected a function of an optimizer"):
        plan.scheduler(optimizer, 3)
    with pytest.raises(ValueError, match="^optimizer: got group 0 of role None"):
        plan.scheduler(torch.optim.AdamW(models.GPT(8).parameters()), KINDS["one cycle"])
