"""Audits of scripts with two optimizers, Muon for matrices and AdamW for the rest, and of parameters in none."""

from __future__ import annotations

from functools import cache
from typing import Any, Callable

import pytest

from support.nightly import few

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
usual = pytest.importorskip("support.pytorch.torch_models")

Spoil = Callable[[dict[str, Any]], None]


def net(depth: int, n: int = 32) -> Any:
    return usual.ResMLP(depth, n, norm=True)


@cache
def family() -> Any:
    return tpt.plan(net, base=dict(depth=4), optimizer="muon-match_rms_adamw")


def both(groups: list[Any]) -> list[Any]:
    """Muon of its groups, and AdamW of the others."""
    return [torch.optim.Muon([one for one in groups if one["use_muon"]], adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW([one for one in groups if not one["use_muon"]])]


def audit(optimizer: Any, **more: Any) -> Any:
    return tpt.audit(family(), optimizer, depth_key="depth", **more)


def spoilt(change: Spoil) -> Any:
    def kind(groups: list[Any]) -> list[Any]:
        for group in groups:
            change(group)
        return both(groups)
    return family().trainer(kind, lr=1e-3, weight_decay=0.1)


def as_in_the_base(name: str, muon: bool) -> Spoil:
    def change(group: dict[str, Any]) -> None:
        if group["use_muon"] == muon:
            group[name] /= group[f"{name}_scale"]
    return change


FAULTS: dict[str, tuple[Spoil, bool, str]] = {  # what is spoilt, in Muon's groups?, what is found
    "Muon's rate": (as_in_the_base("lr", True), True, "update, power of the depth"),
    "AdamW's rate": (as_in_the_base("lr", False), False, "update, power of the depth"),
    "Muon's decay": (as_in_the_base("weight_decay", True), True, "decay a step, power of the depth"),
    "AdamW's eps": (as_in_the_base("eps", False), False, "eps over gradients, power of the depth")}


def test_a_plan_for_both_passes() -> None:
    found = audit(family().trainer(both, lr=1e-3, weight_decay=0.1))
    assert found.ok, str(found)
    assert not any("no update" in one for one in found.not_checked)


@pytest.mark.slow
def test_it_passes_in_training_and_in_width() -> None:
    trainer = family().trainer(both, lr=1e-3, weight_decay=0.1)
    found = audit(trainer, widths=(32, 128), width_key="n")
    assert found.ok, str(found)
    check = tpt.depth_check(family(), trainer, depths=(4, 16), steps=2, seeds=2, depth_key="depth")
    assert check.ok, str(check)


@pytest.mark.parametrize("name", few(list(FAULTS), "AdamW's eps"))
def test_what_is_wrong_in_one_is_found_in_its_parameters(name: str) -> None:
    change, muon, quantity = FAULTS[name]
    found = audit(spoilt(change))
    accused = {finding.pattern for finding in found.findings if finding.quantity == quantity}
    matrices = {"layers.*.1.weight", "layers.*.3.weight"}
    assert accused and accused <= matrices if muon else accused & {"layers.*.0.weight", "layers.*.0.bias"}
    assert muon or not accused & matrices


def test_each_is_held_against_its_own_law() -> None:
    """Steps of gradient descent outside of layers go with gradients, which are of order one in depth there."""
    family = tpt.plan(net, base=dict(depth=4))

    def optimizers(model: Any) -> list[Any]:
        groups = family.at(depth=len(model.layers)).groups(model, lr=1e-3)
        ends = [*model.read_in.parameters(), *model.out.parameters()]
        for group in groups:
            group["params"] = [p for p in group["params"] if not any(p is end for end in ends)]
        return [torch.optim.AdamW([group for group in groups if group["params"]]), torch.optim.SGD(ends, lr=0.1)]

    assert tpt.audit(family, optimizers, depth_key="depth").ok


def test_a_parameter_in_two_or_none() -> None:
    def twice(model: Any) -> list[Any]:
        groups = family().at(depth=len(model.layers)).groups(model, lr=1e-3)
        return [both(groups)[0], torch.optim.AdamW(model.parameters())]

    with pytest.raises(ValueError, match=r"^optimizer: got layers.0.1.weight in two of 2 optimizers, which both move"):
        audit(twice)
    found = audit(family().trainer(lambda groups: both(groups)[1:]), depths=(4, 8))
    assert {finding.pattern for finding in found.findings} == {"layers.*.1.weight", "layers.*.3.weight"}
    assert str(found.findings[0]) == (
        "layers.*.1.weight: update: it has a gradient and is in no group of the optimizer: nothing trains it; where "
        "that is meant, requires_grad=False says so")

    def frozen(depth: int) -> Any:
        model = family()(depth=depth)
        model.read_in.requires_grad_(False)
        return model

    assert tpt.audit(frozen, lambda model: both(family().at(depth=len(model.layers)).groups(model, lr=1e-3)),
                     depth_key="depth", recipe="depth-mup").ok


@pytest.mark.parametrize("given", [[], 3, ["adamw"]], ids=str)
def test_what_is_no_list_of_optimizers(given: Any) -> None:
    with pytest.raises(ValueError, match="^optimizer: it returned .*; expected a function of the model that returns a "
                                         "torch.optim.Optimizer, or a list of some$"):
        audit(lambda model: given)
