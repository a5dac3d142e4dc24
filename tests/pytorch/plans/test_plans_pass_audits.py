"""A model that a plan sets passes the audit of the same recipe, or both refuse it with one sentence."""

from __future__ import annotations

from typing import Any

import pytest

import tpcalc as tp
from tpcalc.tune.recipe import named_recipe

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")

NAMES = tuple(tp.named_recipes())
SOLVED = ("adamw", "sgd", "muon")  # optimizers of recipes that are solved for one
ALWAYS = ("gpt-2", "completep", "unit-scaling", "muon", "fixup", "deepnorm")
REFUSED = {"deepnorm": "multiplies the stream in front of norms", "deepnorm-adam": "multiplies the stream",
           "fixup": "W2 starts at zero", "fixup-bottleneck": "W3 starts at zero", "rezero": "a starts at zero",
           "rezero-adam": "a starts at zero", "layerscale": "s, a trained multiplier of every coordinate"}


class Muon(torch.optim.Optimizer):
    """Orthogonal directions in groups that say so, and Adam's first step in the others."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        super().__init__(groups, dict(lr=1e-3, weight_decay=0.0, eps=1e-8, use_muon=False))

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None and group["use_muon"]:
                    u, _, v = torch.linalg.svd(p.grad, full_matrices=False)
                    p.sub_(group["lr"] * u @ v)
                elif p.grad is not None:
                    p.sub_(group["lr"] * p.grad / (p.grad.abs() + group["eps"]))


OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, "muon": Muon,
              "momentum": lambda groups: torch.optim.SGD(groups, lr=1e-3, momentum=0.9)}


def gpt(depth: int) -> Any:
    return models.GPT(depth, 24)


def mlp(depth: int) -> Any:
    return models.ResMLP(depth, 32)


def optimizers_of(name: str) -> tuple[str, ...]:
    """Those that a recipe is for, with AdamW for Adam's."""
    entry = named_recipe(name)
    if entry.target is not None:
        return SOLVED
    return ("adam", "adamw") if entry.optimizer == "adam" else (entry.optimizer,)


CASES = [pytest.param(name, optimizer, make, marks=() if make is mlp or name in ALWAYS else pytest.mark.slow)
         for name in NAMES for optimizer in optimizers_of(name) for make in (gpt, mlp)]


@pytest.mark.parametrize("name, optimizer, make", CASES)
def test_what_a_plan_sets_passes_its_audit(name: str, optimizer: str, make: Any) -> None:
    def planned() -> dict[int, Any]:
        return {n: tpt.plan(make, dict(depth=4), dict(depth=n), name, optimizer) for n in (4, 16)}

    if name in REFUSED:
        said = []
        for asked in (planned, lambda: tpt.audit(make, OPTIMIZERS[optimizer], recipe=name, depth_key="depth")):
            with pytest.raises(ValueError, match=REFUSED[name]) as refused:
                asked()
            said.append(str(refused.value))
        assert said[0] == said[1]
        return
    plans, decay = planned(), {} if optimizer == "adam" else {"weight_decay": 0.1}

    def trained(model: Any) -> Any:
        layers = model.h if make is gpt else model.layers
        return OPTIMIZERS[optimizer](plans[len(layers)].groups(model, lr=1e-3, **decay))

    found = tpt.audit(lambda depth: plans[depth].init_(make(depth)), trained, recipe=name, depth_key="depth")
    assert found.ok, str(found)


@pytest.mark.parametrize("init", [0, "-1/2"])
def test_powers_of_ones_own_pass_too(init: Any) -> None:
    scale = tp.Parametrization(depth={"branch": tp.Powers(multiplier={"L": "-1/4"}), "*": tp.Powers(lr={"L": "-1/2"}),
                                      "last": tp.Powers(init={"L": init}, lr={"L": "-3/4"})})
    plans = {n: tpt.plan(mlp, dict(depth=4), dict(depth=n), scale, "adamw") for n in (4, 16)}

    def trained(model: Any) -> Any:
        return torch.optim.AdamW(plans[len(model.layers)].groups(model, lr=1e-3))

    found = tpt.audit(lambda depth: plans[depth].init_(mlp(depth)), trained, recipe=scale, depth_key="depth")
    assert found.ok, str(found)
    other = tp.Parametrization(depth={"*": tp.Powers(lr={"L": "-1/2"}), "last": tp.Powers(lr={"L": "-1/2"})})
    assert not tpt.audit(lambda depth: plans[depth].init_(mlp(depth)), trained, recipe=other, depth_key="depth").ok


def test_most_recipes_are_settings_of_parameters() -> None:
    assert len(NAMES) - len(REFUSED) >= 17 and set(REFUSED) < set(NAMES)
