"""Roles, factors and groups from names and shapes: nothing here needs torch."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.groups import find_roles, plan_shapes
from tpcalc.tune.factors import fold, width_growths
from tpcalc.groups.names import Shape
from tpcalc.tune.recipe import named_recipe

Shapes = dict[str, Shape]


def gpt(layers: int, n: int, tied: bool = True) -> Shapes:
    """karpathy/nanoGPT's names and shapes."""
    shapes: Shapes = {"transformer.wte.weight": (65, n), "transformer.wpe.weight": (16, n)}
    for i in range(layers):
        h = f"transformer.h.{i}."
        shapes |= {h + "ln_1.weight": (n,), h + "ln_1.bias": (n,), h + "attn.c_attn.weight": (3 * n, n),
                   h + "attn.c_attn.bias": (3 * n,), h + "attn.c_proj.weight": (n, n), h + "attn.c_proj.bias": (n,),
                   h + "ln_2.weight": (n,), h + "ln_2.bias": (n,), h + "mlp.c_fc.weight": (4 * n, n),
                   h + "mlp.c_fc.bias": (4 * n,), h + "mlp.c_proj.weight": (n, 4 * n), h + "mlp.c_proj.bias": (n,)}
    shapes |= {"transformer.ln_f.weight": (n,), "transformer.ln_f.bias": (n,)}
    return shapes if tied else {**shapes, "lm_head.weight": (65, n)}


def llama(layers: int, n: int, kv: int = 1, head: int = 8) -> Shapes:
    """Names of LLaMA in transformers, with key and value heads that queries share."""
    shapes: Shapes = {"model.embed_tokens.weight": (100, n)}
    for i in range(layers):
        h = f"model.layers.{i}."
        shapes |= {h + "self_attn.q_proj.weight": (n, n), h + "self_attn.k_proj.weight": (kv * head, n),
                   h + "self_attn.v_proj.weight": (kv * head, n), h + "self_attn.o_proj.weight": (n, n),
                   h + "self_attn.q_norm.weight": (head,), h + "mlp.gate_proj.weight": (3 * n, n),
                   h + "mlp.up_proj.weight": (3 * n, n), h + "mlp.down_proj.weight": (n, 3 * n),
                   h + "input_layernorm.weight": (n,), h + "post_attention_layernorm.weight": (n,)}
    return {**shapes, "model.norm.weight": (n,), "lm_head.weight": (100, n)}


def vit(layers: int, n: int) -> Shapes:
    shapes: Shapes = {"cls_token": (1, 1, n), "pos_embed": (1, 17, n), "patch_embed.proj.weight": (n, 3, 4, 4),
                      "patch_embed.proj.bias": (n,)}
    for i in range(layers):
        b = f"blocks.{i}."
        shapes |= {b + "norm1.weight": (n,), b + "attn.qkv.weight": (3 * n, n), b + "attn.proj.weight": (n, n),
                   b + "norm2.weight": (n,), b + "mlp.fc1.weight": (4 * n, n), b + "mlp.fc2.weight": (n, 4 * n)}
    return {**shapes, "norm.weight": (n,), "head.weight": (10, n), "head.bias": (10,)}


TIES = [("transformer.wte.weight", "lm_head.weight")]


def model_of(shapes: Shapes) -> Any:
    """What ``groups`` reads of a model: names, and a value for each."""
    return SimpleNamespace(named_parameters=lambda: [
        (name, SimpleNamespace(name=name, shape=shape)) for name, shape in shapes.items()])


def settings_of(plan: Any, shapes: Shapes, **base: float) -> dict[str, dict[str, float]]:
    """name -> what its group sets; every parameter in exactly one."""
    found = [(p.name, {k: v for k, v in group.items() if k != "params"})
             for group in plan.groups(model_of(shapes), **base) for p in group["params"]]
    assert sorted(name for name, _ in found) == sorted(shapes)
    return dict(found)


