"""Plans of mixtures of experts: the table of powers of n, m, E and k, of stacks and of lists, and of three models."""

from __future__ import annotations

import math
from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import tpcalc as tp  # noqa: E402
import tpcalc.torch as tpt  # noqa: E402

BASE = dict(depth=2, n=16, m=8, E=8, k=2)
WORDS = 32


def perceptron(n: int, m: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n, m, bias=False), nn.SiLU(), nn.Linear(m, n, bias=False))


class MoE(nn.Module):
    """Stacks of experts, all run on everything and weighed; gates: shares, of all or sigmoids."""

    def __init__(self, n: int, m: int, E: int, k: int, gates: str = "shares", shared: bool = False) -> None:
        super().__init__()
        self.k, self.gates = k, gates
        self.router = nn.Linear(n, E, bias=False)
        self.up, self.down = (nn.Parameter(torch.randn(E, *shape) / math.sqrt(shape[1])) for shape in ((m, n), (n, m)))
        self.shared = perceptron(n, m) if shared else None

    def chosen(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.router(x)
        if self.gates == "softmax behind":
            weight, which = logits.topk(self.k)
            return weight.softmax(-1), which
        weight, which = (logits.sigmoid() if self.gates == "sigmoid" else logits.softmax(-1)).topk(self.k)
        return (weight / (weight.sum(-1, keepdim=True) + 1e-20) if self.gates == "shares" else weight), which

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        weight, which = self.chosen(rows)
        every = torch.zeros(len(rows), len(self.up), dtype=x.dtype).scatter(1, which, weight)
        hidden = F.silu(torch.einsum("bn,emn->ebm", rows, self.up))
        y = (torch.einsum("ebm,enm->ebn", hidden, self.down) * every.T[..., None]).sum(0).view(x.shape)
        return y if self.shared is None else y + self.shared(x)


class Listed(nn.Module):
    """Experts as modules, each run on the vectors that chose it, as models were first written."""

    def __init__(self, n: int, m: int, E: int, k: int) -> None:
        super().__init__()
        self.k, self.router = k, nn.Linear(n, E, bias=False)
        self.experts = nn.ModuleList(perceptron(n, m) for _ in range(E))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        weight, which = self.router(rows).softmax(-1).topk(self.k)
        weight = weight / weight.sum(-1, keepdim=True)
        y = torch.zeros_like(rows)
        for e, expert in enumerate(self.experts):
            row, position = torch.where(which == e)
            if len(row):
                y.index_add_(0, row, expert(rows[row]) * weight[row, position, None])
        return y.view(x.shape)


class Weighed(Listed):
    """Each is run on everything and weighed, and a shared one is beside them."""

    def __init__(self, n: int, m: int, E: int, k: int) -> None:
        super().__init__(n, m, E, k)
        self.shared = perceptron(n, m)

    def forward(self, x: Tensor) -> Tensor:
        weight, which = self.router(x).topk(self.k)
        gates = torch.zeros(*x.shape[:-1], len(self.experts), dtype=x.dtype).scatter(-1, which, weight.softmax(-1))
        return torch.stack([gates[..., e:e + 1] * expert(x) for e, expert in enumerate(self.experts)]).sum(0) + (
            self.shared(x))


class Model(nn.Module):
    def __init__(self, depth: int, n: int, m: int, E: int, k: int, block: Callable[..., nn.Module] = MoE, **options: Any
                 ) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, n), nn.Linear(n, WORDS, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(n) for _ in range(depth))
        self.layers = nn.ModuleList(block(n, m, E, k, **options) for _ in range(depth))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.head(x)


def factors(optimizer: str, grown: dict[str, float], **options: Any) -> dict[str, dict[str, float]]:
    """By matrix R, W1 and W2 the factors of a plan for a model in which these are so many times as large."""
    target = {**BASE, **{name: int(BASE[name] * factor) for name, factor in grown.items()}}
    plan = tpt.plan(lambda **sizes: Model(**sizes, **options), BASE, target, optimizer=optimizer)
    entries = {"R": "layers.1.router.weight", "W1": "layers.1.up", "W2": "layers.1.down"}
    return {name: {setting: plan.entry(own).factor(setting) for setting in ("init", "lr", "eps")}
            for name, own in entries.items()}


