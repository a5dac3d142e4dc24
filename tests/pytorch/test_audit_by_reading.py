"""Audits find streams and layers by the operations of the forward pass: models whose names tell nothing, or mislead."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest

import tpcalc as tp

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
read_models = pytest.importorskip("support.pytorch.reading_models")
usual = pytest.importorskip("support.pytorch.torch_models")
nn, F = torch.nn, torch.nn.functional

BASE, DEPTHS = 4, (4, 16)
BATCH = torch.randn(16, 5, generator=torch.Generator().manual_seed(1))
Script = tuple[Callable[..., Any], Callable[[Any], Any]]


class Functions(nn.Module):  # type: ignore[misc,name-defined]
    """No modules: one list of parameters in which first and last matrices take turns; sums are made in place."""

    def __init__(self, depth: int, n: int = 32) -> None:
        super().__init__()
        self.p, self.q = nn.Parameter(torch.randn(5, n)), nn.Parameter(torch.randn(n, 3) / n)
        self.r = nn.ParameterList(torch.randn(n, n) / n**0.5 for _ in range(2 * depth))
        self.depth, self.m = depth, depth**-0.5

    def forward(self, x: Any) -> Any:
        x = x @ self.p
        for v, w in zip(self.r[::2], self.r[1::2]):
            x = (torch.relu(x @ v) @ w).mul_(self.m).add_(x)
        return x @ self.q


class Stacks(nn.Module):  # type: ignore[misc,name-defined]
    """Two lists of layers of different widths; both grow, and there is one more layer between them."""

    def __init__(self, depth: int, n: int = 24, second: float = 1.0) -> None:
        super().__init__()
        self.head, self.emb = nn.Linear(5, n), nn.Linear(n, 3)  # named the wrong way round
        layer = lambda hidden: nn.Sequential(  # noqa: E731
            nn.LayerNorm(n), nn.Linear(n, hidden), nn.GELU(), nn.Linear(hidden, n))
        self.layers, self.h = (nn.ModuleList(layer(k * n) for _ in range(depth // 2)) for k in (1, 2))
        self.depth, self.m, self.second = depth, (depth / BASE)**-0.5, (depth / BASE)**0.5 if second != 1 else 1.0

    def forward(self, x: Any) -> Any:
        x = self.head(x)
        for f in self.layers:
            x = x + self.m * f(x)
        for f in self.h:
            x = x + self.m * self.second * f(x)
        return self.emb(x)


class Letters(nn.Module):  # type: ignore[misc,name-defined]
    """Layers of two sorts that no number counts."""

    def __init__(self, depth: int, n: int = 24, second: float = 1.0) -> None:
        super().__init__()
        self.depth, self.m, self.second = depth, (depth / BASE)**-0.5, (depth / BASE)**0.5 if second != 1 else 1.0
        self.start, self.end = nn.Linear(5, n), nn.Linear(n, 3)
        for i in range(depth):
            for sort, act in (("x", nn.GELU), ("y", nn.Tanh)):
                self.add_module(sort + "abcdefghijklmnop"[i], nn.Sequential(nn.Linear(n, n), act(), nn.Linear(n, n)))

    def forward(self, x: Any) -> Any:
        x = self.start(x)
        for i in range(self.depth):
            x = x + self.m * getattr(self, "x" + "abcdefghijklmnop"[i])(x)
            x = x + self.m * self.second * getattr(self, "y" + "abcdefghijklmnop"[i])(x)
        return self.end(x)


OUTSIDE = ("p", "q", "head.*", "emb.*", "start.*", "end.*")


def by_hand(make: Any, odd: str = "", **options: Any) -> Script:
    """Depth-muP with Adam for multipliers in the forward pass: rates and eps of layers go like L^(-1/2), one or several
    parameters' apart."""
    def optimizer(model: Any) -> Any:
        down = (model.depth / BASE)**-0.5
        groups = []
        for name, p in model.named_parameters():
            within = not any(fnmatchcase(name, one) for one in OUTSIDE)
            groups.append({"params": [p], "lr": 1e-3 * (down if within and not (odd and fnmatchcase(name, odd)) else 1),
                           "eps": 1e-10 * (down if within else 1)})
        return torch.optim.Adam(groups)

    return lambda depth: make(depth, **options), optimizer