def test_completep_groups_of_eleutherai() -> None:
    """EleutherAI/nanoGPT-mup, branch completep, model.py, configure_optimizers, at depth_alpha_exp = 1: lr_scale and
    weight_decay of its five groups, and its one eps."""
    depth, width = 8.0, 4.0
    base, target = gpt(2, 32), gpt(16, 128)
    plan = plan_shapes(base, target, "completep", "adamw", forward="multiplier", ties=TIES)
    lr, decay, eps = 6e-4, 0.1, 1e-12
    for name, found in settings_of(plan, target, lr=lr, weight_decay=decay, eps=eps).items():
        if name in ("transformer.wte.weight", "transformer.wpe.weight"):
            expected = (1.0, decay)
        elif re.search(r"(c_attn|c_fc|c_proj)\.weight$", name):
            expected = (1 / width, decay * width)
        else:
            expected = (1.0, 0.0)
        assert found["lr"] == pytest.approx(lr * expected[0], rel=1e-12)
        assert found["weight_decay"] == pytest.approx(expected[1], rel=1e-12)
        assert found["eps"] == pytest.approx(eps / width / depth, rel=1e-12)
    assert plan.multipliers() == pytest.approx({  # residual_scaling, and mup_output_alpha / mup_width_multiplier
        "transformer.h.*.attn.c_proj": 1 / depth, "transformer.h.*.mlp.c_proj": 1 / depth, "lm_head": 1 / width})


@pytest.mark.parametrize("base, target, expected", [
    (gpt(2, 32), gpt(8, 32), {"transformer.h.*.attn.c_proj.weight": "branch output",
                              "transformer.h.*.attn.c_attn.weight": "hidden", "transformer.ln_f.weight": "gain",
                              "transformer.h.*.mlp.c_proj.weight": "branch output", "transformer.wpe.weight": "input"}),
    (llama(2, 32), llama(4, 64), {"model.layers.*.self_attn.o_proj.weight": "branch output",
                                  "model.layers.*.self_attn.k_proj.weight": "hidden", "lm_head.weight": "output",
                                  "model.layers.*.mlp.down_proj.weight": "branch output",
                                  "model.layers.*.self_attn.q_norm.weight": "gain",
                                  "model.embed_tokens.weight": "input"}),
    (vit(2, 32), vit(6, 64), {"cls_token": "input", "pos_embed": "input", "patch_embed.proj.weight": "input",
                              "blocks.*.attn.proj.weight": "branch output", "head.weight": "output",
                              "blocks.*.mlp.fc2.weight": "branch output", "head.bias": "bias"}),
    ({"read_in.weight": (8, 3), "layers.0.weight": (8, 8), "out.weight": (1, 8), "out.bias": (1,)},
     {"read_in.weight": (8, 3), "layers.0.weight": (8, 8), "layers.1.weight": (8, 8), "out.weight": (1, 8),
      "out.bias": (1,)},
     {"read_in.weight": "input", "layers.*.weight": "branch output", "out.weight": "output"}),
    ({"a.weight": (8, 3), "f1.up.weight": (24, 8), "f1.down.weight": (8, 24), "z.weight": (1, 8)},
     {"a.weight": (8, 3), **{f"f{i}.{k}.weight": s for i in (1, 2, 3) for k, s in (("up", (24, 8)), ("down", (8, 24)))},
      "z.weight": (1, 8)},
     {"a.weight": "input", "f*.down.weight": "branch output", "f*.up.weight": "hidden", "z.weight": "output"})])
def test_roles(base: Shapes, target: Shapes, expected: dict[str, str]) -> None:
    found = {p.pattern: p.role for p in find_roles(base, target).parameters}
    assert {pattern: found[pattern] for pattern in expected} == expected


@pytest.mark.parametrize("name, shape", [
    ("transformer.h.0.moe.router.weight", (4, 32)), ("transformer.h.0.mlp.gate.weight", (4, 32)),
    ("transformer.h.0.mlp.experts.3.w1.weight", (32, 32)), ("transformer.h.0.ls1.gamma", (32,)),
    ("transformer.h.0.alpha", (1,)), ("transformer.h.0.conv.weight", (32, 1, 4)),
    ("transformer.h.0.mixer.A_log", (64, 16)), ("transformer.h.0.attn.rel_pos_table", (31, 4)),
    ("transformer.h.0.w", (4, 32, 32)), ("router.weight", (4, 32))])
