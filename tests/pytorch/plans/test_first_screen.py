"""The lines that people paste: the page's first blocks, run in scripts of transformers and of nanoGPT."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.torch_models")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

PAGE = (Path(__file__).parents[3] / "docs" / "pytorch.md").read_text(encoding="utf-8")
BLOCKS = [one for one in re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE) if ">>>" not in one]


def test_there_are_two_blocks_of_six_lines() -> None:
    assert [len(block.splitlines()) for block in BLOCKS] == [6, 6]
    assert PAGE.index(BLOCKS[1]) < 1000


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_transformers() -> None:
    transformers = pytest.importorskip("transformers")

    def config(layers: int, n: int) -> Any:
        return transformers.LlamaConfig(num_hidden_layers=layers, hidden_size=n, intermediate_size=3 * n,
                                        vocab_size=101, num_attention_heads=2, bos_token_id=0, eos_token_id=0)

    script = {"torch": torch, "small_config": config(2, 32), "config": config(4, 64), **{
        name: getattr(transformers, name) for name in ("AutoModelForCausalLM", "get_cosine_schedule_with_warmup")}}
    *lines, check = BLOCKS[0].splitlines()
    exec("\n".join(lines), script)
    tokens = torch.arange(32).reshape(2, 16)
    losses = []
    for _ in range(8):
        script["optimizer"].zero_grad()
        losses.append(script["model"](tokens, labels=tokens).loss)
        losses[-1].backward()
        script["optimizer"].step()
        script["scheduler"].step()
        exec(check, script)
    assert losses[-1] < losses[0]
    base = script["plan"].check(script["optimizer"])["lr"]
    rates = {group["lr"] / base for group in script["optimizer"].param_groups}
    assert sorted(rates) == pytest.approx([0.25, 0.5, 1.0])


@dataclass
class GPTConfig:
    """nanoGPT's, without what does not matter here."""

    block_size: int = 16
    vocab_size: int = 65
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768


class GPT(nn.Module):  # type: ignore[misc,name-defined]
    """nanoGPT's names, its tied embedding, and what it returns: logits of the last position, and no loss."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        n = config.n_embd
        assert n % config.n_head == 0
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(config.vocab_size, n), wpe=nn.Embedding(config.block_size, n),
            h=nn.ModuleList(models.Block(n, config.n_head) for _ in range(config.n_layer)), ln_f=nn.LayerNorm(n)))
        self.lm_head = nn.Linear(n, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        for name, p in self.named_parameters():
            if p.dim() == 2:
                last = name.endswith(("proj.weight", "mlp.2.weight"))
                nn.init.normal_(p, std=0.02 / (2 * config.n_layer)**0.5 if last else 0.02)

    def forward(self, idx: Any, targets: Any = None) -> Any:
        x = self.transformer.wte(idx) + self.transformer.wpe(torch.arange(idx.shape[1]))
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def test_nanogpt() -> None:
    script = {"torch": torch, "GPT": GPT, "GPTConfig": GPTConfig, "learning_rate": 6e-4, "iter_num": 0,
              "model_args": dict(n_layer=4, n_head=4, n_embd=256, block_size=16, vocab_size=65),
              "get_lr": lambda step: 6e-4 * (step + 1) / 4}
    *lines, schedule = BLOCKS[1].splitlines()
    exec("\n".join(lines), script)
    tokens, losses = torch.arange(17).repeat(4, 1) * 3 % 65, []
    for step in range(8):
        script["iter_num"] = step
        exec(schedule, script)
        assert script["plan"].check(script["optimizer"]) == {"lr": pytest.approx(6e-4 * (step + 1) / 4)}
        loss = script["model"](tokens[:, :-1], tokens[:, 1:])[1]
        losses.append(loss)
        script["optimizer"].zero_grad()
        loss.backward()
        script["optimizer"].step()
    assert losses[-1] < losses[0]
    plan, block = script["plan"], script["model"].transformer.h[3]
    small = GPT(GPTConfig(n_layer=2, n_embd=128, n_head=2))
    made = plan.init_(GPT(GPTConfig(**script["model_args"])))
    ratio = made.transformer.h[3].mlp[2].weight.std() / small.transformer.h[0].mlp[2].weight.std()
    assert ratio.item() == pytest.approx(plan.entry("transformer.h.3.mlp.2.weight").factor("init"), rel=0.05)
    assert plan.multipliers() == {"lm_head": 0.5} and block.mlp[2].weight.requires_grad
