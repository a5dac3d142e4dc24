"""Audits of models in which something starts at zero, behind which a first update changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from support.nightly import few

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
audited = pytest.importorskip("support.pytorch.audited")
usual = pytest.importorskip("support.pytorch.torch_models")

HEAD, ENDS = ("out.weight", "out.bias", "lm_head.weight"), (".2.weight", ".3.weight", "proj.weight")
CASES = {  # model, what of it is zero, which parameter behind it has a wrong rate
    "a residual MLP": ("MLP GELU 2 norm", (*HEAD, *ENDS), "layers.*.1.weight"),
    "its head": ("MLP GELU 2 norm", HEAD, "layers.*.1.weight"),
    "a GPT": ("GPT", (*HEAD, *ENDS), "h.*.mlp.0.weight"),
    "its ends": ("GPT", ENDS, "h.*.attn.qkv.weight"),
    "a Llama": ("Llama", (*HEAD, "o_proj.weight", "down_proj.weight"), "model.layers.*.mlp.gate_proj.weight"),
    "its queries": ("Llama", ("q_proj.weight",), "model.layers.*.self_attn.k_proj.weight")}


class ReZero(usual.ResMLP):  # type: ignore[misc,name-defined]
    """Layers with a gain of their own, which starts at zero."""

    def __init__(self, depth: int) -> None:
        super().__init__(depth)
        for layer in self.layers:
            layer.gain = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x: Any) -> Any:
        x = self.read_in(x)
        for layer in self.layers:
            x = x + layer.gain * layer[2](layer[1](layer[0](x)))
        return self.out(x)


def from_zero(make: Any, zero: tuple[str, ...]) -> Any:
    def made(depth: int) -> Any:
        model = make(depth)
        for name, p in model.named_parameters():
            if name.endswith(zero):
                torch.nn.init.zeros_(p)
        return model
    return made


def audit(make: Any, wrong: str | None, optimizer: str, batch: Any) -> Any:
    """Of a planned script, in which the rate of one parameter may be that of the base at every depth."""
    family = tpt.plan(make, dict(depth=audited.BASE), optimizer=optimizer, recipe="depth-mup")

    def trainer(model: Any) -> Any:
        plan, names = family.at(depth=len(audited.layers_of(model))), {id(p): k for k, p in model.named_parameters()}
        groups = [{**group, "params": [p]} for group in plan.groups(model, lr=1e-3) for p in group["params"]]
        for group in groups:
            entry = plan.entry(names[id(group["params"][0])])
            if entry.parameter.pattern == wrong:
                group["lr"] /= entry.factor("lr") if optimizer == "adamw" else entry.growth["L"]**-0.5
        return {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[optimizer](groups, lr=1e-3)

    return tpt.audit(family, trainer, audited.DEPTHS, depth_key="depth", batch=batch)


@pytest.mark.parametrize("name", few(CASES, "a residual MLP", "its head"))
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_what_no_gradient_reaches_at_first_is_judged_by_its_first_update(name: str, optimizer: str) -> None:
    model, zero, wrong = CASES[name]
    if model == "Llama":
        pytest.importorskip("transformers")
    make, batch = from_zero(audited.MODELS[model], zero), audited.batch_of(model, 0)
    right = audit(make, None, optimizer, batch)
    assert right.ok and not any("no update" in one for one in right.not_checked), str(right)
    found = audit(make, wrong, optimizer, batch)
    updates = [one for one in found.findings if one.quantity == "update, power of the depth"]
    assert [one.pattern for one in updates] == [wrong], str(found)
    assert updates[0].measured == pytest.approx(-0.5, abs=0.15)


def test_gains_of_branches_that_start_at_zero() -> None:
    batch = audited.batch_of("MLP", 0)
    assert audit(ReZero, None, "adamw", batch).ok
    found = audit(ReZero, "layers.*.2.weight", "adamw", batch)
    assert {one.pattern for one in found.findings} == {"layers.*.2.weight"}, str(found)


def test_of_what_leaves_zero_it_is_not_known_how_large_gradients_get() -> None:
    """Without a recipe the size of eps beside them is asked for; those behind a zero say nothing of later ones."""
    make = from_zero(audited.MODELS["MLP ReLU 2"], ENDS)
    found = tpt.audit(make, lambda model: torch.optim.Adam(model.parameters(), eps=1e-3), audited.DEPTHS,
                      depth_key="depth")
    assert "layers.*.0.weight: whether eps is felt, beside gradients that start at zero" in found.not_checked
    assert not any(one.pattern == "layers.*.0.weight" and "eps" in one.quantity for one in found.findings)
