"""Small models of the usual kinds, as people write them."""

from __future__ import annotations

import math
from typing import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, n: int, heads: int, kv_heads: int | None = None) -> None:
        super().__init__()
        self.heads, self.kv, self.size = heads, kv_heads or heads, n // heads
        self.qkv = nn.Linear(n, (heads + 2 * self.kv) * self.size)
        self.proj = nn.Linear(n, n)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, n = x.shape
        q, k, v = self.qkv(x).split([n, self.kv * self.size, self.kv * self.size], dim=-1)
        q, k, v = (y.view(batch, time, -1, self.size).transpose(1, 2) for y in (q, k, v))
        k, v = (y.repeat_interleave(self.heads // self.kv, dim=1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, time, n))


class Block(nn.Module):
    """Pre-norm; m: branch multiplier, skip: the factor on the stream, after: a norm behind each branch."""

    def __init__(self, n: int, heads: int = 2, kv_heads: int | None = None, m: float = 1.0, skip: float = 1.0,
                 after: bool = False, act: Callable[[], nn.Module] = nn.GELU) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.attn = Attention(n, heads, kv_heads)
        self.mlp = nn.Sequential(nn.Linear(n, 4 * n), act(), nn.Linear(4 * n, n))
        self.post1, self.post2 = (nn.LayerNorm(n), nn.LayerNorm(n)) if after else (nn.Identity(), nn.Identity())
        self.m, self.skip = m, skip

    def forward(self, x: Tensor) -> Tensor:
        x = self.skip * x + self.m * self.post1(self.attn(self.ln1(x)))
        return self.skip * x + self.m * self.post2(self.mlp(self.ln2(x)))


class GPT(nn.Module):
    def __init__(self, n_layer: int, n: int = 32, vocabulary: int = 17, positions: int = 8, tied: bool = False,
                 init: Callable[[str, Tensor], None] | None = None, **block: object) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, n), nn.Embedding(positions, n)
        self.h = nn.ModuleList(Block(n, **block) for _ in range(n_layer))  # type: ignore[arg-type]
        self.ln_f, self.lm_head = nn.LayerNorm(n), nn.Linear(n, vocabulary, bias=False)
        if tied:
            self.wte.weight = self.lm_head.weight
        if init is not None:
            for name, parameter in self.named_parameters():
                init(name, parameter)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class ViT(nn.Module):
    def __init__(self, depth: int, n: int = 32) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(1, n, 4, 4)
        self.cls_token, self.pos_embed = nn.Parameter(torch.randn(1, 1, n)), nn.Parameter(torch.randn(1, 17, n))
        self.blocks = nn.ModuleList(Block(n) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(n), nn.Linear(n, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patch_embed(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class ResMLP(nn.Module):
    """x + m W2 act(W1 x), or x + m W act(x) for one matrix; no norms unless asked for."""

    def __init__(self, depth: int, n: int = 48, matrices: int = 2, m: float = 1.0, skip: float = 1.0,
                 norm: bool = False, act: Callable[[], nn.Module] = nn.ReLU, inputs: int = 5) -> None:
        super().__init__()
        self.read_in, self.out = nn.Linear(inputs, n), nn.Linear(n, 3)
        self.layers = nn.ModuleList(nn.Sequential(
            *([nn.LayerNorm(n)] if norm else []), *([nn.Linear(n, n, bias=False)] if matrices == 2 else []), act(),
            nn.Linear(n, n, bias=False)) for _ in range(depth))
        self.m, self.skip = m, skip
        for layer in self.layers:
            for module in layer.modules():
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, std=1 / math.sqrt(n))

    def forward(self, x: Tensor) -> Tensor:
        x = self.read_in(x)
        for layer in self.layers:
            x = self.skip * x + self.m * layer(x)
        return self.out(x)
