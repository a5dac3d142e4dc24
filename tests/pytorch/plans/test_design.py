"""A plan as a document: steps multiply to the powers that are set, each is what it says, and all claims are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tpcalc.scaling import Powers

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")

SMALL, DEEP, WIDE = dict(n_layer=2, n=32), dict(n_layer=8, n=32), dict(n_layer=2, n=64)
BOTH = dict(n_layer=8, n=64)


@pytest.fixture(scope="module")
def plan() -> Any:
    return tpt.plan(models.GPT, SMALL, BOTH, "depth-mup", "sgd")


def powers_of(found: Any, key: str) -> dict[str, Powers]:
    return {one.parameter.pattern: step.powers for one in found.entries for step in one.steps if step.key == key}


DEPTH, WIDTH = "tensor_programs_vi/definition_41", "meta_principled/translation"


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_steps_are_those_of_plans_that_have_one_of_them(optimizer: str) -> None:
    """Width alone, depth alone, and the multiplier in the forward pass, against all of them together."""
    both, wide, deep, front = (tpt.plan(models.GPT, SMALL, to, "depth-mup", optimizer, forward) for to, forward in (
        (BOTH, "gauge"), (WIDE, "gauge"), (DEEP, "multiplier"), (BOTH, "multiplier")))
    assert powers_of(both, WIDTH) == powers_of(wide, WIDTH) != {}
    assert powers_of(both, DEPTH) == powers_of(deep, DEPTH) == {
        one.parameter.pattern: one.powers for one in deep.entries}
    folds = powers_of(both, "")
    assert set(folds) == {"h.*.attn.proj.weight", "h.*.attn.proj.bias", "h.*.mlp.2.weight", "h.*.mlp.2.bias"}
    for pattern, step in folds.items():
        one = next(one for one in front.entries if one.parameter.pattern == pattern)
        assert one.powers.times(step) == next(e for e in both.entries if e.parameter.pattern == pattern).powers
        assert step.of("init", "L") == one.powers.of("multiplier", "L") == -step.of("multiplier", "L")
        assert step.of("lr", "L") == one.powers.of("multiplier", "L") * (2 if optimizer == "sgd" else 1)


def test_a_document_has_every_pattern_power_and_claim(plan: Any, tmp_path: Path) -> None:
    text = plan.explain(tmp_path / "design.md")
    assert (tmp_path / "design.md").read_text(encoding="utf-8") == text
    parts = dict(zip(*[iter(re.split(r"^## `(.*)`$", text, flags=re.M)[1:])] * 2))
    assert list(parts) == [one.parameter.pattern for one in plan.entries]
    for one in plan.entries:
        said = parts[one.parameter.pattern]
        for name, word in (("init", "initial size"), ("lr", "learning rate")):
            if one.power(name) != "1":
                assert f"| {word} | {one.power(name)} | {one.factor(name):.4g} |" in said
        assert "| eps |" not in said  # SGD has none
        assert all(step.reason in said for step in one.steps)
    claims = [claim for claim in plan.reading.claims if "h.0.mlp.2.weight" in claim.about]
    assert len(claims) > 2 and all(str(claim) in parts["h.*.mlp.2.weight"] for claim in claims)
    assert "learning rate L^(-1)" in parts["h.*.mlp.2.weight"] and "to the power 2" in parts["h.*.mlp.2.weight"]
    assert "Tensor Programs VI, definition 4.1: updates with powers of the depth" in text
    assert all(f"- {note}" in text for note in plan.notes)


def test_multipliers_and_plans_without_a_reading(tmp_path: Path) -> None:
    plan = tpt.plan(models.GPT, SMALL, DEEP, "completep", forward="multiplier")
    text = plan.explain(str(tmp_path / "design.md"))
    assert "- what `h.*.mlp.2` returns is multiplied by 0.25" in text and "Recipe: CompleteP" in text
    plan.save(tmp_path / "plan.json")
    loaded = tpt.load(tmp_path / "plan.json").explain(tmp_path / "again.md")
    measured = re.compile(r"Measured on this model:\n\n(- .*\n)+", re.M)
    assert measured.sub("", loaded) == measured.sub("", text) and "- nothing: the plan has no reading" in loaded


def test_paths_that_are_none_are_refused(plan: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="^pattern: got .*where nothing can be written"):
        plan.explain(tmp_path / "none" / "design.md")
    with pytest.raises(ValueError, match="^pattern: got the path .*design.txt'; expected a file that ends in .md"):
        plan.explain(tmp_path / "design.txt")
    with pytest.raises(ValueError, match="^pattern: got 'design.txt', which no parameter matches"):
        plan.explain("design.txt")
