"""Plans for models whose forward pass comes back to layers."""

from __future__ import annotations

from typing import Any

import pytest

import tpcalc as tp

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
looped: Any = pytest.importorskip("support.pytorch.looped")
WIDTH, Loop = looped.WIDTH, looped.Loop
nn = torch.nn


@pytest.mark.parametrize("row", [False, True])
@pytest.mark.parametrize("optimizer, rate", [("adamw", 1), ("sgd", 2), ("muon", 1)])
def test_visits_divide_branches(row: bool, optimizer: str, rate: int) -> None:
    """As a part of the last matrix: 1/N in its initial size, and in its rate to the power that undoes its gradient."""
    plan = tpt.plan(Loop, dict(visits=2, row=row), dict(visits=6, row=row), optimizer=optimizer)
    down, up = (plan.entry(f"blocks.1.{name}.weight") for name in ("down", "up"))
    assert down.factor("init") == pytest.approx(1 / 3) and down.factor("lr") == pytest.approx(3.0**-rate)
    assert up.factor("init") == up.factor("lr") == plan.entry("read.weight").factor("lr") == 1
    assert plan.title.endswith("depth 2 -> 2, width times 1, visits of layers times 3") and "tpcalc/loops" in down.why
    assert any("comes back to every layer 3 times as often" in step.reason for step in down.steps)


def test_visits_and_depth_are_told_apart() -> None:
    plan = tpt.plan(Loop, dict(layers=2, visits=3), dict(layers=8, visits=6, width=2 * WIDTH))
    again = tpt.plan(Loop, dict(layers=2, visits=3), dict(layers=8, visits=3))
    deeper = tpt.plan(Loop, dict(layers=2, visits=1), dict(layers=8, visits=1))
    assert plan.entry("blocks.5.down.weight").power("init") == "L^(-1/2) N^(-1) n^(-1/2)"
    for name in ("up", "down"):
        ours, theirs = (one.entry(f"blocks.5.{name}.weight") for one in (again, deeper))
        assert all(ours.factor(key) == theirs.factor(key) for key in ("init", "lr", "eps", "weight_decay"))


def test_recipes_that_know_nothing_of_visits() -> None:
    """What scales nothing leaves looped layers as they are; what was published for other networks is refused."""
    plain = tpt.plan(Loop, dict(visits=2), dict(visits=6), recipe="sp").entry("blocks.0.down.weight")
    assert plain.factor("init") == plain.factor("lr") == 1
    with pytest.raises(tp.NotCovered, match="recipe: got 'completep'"):
        tpt.plan(Loop, dict(visits=2), dict(visits=6), recipe="completep")


def test_one_layer_that_is_visited_again_and_again() -> None:
    plan = tpt.plan(Loop, dict(layers=1, visits=4), dict(layers=1, visits=12), forward="multiplier")
    assert plan.multipliers() == {"blocks.0.down": pytest.approx(1 / 3)}
    assert plan.title.endswith("depth 4 -> 4, width times 1, visits of layers times 3")


def test_layers_that_are_visited_differently_often_are_refused() -> None:
    with pytest.raises(tp.NotCovered, match="shared by several branches"):
        tpt.plan(Loop, dict(layers=2, visits=2, once=2), dict(layers=2, visits=4, once=2))


class Kept(Loop):
    """A loop whose layers multiply the stream by trained vectors."""

    def __init__(self, **sizes: int) -> None:
        super().__init__(**sizes)
        self.kept = nn.ParameterList(nn.Parameter(torch.ones(WIDTH)) for _ in self.blocks)

    def forward(self, x: Any) -> Any:
        x = self.read(x)
        for number in self.way:
            x = self.kept[number] * x + self.blocks[number](x)
        return self.write(x)


def test_factors_of_a_stream_that_comes_back_are_refused() -> None:
    """Updates of all visits are aligned there, and no multiplier of a branch scales them."""
    deeper = tpt.plan(Kept, dict(layers=2, visits=2), dict(layers=4, visits=2))
    assert deeper.entry("kept.1").power("lr") == "L^(-1)"
    with pytest.raises(tp.NotCovered, match="kept.* got stream factor, it multiplies the stream at every visit"):
        tpt.plan(Kept, dict(visits=2), dict(visits=6))


def changed(model: Any, groups: list, x: Any) -> float:
    """By how much one step of AdamW changes the outputs."""
    optimizer = torch.optim.AdamW(groups, eps=1e-12, weight_decay=0.0)
    before = model(x)
    before.square().mean().backward()
    optimizer.step()
    return float((model(x) - before).detach().square().mean().sqrt())


def test_one_step_is_the_same_at_any_number_of_visits() -> None:
    x, sizes = torch.randn(6, 8, generator=torch.Generator().manual_seed(0)), (4, 64)
    ours, theirs = [], []
    for visits in sizes:
        plan = tpt.plan(Loop, dict(visits=4), dict(visits=visits), batch=x)
        for found, planned in ((ours, True), (theirs, False)):
            changes = []
            for seed in range(8):
                torch.manual_seed(seed)
                model = Loop(visits=visits)
                groups = plan.groups(plan.apply_(model), lr=1e-3) if planned else [
                    {"params": list(model.parameters()), "lr": 1e-3}]
                inside = [{**group, "lr": group["lr"]} for group in groups]
                changes.append(changed(model, inside, x))
            found.append(sum(changes) / len(changes))
    assert 0.75 < ours[1] / ours[0] < 1.33
    assert theirs[1] / theirs[0] > 2


def test_models_that_are_given_are_drawn_again() -> None:
    """Widths of two models at hand are compared over several draws, not over one."""
    for seed in range(4):
        torch.manual_seed(seed)
        plan = tpt.plan(Loop(width=WIDTH), Loop(width=2 * WIDTH), batch=torch.randn(6, 8))
        assert plan.entry("blocks.0.up.weight").factor("lr") == 0.5
