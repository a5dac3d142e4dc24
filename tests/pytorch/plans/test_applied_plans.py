"""A plan in one call: initial sizes and multipliers, which copies, compiled models and loaded ones keep; once."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")
from torch import nn  # noqa: E402

TOKENS = torch.arange(24).reshape(3, 8) % 17


@pytest.fixture(scope="module")
def plan() -> Any:
    return tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=8), "completep", forward="multiplier")


@pytest.fixture()
def made() -> Any:
    torch.manual_seed(0)
    return models.GPT(8)


def by_hand(plan: Any, model: Any) -> Any:
    """Outputs of a network of the model's sizes whose branches are multiplied where they are added up."""
    again = copy.deepcopy(model)
    for hooked in again.modules():
        hooked._forward_hooks.clear()
    for block in again.h:
        block.m = plan.multipliers()["h.*.mlp.2"]
    return again(TOKENS)


def test_apply_is_sizes_and_multipliers(plan: Any, made: Any) -> None:
    sizes, model = plan.init_(copy.deepcopy(made)), plan.apply_(made)
    assert model is made and all(torch.equal(p, q) for p, q in zip(model.parameters(), sizes.parameters()))
    torch.testing.assert_close(model(TOKENS), by_hand(plan, sizes))
    assert not torch.allclose(model(TOKENS), sizes(TOKENS), rtol=0.01)


def test_copies_compiled_models_and_pickles_keep_it(plan: Any, made: Any) -> None:
    model = plan.apply_(made)
    expected = model(TOKENS)
    torch.testing.assert_close(copy.deepcopy(model)(TOKENS), expected)
    torch.testing.assert_close(torch.compile(model, backend="eager")(TOKENS), expected)
    torch.testing.assert_close(pickle.loads(pickle.dumps(model))(TOKENS), expected)
    for again in (copy.deepcopy(model), torch.compile(model, backend="eager"), nn.DataParallel(model)):
        with pytest.raises(ValueError, match=r"^model: got one that carries a plan already \(completep, adamw: depth 2 "
                                             r"-> 8"):
            plan.apply_(again)


def test_state_dictionaries_have_parameters_alone(plan: Any, made: Any) -> None:
    model = plan.apply_(made)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = plan.apply_(models.GPT(8))
    other.load_state_dict(torch.load(file, weights_only=True))
    assert list(model.state_dict()) == list(models.GPT(8).state_dict())
    torch.testing.assert_close(other(TOKENS), model(TOKENS))


def test_a_second_application_is_refused_before_anything_is_changed(plan: Any, made: Any) -> None:
    model = plan.apply_(made)
    with torch.no_grad():
        model.wte.weight.add_(1.0)
    before = model(TOKENS)
    other = tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=8), "depth-mup")
    for one in (plan.apply_, plan.multiplied_, other.apply_):
        with pytest.raises(ValueError, match="^model: got one that carries a plan already"):
            one(model)
    assert torch.equal(model(TOKENS), before)


def test_groups_are_of_the_plan_that_was_applied(plan: Any, made: Any) -> None:
    model = torch.compile(plan.apply_(made), backend="eager")
    assert len(plan.groups(model, lr=1e-3)) == len(plan.groups(models.GPT(8), lr=1e-3))
    gauge = tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=8), "completep")
    with pytest.raises(ValueError, match=r"^model: got one that carries another plan \(completep, .*'multiplier'\)"):
        gauge.groups(model, lr=1e-3)


def test_hooks_behind_a_compilation_would_not_be_seen(plan: Any, made: Any) -> None:
    compiled = torch.compile(made, backend="eager")
    with pytest.raises(ValueError, match="^model: got a model compiled already"):
        plan.apply_(compiled)
    made.h[0].compile(backend="eager")
    with pytest.raises(ValueError, match="^model: got h.0 compiled already"):
        plan.apply_(made)
    gauge = tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=8), "completep")
    assert gauge.apply_(torch.compile(models.GPT(8), backend="eager")) is not None  # nothing is multiplied


class Wrapper(nn.Module):  # type: ignore[misc,name-defined]
    """What checkpointing and FSDP do to names."""

    def __init__(self, inner: Any, name: str) -> None:
        super().__init__()
        self.name = name
        setattr(self, name, inner)

    def forward(self, *args: Any) -> Any:
        return getattr(self, self.name)(*args)


@pytest.mark.parametrize("name", ["_checkpoint_wrapped_module", "_fsdp_wrapped_module", "module"])
def test_wrapped_blocks_are_multiplied_once(plan: Any, made: Any, name: str) -> None:
    expected = plan.apply_(copy.deepcopy(made))(TOKENS)
    for i, block in enumerate(made.h):
        block.mlp[2] = Wrapper(block.mlp[2], name)
        made.h[i] = Wrapper(block, name)
    torch.testing.assert_close(plan.apply_(made)(TOKENS), expected)
    inside = Wrapper(models.GPT(8), "net")
    plan.apply_(inside)
    assert len(inside.net.h[3].mlp[2]._forward_hooks) == 1


def test_a_module_that_is_missing_is_named(plan: Any, made: Any) -> None:
    for block in made.h:
        block.mlp = nn.ParameterDict({name.replace(".", "_"): p for name, p in block.mlp.named_parameters()})
    with pytest.raises(ValueError, match="h.0.mlp.0_(weight|bias): got a parameter that the plan does not know"):
        plan.init_(made)
    with pytest.raises(ValueError, match=r"^model: got none of the modules 'h\.\*\.mlp\.2'"):
        plan.multiplied_(made)


class Mobile(nn.Module):  # type: ignore[misc,name-defined]
    """Blocks in one list, of which the first changes the width and has no skip, as MobileNets have them."""

    def __init__(self, depth: int, norm: bool, n: int = 32) -> None:
        super().__init__()
        widths = [n // 2, *[n] * depth]
        self.stem, self.head = nn.Linear(5, n // 2), nn.Linear(n, 3)
        self.blocks = nn.ModuleList(nn.Sequential(
            nn.Linear(a, 2 * b, bias=False), nn.ReLU(), nn.Linear(2 * b, b, bias=False),
            nn.BatchNorm1d(b) if norm else nn.Identity()) for a, b in zip(widths, widths[1:]))
        self.added: list[float] = []

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        for block in self.blocks:
            y = block(x)
            self.added.append(float(y.detach().square().mean()))
            x = x + y if x.shape == y.shape else y
        return self.head(x)


@pytest.mark.parametrize("norm, forward", [(True, "gauge"), (True, "multiplier"), (False, "multiplier")])
def test_every_layer_is_multiplied_where_the_list_of_layers_begins_with_another(norm: bool, forward: str) -> None:
    """Layers have no pattern in common then, and every one is named by itself."""
    batch = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
    ends = "" if norm else ".2"
    plan = tpt.plan(lambda depth: Mobile(depth, norm), dict(depth=3), dict(depth=9), forward=forward, batch=batch)
    assert plan.multipliers() == {f"blocks.{i}{ends}": 0.5 for i in range(1, 9)}
    torch.manual_seed(0)
    model = Mobile(9, norm)
    plain = plan.init_(copy.deepcopy(model))
    for one in (plain, plan.multiplied_(copy.deepcopy(plain))):
        one.added.clear()
        one(batch)
        model.added.append(one.added)
    first, second = model.added
    assert second[0] == pytest.approx(first[0])
    if norm:
        assert second[1:] == pytest.approx([one / 4 for one in first[1:]], rel=1e-3)
    else:
        assert all(one > 3 * other for one, other in zip(first[1:], second[1:]))
