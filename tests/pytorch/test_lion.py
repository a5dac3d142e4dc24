"""Lion: a step in plain torch changes streams by as much at any width and depth, with the plan's groups."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")

SIZES = [(layers, n) for layers in (4, 16) for n in (64, 256)]
BATCH = torch.randn(16, 5, generator=torch.Generator().manual_seed(1))


class Lion(torch.optim.Optimizer):  # type: ignore[misc,name-defined]
    """As published: w <- (1 - lr decay) w - lr sign(b1 m + (1 - b1) g), m <- b2 m + (1 - b2) g."""

    def __init__(self, params: Any, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0) -> None:
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()  # type: ignore[misc]
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            one, two = group["betas"]
            for p in (p for p in group["params"] if p.grad is not None):
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_((m * one + p.grad * (1 - one)).sign(), alpha=group["lr"])
                m.mul_(two).add_(p.grad, alpha=1 - two)


def net(n_layer: int, n: int) -> Any:
    return models.ResMLP(n_layer, n)


PLANS = {(layers, n): tpt.plan(net, dict(n_layer=4, n=64), dict(n_layer=layers, n=n), optimizer="lion")
         for layers, n in SIZES}


def planned(n_layer: int, n: int = 64) -> Any:
    return PLANS[n_layer, n].init_(net(n_layer, n))


def plan_of(model: Any) -> Any:
    return PLANS[len(model.layers), model.out.in_features]


def moved(model: Any, trainer: Any, steps: int) -> float:
    """By how much training changes outputs, root mean square."""
    before = model(BATCH).detach()
    for _ in range(steps):
        trainer.zero_grad()
        (model(BATCH) - 1).square().mean().backward()
        trainer.step()
    return float((model(BATCH).detach() - before).square().mean().sqrt())


def mean_moved(make: Any, optimizer: Any, steps: int) -> list[float]:
    """At every size, over initializations."""
    found = []
    for layers, n in SIZES:
        total = 0.0
        for seed in range(4):
            torch.manual_seed(seed)
            model = make(layers, n)
            total += moved(model, optimizer(model), steps)
        found.append(total / 4)
    return found


def test_updates_of_all_sizes_change_outputs_alike() -> None:
    right = mean_moved(planned, lambda model: Lion(plan_of(model).groups(model, lr=1e-4)), 3)
    assert max(right) < 1.5 * min(right), right
    wrong = mean_moved(net, lambda model: Lion(model.parameters()), 3)
    assert max(wrong) > 3 * min(wrong), wrong


def test_lions_audit_is_by_its_own_powers() -> None:
    found = tpt.audit(planned, lambda model: Lion(plan_of(model).groups(model, lr=1e-4, weight_decay=1.0)),
                      recipe="depth-mup", widths=(64, 256), width_key="n")
    assert found.ok, str(found)
    assert found.powers["depth update", "layers.*.0.weight"].value == pytest.approx(-1, abs=0.2)
    fixed = tpt.audit(planned, lambda model: Lion([{**group, "weight_decay": 1.0} for group in plan_of(model).groups(
        model, lr=1e-4)]), recipe="depth-mup")
    assert {finding.quantity for finding in fixed.findings} == {"decay a step, power of the depth"}


@pytest.mark.parametrize("name", ["completep", "unit-scaling"])
def test_recipes_that_were_published_for_others_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"^optimizer: got 'lion', for which '{name}' was not published"):
        tpt.plan(net, dict(n_layer=2, n=16), dict(n_layer=4, n=16), recipe=name, optimizer="lion")
    for judge in (tpt.audit, tpt.depth_check):
        with pytest.raises(ValueError, match=f"^optimizer: got 'lion', for which '{name}' was not published"):
            judge(planned, lambda model: Lion(model.parameters()), depths=(4, 16), recipe=name)


def test_rates_are_derived_and_not_those_of_gradients() -> None:
    entry = PLANS[16, 256].entry("layers.3.0.weight")
    assert entry.factor("lr") == pytest.approx(math.prod([4**-0.5, 1 / 4])) and entry.optimizer == "lion"
