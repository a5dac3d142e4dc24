"""Audits of live models: the faults that people report are found, and right models are not accused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")
few_of = pytest.importorskip("support.nightly").few_of
nn = torch.nn

BASE = 4
Script = tuple[Callable[..., Any], Callable[[Any], Any]]


def depth_of(model: Any) -> int:
    return len(getattr(model, "h", None) or model.layers)


def grouped(model: Any, kind: str, inside: float, outside: float = 1.0, eps: float = 1.0, decay: float = 1.0,
            odd: Callable[[str], float | None] = lambda name: None) -> Any:
    """An optimizer as people write it: rates of layers and of the rest, times what they should be."""
    groups = []
    for name, p in model.named_parameters():
        within = ".0." in name and name.startswith(("h.", "layers.")) or name.split(".")[1].isdigit()
        scale = inside if within else outside
        scale = odd(name) or scale
        group = {"params": [p], "lr": (0.1 if kind == "sgd" else 1e-3) * scale}
        if p.dim() > 1:
            group["weight_decay"] = 0.1 * (decay if within else 1.0)
        if kind != "sgd":
            group["eps"] = 1e-8 * (eps if within else 1.0)
        groups.append(group)
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=0.1, weight_decay=0.0)
    return (torch.optim.AdamW if kind == "adamw" else torch.optim.Adam)(groups, weight_decay=0.0)


def script(make: Callable[..., Any], kind: str = "adamw", branch: float = -0.5, rate: float | None = None,
           eps: float | None = None, decay: float | None = None, outside: float = 0.0, base: int = BASE,
           odd: Callable[[str, float], float | None] = lambda name, n: None) -> Script:
    """make(n_layer, m=...) and an optimizer whose settings go like powers of the depth; what is None is as in Depth-muP
    for a multiplier in the forward pass."""
    rate = (0.0 if kind == "sgd" else -1 - branch) if rate is None else rate
    eps, decay = branch if eps is None else eps, -rate if decay is None else decay

    def build(n_layer: int) -> Any:
        return make(n_layer, m=(n_layer / base)**branch)

    def optimizer(model: Any) -> Any:
        n = depth_of(model) / base
        return grouped(model, kind, n**rate, n**outside, n**eps, n**decay, lambda name: odd(name, n))

    return build, optimizer


def gpt(n_layer: int, m: float = 1.0, **options: Any) -> Any:
    return models.GPT(n_layer, 24, m=m, **options)


def mlp(n_layer: int, m: float = 1.0, **options: Any) -> Any:
    return models.ResMLP(n_layer, 32, m=m, **options)


def quantities(found: Any) -> set[str]:
    return {finding.quantity.split(",")[0] for finding in found.findings}


@pytest.mark.parametrize("make, kind", few_of(itertools.product((gpt, mlp), ("adamw", "sgd")), (gpt, "adamw"),
                                              (mlp, "sgd")))
def test_right_ones(make: Any, kind: str) -> None:
    found = tpt.audit(*script(make, kind), recipe="depth-mup")
    assert found.ok, str(found)
    assert tpt.audit(*script(make, kind)).ok
    assert not tpt.audit(*script(make, kind), recipe="ode").ok


def test_what_plan_sets_is_right() -> None:
    """Five lines: a gauge, on an initialization that has the depth in it."""
    def init(name: str, p: Any, n_layer: int) -> None:
        if p.dim() == 2 and name.endswith(("attn.proj.weight", "mlp.2.weight")):
            nn.init.normal_(p, std=0.3 / (2 * n_layer)**0.5)

    def plain(n_layer: int) -> Any:
        return gpt(n_layer, init=lambda name, p: init(name, p, n_layer))

    plans = {n: tpt.plan(plain, dict(n_layer=4), dict(n_layer=n)) for n in (4, 16)}

    def make(n_layer: int) -> Any:
        return plans[n_layer].init_(plain(n_layer))

    def optimizer(model: Any) -> Any:
        return torch.optim.AdamW(plans[len(model.h)].groups(model, lr=1e-3, weight_decay=0.1))

    assert tpt.audit(make, optimizer, recipe="depth-mup").ok
    found = tpt.audit(plain, lambda model: torch.optim.AdamW(model.parameters()), recipe="depth-mup")
    assert {"update", "eps over gradients"} <= quantities(found)


def test_multiplier_on_the_skip() -> None:
    def make(n_layer: int) -> Any:
        return gpt(n_layer, skip=(n_layer / BASE)**-0.5)

    found = tpt.audit(make, script(gpt)[1], recipe="depth-mup")
    assert any("skip" in finding.cause for finding in found.findings)


@pytest.mark.parametrize("make", [gpt, mlp])
def test_factor_upside_down(make: Any) -> None:
    """base / depth for depth / base, or n^1/2 for n^-1/2."""
    found = tpt.audit(*script(make, branch=0.5, rate=-0.5, eps=-0.5, decay=0.5), recipe="depth-mup")
    assert any("upside down" in finding.cause for finding in found.findings)


def test_square_root_of_the_number_of_layers_for_its_inverse() -> None:
    found = tpt.audit(*script(mlp, "sgd", branch=0.5, base=1, rate=0.0), depths=(2, 6), recipe="depth-mup")
    assert any("n^1/2 for n^-1/2" in finding.cause for finding in found.findings)


class Buffered(models.ResMLP):
    """Built as large models are: on the meta device, emptied, initialized; the multiplier is a buffer."""

    def __init__(self, n_layer: int, lost: float | None = None) -> None:
        with torch.device("meta"):
            super().__init__(n_layer, 32)
            self.register_buffer("multiplier", torch.tensor(0.0))
        self.to_empty(device="cpu")
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()
        self.multiplier.fill_((n_layer / BASE)**-0.5 if lost is None else lost)

    def forward(self, x: Any) -> Any:
        x = self.read_in(x)
        for layer in self.layers:
            x = x + self.multiplier * layer(x)
        return self.out(x)


def test_multiplier_lost_behind_to_empty() -> None:
    optimizer = script(mlp)[1]
    assert tpt.audit(lambda n_layer: Buffered(n_layer), optimizer, recipe="depth-mup").ok
    found = tpt.audit(lambda n_layer: Buffered(n_layer, lost=1.0), optimizer, recipe="depth-mup")
    assert any("to_empty" in finding.cause for finding in found.findings)
    for rubbish in (0.0, float("nan")):  # whatever the memory held
        assert not tpt.audit(lambda n_layer: Buffered(n_layer, lost=rubbish), optimizer, recipe="depth-mup").ok


def test_initialization_and_branch_both_shrunk() -> None:
    def make(n_layer: int) -> Any:
        model = gpt(n_layer, m=(n_layer / BASE)**-0.5)
        for block in model.h:
            for module in (block.attn.proj, block.mlp[2]):
                module.weight.data *= (n_layer / BASE)**-0.5
        return model

    found = tpt.audit(make, script(gpt)[1], recipe="depth-mup")
    assert any("shrinks twice" in finding.cause for finding in found.findings)


def test_eps_left_fixed() -> None:
    found = tpt.audit(*script(gpt, eps=0.0), recipe="depth-mup")
    assert quantities(found) == {"eps over gradients"}


def test_decay_left_fixed() -> None:
    found = tpt.audit(*script(gpt, decay=0.0), recipe="depth-mup")
    assert quantities(found) == {"decay a step"} and len({f.pattern for f in found.findings}) == 4


def test_an_output_norm_that_cancels_the_init() -> None:
    """The multiplier is made a part of a matrix behind which a norm stands."""
    def make(n_layer: int) -> Any:
        model = gpt(n_layer, after=True)
        for block in model.h:
            for module in (block.attn.proj, block.mlp[2]):
                module.weight.data *= (n_layer / BASE)**-0.5
                module.bias.data *= 0
        return model

    found = tpt.audit(make, script(gpt, rate=-1.0)[1], recipe="depth-mup")
    assert any("norm after the matrix" in f.cause for f in found.findings if f.pattern == "h.*.mlp.2.weight")


def test_a_parameter_in_the_wrong_group() -> None:
    odd = lambda name, n: 1.0 if name.endswith("attn.qkv.weight") else None  # noqa: E731
    found = tpt.audit(*script(gpt, odd=odd), recipe="depth-mup")
    finding, = [f for f in found.findings if f.quantity.startswith("update")]
    assert finding.pattern == "h.*.attn.qkv.weight" and "another group" in finding.cause
    assert finding.measured == pytest.approx(-0.5, abs=0.2)


def test_the_heads_rate_scaled_like_hidden_ones() -> None:
    odd = lambda name, n: n**-0.5 if name == "lm_head.weight" else None  # noqa: E731
    found = tpt.audit(*script(gpt, odd=odd), recipe="depth-mup")
    finding, = [f for f in found.findings if f.quantity.startswith("update")]
    assert finding.pattern == "lm_head.weight" and "outside of layers" in finding.cause


def test_widths() -> None:
    def make(n_layer: int, n: int, m: float = 1.0) -> Any:
        return models.ResMLP(n_layer, n, m=(n_layer / BASE)**-0.5)

    def sp(model: Any) -> Any:
        return script(mlp)[1](model)

    found = tpt.audit(make, sp, widths=(32, 128), width_key="n", recipe="depth-mup")
    assert {f.quantity for f in found.findings} == {"update, power of the width"}
    plain = lambda n_layer, n: models.ResMLP(n_layer, n)  # noqa: E731
    plan = lambda layers, n: tpt.plan(plain, dict(n_layer=4, n=32), dict(n_layer=layers, n=n))  # noqa: E731

    def right(model: Any) -> Any:
        return torch.optim.AdamW(plan(len(model.layers), model.out.in_features).groups(model, lr=1e-3))

    made = lambda n_layer, n=32: plan(n_layer, n).init_(plain(n_layer, n))  # noqa: E731
    found = tpt.audit(made, right, widths=(32, 128), width_key="n", recipe="depth-mup")
    assert found.ok, str(found)


@pytest.mark.parametrize("kind, optimizer", [("adamw", torch.optim.AdamW), ("sgd", torch.optim.SGD)])
def test_a_readout_may_begin_as_small_as_it_likes(kind: str, optimizer: Any) -> None:
    """Its first update does not know where it began, and neither do outputs: gradients are those of what it reads."""
    plain = lambda n_layer, n: models.ResMLP(n_layer, n)  # noqa: E731
    base, sizes = dict(n_layer=4, n=32), lambda model: dict(n_layer=len(model.layers), n=model.out.in_features)
    plan = lambda model: tpt.plan(plain, base, sizes(model), optimizer=kind)  # noqa: E731

    def made(n_layer: int, n: int = 32) -> Any:
        model = plain(n_layer, n)
        plan(model).init_(model)
        with torch.no_grad():
            model.out.weight.mul_(32 / n)
            model.out.bias.mul_(32 / n)
        return model

    found = tpt.audit(made, lambda model: optimizer(plan(model).groups(model, lr=1e-3)),
                      widths=(32, 128), width_key="n", recipe="depth-mup")
    assert found.ok, str(found)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="^depth_key: got 'n', with which no list of layers grows"):
        tpt.audit(lambda n: models.ResMLP(4, n), script(mlp)[1], depth_key="n")
    with pytest.raises(ValueError, match="^recipe|^name: got 'nonsense'"):
        tpt.audit(*script(mlp), recipe="nonsense")
    with pytest.raises(ValueError, match="^optimizer: it returned None"):
        tpt.audit(script(mlp)[0], lambda model: None)
    with pytest.raises(ValueError, match="^widths|^width_key"):
        tpt.audit(*script(mlp), widths=(8, 16))


RECIPES = {"depth-mup": -0.5, "ode": -1.0}
KINDS: dict[str, Callable[..., Any]] = {
    "gpt": gpt, "tied": lambda n_layer, m=1.0: gpt(n_layer, m, tied=True),
    "shared heads": lambda n_layer, m=1.0: gpt(n_layer, m, kv_heads=1),
    "relu": mlp, "tanh": lambda n_layer, m=1.0: mlp(n_layer, m, act=nn.Tanh),
    "norm": lambda n_layer, m=1.0: mlp(n_layer, m, norm=True),
    "one matrix": lambda n_layer, m=1.0: mlp(n_layer, m, matrices=1),
    "one normed": lambda n_layer, m=1.0: mlp(n_layer, m, matrices=1, norm=True, act=nn.GELU)}
RIGHT = list(itertools.product(KINDS, ("adamw", "sgd"), RECIPES))[:30]
SPOILT: list[dict[str, Any]] = [
    dict(branch=0.5), dict(branch=0.0), dict(rate=0.5), dict(rate=-1.5), dict(outside=-0.5), dict(outside=0.5)]
WRONG = [(kind, optimizer, how) for (kind, optimizer), how in zip(
    itertools.cycle(itertools.product(KINDS, ("adamw", "sgd"))), SPOILT * 5)][:30]


@pytest.mark.slow
def test_thirty_right_and_thirty_wrong() -> None:
    """At least 95 % of the verdicts are right."""
    wrong = []
    for kind, optimizer, recipe in RIGHT:
        found = tpt.audit(*script(KINDS[kind], optimizer, RECIPES[recipe], rate=(
            -1 - 2 * RECIPES[recipe] if optimizer == "sgd" else -1 - RECIPES[recipe])), recipe=recipe)
        if not found.ok:
            wrong.append((kind, optimizer, recipe, list(map(str, found.findings))))
    for kind, optimizer, how in WRONG:
        settings = dict(branch=-0.5, rate=0.0 if optimizer == "sgd" else -0.5, eps=-0.5) | how
        if tpt.audit(*script(KINDS[kind], optimizer, **settings), recipe="depth-mup").ok:
            wrong.append((kind, optimizer, how))
    assert len(RIGHT) == len(WRONG) == 30
    print(*wrong, sep="\n")
    assert len(wrong) <= 3, wrong


@pytest.mark.parametrize("name, smaller", [("gpt-2", "Wo, W2"), ("megatron-depth-mup-uncompensated", "Wo, W2")])
def test_recipes_whose_matrices_differ_are_refused_by_name(name: str, smaller: str) -> None:
    """By a depth check, which has one power for all matrices; an audit goes by what branches end with."""
    with pytest.raises(ValueError, match=f"^recipe: got '{name}', in which {smaller} start like .* do not"):
        tpt.depth_check(*script(mlp), recipe=name)
    assert not tpt.audit(*script(mlp), recipe=name).ok


def test_findings_without_a_recipe_are_three_errors_off_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not is said, and accuses nobody: here all powers are made uncertain."""
    def script(model: Any) -> Any:
        return torch.optim.AdamW(model.parameters(), lr=1e-3)
    assert not tpt.audit(models.ResMLP, script, depth_key="depth").ok
    monkeypatch.setattr("tpcalc.torch.findings.student_error", lambda *given: 1.0)
    found = tpt.audit(models.ResMLP, script, depth_key="depth")
    unsure = [one for one in found.not_checked if one.endswith("+- 1.00, which is not told from -0.5")]
    assert found.ok and unsure[0].startswith("layers.*.0.weight: branch, power of the depth"), str(found)
