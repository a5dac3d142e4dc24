"""One plan for all sizes: members are the plans of single targets, and audits take the family for the models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")

BASE = dict(n_layer=2, n=32)


def of_entries(plan: Any) -> list[Any]:
    return [(one.parameter.pattern, one.powers, one.growth) for one in plan.entries]


def test_a_member_is_the_plan_of_its_target() -> None:
    family = tpt.plan(models.GPT, base=BASE, recipe="completep", optimizer="adam", forward="multiplier")
    alone = tpt.plan(models.GPT, BASE, dict(n_layer=8, n=32), "completep", "adam", "multiplier")
    member = family.at(n_layer=8)
    assert of_entries(member) == of_entries(alone) and member.multipliers() == alone.multipliers() != {}
    assert family.at(n=32, n_layer=8) is member and family.at(n_layer=8, n=64) is not member
    assert all(one.factor("lr") == 1 for one in family.at().entries)
    assert str(family) == "completep, adam: plans for all sizes, from n_layer=2, n=32"


def test_arguments_that_make_does_not_take_are_refused() -> None:
    family = tpt.plan(models.GPT, base=BASE)
    with pytest.raises(ValueError, match="^target: got 'layers'; expected n_layer, n, vocabulary, positions, tied"):
        family.at(layers=4)
    anything = tpt.plan(lambda **given: models.GPT(given["n_layer"], given["n"]), base=BASE)
    with pytest.raises(ValueError, match="^target: got 'depth'; expected n_layer, n$"):
        anything.at(depth=4)
    with pytest.raises(ValueError, match="^base: got None, with <class .*; expected make and base, or a configuration"):
        tpt.plan(models.GPT)
    with pytest.raises(ValueError, match="^reading: got .*expected None without a target"):
        tpt.plan(models.GPT, BASE, reading=tpt.read(models.GPT, BASE))


def test_audits_and_depth_checks_take_a_family() -> None:
    family = tpt.plan(models.GPT, base=BASE, recipe="depth-mup")
    assert tpt.audit(family, depths=(2, 8), widths=(64, 256), width_key="n").ok
    trainer = family.trainer(torch.optim.AdamW, lr=1e-2, weight_decay=0.1)
    found = tpt.audit(family, trainer, depths=(2, 8))
    assert found.ok and found.recipe == "depth-mup"
    other = tpt.audit(family, trainer, depths=(2, 8), recipe="completep")
    assert {finding.quantity for finding in other.findings} >= {"branch, power of the depth"}
    check = tpt.depth_check(family, trainer, depths=(2, 4, 8), steps=2, seeds=1)
    assert check.recipe == "depth-mup" and check.verdict.startswith("no quantity departs")


def mean_loss(model: Any, batch: Any) -> Any:
    return torch.nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def counting(seed: int) -> Any:
    draw = torch.Generator().manual_seed(seed)
    while True:
        yield (torch.randint(17, (8, 1), generator=draw) + torch.arange(9)) % 17


def test_transfer_takes_a_family(tmp_path: Path) -> None:
    """Its sweep is that of the function that makes the models, from the family's base, by its recipe."""
    family = tpt.plan(models.GPT, base=dict(n_layer=4, n=32), recipe="completep")
    sweep = tpt.transfer(family, mean_loss, counting, [2, 4], [1e-3, 4e-3], steps=4, seeds=1)
    alone = tpt.transfer(lambda depth: models.GPT(depth, 32), mean_loss, counting, [2, 4], [1e-3, 4e-3], steps=4,
                         seeds=1, recipes=["sp", "completep"], base=4)
    assert sweep.recipes == ("sp", "completep") and (sweep.losses == alone.losses).all()
    assert (sweep.losses[0, 1] == sweep.losses[1, 1]).all() and (sweep.losses[0, 0] != sweep.losses[1, 0]).all()
    of_sgd = tpt.plan(models.GPT, base=dict(n_layer=4, n=32), optimizer="sgd")
    rates = dict(depths=[2], learning_rates=[1e-3], steps=4, seeds=1)
    found, adamw, said = (tpt.transfer(of_sgd, mean_loss, counting, **rates, **given).losses for given in (
        {}, {"optimizer": "adamw"}, {"optimizer": "sgd"}))
    assert (found == said).all() and (found != adamw).all()
    with pytest.raises(ValueError, match="^optimizer: got 'muon'; expected 'adamw', 'adam', 'sgd'"):
        tpt.transfer(tpt.plan(models.GPT, base=dict(n_layer=4), optimizer="muon"), mean_loss, counting, **rates)
    with pytest.raises(ValueError, match="^make: got one that is written otherwise"):
        for width in (32, 64):  # what is kept is for one base
            other = tpt.plan(models.GPT, base=dict(n_layer=4, n=width), recipe="completep")
            tpt.transfer(other, mean_loss, counting, [2], [1e-3], steps=2, seeds=1, recipes=["sp"], resume=tmp_path)
    with pytest.raises(ValueError, match="^depth_key: got 'depth'; expected n_layer, n"):
        tpt.transfer(family, mean_loss, counting, [2, 4], [1e-3], steps=4, depth_key="depth")
    with pytest.raises(ValueError, match="^base: got None, with a family whose base does not say its depth"):
        tpt.transfer(tpt.plan(models.GPT, base=dict(n=32)), mean_loss, counting, [2, 4], [1e-3], steps=4)