def by_plan(make: Any, odd: str = "") -> Script:
    """What ``plan`` says, but for the learning rate of some parameters."""
    plans = {depth: tpt.plan(make, dict(depth=BASE), dict(depth=depth)) for depth in DEPTHS}

    def build(depth: int) -> Any:
        model = plans[depth].init_(make(depth))
        model.depth = depth
        return model

    def optimizer(model: Any) -> Any:
        names = {id(p): name for name, p in model.named_parameters()}
        groups = plans[model.depth].groups(model, lr=1e-3)
        return torch.optim.AdamW([{**group, "params": [p], "lr": group["lr"] * (
            (model.depth / BASE)**0.5 if fnmatchcase(names[id(p)], odd) else 1)} for group in groups
            for p in group["params"]])

    return build, optimizer


def audited(script: Script, **options: Any) -> Any:
    return tpt.audit(*script, depths=DEPTHS, depth_key="depth", recipe="depth-mup", **options)


ODD = {"functions": (Functions, "r.*[13579]", "r.* (r.1, r.3, ...)"),
       "stacks": (Stacks, "h.*.1.weight", "h.*.1.weight"),
       "letters": (Letters, "y*.0.weight", "ya.0.weight, yb.0.weight, ...")}


@pytest.mark.parametrize("name", ODD)
def test_names_do_not_matter(name: str) -> None:
    make, odd, pattern = ODD[name]
    found = audited(by_hand(make), batch=BATCH)
    assert found.ok, str(found)
    assert found.powers["depth branch", pattern].value == pytest.approx(-0.5, abs=0.1)
    wrong = audited(by_hand(make, odd), batch=BATCH)
    assert {finding.pattern for finding in wrong.findings} == {pattern}, str(wrong)


@pytest.mark.parametrize("make, which", [(Stacks, "h.*."), (Letters, "ya.")])
def test_a_multiplier_that_one_sort_of_layers_lacks(make: Any, which: str) -> None:
    found = audited(by_hand(make, second=0.0), batch=BATCH)
    branches = {finding.pattern for finding in found.findings if finding.quantity.startswith("branch")}
    assert len(branches) >= 2 and all(one.startswith(which) for one in branches), str(found)


PLANNED = {"alternating": (read_models.Alternating, "layers.*.1.down", "layers.*.1.down"),
           "encoder": (read_models.EncoderDecoder, "encoder.*.attn.v.weight", "encoder.*.attn.v.weight"),
           "cross-attention": (read_models.EncoderDecoder, "decoder.*.kv.weight", "decoder.*.kv.weight")}


@pytest.mark.parametrize("name", ["alternating", *(pytest.param(name, marks=pytest.mark.nightly) for name in (
    "encoder", "cross-attention"))])  # half a minute each
def test_a_wrong_rate_is_named_in_models_of_several_lists(name: str) -> None:
    make, odd, pattern = PLANNED[name]
    found = audited(by_plan(make, odd))
    assert {finding.pattern for finding in found.findings} == {pattern}, str(found)
    assert found.findings[0].measured == pytest.approx(-0.5, abs=0.2)


def test_learned_factors_of_the_stream_are_no_branches() -> None:
    found = audited(by_plan(read_models.ZeroNet))
    assert found.ok and found.powers["depth update", "blocks.*.lambdas"].value == pytest.approx(-1, abs=0.2), str(found)