def test_what_is_not_understood_is_refused_by_name(name: str, shape: Shape) -> None:
    shapes = [{**gpt(layers, 32), **{name.replace("h.0", f"h.{i}"): shape for i in range(layers)}}
              for layers in (2, 4)]
    pattern = name.replace("h.0", "h.*")
    with pytest.raises(ValueError, match="^" + re.escape(pattern) + ": "):
        plan_shapes(*shapes)


def test_positions_and_class_tokens_do_not_decay() -> None:
    """timm's no_weight_decay; a table of positions that a module looks up decays, as nanoGPT's does."""
    base, target = vit(2, 32), vit(6, 64)
    plan = plan_shapes(base, target)
    found = {name: one["weight_decay"] for name, one in settings_of(plan, target, lr=1e-3, weight_decay=0.1).items()}
    assert found["cls_token"] == found["pos_embed"] == 0 and found["patch_embed.proj.weight"] == 0.1
    shown = {row["pattern"]: "weight_decay" in row for row in plan.rows}
    assert not shown["cls_token"] and not shown["pos_embed"] and shown["patch_embed.proj.weight"]


@pytest.mark.parametrize("name, decays", [("pos", False), ("position_embedding", False), ("positional_embed", False),
                                          ("cls", False), ("post_embed", True), ("clsemb", True)])
def test_positions_are_told_by_whole_words(name: str, decays: bool) -> None:
    """A name that begins as theirs do is another's."""
    base, target = ({**vit(layers, n), name: (1, 17, n)} for layers, n in ((2, 32), (6, 64)))
    found = next(p for p in find_roles(base, target).parameters if p.pattern == name)
    assert (found.role, found.decays) == ("input", decays)


def test_a_head_in_front_of_layers_is_a_head() -> None:
    """Modules are not always made in the order in which they are used."""
    def shapes(n: int, head: str) -> Shapes:
        return {"emb.weight": (9, n), head: (9, n), "h.0.weight": (n, n), "h.1.weight": (n, n)}

    found = {p.pattern: p.role for p in find_roles(shapes(8, "out.weight"), shapes(16, "out.weight")).parameters}
    assert found["out.weight"] == "output" and found["emb.weight"] == "input"
    with pytest.raises(ValueError, match="^z.weight: of shape .*, an embedding or a head by its shape"):
        find_roles(shapes(8, "z.weight"), shapes(16, "z.weight"))


def test_widths_that_differ_and_layers_that_differ_are_refused() -> None:
    odd = gpt(2, 64) | {f"transformer.h.{i}.mlp.c_fc.weight": (512, 64) for i in range(2)}
    with pytest.raises(ValueError, match=r"^transformer.h.\*.mlp.c_fc.weight: dimensions grow by 4 and 2"):
        plan_shapes(gpt(2, 32), odd)
    uneven = gpt(4, 32) | {"transformer.h.3.mlp.c_fc.weight": (64, 32)}
    with pytest.raises(ValueError, match="^transformer.h.3.mlp.c_fc.weight: got layers of one list that differ"):
        plan_shapes(gpt(2, 32), uneven)
    with pytest.raises(ValueError, match="^extra: in one of base and target alone"):
        plan_shapes(gpt(2, 32), gpt(4, 32) | {"extra": (3,)})


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(["sgd", "adam", "adamw", "muon"]), st.sampled_from(["depth-mup", "ode"]),
       st.integers(1, 5), st.integers(1, 9), st.sampled_from([1, 2, 3]), st.booleans())
def test_gauge_and_multiplier_are_one_training(optimizer: str, recipe: str, small: int, large: int, width: int,
                                               tied: bool) -> None:
    """A matrix m W: its gradient is 1/m of W's, its direction 1/m or as large, and the update must be m times W's."""
    base, target = gpt(small, 32, tied), gpt(large, 32 * width, tied)
    one, other = (plan_shapes(base, target, recipe, optimizer, form, ties=TIES if tied else ())
                  for form in ("gauge", "multiplier"))
    for ours, theirs in zip(one.entries, other.entries):
        m = theirs.factor("forward") / ours.factor("forward")
        assert ours.factor("init") == pytest.approx(m * theirs.factor("init"))
        linear = optimizer == "sgd"
        direction = 1 / m if linear else 1.0  # of a gradient 1 / m as large
        assert ours.factor("lr") * direction == pytest.approx(m * theirs.factor("lr"))
        assert ours.factor("lr") * ours.factor("weight_decay") == pytest.approx(
            theirs.factor("lr") * theirs.factor("weight_decay"))
        if ours.optimizer.startswith("adam"):
            assert ours.factor("eps") * m == pytest.approx(theirs.factor("eps"))


