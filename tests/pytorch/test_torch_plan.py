"""Plans for live models: what the gauge does is what the multiplier does, and what cannot be done is said."""

from __future__ import annotations

import copy
from typing import Any, Callable

import pytest

import tpcalc as tp

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")


def trained(model: Any, optimizer: Any, batch: Any, steps: int = 6) -> list[float]:
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = (model(batch) - 0.3 * (1 + step % 2)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def multiplied(model: Any, plan: Any) -> Any:
    """The model with its multipliers in the forward pass."""
    factors = plan.multipliers()
    for name, module in model.named_modules():
        if (factor := factors.get(plan.roles.layers.pattern(name))) is not None:
            module.register_forward_hook(lambda _m, _a, out, m=factor: m * out)
    return model


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda groups: torch.optim.SGD(groups, lr=1.0, momentum=0.5),
    "adam": lambda groups: torch.optim.Adam(groups), "adamw": lambda groups: torch.optim.AdamW(groups)}


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("make, key", [(models.GPT, "n_layer"), (models.ResMLP, "depth"), (models.ViT, "depth")])
def test_gauge_trains_as_the_multiplier_does(make: Any, key: str, kind: str) -> None:
    """In float64, to 1e-6 (here to rounding); the eps is large, so that it matters."""
    base, target = {key: 2}, {key: 5}
    torch.manual_seed(1)
    start = make(**target).double()
    batch = torch.randint(17, (3, 8)) if make is models.GPT else torch.randn(
        *((3, 1, 16, 16) if make is models.ViT else (4, 5)), dtype=torch.float64)
    runs = {}
    for forward in ("gauge", "multiplier"):
        plan = tpt.plan(make, base, target, "depth-mup", kind, forward, batch=batch.float() if make is not models.GPT
                        else batch)
        model = multiplied(plan.init_(copy.deepcopy(start)), plan)
        rate = {"sgd": 0.02, "adam": 1e-2, "adamw": 1e-2}[kind]
        settings = {} if kind == "sgd" else {"eps": 1e-3}
        groups = plan.groups(model, lr=rate, weight_decay=0.0 if kind == "adam" else 0.1, **settings)
        assert sorted(id(p) for g in groups for p in g["params"]) == sorted(id(p) for p in model.parameters())
        runs[forward] = trained(model, OPTIMIZERS[kind](groups), batch)
        assert bool(plan.multipliers()) == (forward == "multiplier")
    assert runs["gauge"] == pytest.approx(runs["multiplier"], rel=1e-9)
    assert abs(runs["gauge"][-1] / runs["gauge"][0] - 1) > 1e-2


def test_tied_embeddings_and_width_and_depth_together() -> None:
    make = lambda n_layer, n: models.GPT(n_layer, n, tied=True, kv_heads=1)  # noqa: E731
    plan = tpt.plan(make, dict(n_layer=2, n=32), dict(n_layer=8, n=64))
    assert plan.entry("wte.weight").parameter.role == "tied" and plan.multipliers() == {"lm_head": 0.5}
    model = plan.init_(make(8, 64))
    base = make(2, 32)
    ratio = model.h[0].attn.qkv.weight.std().item() / base.h[0].attn.qkv.weight.std().item()
    assert ratio == pytest.approx(2**-0.5, rel=0.05)
    ratio = model.h[3].mlp[2].weight.std().item() / base.h[0].mlp[2].weight.std().item()
    assert ratio == pytest.approx(2**-0.5 / 2, rel=0.05)


def test_an_initialization_that_has_the_depth_in_it_is_not_counted_twice() -> None:
    """GPT-2's: 0.02 / sqrt(2 L) for the last matrices of branches."""
    def make(n_layer: int) -> Any:
        def init(name: str, p: Any) -> None:
            if p.dim() == 2:
                last = name.endswith(("attn.proj.weight", "mlp.2.weight"))
                torch.nn.init.normal_(p, std=0.02 / (2 * n_layer)**0.5 if last else 0.02)
        return models.GPT(n_layer, 64, init=init)

    plan = tpt.plan(make, dict(n_layer=2), dict(n_layer=8))
    model = plan.init_(make(8))
    assert model.h[1].mlp[2].weight.std().item() == pytest.approx(0.02 / 4**0.5 / 2, rel=0.05)
    assert model.h[1].mlp[0].weight.std().item() == pytest.approx(0.02, rel=0.05)


def test_where_something_normalizes_behind_a_branch_the_plan_says_what_to_multiply() -> None:
    make = lambda n_layer: models.GPT(n_layer, after=True)  # noqa: E731
    plan = tpt.plan(make, dict(n_layer=2), dict(n_layer=8))
    assert plan.multipliers() == {"h.*.post1": 0.5, "h.*.post2": 0.5}
    assert plan.entry("h.0.mlp.2.weight").factor("lr") == 0.5 and "in forward: multiply what h.*.post1" in str(plan)


def test_a_stream_that_is_normalized_is_refused() -> None:
    class Post(models.ResMLP):
        def forward(self, x: Any) -> Any:
            x = self.read_in(x)
            for layer in self.layers:
                x = torch.nn.functional.layer_norm(x + layer(x), (x.shape[-1],))
            return self.out(x)

    with pytest.raises(tp.NotCovered, match="^native_layer_norm in the model: changes the stream between layers"):
        tpt.plan(Post, dict(depth=4), dict(depth=8))


def test_models_that_are_not_initialized_are_refused() -> None:
    plan = tpt.plan(models.ResMLP, dict(depth=2), dict(depth=4))
    with torch.device("meta"):
        empty = models.ResMLP(depth=4)
    with pytest.raises(ValueError, match="on the meta device"):
        plan.init_(empty)
    broken = models.ResMLP(depth=4)
    broken.layers[1][0].weight.data.fill_(float("nan"))
    with pytest.raises(ValueError, match=r"^layers.\*.0.weight: got values of root mean square nan"):
        plan.init_(broken)


def test_muons_two_groups() -> None:
    plan = tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=8), optimizer="muon")
    model = models.GPT(8)
    for group in plan.groups(model, lr=1e-2):
        inside = {name for name, p in model.named_parameters() if any(p is q for q in group["params"])}
        assert group["use_muon"] == all(name.startswith("h.") and name.endswith("weight") and "ln" not in name
                                        for name in inside)


def test_a_compiled_model_has_the_same_groups() -> None:
    plan = tpt.plan(models.ResMLP, dict(depth=2), dict(depth=4))
    model = models.ResMLP(depth=4)
    wrapped = torch.nn.ModuleDict({"_orig_mod": model})  # the names that torch.compile gives
    assert [g["lr"] for g in plan.groups(wrapped, 1e-3)] == [g["lr"] for g in plan.groups(model, 1e-3)]


class Residual(torch.nn.Module):
    """Two branches of two matrices, with hidden coordinates of their own."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.embedding, self.readout = torch.nn.Linear(2, 8), torch.nn.Linear(8, 1)
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(
            torch.nn.LayerNorm(8), torch.nn.Linear(8, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 8))
            for _ in range(2))

    def forward(self, x: Any) -> Any:
        x = self.embedding(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.readout(x)


def test_a_matrix_into_what_alone_grows_mixes_no_positions() -> None:
    """Hidden coordinates of branches grow, the stream stays."""
    plan = tpt.plan(Residual(8), Residual(32), batch=torch.randn(4, 2))
    roles = {entry.parameter.pattern: entry.parameter.role for entry in plan.entries}
    assert roles["layers.*.1.weight"] == "hidden" and roles["layers.*.3.weight"] == "branch output"
