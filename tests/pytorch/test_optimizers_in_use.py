"""Optimizers that people use: real steps say as which optimizer each moves weights, and plans keep what they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")
from support.pytorch import optimizers as made  # noqa: E402
from support.pytorch.optimizers import mean_moved  # noqa: E402
from tpcalc.errors import NotCovered  # noqa: E402
from tpcalc.groups.classes import name_of  # noqa: E402
from tpcalc.tune.factors import width_growths  # noqa: E402

Adafactor, Muon = torch.optim.Adafactor, torch.optim.Muon
SIZES = [(layers, n) for layers in (4, 16) for n in (64, 256)]


def hugging_face(groups: Any, **given: Any) -> Any:
    transformers = pytest.importorskip("transformers.optimization")
    return transformers.Adafactor(groups, **{"lr": None if "lr" in groups[0] else 1e-3, **given})


# By what a step's root mean square goes: powers of the gradient, of the weight, of the width where each gradient is new
# and of rank 4; and of that where one gradient is repeated.
MOVES = {
    "AdamW8bit": (lambda groups: made.AdamW8bit(groups, weight_decay=0.0), (0, 0, 0, 0)),
    "AdamWScheduleFree": (made.AdamWScheduleFree, (0, 0, 0, 0)),
    "SGDScheduleFree": (made.SGDScheduleFree, (1, 0, 0, 0)),
    "Adafactor, scale_parameter=False": (
        lambda groups: hugging_face(groups, relative_step=False, scale_parameter=False), (0, 0, 0, 0)),
    "Adafactor, transformers'": (lambda groups: hugging_face(groups, relative_step=False), (0, 1, 0, 0)),
    "Adafactor, torch's": (lambda groups: Adafactor(groups, lr=1e-3), (0, 1, 0, 0)),
    "Muon, original": (lambda groups: Muon(groups, weight_decay=0.0), (0, 0, -1, -1)),
    "Muon, match_rms_adamw": (
        lambda groups: Muon(groups, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"), (0, 0, -0.5, -0.5)),
    "SOAP": (made.SOAP, (0, 0, 0, -1))}


def last_step(make: Any, n: int = 64, gradient: float = 1e-4, weight: float = 1.0, new: bool = True) -> float:
    """The root mean square of the sixth step of a matrix of entries of this size."""
    draw = torch.Generator().manual_seed(0)
    matrix = torch.nn.Parameter(torch.randn(n, n, generator=draw) * weight)
    optimizer = make([{"params": [matrix]}])
    for step in range(6):
        if new or step == 0:
            left, right = torch.randn(n, 4, generator=draw), torch.randn(4, n, generator=draw)
        matrix.grad, before = gradient * left @ right, matrix.detach().clone()
        optimizer.step()
    return float((matrix.detach() - before).square().mean().sqrt())


@pytest.mark.parametrize("name", MOVES)
def test_what_steps_go_with(name: str) -> None:
    make, expected = MOVES[name]
    sizes, widths = (0.5, 1.0, 2.0), (64, 128, 256)
    steps = ([last_step(make, gradient=1e-4 * x) for x in sizes], [last_step(make, weight=x) for x in sizes],
             [last_step(make, n) for n in widths], [last_step(make, n, new=False) for n in widths])
    found = [float(np.polyfit(np.log(sizes), np.log(values), 1)[0]) for values in steps]
    assert found == pytest.approx(expected, abs=0.15)


def net(n_layer: int, n: int = 64) -> Any:
    return models.ResMLP(n_layer, n)


def family_for(optimizer: str) -> Any:
    return tpt.plan(net, dict(n_layer=4, n=64), optimizer=optimizer)


def outputs_moved(optimizer: str, train: Any) -> Any:
    """By how much training changes outputs at all sizes, with a plan's models and what is made of their plans."""
    family = family_for(optimizer)
    return np.array(mean_moved(lambda layers, n: family(n_layer=layers, n=n), lambda model: train(
        family.at(n_layer=len(model.layers), n=model.out.in_features), model), SIZES, 3))