# MATH: initial sizes and rates, as powers of n, m, E and k, of gates that are shares of those that act.
RATES = {"adamw": {"R": dict(n=-1), "W1": dict(n=-1), "W2": dict(m=-1)},
         "sgd": {"R": dict(E=1, n=-1), "W1": dict(E=1, m=1, n=-1), "W2": dict(n=1, E=1, m=-1)},
         "muon": {"R": dict(E=0.5, n=-0.5), "W1": dict(m=0.5, n=-0.5), "W2": dict(n=0.5, m=-0.5)}}
FIRST = {"R": dict(k=0.5, n=-1), "W1": dict(k=0.5, m=0.5, n=-1), "W2": dict(k=0.5, m=-0.5)}  # k m grows as n at most
DIRECTIONS = [dict(n=4), dict(n=4, k=2), dict(n=4, m=2), dict(n=4, m=2, E=2, k=2), dict(E=4), dict(k=2, E=2, n=2),
              dict(n=8, m=2, E=4, k=2)]


@pytest.mark.parametrize("grown", DIRECTIONS, ids=str)
@pytest.mark.parametrize("optimizer", RATES)
def test_powers_are_those_of_the_table(optimizer: str, grown: dict[str, int]) -> None:
    found = factors(optimizer, grown)
    for name, entry in found.items():
        for setting, table in (("lr", RATES[optimizer]), ("init", FIRST)):
            known = math.prod(grown.get(size, 1)**power for size, power in table[name].items())
            assert entry[setting] == pytest.approx(known), (name, setting)


def test_granularity_is_neutral_and_more_that_act_are_as_large_at_first() -> None:
    """k to r k, m to m / r: initial sizes and rates of W1 stay, those of W2 go with r."""
    finer = factors("adamw", dict(m=0.5, k=2, E=2))
    assert finer["W1"] == pytest.approx({"init": 1, "lr": 1, "eps": 1}) and finer["W2"]["lr"] == pytest.approx(2)
    assert finer["W2"]["init"] == pytest.approx(2) and finer["R"]["lr"] == 1
    assert factors("adamw", dict(k=2))["W2"]["init"] == pytest.approx(2**0.5)


@pytest.mark.parametrize("gates, init, lr", [("shares", 0.5, 0), ("softmax behind", 0.5, 0), ("sigmoid", -0.5, -1)])
def test_gates_are_read(gates: str, init: float, lr: float) -> None:
    """Powers of k: sigmoids are of order one by themselves, so that W2 is what gates of order one are in front of."""
    found = factors("adamw", dict(k=2), gates=gates)["W2"]
    assert (found["init"], found["lr"]) == pytest.approx((2**init, 2**lr))
    assert factors("adamw", dict(E=2), gates=gates)["W2"]["init"] == pytest.approx(1)


@pytest.mark.parametrize("grown", [dict(k=2), dict(E=2), dict(E=4, k=2)], ids=str)
def test_a_softmax_of_what_was_chosen_has_shares_of_those_that_act(grown: dict[str, int]) -> None:
    """The others are put out of it by logits of minus infinity."""
    class Masked(MoE):
        def forward(self, x: Tensor) -> Tensor:
            logits = self.router(x)
            least = logits.topk(self.k).values[..., -1:]
            gates = logits.masked_fill(logits < least, -math.inf).softmax(-1)
            hidden = F.silu(torch.einsum("btn,emn->btem", x, self.up))
            return (torch.einsum("btem,enm->bten", hidden, self.down) * gates[..., None]).sum(-2)

    assert factors("adamw", grown, block=Masked) == factors("adamw", grown)


def test_weights_of_experts_that_are_not_read_are_refused() -> None:
    """A softmax by hand: as a width, the number of experts would have powers of its own."""
    class ByHand(MoE):
        def forward(self, x: Tensor) -> Tensor:
            weight = self.router(x).exp()
            hidden = F.silu(torch.einsum("btn,emn->btem", x, self.up))
            every = torch.einsum("btem,enm->bten", hidden, self.down)
            return (every * (weight / weight.sum(-1, keepdim=True))[..., None]).sum(-2)

    with pytest.raises(tp.NotCovered, match="router.weight: got as many outputs as layers.0.down has matrices, whose "
                                            "number grows"):
        factors("adamw", dict(E=2), block=ByHand)
    assert factors("adamw", dict(m=2), block=ByHand)["W2"]["lr"] == pytest.approx(0.5)