def test_width_powers_are_those_of_tensor_programs_v() -> None:
    """Table 3 of Tensor Programs V (arXiv:2203.03466): initial variances 1, 1/n, 1/n^2 and rates of SGD and of Adam."""
    roles = {p.role: p for p in find_roles(gpt(2, 32, False), gpt(2, 64, False)).parameters if p.is_matrix}
    for optimizer, rates in (("sgd", (1, 0, -1)), ("adam", (0, -1, -1))):
        for role, init, rate in zip(("input", "hidden", "output"), (0, -0.5, -1), rates):
            powers = width_growths(roles[role], optimizer, 2.0)[0]
            assert (float(powers.of("init", "n")), powers.of("lr", "n")) == (init, rate)


def test_nothing_changes_at_the_base() -> None:
    plan = plan_shapes(gpt(3, 32), gpt(3, 32), ties=TIES)
    assert {e.factor(name) for e in plan.entries for name in ("init", "lr", "eps", "weight_decay")} == {1.0}
    assert plan.multipliers() == {} and plan.roles.layers.stem == "transformer.h."


def test_settings_that_an_optimizer_does_not_have_are_refused() -> None:
    model = model_of(gpt(4, 32))
    with pytest.raises(ValueError, match="^weight_decay: got 0.1 with adam"):
        plan_shapes(gpt(2, 32), gpt(4, 32), optimizer="adam").groups(model, 1e-3, 0.1)
    with pytest.raises(ValueError, match="^eps: got 1e-08; sgd has none"):
        plan_shapes(gpt(2, 32), gpt(4, 32), optimizer="sgd").groups(model, 1e-3, eps=1e-8)
    with pytest.raises(ValueError, match=r"^model: got odd of shape \(3,\); expected no such parameter"):
        plan_shapes(gpt(2, 32), gpt(4, 32)).groups(model_of({"odd": (3,)}), 1e-3)
    with pytest.raises(ValueError, match="^eps: got 1e-08; lion has none"):
        plan_shapes(gpt(2, 32), gpt(4, 32), optimizer="lion").groups(model, 1e-3, eps=1e-8)
    with pytest.raises(ValueError, match="^optimizer: got 'adagrad'"):
        plan_shapes(gpt(2, 32), gpt(4, 32), optimizer="adagrad")


def test_lions_directions_have_a_fixed_size_as_those_of_adam_without_eps_have() -> None:
    model = model_of(gpt(8, 64))
    lion, adamw = (plan_shapes(gpt(2, 32), gpt(8, 64), optimizer=one) for one in ("lion", "adamw"))
    for one, other in zip(lion.entries, adamw.entries):
        assert [one.power(name) for name in ("init", "lr", "weight_decay", "forward")] == [
            other.power(name) for name in ("init", "lr", "weight_decay", "forward")], one.parameter.pattern
    assert lion.multipliers() == adamw.multipliers()
    groups = lion.groups(model, lr=1e-4, weight_decay=1.0)
    assert not any("eps" in group or "use_muon" in group for group in groups)
    shares = {round(group["lr"] * group["weight_decay"], 12) for group in groups if group["weight_decay"]}
    assert shares == {1e-4}  # what a step's decay takes of a matrix is the base's at any size


def test_forms_of_other_trainers() -> None:
    target = gpt(8, 32)
    plan = plan_shapes(gpt(2, 32), target, ties=TIES)
    read = json.loads(plan.to("json"))
    assert read["depth"] == [2, 8] and len(read["parameters"]) == len(plan.entries)
    for form, key in (("hf", "params"),):
        rules = plan.to(form)
        assert all(sum(re.fullmatch(rule[key], name) is not None for rule in rules) == 1 for name in target)
    with pytest.raises(ValueError, match="^form: got 'nemo', which has one eps"):
        plan.to("nemo")
    nemo = plan_shapes(gpt(2, 32), target, "completep", forward="multiplier", ties=TIES).to("nemo")
    assert nemo["eps_scale"] == 0.25 and {"pattern", "lr_mult", "wd_mult"} == set(nemo["param_group_overrides"][0])
    assert plan.to("megatron")["transformer.h.*.mlp.c_proj.weight"]["lr_mult"] == pytest.approx(0.25)
    assert "transformer.h.*.attn.c_proj.weight" in str(plan) and "global norm" in str(plan)


