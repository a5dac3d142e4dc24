"""Draw docs/images/torch_transfer.svg: tpcalc.torch.transfer of a small Llama-like transformer on English text; print
its numbers, beside what theory says of each recipe.

Depths 2 to 16 at width 64, 70 steps of AdamW, seven rates an octave apart, five seeds. Takes half an hour on one busy
core. With a folder as argument, finished trainings are kept there and not made again.
"""

import sys
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Iterator

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

import tpcalc as tp
import tpcalc.torch as tpt
from tpcalc.data.text import Text
from tpcalc.tune.named import LAYER
from tpcalc.tune.own_block import audit_on_block
from tpcalc.tune.recipe import named_recipe

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

DEPTHS, STEPS, SEEDS, RECIPES = [2, 4, 8, 16], 70, 5, ["sp", "depth-mup", "completep"]
RATES = 2.0 ** np.arange(-11, -4)
WIDTH, HEADS, BATCH, TIME = 64, 4, 8, 32


class RMSNorm(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def rotated(x: Tensor) -> Tensor:
    """Rotary positions: pairs of coordinates turn with the position, (batch, heads, time, size)."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] * 10000.0 ** (-torch.arange(half) / half)
    one, two = x[..., :half], x[..., half:]
    return torch.cat([one * angles.cos() - two * angles.sin(), one * angles.sin() + two * angles.cos()], dim=-1)


class Layer(nn.Module):
    """Attention and a gated MLP, each behind a norm, as Llama has them."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = RMSNorm(n), RMSNorm(n)
        self.q, self.k, self.v, self.o = (nn.Linear(n, n, bias=False) for _ in range(4))
        self.gate, self.up, self.down = (nn.Linear(n, 2 * n, bias=False), nn.Linear(n, 2 * n, bias=False),
                                         nn.Linear(2 * n, n, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        batch, time, n = x.shape
        y = self.attention_norm(x)
        q, k, v = (matrix(y).view(batch, time, HEADS, -1).transpose(1, 2) for matrix in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, time, n))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Matrices start at fan-in^(-1/2), whatever the depth; the readout is not that of the embedding."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        vocabulary = len(tp.tasks.text(1, 1, 1).alphabet)
        self.embedding, self.readout = nn.Embedding(vocabulary, WIDTH), nn.Linear(WIDTH, vocabulary, bias=False)
        self.layers, self.norm = nn.ModuleList(Layer(WIDTH) for _ in range(depth)), RMSNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=parameter.shape[1]**-0.5)
        nn.init.normal_(self.embedding.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.readout(self.norm(x))


def make(depth: int) -> nn.Module:
    return Llama(depth)


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


@cache
def text(seed: int) -> Text:
    return tp.tasks.text(STEPS, BATCH, TIME, seed)


def data(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    found = text(seed)
    yield from zip(torch.from_numpy(found.inputs), torch.from_numpy(found.targets))


def theory() -> None:
    """Each recipe on a transformer's layer, norms before branches, at infinite width: before any training."""
    for name in RECIPES:
        found = audit_on_block(replace(named_recipe(name), block=LAYER))
        sizes = ", ".join(f"{what} like L^({power})" for what, power in found.verdict.exponents.items()
                          if what in ("x at initialization", "change of f"))
        print(f"{name}: {found.called}; {sizes}")


def told(done: int, total: int) -> None:
    print(f"\r{done} of {total}", end="", file=sys.stderr, flush=True)


def draw(path: Path, folder: str | None) -> None:
    theory()
    torch.set_num_threads(1)
    sweep = tpt.transfer(make, loss, data, DEPTHS, RATES, STEPS, RECIPES, seeds=SEEDS, resume=folder, progress=told)
    print(sweep)
    base = int(np.argmin(sweep.losses[0, 0].mean(axis=1)))
    print("mean loss of seeds by rate, depth and recipe; inf: a seed diverged")
    print(f"{'':22}" + " ".join(f"2^{power:<5.0f}" for power in np.log2(RATES)))
    for i, recipe in enumerate(sweep.recipes):
        for j, depth in enumerate(sweep.depths):
            means = sweep.losses[i, j].mean(axis=1)
            print(f"{recipe:>12} {depth:>8} " + " ".join(f"{mean:7.3f}" for mean in means)
                  + f"   at the best rate of depth {DEPTHS[0]}: {means[base]:.3f}")
    print(f"loss at depth {DEPTHS[-1]}, each at its best rate, less that of another recipe, seed by seed")
    best = [one[np.argmin(one.mean(axis=1))] for one in sweep.losses[:, -1]]
    for i, j in combinations(range(len(RECIPES)), 2):
        differences = best[j] - best[i]
        print(f"{RECIPES[j]:>12} less {RECIPES[i]}: {differences.mean():+.3f} +- "
              f"{differences.std(ddof=1) / np.sqrt(SEEDS):.3f}")
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    sweep.plot(figure.subplots(1, len(RECIPES), sharey=True))
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).with_name("torch_transfer.svg"), sys.argv[1] if len(sys.argv) > 1 else None)
