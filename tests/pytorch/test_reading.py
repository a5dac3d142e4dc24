"""Readings: what parameters do, from the tensor operations of a forward pass, and claims that fail for misreadings."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, Callable

import pytest

import tpcalc as tp

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.reading_models")
usual = pytest.importorskip("support.pytorch.torch_models")
claims = pytest.importorskip("tpcalc.torch.reading.claims")
building = pytest.importorskip("tpcalc.torch.reading.building")
checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
nn, F = torch.nn, torch.nn.functional

BASE, TARGET = dict(depth=2, n=16), dict(depth=4, n=32)
BLOCK = {"attn.q.weight": "hidden", "attn.k.weight": "hidden", "attn.v.weight": "hidden", "mlp.gate.weight": "hidden",
         "mlp.gate.bias": "bias", "mlp.up.weight": "hidden", "mlp.up.bias": "bias"}
LAST = {"attn.o.weight": "branch output", "mlp.down.weight": "branch output", "mlp.down.bias": "bias"}


def under(prefix: str, roles: dict[str, str]) -> dict[str, str]:
    return {prefix + name: role for name, role in roles.items()}


ROLES: dict[str, tuple[Callable[..., Any], dict[str, str], dict[str, str]]] = {  # make, in layers, outside
    "norm behind": (models.normed_behind, under("layers.1.", {
        **BLOCK, "attn.o.weight": "hidden", "mlp.down.weight": "hidden", "mlp.down.bias": "bias",
        "after_attn.weight": "gain", "after_mlp.weight": "gain"}),
        {"emb.weight": "input", "norm.weight": "gain", "head.weight": "output"}),
    "from zero": (models.ZeroNet, under("blocks.0.", {
        "qkv": "hidden", "lambdas": "stream factor", "o.weight": "branch output", "a.weight": "hidden",
        "b.weight": "branch output"}), {"emb.weight": "input", "head.weight": "output"}),
    "times sqrt(n)": (models.Gemma, under("h.1.", {**BLOCK, **LAST, "n1.weight": "gain", "n2.weight": "gain"}),
                      {"embed.weight": "tied", "norm.weight": "gain"}),
    "alternating": (models.Alternating, under("layers.", {
        "0.0.weight": "gain", "0.0.bias": "bias", "1.0.weight": "gain", "2.1.q.weight": "hidden",
        "2.1.o.weight": "branch output", "3.1.gate.weight": "router", "3.1.up": "expert", "3.1.down": "expert"}),
        {"emb.weight": "input", "pos": "input", "norm.bias": "bias", "out.weight": "output", "out.bias": "bias"}),
    "mixer": (models.Mixer, under("blocks.1.", {
        "n1.weight": "gain", "tokens.weight": "branch output", "tokens.bias": "bias", "up.weight": "hidden",
        "down.weight": "branch output", "gamma1": "branch scale", "gamma2": "branch scale"}),
        {"patch.weight": "input", "patch.bias": "bias", "head.weight": "output", "head.bias": "bias"}),
    "encoder and decoder": (models.EncoderDecoder, {
        **under("encoder.1.", {**BLOCK, **LAST}), **under("decoder.0.", {**BLOCK, **LAST}),
        **under("decoder.1.", {"q.weight": "hidden", "kv.weight": "hidden", "o.weight": "branch output"})},
        {"emb.weight": "input", "middle.weight": "gain", "head.weight": "output"})}


@pytest.mark.parametrize("name", ROLES)
def test_roles_and_claims(name: str) -> None:
    make, inside, outside = ROLES[name]
    found = tpt.read(make, BASE, TARGET)
    assert {one: found.role(one).kind for one in {**inside, **outside}} == {**inside, **outside}
    assert all(found.role(one).in_layers for one in inside) and not any(found.role(one).in_layers for one in outside)
    assert len(found.claims) >= 4 and all(claim.holds for claim in found.claims)
    assert f"{len(found.claims)} of {len(found.claims)} hold" in str(found)


def test_a_norm_is_a_norm_however_small_its_input() -> None:
    """eps is 7000 times the mean square of what OLMo 2's norms get from tiny activations."""
    found = tpt.read(models.normed_behind, BASE)
    assert all(one.norm for one in found.branches)
    plan = tpt.plan(models.normed_behind, BASE, TARGET)
    assert plan.multipliers() == pytest.approx({"layers.*.after_attn": 2**-0.5, "layers.*.after_mlp": 2**-0.5})
    assert plan.entry("layers.3.mlp.down.weight").factor("lr") == plan.entry("layers.3.mlp.up.weight").factor("lr")


