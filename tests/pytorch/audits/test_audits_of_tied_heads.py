"""Audits of embeddings that are also heads: what they do as both is measured."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
usual = pytest.importorskip("support.pytorch.torch_models")
audited = pytest.importorskip("support.pytorch.audited")

N = 32
SIZES: dict[str, Any] = dict(depths=(4, 8), widths=(N, 4 * N), depth_key="depth", width_key="n", recipe="depth-mup")


def gpt(depth: int, n: int = N) -> Any:
    return usual.GPT(depth, n, tied=True)


def llama(depth: int, n: int = N) -> Any:
    return audited.like_llama("Llama", tie_word_embeddings=True, hidden_size=n, intermediate_size=2 * n,
                              head_dim=n // 2)(depth)


def with_head(family: Any, factor: Any) -> Any:
    """Planned models whose head is multiplied by something else than the plan says."""
    def make(depth: int, n: int = N) -> Any:
        model = family(depth=depth, n=n)
        model.lm_head._forward_hooks.clear()
        model.lm_head.register_forward_hook(lambda module, given, out: factor(n) * out)
        return model
    return make


def like_a_hidden_matrix(model: Any) -> Any:
    tied = model.lm_head.weight
    groups = [{**group, "params": [p], "lr": group["lr"] * (N / tied.shape[1] if p is tied else 1)}
              for group in model._tpcalc_plan.groups(model, lr=1e-3) for p in group["params"]]
    return torch.optim.AdamW(groups)


@pytest.mark.parametrize("make", [gpt, pytest.param(llama, marks=pytest.mark.nightly)])
def test_a_tied_head_is_measured_as_both(make: Any) -> None:
    if make is llama:
        pytest.importorskip("transformers")
    family = tpt.plan(make, dict(depth=4, n=N), recipe="depth-mup")
    trainer = family.trainer(lr=1e-3)
    right = tpt.audit(family, trainer, **SIZES)
    assert right.ok, str(right)
    name = next(iter(pattern for _, pattern in right.powers if pattern.endswith(" as the head")))
    embedding = name.removesuffix(" as the head")
    for factor, power in ((lambda n: 1.0, 1.0), (lambda n: n / N, 2.0), (lambda n: (N / n)**0.5, 0.5)):
        found = {one.pattern: one.measured for one in tpt.audit(with_head(family, factor), trainer, **SIZES).findings}
        assert found[name] == pytest.approx(power, abs=0.1) and embedding not in found
    found = tpt.audit(family, like_a_hidden_matrix, **SIZES)
    assert {one.pattern: round(one.measured) for one in found.findings} == {embedding: -1, name: -1}, str(found)


def test_a_tied_matrix_whose_rate_goes_with_the_depth() -> None:
    family = tpt.plan(gpt, dict(depth=4), recipe="depth-mup")

    def trainer(model: Any) -> Any:
        tied, factor = model.lm_head.weight, (4 / len(model.h))**0.5
        groups = [{**group, "params": [p], "lr": group["lr"] * (factor if p is tied else 1)}
                  for group in model._tpcalc_plan.groups(model, lr=1e-3) for p in group["params"]]
        return torch.optim.AdamW(groups)

    found = tpt.audit(family, trainer, depths=(4, 16), depth_key="depth")
    assert {one.pattern for one in found.findings if one.quantity.startswith("update")} == {
        "wte.weight", "wte.weight as the head"}, str(found)
    assert all(one.measured == pytest.approx(-0.5, abs=0.15) for one in found.findings)
