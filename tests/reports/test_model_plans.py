"""``tpcalc audit --hf``: plans from configurations of transformers, as Python makes them, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tpcalc.reports.cli import main

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import tpcalc.torch as tpt  # noqa: E402


def gpt_2(**given: Any) -> Any:
    usual = dict(n_layer=2, n_embd=32, n_head=2, vocab_size=101, n_positions=16, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2Config(**{**usual, **given}, architectures=["GPT2LMHeadModel"])


@pytest.fixture()
def files(tmp_path: Path) -> dict[str, str]:
    configs = {"small": gpt_2(), "large": gpt_2(n_layer=4, n_embd=64, n_head=4),
               "huge": transformers.LlamaConfig(architectures=["LlamaForCausalLM"]),
               "tiny": transformers.LlamaConfig(hidden_size=128, intermediate_size=344, num_hidden_layers=2,
                                                num_attention_heads=1, architectures=["LlamaForCausalLM"])}
    for name, config in configs.items():
        config.to_json_file(tmp_path / f"{name}.json")
    return {name: str(tmp_path / f"{name}.json") for name in configs}


def printed(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    assert main(["audit", *line]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    assert main(["audit", *line]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 or "usage" in said
    return said


def test_the_plan_of_two_configurations(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    line = ("--hf", files["large"], "--base", files["small"], "--recipe", "completep")
    plan = tpt.plan(gpt_2(), gpt_2(n_layer=4, n_embd=64, n_head=4), recipe="completep")
    assert printed(capsys, *line) == f"{plan}\n"
    assert json.loads(printed(capsys, *line, "--json")) == json.loads(plan.to("json"))
    assert printed(capsys, *line, "--optimizer", "adam").startswith("completep, adam: depth 2 -> 4, width times 2\n")


def test_without_a_base_layers_are_twice_as_many(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "--hf", files["large"], "--recipe", "depth-mup")
    assert found.startswith("depth-mup, adamw: depth 4 -> 8, width times 1\n")
    assert found == f"{tpt.plan(gpt_2(n_layer=4, n_embd=64, n_head=4)).at(n_layer=8)}\n"


def test_seven_billion_parameters_are_not_built(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "--hf", files["huge"], "--base", files["tiny"], "--recipe", "completep")
    assert found.startswith("completep, adamw: depth 2 -> 32, width times 32\n")
    assert "model.layers.*.mlp.down_proj.weight" in found


def test_what_is_missing_is_named_with_its_extra(files: dict[str, str], capsys: pytest.CaptureFixture[str],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert refused(capsys, "--hf", files["small"], "--recipe", "completep") == (
        "tpcalc audit: a configuration of Hugging Face needs transformers; install it with: pip install 'tpcalc[hf]'\n")


def test_what_does_not_do_is_refused(files: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small, other = files["small"], tmp_path / "other.json"
    for line, said in ((("--hf", small, "--branch", "-1"), "hf: got a configuration without a recipe"),
                       (("--hf", small, "--recipe", "magic"), "'completep'"),
                       (("--hf", small, "--recipe", "completep", "--lr", "-1"), "lr: got one with --hf"),
                       (("--hf", small, "--recipe", "completep", "--u", "1"), "u: got 1 without other batches"),
                       (("--hf", small, "--recipe", "completep", "--latex"), "latex: got one with --hf"),
                       (("--hf", small, "--recipe", "completep", "--optimizer", "adagrad"), "optimizer: got 'adagrad'"),
                       (("--base", small, "--recipe", "completep"), f"base: got {small!r} without a configuration"),
                       (("--hf", str(tmp_path / "none.json"), "--recipe", "completep"), "No such file")):
        assert said in refused(capsys, *line), line
    for text, said in (("{", "which is no JSON"), ("[1]", "with the model_type None"),
                       ('{"model_type": "mine"}', "with the model_type 'mine'; expected a model's config.json"),
                       ('{"model_type": "gpt2", "architectures": ["Mine"]}', "architectures: got 'Mine'")):
        other.write_text(text)
        assert said in refused(capsys, "--hf", str(other), "--recipe", "completep"), text


def test_common_names_do_for_a_configurations_own() -> None:
    family = tpt.plan(gpt_2())
    assert str(family.at(num_hidden_layers=8)) == str(family.at(n_layer=8))
    with pytest.raises(ValueError, match="^target: got 'num_hidden_layers' and 'n_layer', which are one"):
        family.at(num_hidden_layers=8, n_layer=4)