def spread(values: Any) -> float:
    return float(values.max() / values.min())


class Both:
    """Muon of its groups, and AdamW of the others."""

    def __init__(self, groups: list[Any], **given: Any) -> None:
        self.parts = (Muon([one for one in groups if one["use_muon"]], **given),
                      torch.optim.AdamW([one for one in groups if not one["use_muon"]]))

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad()

    def step(self) -> None:
        for part in self.parts:
            part.step()


PLANNED = {
    "torch's Adafactor": ("adafactor", lambda plan, model: Adafactor(plan.groups(model, lr=3e-3))),
    "transformers' Adafactor": ("adafactor", lambda plan, model: hugging_face(plan.groups(model, lr=3e-3))),
    "original": ("muon-original", lambda plan, model: Both(plan.groups(model, lr=1e-4, muon_lr=1e-2))),
    "match_rms_adamw": ("muon-match_rms_adamw", lambda plan, model: Both(plan.groups(model, lr=1e-4, muon_lr=3e-3))),
    "AdamW8bit": ("adamw", lambda plan, model: made.AdamW8bit(plan.groups(model, lr=1e-4))),
    "AdamWScheduleFree": ("adamw", lambda plan, model: made.AdamWScheduleFree(plan.groups(model, lr=1e-4)))}


@pytest.mark.parametrize("name", PLANNED)
def test_plans_keep_what_steps_do_to_outputs(name: str) -> None:
    optimizer, train = PLANNED[name]
    assert spread(outputs_moved(optimizer, train)) < 1.5


def test_averages_of_weights_move_outputs_as_their_base_does() -> None:
    """SGD's own updates are no powers yet at these depths."""
    averaged, plain = (outputs_moved("sgd", lambda plan, model: one(plan.groups(model, lr=1e-3)))
                       for one in (made.SGDScheduleFree, torch.optim.SGD))
    assert spread(averaged / plain) < 1.05


def relative(plan: Any, model: Any) -> Any:
    """Adafactor with rates of steps that are not relative."""
    return Adafactor([{"params": one["params"], "lr": one["lr"]} for one in plan.groups(model, lr=3e-3)])


def test_factors_of_others_are_not_theirs() -> None:
    assert spread(outputs_moved("lion", relative)) > 1.8
    assert spread(outputs_moved("muon", lambda plan, model: Both(
        plan.groups(model, 1e-4, muon_lr=3e-3), adjust_lr_fn="match_rms_adamw"))) > 2.2


def plain(groups: list[Any], *names: str) -> list[Any]:
    return [{name: value for name, value in one.items() if name in ("params", "lr", *names)} for one in groups]


AUDITED = {
    "torch's Adafactor": ("adafactor", lambda groups: Adafactor(groups)),
    "transformers' Adafactor": ("adafactor", hugging_face),
    "Adafactor that is no relative one": ("lion", lambda groups: hugging_face(
        groups, relative_step=False, scale_parameter=False)),
    "SOAP": ("soap", made.SOAP), "AdamW8bit": ("adamw", made.AdamW8bit),
    "AdamWScheduleFree": ("adamw", made.AdamWScheduleFree), "SGDScheduleFree": ("sgd", made.SGDScheduleFree)}


@pytest.mark.parametrize("name", [one if one in ("torch's Adafactor", "SGDScheduleFree") else pytest.param(
    one, marks=pytest.mark.nightly) for one in AUDITED])
def test_audits_of_plans(name: str) -> None:
    optimizer, make = AUDITED[name]
    family = tpt.plan(models.GPT, base=dict(n_layer=4), optimizer=optimizer)
    trainer = family.trainer(make)
    assert name_of(trainer(family(n_layer=4))) == optimizer
    family.at(n_layer=16).check(trainer(family(n_layer=16)))
    found = tpt.audit(family, trainer)
    assert found.ok, str(found)
    assert not any("no update" in one for one in found.not_checked)
    forgotten = tpt.audit(family, lambda model: make([{**one, "lr": one["lr"] / one["lr_scale"]} for one in family.at(
        n_layer=len(model.h)).groups(model, lr=1e-3)]))
    assert any(finding.quantity == "update, power of the depth" for finding in forgotten.findings)