def test_a_gain_that_is_one_plus_w_carries_no_multiplier() -> None:
    class Scaled(usual.ResMLP):  # type: ignore[misc,name-defined]
        def __init__(self, depth: int, n: int = 16) -> None:
            super().__init__(depth, n)
            self.scales = nn.ModuleList(OnePlus(n) for _ in range(depth))

        def forward(self, x: Any) -> Any:
            x = self.read_in(x)
            for scale, layer in zip(self.scales, self.layers):
                x = x + scale(torch.tanh(layer(x)))
            return self.out(x)

    class OnePlus(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, n: int) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.zeros(n))

        def forward(self, x: Any) -> Any:
            return x * (1 + self.w)

    plan = tpt.plan(Scaled, dict(depth=2), dict(depth=8))
    assert plan.multipliers() == {"scales.*": 0.5} and plan.entry("scales.3.w").factor("init") == 1
    assert plan.entry("scales.3.w").power("lr") == "L^(-1/2)"


def test_matrices_that_start_at_zero_are_ends() -> None:
    plan = tpt.plan(models.ZeroNet, BASE, TARGET)
    for last, other in (("o.weight", "qkv"), ("b.weight", "a.weight")):
        rate = [plan.entry(f"blocks.3.{name}").factor("lr") for name in (last, other)]
        assert rate[0] / rate[1] == pytest.approx(2**-0.5)
    assert plan.entry("blocks.0.lambdas").power("lr") == "L^(-1)" and not plan.multipliers()


def test_what_the_forward_pass_multiplies_by_is_not_counted_twice() -> None:
    """Gemma's embedding times sqrt(n), which is also the head."""
    plan = tpt.plan(models.Gemma, BASE, TARGET)
    entry = plan.entry("embed.weight")
    assert entry.factor("init") == pytest.approx(2**-0.5) and plan.multipliers() == pytest.approx({"": 2**-0.5})
    assert plan.reading is not None
    enters, = [claim.measured for claim in plan.reading.claims if claim.statement.startswith("what enters")]
    assert enters == pytest.approx(1, rel=0.2)


@pytest.mark.parametrize("how", ["product", "alpha", "quotient", "tensor", "in front", "on the matrix",
                                 "in the module"])
def test_a_multiplier_of_branches_that_the_model_has_is_taken_back(how: str) -> None:
    """Depth-muP's m = L^(-1/2) in the forward pass, however it is written: nothing is left for matrices to carry."""
    class Scaled(usual.ResMLP):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            x, m = self.read_in(x), len(self.layers)**-0.5
            for first, act, last in self.layers:
                h = act(first(x))
                x = {"product": lambda: x + m * last(h), "alpha": lambda: torch.add(x, last(h), alpha=m),
                     "quotient": lambda: x + last(h) / math.sqrt(len(self.layers)),
                     "tensor": lambda: x + torch.tensor(m) * last(h), "in front": lambda: x + last(h * m),
                     "on the matrix": lambda: x + F.linear(h, last.weight * m),
                     "in the module": lambda: x + (last(h) * m).view(x.shape)}[how]()
            return self.out(x)

    plan = tpt.plan(Scaled, dict(depth=2), dict(depth=8))
    last, first = plan.entry("layers.7.2.weight"), plan.entry("layers.7.0.weight")
    for setting in ("init", "lr", "eps"):
        assert last.factor(setting) == pytest.approx(first.factor(setting)), (setting, last)


def test_experts_and_routers_have_powers_of_their_own() -> None:
    plan = tpt.plan(models.Alternating, BASE, TARGET)
    router, up, down = (plan.entry(f"layers.7.1.{name}") for name in ("gate.weight", "up", "down"))
    assert router.factor("init") == 0.5 and router.power("lr") == "L^(-1/2) n^(-1)"
    assert up.factor("init") == pytest.approx(2**-0.5) and down.factor("init") == pytest.approx(0.5)
    other = plan.entry("layers.6.1.o.weight")
    assert {name: down.factor(name) for name in ("init", "lr", "eps")} == pytest.approx(
        {name: other.factor(name) for name in ("init", "lr", "eps")})


