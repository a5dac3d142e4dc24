"""What is read of models that people train: every role pinned, by ``tox -e zoo``; skipped without these packages."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
for package in ("transformers", "timm", "x_transformers", "torchvision"):
    pytest.importorskip(package)

import tpcalc.torch as tpt  # noqa: E402
from support.pytorch import zoo  # noqa: E402

pytestmark = pytest.mark.zoo
PINNED = (Path(__file__).parent / "zoo_roles.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", zoo.MODELS)
def test_roles(name: str) -> None:
    """In tiny sizes: the base of 2 layers and width 64, the target of 4 and 128."""
    assert zoo.lines(name) == [line for line in PINNED if line.startswith(name + "\t")]


SIZES = {"Llama": (dict(hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32),
                   dict(hidden_size=5120, intermediate_size=13824, num_hidden_layers=40, num_attention_heads=40)),
         "Qwen3": (dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16),
                   dict(hidden_size=2048, intermediate_size=6144, num_hidden_layers=28, num_attention_heads=16))}
MORE = {"Llama": lambda size: dict(vocab_size=32000, num_key_value_heads=size["num_attention_heads"]),
        "Qwen3": lambda size: dict(vocab_size=151936, num_key_value_heads=8, head_dim=128, tie_word_embeddings=True)}


@pytest.mark.parametrize("name", SIZES)
def test_large_configurations(name: str) -> None:
    """LLaMA 7B to 13B, whose hidden width grows by 1.2558 and the stream by 1.25; Qwen3 0.6B to 1.7B, whose heads stay.
    No values are made."""
    small, large = (getattr(zoo.tf, name + "Config")(**size, **MORE[name](size)) for size in SIZES[name])
    plan = tpt.plan(small, large)
    up, down = (plan.entry(f"model.layers.7.mlp.{part}_proj.weight") for part in ("up", "down"))
    hidden, stream = (SIZES[name][1][key] / SIZES[name][0][key] for key in ("intermediate_size", "hidden_size"))
    depth = SIZES[name][1]["num_hidden_layers"] / SIZES[name][0]["num_hidden_layers"]
    assert up.factor("lr") == pytest.approx(depth**-0.5 / stream)
    assert down.factor("lr") == pytest.approx(1 / depth / hidden)
    assert plan.reading is not None and len(plan.reading.claims) == 4
    query = plan.entry("model.layers.0.self_attn.q_proj.weight")
    assert any("number of heads stays" in note for note in plan.notes) == (name == "Qwen3")
    assert query.factor("init") == pytest.approx(stream**-0.5 if name == "Llama" else 1 / stream)
