"""Small models in plain torch, each with what a reading by names or by one probe gets wrong."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WORDS = 17


def heads_of(y: Tensor, size: int) -> Tensor:
    return y.view(*y.shape[:2], -1, size).transpose(1, 2)


class Attention(nn.Module):
    """Heads of a fixed size."""

    def __init__(self, n: int, size: int = 8) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(n, n, bias=False) for _ in range(4))
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (heads_of(one(x), self.size) for one in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


class Mlp(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(n, 2 * n), nn.Linear(n, 2 * n), nn.Linear(2 * n, n)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Sequence(nn.Module):
    """Embedding, layers, norm, head."""

    def __init__(self, n: int, layers: list[nn.Module], std: float = 1.0) -> None:
        super().__init__()
        self.emb, self.layers = nn.Embedding(WORDS, n), nn.ModuleList(layers)
        self.norm, self.head = nn.RMSNorm(n, eps=1e-6), nn.Linear(n, WORDS, bias=False)
        nn.init.normal_(self.emb.weight, std=std)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.emb(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class NormedBehind(nn.Module):
    """As in OLMo 2, norms behind both branches and none in front; activations are tiny beside eps."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.attn, self.mlp = Attention(n), Mlp(n)
        self.after_attn, self.after_mlp = nn.RMSNorm(n, eps=1e-6), nn.RMSNorm(n, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.after_attn(self.attn(x))
        return x + self.after_mlp(self.mlp(x))


def normed_behind(depth: int, n: int = 16) -> nn.Module:
    return Sequence(n, [NormedBehind(n) for _ in range(depth)], std=1e-3)


class FromZero(nn.Module):
    """As in modded-nanogpt: last matrices at zero, learned factors of the stream, matrices that are no modules."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.qkv = nn.Parameter(torch.randn(3 * n, n) / math.sqrt(n))
        self.lambdas = nn.Parameter(torch.tensor([1.0, 0.0]))
        self.o, self.a, self.b = (nn.Linear(n, n, bias=False) for _ in range(3))
        for last in (self.o, self.b):
            nn.init.zeros_(last.weight)

    def forward(self, x: Tensor, x0: Tensor) -> Tensor:
        x = self.lambdas[0] * x + self.lambdas[1] * x0
        y = F.rms_norm(x, x.shape[-1:])
        q, k, v = (heads_of(one, 8) for one in F.linear(y, self.qkv).chunk(3, dim=-1))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))
        return x + self.b(F.relu(self.a(F.rms_norm(x, x.shape[-1:]))).square())


class ZeroNet(nn.Module):
    def __init__(self, depth: int, n: int = 16) -> None:
        super().__init__()
        self.emb, self.head = nn.Embedding(WORDS, n), nn.Linear(n, WORDS, bias=False)
        self.blocks = nn.ModuleList(FromZero(n) for _ in range(depth))

    def forward(self, tokens: Tensor) -> Tensor:
        x = x0 = F.rms_norm(self.emb(tokens), (self.emb.embedding_dim,))
        for block in self.blocks:
            x = block(x, x0)
        return self.head(F.rms_norm(x, x.shape[-1:]))


class OnePlus(nn.Module):
    """A norm written out, with a gain that is 1 + w."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * (1 + self.weight)


class GemmaBlock(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.n1, self.n2, self.attn, self.mlp = OnePlus(n), OnePlus(n), Attention(n), Mlp(n)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class Gemma(nn.Module):
    """The forward pass multiplies the embedding, which is the head too, by sqrt(n)."""

    def __init__(self, depth: int, n: int = 16) -> None:
        super().__init__()
        self.embed, self.n = nn.Embedding(WORDS, n), n
        self.h, self.norm = nn.ModuleList(GemmaBlock(n) for _ in range(depth)), OnePlus(n)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) * math.sqrt(self.n)
        for block in self.h:
            x = block(x)
        return self.norm(x) @ self.embed.weight.T


class Experts(nn.Module):
    """Two of four experts, a stack of matrices each."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.gate = nn.Linear(n, 4, bias=False)
        self.up, self.down = (nn.Parameter(torch.randn(4, *shape) / math.sqrt(n)) for shape in ((n, 2 * n), (2 * n, n)))

    def forward(self, x: Tensor) -> Tensor:
        y = x.reshape(-1, x.shape[-1])
        weight, chosen = self.gate(y).softmax(-1).topk(2)
        weights = torch.zeros(len(y), 4).scatter(1, chosen, weight)
        hidden = F.silu(torch.bmm(y.expand(4, -1, -1), self.up))
        return (torch.bmm(hidden, self.down) * weights.T[..., None]).sum(0).view(x.shape)


class Alternating(nn.Module):
    """One list in which attention and experts take turns, each with its norm, as in x-transformers."""

    def __init__(self, depth: int, n: int = 16) -> None:
        super().__init__()
        self.emb, self.pos = nn.Embedding(WORDS, n), nn.Parameter(torch.randn(1, 8, n))
        self.layers = nn.ModuleList(nn.ModuleList([nn.LayerNorm(n), Experts(n) if i % 2 else Attention(n)])
                                    for i in range(2 * depth))
        self.norm, self.out = nn.LayerNorm(n), nn.Linear(n, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.emb(tokens) + self.pos
        for norm, f in self.layers:
            x = x + f(norm(x))
        return self.out(self.norm(x))


class MixerBlock(nn.Module):
    """Tokens are mixed by matrices of a fixed size; both branches have a learned scale."""

    def __init__(self, n: int, tokens: int = 16) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.tokens, self.up, self.down = nn.Linear(tokens, tokens), nn.Linear(n, 4 * n), nn.Linear(4 * n, n)
        self.gamma1, self.gamma2 = nn.Parameter(1e-4 * torch.ones(n)), nn.Parameter(1e-4 * torch.ones(n))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.gamma1 * self.tokens(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.gamma2 * self.down(F.gelu(self.up(self.n2(x))))


class Mixer(nn.Module):
    def __init__(self, depth: int, n: int = 16) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, n, 4, 4)
        self.blocks = nn.Sequential(*(MixerBlock(n) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(n), nn.Linear(n, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.patch(images).flatten(2).transpose(1, 2))).mean(1))


class EncoderDecoder(nn.Module):
    """Two streams; the decoder's branches read the encoder's."""

    def __init__(self, depth: int, n: int = 16) -> None:
        super().__init__()
        self.emb = nn.Embedding(WORDS, n)
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        for _ in range(depth):
            self.encoder.append(nn.ModuleDict(dict(
                n1=nn.RMSNorm(n), attn=Attention(n), n2=nn.RMSNorm(n), mlp=Mlp(n))))
            self.decoder.append(nn.ModuleDict(dict(
                n1=nn.RMSNorm(n), attn=Attention(n), n2=nn.RMSNorm(n), q=nn.Linear(n, n), kv=nn.Linear(n, 2 * n),
                o=nn.Linear(n, n), n3=nn.RMSNorm(n), mlp=Mlp(n))))
        self.middle, self.norm, self.head = nn.RMSNorm(n), nn.RMSNorm(n), nn.Linear(n, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        z, x = self.emb(tokens), self.emb(tokens.flip(1))
        for one in self.encoder:
            z = z + one["attn"](one["n1"](z))
            z = z + one["mlp"](one["n2"](z))
        z = self.middle(z)
        for one in self.decoder:
            x = x + one["attn"](one["n1"](x))
            q, (k, v) = one["q"](one["n2"](x)), one["kv"](z).chunk(2, -1)
            x = x + one["o"](F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0])
            x = x + one["mlp"](one["n3"](x))
        return self.head(self.norm(x))