class Gathered(MoE):
    """Every vector has the matrices that it chose, and is multiplied with them."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        weight, which = self.chosen(rows)
        hidden = F.silu(torch.einsum("bkmn,bn->bkm", self.up[which], rows))
        return (torch.einsum("bknm,bkm->bkn", self.down[which], hidden) * weight[..., None]).sum(1).view(x.shape)


class Batched(MoE):
    """The same, as transformers has it: a row for every vector and expert."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        weight, which = self.chosen(rows)
        ids = which.reshape(-1)
        hidden = F.silu(torch.bmm(self.up[ids], rows.repeat_interleave(self.k, dim=0)[..., None]).squeeze(-1))
        out = torch.bmm(self.down.index_select(0, ids), hidden[..., None]).squeeze(-1) * weight.reshape(-1)[:, None]
        return out.view(len(rows), self.k, -1).sum(1).view(x.shape)


@pytest.mark.parametrize("block", [Gathered, Batched])
def test_gathered_matrices_compute_what_stacks_do(block: type[MoE]) -> None:
    torch.manual_seed(0)
    one, other = MoE(8, 4, 6, 2), block(8, 4, 6, 2)
    other.load_state_dict(one.state_dict())
    x = torch.randn(2, 3, 8)
    assert torch.allclose(one(x), other(x), atol=1e-6)


@pytest.mark.parametrize("block", [Gathered, Batched])
@pytest.mark.parametrize("optimizer", RATES)
@pytest.mark.parametrize("grown", [dict(n=4), dict(n=4, m=2, E=2, k=2), dict(E=4), dict(k=2), dict(m=2)], ids=str)
def test_stacks_that_vectors_gather_have_the_same_powers(block: type[MoE], optimizer: str, grown: dict[str, int]
                                                         ) -> None:
    assert factors(optimizer, grown, block=block) == factors(optimizer, grown)


@pytest.mark.parametrize("gates", ["softmax behind", "sigmoid", "all"])
def test_gates_of_gathered_matrices_are_read(gates: str) -> None:
    for grown in (dict(k=2), dict(E=2)):
        assert factors("adamw", grown, gates=gates, block=Gathered) == factors("adamw", grown, gates=gates)


def test_matrices_that_are_gathered_by_a_mask_are_refused() -> None:
    """Places in a mask are no numbers of experts that a choice has made."""
    class Masked(MoE):
        def forward(self, x: Tensor) -> Tensor:
            rows = x.reshape(-1, x.shape[-1])
            weight, which = self.chosen(rows)
            row, expert = torch.zeros(len(rows), len(self.up)).scatter(1, which, weight).nonzero().unbind(1)
            hidden = F.silu(torch.einsum("smn,sn->sm", self.up[expert], rows[row]))
            return torch.zeros_like(rows).index_add(0, row, torch.einsum("snm,sm->sn", self.down[expert], hidden)
                                                    ).view(x.shape)

    with pytest.raises(tp.NotCovered, match="up: got matrices that are gathered by what layers.0.router.weight chose"):
        factors("adamw", dict(E=2), block=Masked)


def test_layers_of_gathered_matrices_are_counted() -> None:
    deep = {**BASE, "depth": 8}
    one, other = (tpt.plan(lambda **sizes: Model(**sizes, block=block), BASE, deep) for block in (MoE, Gathered))
    for name in ("router.weight", "up", "down"):
        assert one.entry(f"layers.7.{name}").powers == other.entry(f"layers.7.{name}").powers