def test_powers_are_those_of_all_layers_where_the_depth_counts_some() -> None:
    """Of four layers that every model has, as of stages that do not grow, besides those that are counted."""
    def make(more: int) -> Any:
        return usual.ResMLP(4 + more, 32)

    family = tpt.plan(make, dict(more=2), recipe="depth-mup")
    assert family.at(more=8).entry("layers.0.0.weight").growth["L"] == 2
    found = tpt.audit(family, depths=(2, 8), depth_key="more")
    assert found.ok and found.powers["depth branch", "layers.*.2.weight"].value == pytest.approx(-0.5, abs=0.05), found
    assert found.powers["depth update", "layers.*.2.weight"].value == pytest.approx(-1, abs=0.1)
    check = tpt.depth_check(family, depths=(2, 4, 8), steps=2, depth_key="more")
    assert check.ok and check.slopes["effect"][0].value == pytest.approx(-1, abs=0.4)
    assert not tpt.audit(make, lambda model: torch.optim.AdamW(model.parameters()), depths=(2, 8), depth_key="more",
                         recipe="depth-mup").ok


def test_depth_checks_find_the_stream_too() -> None:
    options: dict[str, Any] = dict(depths=(4, 8, 16), steps=2, seeds=2, depth_key="depth", recipe="depth-mup")
    build, optimizer = by_hand(Functions)
    found = tpt.depth_check(build, optimizer, batch=BATCH, **options)
    assert found.verdict == "no quantity departs from its derived power of the depth"
    plain = tpt.depth_check(build, lambda model: torch.optim.Adam(model.parameters()), batch=BATCH, **options)
    assert {one.pattern for one in plain.findings} >= {"r.* (r.0, r.2, ...)"} and not plain.ok, plain.verdict
    assert "the learning rate of layers lacks a factor" in plain.verdict


class Odd(usual.ResMLP):  # type: ignore[misc,name-defined]
    """A residual MLP, or none."""

    def __init__(self, depth: int, how: str) -> None:
        super().__init__(depth, 16)
        self.how, self.scales = how, nn.Parameter(torch.ones(depth))

    def forward(self, x: Any) -> Any:
        x = self.read_in(x)
        for layer, scale in zip(self.layers, self.scales):
            y = (self.layers[0] if "shared" in self.how else layer)(x)
            y = layer(y) if self.how == "shared and not" else y
            x = y if self.how == "no stream" else x + scale * y
        return self.out(x)


def loss_without_model(model: Any, batch: Any) -> Any:
    return model.forward(batch).square().mean()


def loss_with_matrix(model: Any, batch: Any) -> Any:
    return (model(batch) @ F.normalize(model.extra)).square().mean()


def with_extra(depth: int) -> Any:
    model = usual.ResMLP(depth, 16)
    model.extra = nn.Parameter(torch.randn(3, 3))
    return model


def test_what_has_no_layers_to_measure_is_refused() -> None:
    adam = lambda model: torch.optim.Adam(model.parameters())  # noqa: E731
    for how, message in (("no stream", "^make: got a model in which nothing is added"),
                         ("shared and not", "^layers.0.0.weight: got a matrix that 2 layers share, and others")):
        with pytest.raises(tp.NotCovered, match=message):
            tpt.audit(lambda depth: Odd(depth, how), adam, (2, 4), depth_key="depth")
    with pytest.raises(tp.NotCovered, match="^loss: got one that does not call the model"):
        tpt.audit(usual.ResMLP, adam, (2, 4), depth_key="depth", loss=loss_without_model)
    with pytest.raises(tp.NotCovered, match="^extra: got a gradient, and no operation"):
        tpt.audit(with_extra, adam, (2, 4), depth_key="depth", loss=loss_with_matrix)
    for how, grows in (("", "L"), ("shared", "N")):
        found = tpt.audit(lambda depth: Odd(depth, how), adam, (2, 4), depth_key="depth")
        assert found.grows == grows and any(one.startswith("scales: several layers use it")
                                            for one in found.not_checked)