def test_fan_in_and_fan_out_grow_by_themselves() -> None:
    """An MLP whose hidden width grows less than the stream: LLaMA 7B to 13B in small."""
    def make(depth: int, n: int, hidden: int) -> Any:
        model = usual.ResMLP(depth, n)
        for layer in model.layers:
            layer[0], layer[2] = nn.Linear(n, hidden, bias=False), nn.Linear(hidden, n, bias=False)
        return model

    plan = tpt.plan(make, dict(depth=2, n=16, hidden=40), dict(depth=2, n=32, hidden=60))
    first, last = (plan.entry(f"layers.1.{i}.weight") for i in (0, 2))
    assert [first.factor(name) for name in ("init", "lr", "eps")] == pytest.approx([1.5**0.5 / 2, 1 / 2, 1 / 1.5])
    assert [last.factor(name) for name in ("init", "lr", "eps")] == pytest.approx([1.5**-0.5, 1 / 1.5, 1 / 2])
    assert "fan-in" in first.power("lr") and tpt.plan(
        make, dict(depth=2, n=16, hidden=40), dict(depth=2, n=32, hidden=80)).entry("layers.0.0.weight").power(
            "init") == "n^(-1/2)"


class Counted(usual.ResMLP):  # type: ignore[misc,name-defined]
    """A vector whose axis counts layers, as nanochat's."""

    def __init__(self, depth: int, n: int = 16) -> None:
        super().__init__(depth, n)
        self.scales = nn.Parameter(torch.ones(depth))

    def forward(self, x: Any) -> Any:
        x = self.read_in(x)
        for scale, layer in zip(self.scales, self.layers):
            x = x + scale * torch.tanh(layer(x))
        return self.out(x)


def test_an_axis_that_counts_layers_is_no_width() -> None:
    plan = tpt.plan(Counted, dict(depth=2, n=16), dict(depth=4, n=32))
    entry = plan.entry("scales")
    assert (entry.parameter.role, entry.power("lr"), entry.power("eps")) == ("branch scale", "L^(-1)", "1")
    with pytest.raises(tp.NotCovered, match="^tanh|^function tanh|tanh"):
        tpt.plan(Spoilt, dict(depth=2, how="bounded"), dict(depth=4, how="bounded"))


class Spoilt(usual.ResMLP):  # type: ignore[misc,name-defined]
    """A residual MLP with one thing that is not what it seems."""

    def __init__(self, depth: int, n: int = 16, how: str = "") -> None:
        super().__init__(depth, n)
        self.how = how
        if how == "gate":
            self.gate = nn.Linear(n, n)
        if how == "merged":
            self.down = nn.ParameterList(torch.randn(4, n) for _ in range(depth))
            self.up = nn.ParameterList(torch.randn(n, 4) for _ in range(depth))
        if how == "post-norm":
            self.norm = nn.LayerNorm(n)

    def forward(self, x: Any) -> Any:
        x = self.read_in(x)
        for i, layer in enumerate(self.layers):
            y = layer(x)
            if self.how == "gate":
                z = torch.sigmoid(self.gate(x))
                x = z * x + (1 - z) * y
            elif self.how == "bounded":
                x = x + torch.tanh(y)
            elif self.how == "merged":
                h = F.relu(layer[0](x))
                x = x + F.linear(h, layer[2].weight + self.up[i] @ self.down[i])
            elif self.how == "post-norm":
                x = self.norm(x + y)
            elif self.how == "damped":
                x = 0.9 * x + y
            elif self.how == "shared":
                x = x + self.layers[0](x)
            elif self.how == "sequential":
                x = y
        return self.out(x)


@pytest.mark.parametrize("how, message", [
    ("gate", "^mul in the model: changes the"), ("bounded", "tanh; add in"), ("merged", "activations; add in"),
    ("post-norm", "^native_layer_norm in norm: changes the"), ("damped", "^mul in the model: changes the"),
    ("shared", "^layers.0.0.weight: got hidden, shared by several"), ("sequential", "nothing is added to a residual")])