def test_folding_twice_is_not_asked_for() -> None:
    front = tp.Powers({"L": -1})
    sgd, adam = (front.times(fold(front, optimizer)) for optimizer in ("sgd", "adam"))
    assert sgd.multiplier == {} and sgd.lr == {"L": -2} and adam.eps == {"L": 1}


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "muon"])
def test_a_scaling_is_a_recipe(optimizer: str) -> None:
    """Depth-muP by its exponents is Depth-muP by its name; another point has the powers of its own."""
    small, large = gpt(4, 32), gpt(16, 64)
    named = plan_shapes(small, large, "depth-mup", optimizer)
    for scale in (tp.DepthScaling(), tp.Parametrization()):
        found = plan_shapes(small, large, scale, optimizer)
        assert found.entries == named.entries and found.recipe == "alpha = 1/2, gamma = 1/2"
    own = plan_shapes(small, large, tp.DepthScaling("3/4", "1/4"), optimizer, forward="multiplier")
    assert own.multipliers()["transformer.h.*.mlp.c_proj"] == pytest.approx(4**-0.75)


@pytest.mark.parametrize("name, optimizer", [("gpt-2", "adamw"), ("completep", "adam"), ("muon", "muon")])
def test_powers_by_role_are_a_recipe(name: str, optimizer: str) -> None:
    """A published recipe's own powers, put by hand: the same in layers, and no eps of its own outside of them."""
    powers = named_recipe(name).powers
    assert powers is not None
    for forward in ("gauge", "multiplier"):
        named, found = (plan_shapes(gpt(4, 32), gpt(16, 32), recipe, optimizer, forward=forward)
                        for recipe in (name, tp.Parametrization(depth=powers)))
        for one, other in zip(named.entries, found.entries):
            if one.parameter.in_layers:
                assert (one.powers, one.growth) == (other.powers, other.growth)
    front = tp.Parametrization(depth={"*": tp.Powers(lr={"L": -1}), "last": tp.Powers({"L": -1}, lr={"L": -1})})
    assert plan_shapes(gpt(4, 32), gpt(16, 32), front, "adamw", forward="multiplier").multipliers() == {
        "transformer.h.*.attn.c_proj": 0.25, "transformer.h.*.mlp.c_proj": 0.25}


@pytest.mark.parametrize("scale, said", [
    (tp.Parametrization(depth={"alpha": 1, "W1": 0, "W2": 1}), "one exponent for all matrices"),
    (tp.Parametrization(depth={"W1": tp.Powers(), "*": tp.Powers()}), r"expected those of '\*' and of 'last'"),
    (tp.Parametrization("SP"), "muP in width"), (tp.DepthScaling(branch=2.0), "branch=1"),
    (tp.DepthScaling(*sp.symbols("a g", real=True)), "expected numbers")])
def test_scalings_that_one_power_cannot_say_are_refused(scale: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan_shapes(gpt(4, 32), gpt(8, 32), scale)


def test_an_initialization_that_shrinks_with_depth_is_that_of_the_last_matrix_of_a_branch() -> None:
    """GPT-2 initializes what its branches end with by 1/sqrt(2 L), and nothing else in its layers."""
    found = plan_shapes(gpt(4, 32), gpt(16, 32), "gpt-2", forward="multiplier", ties=TIES)
    starts = {entry.parameter.role: entry.factor("init") for entry in found.entries if entry.parameter.is_matrix}
    assert starts["branch output"] == pytest.approx(0.5) and starts["hidden"] == 1


@pytest.mark.parametrize("name, said", [("deepnorm", "multiplies the stream"), ("rezero", "starts at zero")])
def test_recipes_that_are_no_settings_of_parameters_are_refused(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan_shapes(gpt(4, 32), gpt(16, 32), name, "sgd", ties=TIES)