def test_depth_checks_and_transfers_know_them() -> None:
    family = tpt.plan(models.GPT, base=dict(n_layer=4), optimizer="adafactor")
    check = tpt.depth_check(family, family.trainer(Adafactor), depths=(4, 16), steps=2, seeds=2)
    assert check.verdict.startswith("no quantity departs"), str(check)

    def loss(model: Any, batch: Any) -> Any:
        return torch.nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten())

    def data(seed: int) -> Any:
        draw = torch.Generator().manual_seed(seed)
        while True:
            yield torch.randint(17, (4, 8), generator=draw)

    sweep = tpt.transfer(family, loss, data, [4, 8], [1e-3, 1e-2], steps=3, seeds=1, optimizer=Adafactor)
    assert np.isfinite(sweep.losses).all() and (sweep.losses[0, 1] != sweep.losses[1, 1]).all()


def test_torchs_muon_takes_matrices_alone() -> None:
    """Stacks of experts are AdamW's with it, and orthogonal one by one in an optimizer that takes them."""
    experts = pytest.importorskip("support.pytorch.reading_models").Alternating
    small, large = dict(depth=2, n=16), dict(depth=4, n=16)
    plans = {name: tpt.plan(experts, small, large, optimizer=name) for name in ("muon", "muon-original")}
    model = plans["muon-original"].apply_(experts(**large))
    kinds = {name: plan.entry("layers.3.1.up").optimizer for name, plan in plans.items()}
    assert kinds == {"muon": "signsgd", "muon-original": "adamw"}
    groups = plans["muon-original"].groups(model, lr=1e-3, muon_lr=0.02)
    trainers = Both(groups)
    for trainer in trainers.parts:
        assert plans["muon-original"].check(trainer)
    assert all(group["adjust_lr_fn"] == "original" for group in trainers.parts[0].param_groups)
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        Both(plans["muon"].groups(experts(**large), lr=1e-3))
    with pytest.raises(ValueError, match="^optimizer: got Muon with a group of role 'input', which is AdamW's"):
        plans["muon-original"].check(Muon([
            {**one, "params": [model.out.weight]} for one in groups if one["role"] == "input"][:1]))


def test_what_undoes_a_plan_is_refused() -> None:
    def checked(optimizer: str, make: Any) -> None:
        family = tpt.plan(models.GPT, base=dict(n_layer=2), optimizer=optimizer)
        family.at(n_layer=4).check(make(family.at(n_layer=4).groups(models.GPT(4), lr=1e-3)))

    with pytest.raises(ValueError, match="^optimizer: got AdamW, which moves weights as adamw does, and the plan is "
                                         "for adafactor; expected a plan for optimizer='adamw'"):
        checked("adafactor", lambda groups: torch.optim.AdamW(plain(groups, "lr_scale", "role")))
    with pytest.raises(ValueError, match="and the plan is for muon; expected a plan for optimizer='adamw'"):
        checked("muon", torch.optim.AdamW)
    with pytest.raises(ValueError, match="^optimizer: got Muon with adjust_lr_fn='match_rms_adamw', and the plan is "
                                         "for muon; expected a plan for optimizer='muon-match_rms_adamw'"):
        checked("muon", lambda groups: Muon([one for one in groups if one["use_muon"]],
                                            adjust_lr_fn="match_rms_adamw"))
    with pytest.raises(ValueError, match="^optimizer: got Adafactor, which moves weights as adafactor does, and the "
                                         "plan is for lion"):
        checked("lion", lambda groups: hugging_face(groups, relative_step=False))
    with pytest.raises(NotCovered, match="^optimizer: got Adafactor with relative_step=True"):
        checked("lion", lambda groups: hugging_face(groups))
    with pytest.raises(NotCovered, match="^optimizer: got Adafactor with weight_decay and scale_parameter=True"):
        checked("adafactor", lambda groups: hugging_face([{**one, "weight_decay": 0.1} for one in groups]))
    with pytest.raises(ValueError, match="^weight_decay: got 0.1 with adafactor"):
        tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=4), optimizer="adafactor").groups(
            models.GPT(4), lr=1e-3, weight_decay=0.1)
    with pytest.raises(NotCovered, match="got a matrix that grows with the width, with soap"):
        tpt.plan(net, dict(n_layer=4, n=16), dict(n_layer=4, n=32), optimizer="soap")
    with pytest.raises(ValueError, match="^eps: got 1e-06; adafactor has none"):
        tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=4), optimizer="adafactor").groups(
            models.GPT(4), lr=1e-3, eps=1e-6)