def test_a_multiplier_in_the_forward_pass_is_in_a_familys_models() -> None:
    family = tpt.plan(models.GPT, base=BASE, recipe="depth-mup", forward="multiplier")
    assert tpt.audit(family, depths=(2, 8)).ok
    bare = lambda n_layer: family.at(n_layer=n_layer).init_(models.GPT(n_layer))  # noqa: E731
    groups = lambda model: torch.optim.AdamW(family.at(n_layer=len(model.h)).groups(model, 1e-3))  # noqa: E731
    assert not tpt.audit(bare, groups, depths=(2, 8), recipe="depth-mup").ok


def test_multipliers_behind_norms_of_a_shallower_member() -> None:
    """Norms behind branches, which are multiplied by their module's name, of fewer layers than the base has."""
    family = tpt.plan(lambda n_layer: models.GPT(n_layer, after=True), base=dict(n_layer=4), recipe="depth-mup")
    for depth in (1, 2, 8):
        multipliers = family.at(n_layer=depth).multipliers()
        assert multipliers == pytest.approx({"h.*.post1": (4 / depth)**0.5, "h.*.post2": (4 / depth)**0.5})
        x, raw, found = torch.randn(2, 5, 32), models.GPT(depth, after=True).h[-1].post2, family(n_layer=depth)
        assert torch.allclose(found.h[-1].post2(x), raw(x) * (4 / depth)**0.5)


def test_gemma_with_layers_of_two_kinds_has_shallower_members() -> None:
    transformers = pytest.importorskip("transformers")

    def make(depth: int) -> Any:
        return transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
            vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=depth, num_attention_heads=2,
            num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=16, use_cache=False))

    family = tpt.plan(make, base=dict(depth=4), recipe="depth-mup")
    assert make(4).config.layer_types[:2] == ["sliding_attention", "full_attention"]
    assert sorted(family.at(depth=2).multipliers()) == [
        f"model.layers.*.post_{name}_layernorm" for name in ("attention", "feedforward")]
    assert tpt.audit(family, depths=(2, 8), depth_key="depth").ok


def test_optimizers_of_a_family_are_for_its_models() -> None:
    family = tpt.plan(models.GPT, base=BASE)
    with pytest.raises(ValueError, match="^model: got one without a plan"):
        family.trainer()(models.GPT(4))
    with pytest.raises(ValueError, match="^kind: got None for muon"):
        tpt.plan(models.GPT, base=BASE, optimizer="muon").trainer()
    with pytest.raises(ValueError, match="^optimizer: got None; expected a function of the model"):
        tpt.audit(models.GPT)