def test_tables_that_data_choose_from_are_none() -> None:
    """Matrices that tokens look up, and not a choice by size."""
    class Looked(Model):
        def __init__(self, **sizes: Any) -> None:
            super().__init__(**sizes, block=MoE)
            self.table = nn.Parameter(torch.randn(WORDS, sizes["m"], sizes["n"]))

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.embed(tokens)
            for norm, layer in zip(self.norms, self.layers):
                h = torch.einsum("btmn,btn->btm", self.table[tokens], norm(x))
                x = x + layer(norm(x)) + torch.einsum("btmn,btm->btn", self.table[tokens], h)
            return self.head(x)

    plan = tpt.plan(Looked, BASE, {**BASE, "E": 16}, unknown="as-base")
    assert plan.entry("table").parameter.role not in ("expert", "hidden", "branch output")


def test_the_largest_is_chosen_where_it_is_said_which_one_it_is() -> None:
    class Largest(MoE):
        def chosen(self, x: Tensor) -> tuple[Tensor, Tensor]:
            weight, which = self.router(x).softmax(-1).max(-1, keepdim=True)
            return weight, which

    class Softened(MoE):  # all act, and the largest logit is a number beside the others
        def forward(self, x: Tensor) -> Tensor:
            logits = self.router(x)
            weight = (logits - logits.max(-1, keepdim=True).values).exp()
            gates = weight / weight.sum(-1, keepdim=True)
            hidden = F.silu(torch.einsum("btn,emn->btem", x, self.up))
            return (torch.einsum("btem,enm->bten", hidden, self.down) * gates[..., None]).sum(-2)

    def role(block: type[nn.Module]) -> str:
        plan = tpt.plan(lambda **sizes: Model(**sizes, block=block), BASE, {**BASE, "depth": 4})
        return plan.entry("layers.0.router.weight").parameter.role

    assert (role(Largest), role(Softened)) == ("router", "hidden")
    assert factors("sgd", dict(E=2), block=Largest)["W1"]["lr"] == pytest.approx(2)


@pytest.mark.parametrize("optimizer", RATES)
def test_a_softmax_that_weighs_all_of_a_stack_is_a_choice_of_all(optimizer: str) -> None:
    class Soft(MoE):
        def forward(self, x: Tensor) -> Tensor:
            hidden = F.silu(torch.einsum("btn,emn->btem", x, self.up))
            return torch.einsum("btem,enm,bte->btn", hidden, self.down, self.router(x).softmax(-1))

    assert factors(optimizer, dict(n=2, E=2), block=Soft) == factors(optimizer, dict(n=2, E=2, k=2))


