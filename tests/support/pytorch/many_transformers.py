"""Drawn transformers as people write them, in PyTorch: many networks at once, with gradients by PyTorch."""

from __future__ import annotations

import math
from typing import Callable, Collection

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tpcalc.verdicts.transformers import share_of_decay
from tpcalc.optimizers import SGD
from drawn.position_blocks import NAMES, DrawnTransformer

PHI: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu, "gelu": F.gelu}
Layer = dict[str, Tensor]  # by name of a matrix, (networks, width, width)


WIDTH = 32
IN_A_ROUND = 1600  # networks times the root of their depth: of deeper ones fewer, as each takes longer


def logs_of_sizes(drawn: DrawnTransformer, depth: int, seed: int, width: int = WIDTH,
                  networks: int | None = None, trained: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """By name of a size, of each network the logarithm of the root mean square, shape (networks,); trained: names of
    matrices, all where none are said."""
    networks = round(IN_A_ROUND / math.sqrt(depth)) if networks is None else networks
    draw = torch.Generator().manual_seed(1000 * seed + depth)

    def normal(*shape: int) -> Tensor:
        return torch.randn(networks, *shape, generator=draw)

    ends = normal(len(drawn.inputs[0]), width), normal(width)
    layers = [{name: normal(width, width) / math.sqrt(width) for name in drawn.net.matrices_of_block}
              for _ in range(depth)]
    changes = before_and_changes(drawn, *ends, layers, trained)
    return {name: torch.log((one.double()**2).flatten(1).mean(1)).numpy() / 2 for name, one in zip(NAMES, changes)}


def before_and_changes(drawn: DrawnTransformer, read_in: Tensor, read_out: Tensor, layers: list[Layer],
                       trained: Collection[str] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Streams at the end, and by how much a first update changes them and the outputs. Matrices are written over.

    read_in: (networks, inputs, width), read_out: (networks, width); trained: names of matrices, all where none are
    said. A matrix's gradient is divided by the branch multiplier, and a direction that has signs alone by the width.
    """
    alpha, gamma = map(float, drawn.point)
    branch, rate = len(layers)**-alpha, drawn.opt.lr * len(layers)**-gamma
    start = torch.einsum("pd,sdi->spi", torch.tensor(drawn.inputs, dtype=read_in.dtype), read_in)
    targets = torch.tensor(drawn.targets, dtype=read_in.dtype)

    def forward() -> tuple[Tensor, Tensor]:
        x = start
        for layer in layers:
            x = x + branch * attention(drawn, normed(drawn, x), layer)
            x = x if drawn.mlp is None else x + branch * perceptron(drawn, normed(drawn, x), layer)
        return x, (x * read_out[:, None]).mean(-1)

    moved = [layer[name] for layer in layers for name in (layer if trained is None else trained)]
    for matrix in moved:
        matrix.requires_grad_()
    x, f = forward()
    (((f - targets)**2).sum() / 2).backward()
    with torch.no_grad():
        for matrix in moved:
            gradient = matrix.grad
            assert gradient is not None
            matrix *= 1 - share_of_decay(drawn.opt)
            matrix -= rate * (gradient / branch if isinstance(drawn.opt, SGD) else gradient.sign() / x.shape[-1])
            matrix.grad = None
        x_after, f_after = forward()
        return x.detach(), x_after - x, f_after - f


def normed(drawn: DrawnTransformer, x: Tensor) -> Tensor:
    if drawn.norm is None:
        return x
    centered = x - x.mean(-1, keepdim=True) if drawn.norm == "layer" else x
    return centered / (centered**2).mean(-1, keepdim=True).sqrt()


def times(x: Tensor, matrix: Tensor) -> Tensor:
    return torch.bmm(x, matrix.transpose(1, 2))


def attention(drawn: DrawnTransformer, x: Tensor, layer: Layer) -> Tensor:
    networks, locations, width = x.shape
    size = drawn.head_dim
    seen = torch.ones(locations, locations, dtype=x.dtype)
    seen = seen.tril() if drawn.causal else seen
    v = times(x, layer["Wv"])
    if drawn.attention in ("mean", "gated"):
        mixed = torch.matmul(seen / locations, v)
        if drawn.attention == "gated":
            mixed = PHI[drawn.phi](times(x, layer["Wg"])) * mixed
        return times(mixed, layer["Wo"])
    q, k, v = (one.reshape(networks, locations, width // size, size)
               for one in (times(x, layer["Wq"]), times(x, layer["Wk"]), v))
    if drawn.qk_norm:
        q, k = (one / (one**2).mean(-1, keepdim=True).sqrt() for one in (q, k))
    score, seen = (q[:, :, None] * k[:, None]).sum(-1), seen[:, :, None]  # networks, places, places read, heads
    if drawn.attention == "softmax":
        share = torch.softmax(score / math.sqrt(size) + torch.log(seen), 2)
    else:
        share = score * seen / (size * locations)
    return times((share[..., None] * v[:, None]).sum(2).reshape(x.shape), layer["Wo"])


def perceptron(drawn: DrawnTransformer, x: Tensor, layer: Layer) -> Tensor:
    h = PHI[drawn.phi](times(x, layer["W1"]))
    return times(h, layer["W2"]) if drawn.mlp == "mlp" else times(h * times(x, layer["W2"]), layer["W3"])
