"""Lion: a step in plain torch changes streams by as much at any width and depth, with the plan's groups."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")
from support.pytorch.optimizers import Lion, mean_moved  # noqa: E402

SIZES = [(layers, n) for layers in (4, 16) for n in (64, 256)]


def net(n_layer: int, n: int) -> Any:
    return models.ResMLP(n_layer, n)


PLANS = {(layers, n): tpt.plan(net, dict(n_layer=4, n=64), dict(n_layer=layers, n=n), optimizer="lion")
         for layers, n in SIZES}


def planned(n_layer: int, n: int = 64) -> Any:
    return PLANS[n_layer, n].init_(net(n_layer, n))


def plan_of(model: Any) -> Any:
    return PLANS[len(model.layers), model.out.in_features]


def test_updates_of_all_sizes_change_outputs_alike() -> None:
    right = mean_moved(planned, lambda model: Lion(plan_of(model).groups(model, lr=1e-4)), SIZES, 3)
    assert max(right) < 1.5 * min(right), right
    wrong = mean_moved(net, lambda model: Lion(model.parameters()), SIZES, 3)
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
