"""A trained model grows deeper: the function stays where new layers start at zero, and training goes on."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from tpcalc.errors import NotCovered

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")
growing = pytest.importorskip("tpcalc.torch.growing")

TOKENS = torch.randint(17, (8, 8), generator=torch.Generator().manual_seed(5))


def loss_of(model: Any) -> Any:
    return torch.nn.functional.cross_entropy(model(TOKENS[:, :-1]).flatten(0, 1), TOKENS[:, 1:].flatten())


def steps(model: Any, optimizer: Any, count: int) -> float:
    for _ in range(count):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    return loss_of(model).item()


def gpt(n_layer: int, **options: Any) -> Any:
    torch.manual_seed(3)
    return models.GPT(n_layer, init=_drawn, **options)


def _drawn(name: str, parameter: Any) -> None:
    """Biases that are not 0, and gains that are not 1, so that no rule on them is tested in vain."""
    if parameter.dim() < 2:
        parameter.data += 0.1 * torch.randn(parameter.shape)


def by_root(n_layer: int) -> Any:
    return gpt(n_layer, m=n_layer**-0.5)


def norms_behind(n_layer: int) -> Any:
    return gpt(n_layer, after=True)


def small_branches(depth: int) -> Any:
    return models.ResMLP(depth, m=1 / 32)


def trained(family: Any, lr: float = 3e-3, **at: Any) -> tuple[Any, Any]:
    model = family(**at)
    optimizer = torch.optim.AdamW(family.at(**at).groups(model, lr=lr, weight_decay=0.1))
    steps(model, optimizer, 5)
    return model, optimizer


@pytest.mark.parametrize("make, forward, recipe, order", [
    pytest.param(make, forward, *one, marks=[pytest.mark.nightly] * ((i + j + k) % 2))
    for i, make in enumerate((gpt, by_root, norms_behind)) for j, forward in enumerate(("gauge", "multiplier"))
    for k, one in enumerate((("depth-mup", "interleaved"), ("completep", "stacked")))])  # every run has all pairs
def test_the_loss_stays_and_gradients_are_as_said(make: Any, forward: str, recipe: str, order: str) -> None:
    """Before and after are one function; gradients of old parameters are those of before over the scale."""
    family = tpt.plan(make, base=dict(n_layer=2), recipe=recipe, forward=forward)
    model, _ = trained(family, n_layer=4)
    grown = family.grow(model, to=dict(n_layer=8), at=dict(n_layer=4), order=order)
    before, after = loss_of(model), loss_of(grown.model)
    assert after.item() == pytest.approx(before.item(), rel=1e-6) and grown.difference < 1e-6
    assert grown.layers == (4, 8) and grown.plan is family.at(n_layer=8)
    model.zero_grad()
    before.backward()
    after.backward()
    old, new = dict(model.named_parameters()), dict(grown.model.named_parameters())
    for name, origin in grown.origins.items():
        expected = old[origin].grad / grown.scales[name]
        torch.testing.assert_close(new[name].grad, expected, rtol=2e-3, atol=1e-5 * float(expected.abs().max()) + 1e-8)
    hooked = {"depth-mup": 0.5, "completep": 1.0}[recipe] * (forward == "multiplier" or make is norms_behind)
    expected = 2.0**(hooked + 0.5 * (make is by_root))  # what hooks and the model's own forward pass take
    assert {round(scale, 9) for scale in grown.scales.values()} == {1.0, round(expected, 9)}
    zeros = {int(name.split(".")[1]) for name, p in new.items() if not p.any()}
    assert zeros == ({1, 3, 5, 7} if order == "interleaved" else {4, 5, 6, 7})


def test_the_optimizer_goes_on_where_it_was() -> None:
    """Moments are at the parameters whose values have moved, scaled as gradients are; new ones count from 0."""
    family = tpt.plan(gpt, base=dict(n_layer=4), forward="multiplier")
    model, optimizer = trained(family)
    grown = family.grow(model, to=dict(n_layer=8))
    after = torch.optim.AdamW(grown.plan.groups(grown.model, lr=3e-3, weight_decay=0.1))
    grown.move_state(optimizer, after)
    old, new = dict(model.named_parameters()), dict(grown.model.named_parameters())
    assert grown.origins["h.6.mlp.2.weight"] == "h.3.mlp.2.weight" and "h.7.mlp.2.weight" not in grown.origins
    assert grown.scales["h.6.mlp.2.weight"] == pytest.approx(math.sqrt(2)) and grown.scales["h.6.mlp.0.weight"] == 1
    for name in new:
        state = after.state[new[name]]
        if name not in grown.origins:
            assert not state
            continue
        given, scale = optimizer.state[old[grown.origins[name]]], grown.scales[name]
        torch.testing.assert_close(new[name], old[grown.origins[name]] * scale)
        torch.testing.assert_close(state["exp_avg"] * scale, given["exp_avg"], rtol=1e-5, atol=0.0)
        torch.testing.assert_close(state["exp_avg_sq"] * scale**2, given["exp_avg_sq"], rtol=1e-5, atol=0.0)
        assert state["step"] == given["step"] == 5 and state["step"] is not given["step"]
    start = loss_of(grown.model).item()
    assert start == pytest.approx(loss_of(model).item(), rel=1e-6)
    assert steps(grown.model, after, 10) < start - 0.1
    assert all(p.any() for p in new.values())  # new layers have begun to learn


def test_copies_add_what_the_multiplier_says() -> None:
    """Two copies of a layer add 2^(1-alpha) times what it did. At alpha = 1 their flow is the same but for the step, so
    that outputs differ by 1/L; at alpha = 1/2 they differ as much at every depth."""
    found: dict[str, list[float]] = {"depth-mup": [], "ode": []}
    for recipe, differences in found.items():
        for depth in (8, 32):
            family = tpt.plan(models.ResMLP, base=dict(depth=4), recipe=recipe)
            torch.manual_seed(0)
            model = family(depth=depth)
            grown = family.grow(model, to=dict(depth=2 * depth), at=dict(depth=depth), new="copy")
            assert grown.added == pytest.approx(2.0**0.5 if recipe == "depth-mup" else 1.0)
            differences.append(grown.difference)
            old, new = dict(model.named_parameters()), dict(grown.model.named_parameters())
            power = grown.plan.entry("layers.0.2.weight").factor("init") / family.at(depth=depth).entry(
                "layers.0.2.weight").factor("init")
            assert torch.equal(new["layers.3.2.weight"], old["layers.1.2.weight"] * power)
    assert found["ode"][1] < 0.4 * found["ode"][0] and found["depth-mup"][1] > 0.7 * found["depth-mup"][0]


def test_gradients_of_copies_are_as_eps_says() -> None:
    """At alpha = 1 and many layers, each copy has the gradients of its layer times the factor of eps."""
    family = tpt.plan(small_branches, base=dict(depth=32), recipe="ode")
    torch.manual_seed(0)
    model = family()
    grown = family.grow(model, to=dict(depth=64), new="copy")
    x = torch.randn(16, 5, generator=torch.Generator().manual_seed(1))
    for one in (model, grown.model):
        one(x).square().mean().backward()
    old, new = dict(model.named_parameters()), dict(grown.model.named_parameters())
    for name in ("layers.20.0.weight", "layers.21.2.weight", "layers.40.2.weight", "out.weight"):
        before, after = old[grown.origins[name]].grad, new[name].grad
        found = float((before * after).sum() / before.square().sum())
        assert found == pytest.approx(grown._gradients[name], rel=0.1), name
    assert grown._gradients["layers.20.0.weight"] == 0.5 and grown._gradients["out.weight"] == 1


@pytest.mark.parametrize("old, new, order, expected", [
    (2, 4, "interleaved", [0, -1, 1, -1]), (2, 3, "interleaved", [0, -1, 1]), (3, 5, "stacked", [0, 1, 2, -1, -1]),
    (3, 4, "interleaved", [0, -1, 1, 2]), (1, 3, "interleaved", [0, -1, -1])])
def test_old_layers_keep_their_order(old: int, new: int, order: str, expected: list[int]) -> None:
    found = growing._positions(old, new, order)
    assert [-1 if is_new else i for i, is_new in found] == expected
    assert [i for i, is_new in found if not is_new] == list(range(old))


def test_a_wrong_multiplier_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    family = tpt.plan(gpt, base=dict(n_layer=4), forward="multiplier")
    monkeypatch.setattr(growing, "_ratio", lambda *given: 1.0)
    with pytest.raises(NotCovered, match="^new: got 'zero' with a model whose outputs then differ by"):
        family.grow(family(), to=dict(n_layer=8))


def test_what_cannot_grow_is_refused() -> None:
    family = tpt.plan(lambda n_layer, n=32: gpt(n_layer, n=n), base=dict(n_layer=4))
    model, optimizer = trained(family)
    for to, message in ((dict(n_layer=8, n=64), "^to: got wte.weight of shape .*change the depth alone"),
                        (dict(n_layer=4), "^to: got a model that is no deeper"),
                        (dict(n_layer=2), "^to: got 2 of h.*, 4 in the trained model"),
                        (dict(layers=8), "^target: got 'layers'; expected")):
        with pytest.raises(ValueError, match=message):
            family.grow(model, to=to)
    with pytest.raises(ValueError, match="^model: got h.2.* of shape .*no such parameter"):
        family.grow(model, to=dict(n_layer=8), at=dict(n_layer=2))
    with pytest.raises(ValueError, match="^new: got 'noise'; expected"):
        family.grow(model, to=dict(n_layer=8), new="noise")
    grown = family.grow(model, to=dict(n_layer=8))
    after = torch.optim.AdamW(grown.plan.groups(grown.model, lr=1e-3))
    with pytest.raises(ValueError, match="^before: got an optimizer without state for the trained model"):
        grown.move_state(torch.optim.AdamW(copy.deepcopy(model).parameters()), after)
    with pytest.raises(ValueError, match="^after: got an optimizer that has not"):
        grown.move_state(optimizer, torch.optim.AdamW(model.parameters()))


def test_momentum_of_copies_is_refused_and_of_zeros_moved() -> None:
    family = tpt.plan(gpt, base=dict(n_layer=2), optimizer="momentum")
    model = family()
    optimizer = torch.optim.SGD(family.at().groups(model, lr=1e-3), momentum=0.9)
    steps(model, optimizer, 2)
    for new in ("zero", "copy"):
        grown = family.grow(model, to=dict(n_layer=4), new=new)
        after = torch.optim.SGD(grown.plan.groups(grown.model, lr=1e-3), momentum=0.9)
        if new == "copy":
            with pytest.raises(NotCovered, match="^before: got momentum_buffer of .*not known to scale"):
                grown.move_state(optimizer, after)
            continue
        grown.move_state(optimizer, after)
        old, moved = dict(model.named_parameters()), dict(grown.model.named_parameters())
        assert torch.equal(after.state[moved["h.2.attn.proj.weight"]]["momentum_buffer"],
                           optimizer.state[old["h.1.attn.proj.weight"]]["momentum_buffer"])


def test_dropout_is_left_out_of_the_comparison() -> None:
    def make(n_layer: int) -> Any:
        model = gpt(n_layer)
        for block in model.h:
            block.mlp.append(torch.nn.Dropout(0.5))
        return model

    family = tpt.plan(make, base=dict(n_layer=2), forward="multiplier")
    model = family().train()
    grown = family.grow(model, to=dict(n_layer=4))
    assert grown.difference < 1e-6 and model.training and grown.model.training


class Normed(torch.nn.Module):
    """Layers with running statistics."""

    def __init__(self, depth: int, n: int = 16) -> None:
        super().__init__()
        self.a, self.z = torch.nn.Linear(5, n), torch.nn.Linear(n, 1)
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(
            torch.nn.BatchNorm1d(n), torch.nn.ReLU(), torch.nn.Linear(n, n)) for _ in range(depth))

    def forward(self, x: Any) -> Any:
        x = self.a(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.z(x)


def test_running_statistics_move_with_their_layers() -> None:
    family = tpt.plan(Normed, base=dict(depth=2))
    model = family()
    for _ in range(3):
        model(torch.randn(32, 5) + 1)
    grown = family.grow(model, to=dict(depth=4))
    assert torch.equal(grown.model.layers[2][0].running_mean, model.layers[1][0].running_mean)
    assert model.training and grown.model.training and grown.difference < 1e-6


class Shifted(torch.nn.Module):
    """Layers with drawn constants of their own, next to their parameters and in a module without any."""

    def __init__(self, n_layer: int, n: int = 16) -> None:
        super().__init__()
        self.a, self.z, self.layers = torch.nn.Linear(3, n), torch.nn.Linear(n, 2), torch.nn.ModuleList()
        for _ in range(n_layer):
            layer = torch.nn.ModuleDict({"w": torch.nn.Linear(n, n), "constant": torch.nn.Module()})
            for module in (layer, layer["constant"]):
                module.register_buffer("shift", torch.randn(n))
            self.layers.append(layer)

    def forward(self, x: Any) -> Any:
        x = self.a(x)
        for layer in self.layers:
            x = x + layer["w"](torch.tanh(x + layer.shift + layer["constant"].shift))
        return self.z(x)


@pytest.mark.parametrize("new", ["zero", "copy"])
def test_buffers_of_layers_are_those_they_come_from(new: str) -> None:
    """Also where the module that has one has no parameter of its own."""
    family = tpt.plan(Shifted, base=dict(n_layer=2))
    model = family()
    grown = family.grow(model, to=dict(n_layer=4), new=new)
    before, after = dict(model.named_buffers()), dict(grown.model.named_buffers())
    for name in ("shift", "constant.shift"):
        for layer in (0, 1):
            assert torch.equal(after[f"layers.{2 * layer}.{name}"], before[f"layers.{layer}.{name}"])


class Alternating(torch.nn.Module):
    def __init__(self, depth: int, n: int = 16) -> None:
        super().__init__()
        self.a, self.z = torch.nn.Linear(3, n), torch.nn.Linear(n, 1)
        self.w = torch.nn.ModuleList(torch.nn.Linear(n, n) for _ in range(2 * depth))

    def forward(self, x: Any) -> Any:
        x = self.a(x)
        for first, last in zip(self.w[::2], self.w[1::2]):
            x = x + last(torch.relu(first(x)))
        return self.z(x)


def test_one_list_of_several_kinds_is_refused() -> None:
    family = tpt.plan(Alternating, base=dict(depth=2))
    with pytest.raises(NotCovered, match=r"^to: got w\.4\..* in one list of several kinds of parameters; expected"):
        family.grow(family(), to=dict(depth=4))


def test_gradient_descent_has_no_state_to_move() -> None:
    family = tpt.plan(gpt, base=dict(n_layer=2), optimizer="sgd")
    model = family()
    optimizer = torch.optim.SGD(family.at().groups(model, lr=1e-3))
    steps(model, optimizer, 2)
    grown = family.grow(model, to=dict(n_layer=4))
    after = torch.optim.SGD(grown.plan.groups(grown.model, lr=1e-3))
    grown.move_state(optimizer, after)
    assert not after.state and steps(grown.model, after, 2) < loss_of(model).item()