@pytest.mark.parametrize("block", [MoE, Listed, Weighed])
def test_what_all_experts_are_read_by_is_none_of_them(block: type[nn.Module]) -> None:
    class Between(nn.Module):
        def __init__(self, n: int, m: int, E: int, k: int) -> None:
            super().__init__()
            self.experts = block(n, m, E, k)
            self.before, self.behind = (nn.Linear(n, n, bias=False) for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            return self.behind(self.experts(self.before(x)))

    plan = tpt.plan(lambda **sizes: Model(**sizes, block=Between), BASE, {**BASE, "depth": 4}, optimizer="sgd")
    assert [plan.entry(f"layers.0.{name}.weight").parameter.role for name in ("before", "behind")] == [
        "hidden", "branch output"]


def test_layers_are_counted_whichever_experts_act() -> None:
    """On few words some experts of the target do not act, and others in other layers."""
    class Alternating(Model):
        def __init__(self, n: int, m: int, **sizes: int) -> None:
            super().__init__(n=n, m=m, block=Listed, **sizes)
            self.between = nn.ModuleList(perceptron(n, n) for _ in self.layers)

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.embed(tokens)
            for norm, first, second in zip(self.norms, self.between, self.layers):
                x = x + first(norm(x))
                x = x + second(norm(x))
            return self.head(x)

    plan = tpt.plan(Alternating, BASE, {**BASE, "E": 64}, batch=torch.arange(24).view(2, 12))
    assert plan.entry("between.1.0.weight").growth["L"] == plan.entry("layers.1.router.weight").growth["L"] == 1


def test_shares_of_all_experts_go_with_their_number() -> None:
    assert factors("adamw", dict(E=2), gates="all")["W2"] == pytest.approx({"init": 2, "lr": 2, "eps": 0.25})


def test_what_a_model_says_of_convention_a() -> None:
    def notes(gates: str) -> str:
        return " ".join(tpt.plan(lambda **sizes: Model(**sizes, gates=gates), BASE, {**BASE, "k": 4}).notes)

    assert "layers.*.down: gates are shares" in notes("shares") and "convention A" in notes("softmax behind")
    assert "convention A" not in notes("sigmoid")


def test_shared_experts_are_hidden_layers() -> None:
    plan = tpt.plan(lambda **sizes: Model(**sizes, shared=True), BASE, {**BASE, "k": 4, "E": 16})
    first, last = (plan.entry(f"layers.0.shared.{i}.weight") for i in (0, 2))
    assert (first.parameter.role, last.parameter.role) == ("hidden", "branch output")
    assert all(entry.factor(setting) == 1 for entry in (first, last) for setting in ("init", "lr", "eps"))
    assert plan.entry("layers.0.down").factor("init") == pytest.approx(2**0.5)


@pytest.mark.parametrize("grown", [dict(n=32, k=4), dict(E=16), dict(n=64, m=16, E=32, k=4)], ids=str)
@pytest.mark.parametrize("block", [Listed, Weighed])
def test_experts_that_are_modules_have_the_powers_of_stacks(block: type[nn.Module], grown: dict[str, int]) -> None:
    """Each is run on the vectors that chose it, or on all of them; their number is that of the router's rows."""
    target = {**BASE, **grown}
    listed, stack = (tpt.plan(lambda **sizes: Model(**sizes, block=one), BASE, target) for one in (block, MoE))
    last = f"experts.{target['E'] - 1}"
    for own, other in (("router.weight",) * 2, (f"{last}.0.weight", "up"), (f"{last}.2.weight", "down")):
        one, two = listed.entry(f"layers.1.{own}"), stack.entry(f"layers.1.{other}")
        assert one.parameter.role == two.parameter.role
        assert [one.factor(s) for s in ("init", "lr", "eps")] == pytest.approx([two.factor(s) for s in (
            "init", "lr", "eps")])


def test_what_chooses_positions_is_no_router() -> None:
    """Scores of words, by a matrix of 4 rows, of which the best words are kept."""
    class Kept(nn.Module):
        def __init__(self, n: int, m: int, E: int, k: int) -> None:
            super().__init__()
            self.scores, self.value, self.out = (nn.Linear(n, size, bias=False) for size in (4, n, n))
            self.k = k

        def forward(self, x: Tensor) -> Tensor:
            best = self.scores(x).sum(-1).topk(self.k, dim=-1)[1]
            mask = torch.zeros(x.shape[:2], dtype=x.dtype).scatter(1, best, 1.0)
            return self.out(F.gelu(self.value(x * mask[..., None])))

    plan = tpt.plan(lambda **sizes: Model(**sizes, block=Kept), BASE, {**BASE, "depth": 4}, roles={
        "layers.*.scores.weight": "fixed matrix"})
    assert [plan.entry(f"layers.0.{name}.weight").parameter.role for name in ("value", "out")] == [
        "hidden", "branch output"]


def test_gates_that_are_not_understood_are_refused_where_experts_grow() -> None:
    class Odd(MoE):
        def chosen(self, x: Tensor) -> tuple[Tensor, Tensor]:
            weight, which = self.router(x).topk(self.k)
            return weight.square().cos(), which

    def make(**sizes: Any) -> nn.Module:
        return Model(**sizes, block=Odd)

    assert tpt.plan(make, BASE, {**BASE, "depth": 4}).entry("layers.0.down").parameter.role == "expert"
    with pytest.raises(tp.NotCovered, match="router.weight: got experts that grow in number by 1, active ones by 2"):
        tpt.plan(make, BASE, {**BASE, "k": 4})
    with pytest.raises(tp.NotCovered, match="with soap, whose steps go with the rank"):
        tpt.plan(lambda **sizes: Model(**sizes), BASE, {**BASE, "k": 4}, optimizer="soap")
    with pytest.raises(tp.NotCovered, match="router.weight: got experts that grow in number by 2, with muon-original"):
        tpt.plan(lambda **sizes: Model(**sizes), BASE, {**BASE, "E": 16}, optimizer="muon-original")


WIDE = dict(depth=1, n=64, m=32, E=8, k=2)
LAST_STEPS = {"R": "layers.0.router.weight", "W1": "layers.0.up", "W2": "layers.0.down"}


def changes(sizes: dict[str, int], plan: Any, seed: int) -> dict[str, float]:
    """By how much the third step of each matrix changes logits, of routers, and what experts make; and how large that
    is before it, "y"."""
    torch.manual_seed(seed)
    model = Model(**sizes)
    groups: Any = model.parameters() if plan is None else plan.apply_(model).parameters()
    groups = groups if plan is None else plan.groups(model, lr=1e-3, eps=1e-14)
    optimizer = torch.optim.AdamW(groups, lr=1e-3, eps=1e-14, weight_decay=0)
    words = torch.randint(0, WORDS, (16, 17), generator=torch.Generator().manual_seed(seed))
    before: dict[str, Tensor] = {}
    for _ in range(3):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        optimizer.zero_grad()
        F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten()).backward()
        optimizer.step()
    after = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(before)
    with torch.no_grad():
        x, layer = model.norms[0](model.embed(words[:, :-1])), model.layers[0]
        found = {"y": layer(x)}
        for name, own in LAST_STEPS.items():
            made = layer.router if name == "R" else layer
            model.load_state_dict(before)
            first = made(x)
            model.load_state_dict({**before, own: after[own]})
            found[name] = made(x) - first
    return {name: float(one.square().mean().sqrt()) for name, one in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("grown", [dict(n=2, m=2), dict(k=4, E=4, m=0.25), dict(n=4, m=2, E=4, k=2)], ids=str)
def test_updates_are_as_large_with_the_plan(grown: dict[str, float]) -> None:
    """Of every matrix; without it they are not. Finer experts are as large with it, and half as large without."""
    target = {**WIDE, **{name: int(WIDE[name] * factor) for name, factor in grown.items()}}
    plan = tpt.plan(lambda **sizes: Model(**sizes), WIDE, target)
    small, planned, plain = ([changes(sizes, one, seed) for seed in range(4)] for sizes, one in (
        (WIDE, None), (target, plan), (target, None)))
    with_it, without = ({name: math.prod(a[name] / b[name] for a, b in zip(found, small))**0.25 for name in small[0]}
                        for found in (planned, plain))
    assert all(0.75 < ratio < 1.35 for ratio in with_it.values()), with_it
    assert max(abs(math.log(ratio)) for ratio in without.values()) > math.log(1.8), without


def configuration(kind: str) -> tuple[Callable[..., Any], dict[str, str]]:
    """A small configuration of transformers, and its names of sizes."""
    transformers = pytest.importorskip("transformers")
    common = dict(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=4, max_position_embeddings=32, pad_token_id=0, num_experts_per_tok=2)
    of = {"Mixtral": dict(num_local_experts=4),
          "Qwen3Moe": dict(num_experts=4, moe_intermediate_size=32, norm_topk_prob=True, head_dim=8),
          "DeepseekV3": dict(n_routed_experts=4, moe_intermediate_size=32, n_group=2, topk_group=2, q_lora_rank=16,
                             kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8,
                             first_k_dense_replace=0)}[kind]
    names = {"n": "hidden_size", "k": "num_experts_per_tok", "m": next(
        (name for name in of if name.startswith("moe")), "intermediate_size"), "E": next(
            name for name in of if name.endswith("experts"))}
    return lambda **sizes: getattr(transformers, f"{kind}Config")(**{**common, **of, **sizes}), names


@pytest.mark.parametrize("kind", ["Mixtral", "Qwen3Moe", "DeepseekV3"])
@pytest.mark.parametrize("optimizer", RATES)
def test_models_of_transformers_have_the_table(kind: str, optimizer: str) -> None:
    make, names = configuration(kind)
    sizes = {"n": 32, "m": 32, "E": 4, "k": 2}
    for grown in (dict(n=4), dict(k=2), dict(E=2), dict(n=4, m=2, E=4, k=2)):
        more = {} if "n" not in grown else dict(num_attention_heads=16, num_key_value_heads=16)
        plan = tpt.plan(make(), make(**{names[s]: sizes[s] * f for s, f in grown.items()}, **more),
                        optimizer=optimizer)
        for name, own in (("R", "gate.weight"), ("W1", "experts.gate_up_proj"), ("W2", "experts.down_proj")):
            entry = plan.entry(f"model.layers.1.mlp.{own}")
            tables = [("lr", RATES[optimizer]), *[("init", FIRST)] * ("k" not in grown or "n" in grown)]
            for setting, table in tables:
                known = math.prod(grown.get(size, 1)**power for size, power in table[name].items())
                assert entry.factor(setting) == pytest.approx(known), (name, setting, grown)
        assert any("convention A" in note for note in plan.notes)
        assert plan.entry("model.layers.1.mlp.experts.down_proj").factor("init") == pytest.approx(
            math.sqrt(grown.get("k", 1) / grown.get("m", 1)))


@pytest.mark.parametrize("how", ["eager", "batched_mm", "grouped_mm"])
def test_products_of_experts_in_transformers_are_one(how: str) -> None:
    """Each with its vectors, matrices gathered by every vector, and vectors in groups."""
    make, _ = configuration("Qwen3Moe")
    base, target = (make(experts_implementation=how, **grown) for grown in (
        {}, dict(num_experts=8, num_experts_per_tok=4, moe_intermediate_size=64, hidden_size=128,
                 num_attention_heads=16, num_key_value_heads=16)))
    plan = tpt.plan(base, target, optimizer="sgd")
    assert base._experts_implementation == how
    for own, init, lr in (("gate.weight", 2**0.5 / 4, 0.5), ("experts.gate_up_proj", 0.5, 1),
                          ("experts.down_proj", 1, 4)):
        entry = plan.entry(f"model.layers.1.mlp.{own}")
        assert (entry.factor("init"), entry.factor("lr")) == pytest.approx((init, lr)), own


def test_large_targets_say_how_many_act() -> None:
    """Without values: what is chosen is read up to where the forward pass asks for one; layers without experts stay."""
    transformers = pytest.importorskip("transformers")
    small = dict(hidden_size=64, moe_intermediate_size=32, intermediate_size=128, num_hidden_layers=6, vocab_size=64,
                 num_attention_heads=4, num_key_value_heads=4, n_routed_experts=16, num_experts_per_tok=2, n_group=4,
                 topk_group=2, q_lora_rank=32, kv_lora_rank=16, first_k_dense_replace=3)
    large = dict(small, hidden_size=1024, moe_intermediate_size=512, intermediate_size=2048, num_hidden_layers=9,
                 num_attention_heads=64, num_key_value_heads=64, num_experts_per_tok=8, n_routed_experts=64)
    plan = tpt.plan(*(transformers.DeepseekV3Config(**sizes) for sizes in (small, large)))
    down, query = (plan.entry(f"model.layers.8.{name}") for name in (
        "mlp.experts.down_proj", "self_attn.q_a_proj.weight"))
    assert (down.growth["k"], down.growth["E"], down.growth["L"]) == (4, 4, 1.5) == (4, 4, query.growth["L"])
    assert not any("without values" in note for note in plan.notes)


@pytest.mark.parametrize("sizes, init, rate, title", [
    (dict(m=32), "L^(-1/2) fan-in^(-1/2)", "L^(-1) fan-in^(-1)", "width of hidden layers alone times 4"),
    (dict(n=64, m=32), "L^(-1/2) n^(-1/2)", "L^(-1) n^(-1)", "width times 4")], ids=["m alone", "both"])
def test_what_grows_is_called_by_its_name(sizes: dict[str, int], init: str, rate: str, title: str) -> None:
    """n is the width of the stream: where that stays, fan-in of experts is not n."""
    plan = tpt.plan(Model, BASE, {**BASE, **sizes})
    down = plan.entry("layers.0.down")
    assert (down.power("init"), down.power("lr")) == (init, rate) and plan.title.endswith(title)
    assert down.factor("init") == pytest.approx(0.5) and down.factor("lr") == pytest.approx(0.25)
