"""A model in plain torch with the options of networks, and the weights of a network as its parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

Arrays = Mapping[str, np.ndarray]
BASE = 100.0  # of rotations


@dataclass(frozen=True)
class Options:
    """norm: None, "rms", "layer"; position: "pre", "output", "sandwich", "post"; attention: heads, 0 for none; keys:
    heads of keys; rotated: "half", pairs of coordinates half a head apart, or "pairs", of neighbors; table: added to
    scores, by heads; mlp: "mlp", "glu", "pre", "preactivated" or "" for none; m, keep: what multiplies branch, stream;
    biases: letters of what has one: q, k, v, o, u(p), (gate) value w, m(iddle), d(own), n(orms);
    beside: attention and the perceptron read the stream at one point, "at once" behind one norm, "in turn" behind one
    and added one after the other, or behind "two norms"."""

    norm: str | None = None
    position: str = "pre"
    gains: bool = False
    biases: str = ""
    heads: int = 0
    keys: int = 0
    causal: bool = True
    qk_norm: bool = False
    scale: float | None = None
    rotated: str = ""
    table: Any = None
    fused: bool = False
    mlp: str = "mlp"
    phi: Callable[[Tensor], Tensor] = F.gelu
    ratio: int = 1
    m: float = 1.0
    keep: float = 1.0
    beside: str = ""


class Norm(nn.Module):
    def __init__(self, n: int, given: Options) -> None:
        super().__init__()
        self.centered, self.weight = given.norm == "layer", nn.Parameter(torch.ones(n)) if given.gains else None
        self.bias = nn.Parameter(torch.zeros(n)) if "n" in given.biases else None

    def forward(self, x: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True) if self.centered else x
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True))
        x = x if self.weight is None else x * self.weight
        return x if self.bias is None else x + self.bias


class Attention(nn.Module):
    def __init__(self, n: int, given: Options) -> None:
        super().__init__()
        self.given, self.size = given, n // given.heads
        own = [n, given.keys * self.size, given.keys * self.size]
        self.own = own
        self.q, self.k, self.v = (None,) * 3 if given.fused else (
            nn.Linear(n, one, bias=name in given.biases) for name, one in zip("qkv", own))
        self.qkv = nn.Linear(n, sum(own), bias="q" in given.biases) if given.fused else None
        self.o = nn.Linear(n, n, bias="o" in given.biases)

    def forward(self, x: Tensor) -> Tensor:
        each = self.qkv(x).split(self.own, -1) if self.qkv is not None else [one(x) for one in (self.q, self.k, self.v)]
        q, k, v = (one.view(*x.shape[:2], -1, self.size).transpose(1, 2) for one in each)
        if self.given.qk_norm:
            q, k = (one / one.square().mean(-1, keepdim=True).sqrt() for one in (q, k))
        if self.given.rotated:
            half = self.size // 2
            angle = torch.arange(x.shape[1])[:, None] * BASE ** (-torch.arange(half, dtype=x.dtype) / half)
            first, second = ((slice(half), slice(half, None)) if self.given.rotated == "half" else
                             (slice(0, None, 2), slice(1, None, 2)))
            for one in (q, k):
                turned = one.clone()
                turned[..., first] = one[..., first] * angle.cos() - one[..., second] * angle.sin()
                turned[..., second] = one[..., first] * angle.sin() + one[..., second] * angle.cos()
                q, k = (turned if one is q else q), (turned if one is k else k)
        k, v = (one.repeat_interleave(self.given.heads // self.given.keys, dim=1) for one in (k, v))
        mask = None
        if self.given.table is not None:
            mask = torch.tensor(self.given.table)
            mask = mask.masked_fill(torch.ones(mask.shape[1:]).tril() == 0, -torch.inf) if self.given.causal else mask
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.given.causal and mask is None,
                                           scale=self.given.scale)
        return self.o(y.transpose(1, 2).reshape(x.shape))


class Perceptron(nn.Module):
    def __init__(self, n: int, given: Options) -> None:
        super().__init__()
        self.kind, self.phi, wide = given.mlp, given.phi, n * given.ratio
        self.up = nn.Linear(n, wide, bias="u" in given.biases) if given.mlp != "pre" else None
        self.value = nn.Linear(n, wide, bias="w" in given.biases) if given.mlp == "glu" else None
        self.middle = nn.Linear(n, n, bias="m" in given.biases) if given.mlp == "deep" else None
        self.down = nn.Linear(wide, n, bias="d" in given.biases)

    def forward(self, x: Tensor) -> Tensor:
        x = self.phi(x) if self.kind in ("pre", "preactivated") else x
        h = x if self.up is None else self.phi(self.up(x))
        h = h if self.middle is None else self.phi(self.middle(h))
        return self.down(h * self.value(x) if self.value is not None else h)


class Around(nn.Module):
    """A branch with its norms, on the stream."""

    def __init__(self, n: int, given: Options, branch: nn.Module) -> None:
        super().__init__()
        self.given, self.branch = given, branch
        where = {"pre": (1, 0, 0), "output": (0, 1, 0), "sandwich": (1, 1, 0), "post": (0, 0, 1)}[given.position]
        self.before, self.after, self.behind = (
            Norm(n, given) if here and given.norm else nn.Identity() for here in where)

    def forward(self, x: Tensor) -> Tensor:
        return self.behind(self.given.keep * x + self.given.m * self.after(self.branch(self.before(x))))


class Beside(nn.Module):
    """Attention and a perceptron that read the stream together."""

    def __init__(self, n: int, given: Options) -> None:
        super().__init__()
        self.given, self.attention, self.mlp = given, Attention(n, given), Perceptron(n, given)
        self.norms = nn.ModuleList(Norm(n, given) for _ in range(1 + (given.beside == "two norms")))

    def forward(self, x: Tensor) -> Tensor:
        read = [norm(x) for norm in self.norms]
        a, b, x = self.given.m * self.attention(read[0]), self.given.m * self.mlp(read[-1]), self.given.keep * x
        return x + b + a if self.given.beside == "in turn" else x + (a + b)


class Model(nn.Module):
    def __init__(self, depth: int, n: int, inputs: int, outputs: int, given: Options) -> None:
        super().__init__()
        self.given = given
        self.read_in, self.out = nn.Linear(inputs, n, bias=False), nn.Linear(n, outputs, bias=False)
        if given.beside:
            self.layers = nn.ModuleList(nn.ModuleList([Beside(n, given)]) for _ in range(depth))
            self.double()
            return
        kinds = [*([Attention] if given.heads else []), *([Perceptron] if given.mlp else [])]
        self.layers = nn.ModuleList(nn.ModuleList(Around(n, given, kind(n, given)) for kind in kinds)
                                    for _ in range(depth))
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        x = self.read_in(x)
        for layer in self.layers:
            for one in layer:
                x = one(x)
        return self.out(x)


def take(model: nn.Module, found: Any, weights: Arrays, eps: float) -> None:
    """Give a model the weights of the network that it was read as, with the branch multiplier eps."""
    net, parameters = found.network, dict(model.named_parameters())
    last = {"Wo", "W", f"W{max((int(name[1:]) for name in found.matrices if name[1:].isdigit()), default=0)}"}
    rows: dict[str, list[np.ndarray]] = {}
    matrices = (one for one in found.matrices if one[0] == "W")
    for name in sorted(matrices, key=lambda one: "qkvo".find(one[1:]) if len(one) > 1 else 0):
        for layer in range(found.depth):
            whole = whole_matrix(weights, name, layer, last, net.hidden_ratio)
            if name in ("Wk", "Wv"):
                shared = getattr(net.attention, "attention", net).queries_per_key
                whole = whole.reshape(-1, shared, net.head_dim, whole.shape[1])[:, 0].reshape(-1, whole.shape[1])
            if name in ("Wq", "Wk") and model.given.rotated == "pairs":
                by_head = whole.reshape(-1, 2, net.head_dim // 2, whole.shape[1])
                whole = by_head.transpose(0, 2, 1, 3).reshape(whole.shape)  # neighbors, of what is half a head apart
            whole = whole * (eps if name in last else 1.0) / found.multipliers.get(name, 1.0)
            rows.setdefault(found.matrices[name].replace("*", str(layer), 1), []).append(whole)
    with torch.no_grad():
        for parameter, parts in rows.items():
            parameters[parameter].copy_(torch.tensor(np.concatenate(parts)))
        take_biases(model, found, weights, eps, last)
        model.read_in.weight.copy_(torch.tensor(weights["U"].T))
        model.out.weight.copy_(torch.tensor(weights["nV"] / len(weights["U"].T)))


def take_biases(model: nn.Module, found: Any, weights: Arrays, eps: float, last: set[str]) -> None:
    """As the network's, coordinate by coordinate; behind norms those of the sublayer, or of all that stand beside."""
    net, parameters = found.network, dict(model.named_parameters())
    rows: dict[str, list[np.ndarray]] = {}
    for name in sorted((one for one in found.matrices if one[0] == "b"), key=lambda one: "qkvo".find(one[1:])):
        matrix = "W" + name[1:]
        for layer in range(found.depth):
            forgotten = np.ones(found.width)  # what softmax forgets
            every = (name, *(f"{name}_{k}" for k in range(1, net.hidden_ratio + 1)))
            parts = [weights[part][layer] for part in every if part in weights] or [forgotten]
            whole = np.concatenate(parts)
            if name in ("bk", "bv"):
                shared = getattr(net.attention, "attention", net).queries_per_key
                whole = whole.reshape(-1, shared, net.head_dim)[:, 0].ravel()
            if name in ("bq", "bk") and model.given.rotated == "pairs":
                whole = whole.reshape(-1, 2, net.head_dim // 2).transpose(0, 2, 1).ravel()
            whole = whole * (eps if matrix in last else 1.0) / found.multipliers.get(matrix, 1.0)
            rows.setdefault(found.matrices[name].replace("*", str(layer), 1), []).append(whole)
    for parameter, parts in rows.items():
        parameters[parameter].copy_(torch.tensor(np.concatenate(parts)))
    if net.shifts_normed:
        numbered = hasattr(net, "positions") and net.positions
        for parameter, value in parameters.items():
            place = next((letter for place, letter in {"before": "n", "after": "o", "behind": "e", "norms": "n"}.items()
                          if f".{place}." in parameter), None)
            if place and parameter.endswith("bias"):
                _, layer, sublayer, *_ = parameter.split(".")
                value.copy_(torch.tensor(weights[f"b{place}{int(sublayer) + 1 if numbered else ''}"][int(layer)]))


def whole_matrix(weights: Arrays, name: str, layer: int, last: set[str], ratio: int) -> np.ndarray:
    """A matrix of a wide hidden layer from its parts, with entries of variance 1 / fan-in."""
    if name in weights:
        return weights[name][layer]
    parts = [weights[f"{name}_{k}"][layer] for k in range(1, ratio + 1)]
    assert re.fullmatch(r"W\d", name)
    return np.concatenate(parts, axis=1) / np.sqrt(ratio) if name in last else np.concatenate(parts)