def test_what_is_not_covered_is_refused_with_its_operation(how: str, message: str) -> None:
    with pytest.raises(tp.NotCovered, match=message):
        tpt.plan(Spoilt, dict(depth=2, how=how), dict(depth=4, how=how))


class Heads(usual.GPT):  # type: ignore[misc,name-defined]
    """A head after each layer; the outputs are their sum."""

    def __init__(self, n_layer: int) -> None:
        super().__init__(n_layer, 16)
        self.heads = nn.ModuleList(nn.Linear(16, 17) for _ in range(n_layer))
        del self.lm_head

    def forward(self, tokens: Any) -> Any:
        x, total = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])), 0.0
        for block, head in zip(self.h, self.heads):
            x = block(x)
            total = total + head(self.ln_f(x))
        return total


def test_more_heads_are_no_layers() -> None:
    with pytest.raises(tp.NotCovered, match=r"^heads.\*.weight: got output, in no layer"):
        tpt.plan(Heads, dict(n_layer=2), dict(n_layer=4))


def test_post_norm_is_planned_in_width() -> None:
    plan = tpt.plan(Spoilt, dict(depth=2, how="post-norm"), dict(depth=2, n=32, how="post-norm"))
    assert plan.entry("layers.0.0.weight").factor("lr") == 0.5
    plan = tpt.plan(Spoilt, dict(depth=2, how="shared"), dict(depth=2, n=32, how="shared"), unknown="as-base")
    assert plan.entry("layers.1.0.weight").power("lr") == "1"
    assert any(note.startswith("layers.1.0.weight: unused, not understood") for note in plan.notes)


def network() -> Any:
    return building.network_of(models.normed_behind, dict(depth=2))


def plain() -> Any:
    return building.network_of(usual.ResMLP, dict(depth=3, n=16))


def ends_of(found: Any) -> dict[tuple[int, int], Any]:
    return {(stream.index, branch.index): branch.ends for stream, branch in found.branches}


def failing(found: Any, ends: dict[tuple[int, int], Any] | None = None) -> set[str]:
    return {claim.statement.split(" (")[0] for claim in claims.claims_of(found, ends or ends_of(found))
            if not claim.holds}


def test_every_end_that_is_dropped_makes_a_claim_fail() -> None:
    for make in (models.EncoderDecoder, models.Mixer, models.Alternating, models.ZeroNet):
        found = building.network_of(make, dict(depth=2))
        ends = ends_of(found)
        assert not failing(found)
        for key, one in ends.items():
            for use in one.carriers if one.ways != ("stream",) else []:
                left = replace(one, uses=tuple(other for other in one.carriers if other is not use))
                assert failing(found, {**ends, key: left}), (make.__name__, use.parameter)


def test_each_kind_of_claim_fails_on_a_model_that_is_misread() -> None:
    found = plain()
    assert not failing(found)
    values = found.tape.values
    written = dict(values)
    values[found.tape.output] = values[found.tape.output] * 2  # as if something had not been recorded
    assert failing(found) == {"the tape run again gives the output"}
    values.update(written)
    ends = ends_of(found)
    first = next(use for use in found.uses if use.how == "matrix" and found.place(use).part == "branch")
    wrong = {key: replace(one, uses=(first,)) for key, one in ends.items()}
    assert failing(found, wrong) == {"a branch halves with its ends", "a branch vanishes with its ends",
                                     "with ends at zero, the stream moves by nothing but its norms and factors"} - {
        "a branch halves with its ends", "a branch vanishes with its ends"}  # relu is of degree one: other layers tell
    normed = network()
    for norm in list(normed.norms.values()):  # eps enlarged: as the model computes it, nothing is normalized
        op = norm.op
        assert claims.takes_scale_away(normed, norm).holds
        assert not claims.takes_scale_away(normed, replace(norm, x=op.inputs[1])).holds
    empty = replace(next(iter(ends.values())), uses=(), norm=-1)
    assert "a branch ends in parameters" in failing(found, {key: empty for key in ends})