class Inner(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Blocks of three matrices, the middle one between ``inner`` coordinates."""

    def __init__(self, n: int, inner: int) -> None:
        super().__init__()
        self.emb, self.head = torch.nn.Linear(3, n), torch.nn.Linear(n, 1)
        self.h = torch.nn.ModuleList(torch.nn.Sequential(
            torch.nn.Linear(n, inner), torch.nn.ReLU(), torch.nn.Linear(inner, inner), torch.nn.ReLU(),
            torch.nn.Linear(inner, n)) for _ in range(2))

    def forward(self, x: Any) -> Any:
        x = self.emb(x)
        for block in self.h:
            x = x + block(x)
        return self.head(x)


def test_a_factor_of_updates_goes_with_the_matrix_that_has_it() -> None:
    """Of a matrix that grows by another factor than the width, and of one whose dimensions do, none is known."""
    small, large = dict(n=32, inner=32), dict(n=64, inner=96)
    with pytest.raises(NotCovered, match="^h.*.0.weight: got the shape .*alike, with muon-original updates that are"):
        tpt.plan(Inner, small, large, optimizer="muon-original")
    parameter = tpt.plan(Inner, small, large, optimizer="muon").entry("h.0.2.weight").parameter
    powers, growth = width_growths(parameter, "muon-match_rms_adamw", 2.0)
    for name, power in (("lr", -0.5), ("decay", 0.5)):
        assert np.prod([grown**float(powers.of(name, size)) for size, grown in growth.items()]
                       ) == pytest.approx(3**power)


@pytest.mark.parametrize("optimizer", ["adafactor", "muon-match_rms_adamw"])
def test_a_plan_in_a_file_sets_the_same_groups(optimizer: str, tmp_path: Any) -> None:
    plan, model = tpt.plan(models.GPT, dict(n_layer=2), dict(n_layer=4, n=64), optimizer=optimizer), models.GPT(4, 64)
    plan.save(tmp_path / "plan.json")
    found, wanted = ([{**one, "params": 0} for one in each.groups(model, lr=1e-3)]
                     for each in (tpt.load(tmp_path / "plan.json"), plan))
    assert found == wanted


@pytest.mark.parametrize("optimizer", ["adafactor", "soap", "muon-original"])
def test_recipes_that_were_published_for_others_are_refused(optimizer: str) -> None:
    with pytest.raises(ValueError, match=f"^optimizer: got '{optimizer}', for which 'completep' was not published"):
        tpt.plan(net, dict(n_layer=2), dict(n_layer=4), recipe="completep", optimizer=optimizer)


def test_a_llama_with_adafactor() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(num_hidden_layers=4, hidden_size=32, intermediate_size=64, vocab_size=101,
                                      num_attention_heads=2, bos_token_id=0, eos_token_id=0)
    family = tpt.plan(config, recipe="depth-mup", optimizer="adafactor")
    trainer = family.trainer(hugging_face)
    model = family(num_hidden_layers=8)
    optimizer, tokens, losses = trainer(model), torch.arange(32).reshape(2, 16), []
    for _ in range(8):
        optimizer.zero_grad()
        losses.append(model(tokens, labels=tokens).loss)
        losses[-1].backward()
        optimizer.step()
    assert family.at(num_hidden_layers=8).check(optimizer)["lr"] == pytest.approx(1e-3) and losses[-1] < losses[0]
    found = tpt.audit(family, trainer, depth_key="num_hidden_layers")
    assert found.ok, str(found)
