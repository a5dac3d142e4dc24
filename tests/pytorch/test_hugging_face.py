"""GPT-2 of transformers, from a configuration: five lines, and what they come to."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tpt = pytest.importorskip("tpcalc.torch")


def make(n_layer: int) -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=n_layer, n_embd=32, n_head=2, vocab_size=101, n_positions=16, bos_token_id=0, eos_token_id=0))


def test_gpt_2_from_a_configuration() -> None:
    plans = {n: tpt.plan(make, dict(n_layer=4), dict(n_layer=n)) for n in (4, 16)}

    def optimizer(model: Any) -> Any:
        return torch.optim.AdamW(plans[len(model.transformer.h)].groups(model, lr=1e-3, weight_decay=0.1))

    model = plans[16].init_(make(16))
    trainer, tokens = optimizer(model), torch.randint(101, (2, 8))
    before = model(tokens, labels=tokens).loss
    before.backward()
    trainer.step()
    assert model(tokens, labels=tokens).loss.item() < before.item()
    assert tpt.audit(lambda n_layer: plans[n_layer].init_(make(n_layer)), optimizer, recipe="depth-mup").ok
    assert not tpt.audit(make, lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3), recipe="depth-mup").ok