def test_an_eps_that_rules_is_no_norm() -> None:
    class Eps(usual.ResMLP):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            x = self.read_in(x)
            for layer in self.layers:
                y = layer(x)
                x = x + y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e12)
            return self.out(x)

    with pytest.raises(tp.NotCovered, match="^mul in the model: .*a norm takes a scale away"):
        tpt.read(Eps, dict(depth=2))


def test_roles_that_are_given_are_tested_too() -> None:
    with pytest.raises(tp.NotCovered, match="does not hold that"):
        tpt.read(models.EncoderDecoder, BASE, roles={"decoder.*.mlp.down.weight": "matrix"})
    with pytest.raises(ValueError, match="^roles: got 'nothing'"):
        tpt.read(models.Gemma, BASE, roles={"nothing": "gain"})
    found = tpt.read(models.Alternating, BASE, TARGET, roles={"*.gate.weight": "hidden"})
    assert found.role("layers.1.1.gate.weight").kind == "hidden"


def test_a_constant_that_grows_and_was_not_seen_makes_a_claim_fail() -> None:
    class Hidden(usual.ResMLP):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            x = self.read_in(x) ** 1
            x = torch.lerp(torch.zeros_like(x), x, float(x.shape[-1]))  # n times, by no product
            for layer in self.layers:
                x = x + layer(x)
            return self.out(x)

    with pytest.raises(tp.NotCovered, match="^stream 0; lerp in .* what enters the layers .*measured (1.[5-9]|2)"):
        tpt.plan(Hidden, dict(depth=2, n=32), dict(depth=2, n=64))


def test_readings_are_explained() -> None:
    plan = tpt.plan(models.Gemma, BASE, TARGET)
    text = plan.explain("h.*.mlp.down.weight")
    for part in ("branch output, a layer", "addmm in h.0.mlp.down", "yes a branch halves with its ends", "lr: L^(-1)"):
        assert part in text, text
    with pytest.raises(ValueError, match="^pattern: got 'x'"):
        plan.explain("x")


def test_two_models_for_a_function() -> None:
    small, large = models.Mixer(**BASE), models.Mixer(**TARGET)
    plan, other = tpt.plan(small, large), tpt.plan(models.Mixer, BASE, TARGET)
    assert [(one.powers, one.growth) for one in plan.entries] == [(one.powers, one.growth) for one in other.entries]
    with pytest.raises(ValueError, match="^target: got None"):
        tpt.plan(models.Mixer, large)


class Wide(nn.Module):  # type: ignore[misc,name-defined]
    """Too large for values: only the meta device holds it."""

    def __init__(self, depth: int, n: int) -> None:
        super().__init__()
        self.emb, self.head = nn.Embedding(50000, n), nn.Linear(n, 50000, bias=False)
        self.h = nn.ModuleList(models.GemmaBlock(n) for _ in range(depth))
        self.scale = torch.tensor(math.sqrt(n))

    def forward(self, tokens: Any) -> Any:
        x = self.emb(tokens) * self.scale
        for block in self.h:
            x = block(x)
        return self.head(x)


def test_large_models_are_read_without_values() -> None:
    found = tpt.read(Wide, dict(depth=2, n=512), dict(depth=3, n=1024))
    assert len(found.claims) == 4 and all(claim.holds for claim in found.claims)
    assert found.role("emb.weight").forward == pytest.approx(2**0.5)


def blocks_under_checkpoint(model: Any) -> Any:
    for block in model.h:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    return model


def under_names(model: Any) -> Any:
    """Names as FSDP gives them."""
    return nn.ModuleDict({"_fsdp_wrapped_module": model})["_fsdp_wrapped_module"]


WAYS: dict[str, Callable[[Any], Any]] = {
    "compiled": lambda model: torch.compile(model, backend="eager"), "checkpoint": blocks_under_checkpoint,
    "bfloat16": lambda model: model.bfloat16(), "wrapped": under_names}


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
@pytest.mark.parametrize("way", WAYS)
def test_however_a_model_is_run_its_plan_is_the_same(way: str) -> None:
    base, target = dict(n_layer=2, n=16), dict(n_layer=4, n=32)
    plain = tpt.plan(usual.GPT, base, target)
    other = tpt.plan(lambda **sizes: WAYS[way](usual.GPT(**sizes)), base, target)
    assert [(one.parameter.pattern, one.powers, one.growth) for one in other.entries] == [
        (one.parameter.pattern, one.powers, one.growth) for one in plain.entries]
    wrapped = "_fsdp_wrapped_module.h.0.mlp._checkpoint_wrapped_module.2.weight"
    assert plain.entry(wrapped) is plain.entry("h.0.mlp.2.weight")