def test_more_logits_are_no_wider_matrix() -> None:
    """The head's learning rate and size go with its fan-in alone, whatever the vocabulary does."""
    family = tpt.plan(models.GPT, base=BASE)
    alone, grown = family.at(n=64), family.at(n=64, vocabulary=57)
    for name in ("wte.weight", "lm_head.weight"):
        one, other = alone.entry(name), grown.entry(name)
        assert one.powers == other.powers and one.growth == other.growth
        assert one.parameter.role == other.parameter.role
    assert grown.entry("lm_head.weight").power("init") == "n^(-1)"


@pytest.fixture(scope="module")
def llama() -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=64, intermediate_size=172, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=101, max_position_embeddings=32, bos_token_id=0, eos_token_id=0, architectures=["LlamaForCausalLM"])
    return tpt.plan(config, recipe="completep")


def test_llama_grows_by_several_factors(llama: Any) -> None:
    """Width by 1.25 and what is inside of its MLP by 1.2558, as from 7B to 13B, with other heads and words."""
    size = dict(num_hidden_layers=4, hidden_size=80, intermediate_size=216, num_attention_heads=5,
                num_key_value_heads=1, vocab_size=127)
    plan, wide, inside = llama.at(**size), 80 / 64, 216 / 172
    layer = "model.layers.3."
    rates = {name: plan.entry(name).factor("lr") for name in (
        f"{layer}self_attn.q_proj.weight", f"{layer}self_attn.k_proj.weight", f"{layer}self_attn.o_proj.weight",
        f"{layer}mlp.gate_proj.weight", f"{layer}mlp.down_proj.weight", "lm_head.weight", "model.embed_tokens.weight")}
    assert list(rates.values()) == pytest.approx(
        [1 / wide, 1 / wide, 1 / wide / 2, 1 / wide, 1 / inside / 2, 1 / wide, 1])
    model, base = llama(**size), llama()
    ratio = {name: float(model.get_parameter(layer + name).detach().std() / base.get_parameter(
        f"model.layers.0.{name}").detach().std()) for name in ("mlp.down_proj.weight", "mlp.gate_proj.weight")}
    assert ratio["mlp.gate_proj.weight"] == pytest.approx(wide**-0.5, rel=0.03)
    assert ratio["mlp.down_proj.weight"] == pytest.approx(wide**0.5 / inside / 2, rel=0.03)
    assert plan.entry(f"{layer}mlp.down_proj.weight").power("lr") == "L^(-1) fan-in^(-1)"


def test_llama_passes_its_audit(llama: Any) -> None:
    assert tpt.audit(llama, depths=(2, 8)).ok
    with pytest.raises(ValueError, match="^target: got 'n_layer'; expected .*num_hidden_layers"):
        tpt.audit(llama, depth_key="n_layer")


def test_what_a_configuration_computes_is_computed_anew(llama: Any) -> None:
    """A head's size, where nobody set it, is the width over the number of heads."""
    assert llama(hidden_size=128).model.layers[0].self_attn.head_dim == 32
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        num_hidden_layers=1, hidden_size=64, intermediate_size=172, num_attention_heads=4, head_dim=24, vocab_size=101)
    assert tpt.plan(config)(hidden_size=128).model.layers[0].self_attn.head_dim == 24


def test_a_family_knows_which_argument_is_its_depth() -> None:
    """As transformers calls it, or the only one that the base says; where neither tells it, it is asked for."""
    assert tpt.audit(tpt.plan(models.ResMLP, dict(depth=2), recipe="ode"), depths=(2, 4)).ok
    asked = tpt.plan(models.ResMLP, dict(depth=2, n=32), recipe="ode")
    with pytest.raises(ValueError, match="^depth_key: got None with a family whose models take .*; expected which"):
        tpt.audit(asked)
    with pytest.raises(ValueError, match="^depth_key: got 4; expected the name of an argument"):
        tpt.audit(asked, depth_key=4)
    assert tpt.audit(asked, depths=(2, 4), depth_key="depth").ok


def test_what_stands_behind_two_models_goes_by_name() -> None:
    small, large = models.GPT(2), models.GPT(4)
    with pytest.raises(ValueError, match="^target: got 'completep' as a third argument behind GPT; .*by name"):
        tpt.plan(small, large, "completep")