class Stops(usual.GPT):  # type: ignore[misc,name-defined]
    """A forward pass that asks for values."""

    def forward(self, tokens: Any) -> Any:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
            if x.detach().norm() > 1e9:
                break
        return self.lm_head(self.ln_f(x))


def test_early_exits_are_those_of_the_batch() -> None:
    plan, plain = (tpt.plan(make, dict(n_layer=2), dict(n_layer=4)) for make in (Stops, usual.GPT))
    assert [(one.powers, one.growth) for one in plan.entries] == [(one.powers, one.growth) for one in plain.entries]


def test_quantised_matrices_are_no_ends() -> None:
    """As those of bitsandbytes: whole numbers and a scale for them, which are no parameters."""
    class Quantised(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, weight: Any) -> None:
            super().__init__()
            self.register_buffer("whole", (weight * 64).round().to(torch.int8))

        def forward(self, x: Any) -> Any:
            return F.linear(x, self.whole.float() / 64)

    def make(depth: int) -> Any:
        model = usual.ResMLP(depth, 16)
        for layer in model.layers:
            layer[2] = Quantised(layer[2].weight.detach())
        return model

    with pytest.raises(tp.NotCovered, match="^activations; add in the model: .* ends in parameters; expected branches"):
        tpt.plan(make, dict(depth=2), dict(depth=4))


class Reversible(nn.Module):
    """A stream of two halves, each of which adds a function of the other (RevNet)."""

    def __init__(self, depth: int, n: int = 32) -> None:
        super().__init__()
        self.a, self.z = nn.Linear(3, n), nn.Linear(n, 1)
        self.layers = nn.ModuleList(nn.ModuleList(nn.Sequential(
            nn.Linear(n // 2, n // 2), nn.ReLU(), nn.Linear(n // 2, n // 2)) for _ in range(2)) for _ in range(depth))

    def forward(self, x: Any) -> Any:
        x = self.a(x)
        for f, g in self.layers:
            one, other = x.chunk(2, -1)
            one = one + f(other)
            x = torch.cat([one, other + g(one)], -1)
        return self.z(x)


def test_matrices_of_layers_in_no_branch_are_refused() -> None:
    """They would keep their settings at any depth."""
    with pytest.raises(tp.NotCovered, match=r"^\w*mm in layers.0.1.0: changes the stream between layers"):
        tpt.plan(Reversible, dict(depth=4), dict(depth=16))
    wider = tpt.plan(Reversible, dict(depth=4), dict(depth=4, n=64))
    assert wider.entry("layers.0.1.2.weight").power("lr") == "n^(-1)"


class Patches(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A class token in front of patches, and a table of positions, as vision transformers have them."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.patch = nn.Linear(6, width)
        self.first, self.where = nn.Parameter(torch.randn(1, 1, width)), nn.Parameter(torch.randn(1, 5, width))
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(),
                                                  nn.Linear(width, width)) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.first.expand(len(x), -1, -1), self.patch(x)], dim=1) + self.where
        for block in self.blocks:
            x = x + block(x)
        return torch.as_tensor(self.head(x[:, 0]))


def test_what_is_added_as_it_is_does_not_decay() -> None:
    """Whatever it is called."""
    plan = tpt.plan(Patches, base=dict(width=16, depth=2), target=dict(width=32, depth=4), batch=torch.randn(2, 4, 6))
    model = Patches(32, 4)
    names = {id(value): name for name, value in model.named_parameters()}
    decays = {names[id(value)]: group["weight_decay"] for group in plan.groups(model, lr=1e-3, weight_decay=0.1)
              for value in group["params"]}
    assert decays["first"] == decays["where"] == 0 and decays["patch.weight"] == 0.1
