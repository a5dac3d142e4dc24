"""Draw docs/images/loop_transfer.svg: a looped transformer in PyTorch, trained at 2 to 16 visits of its two layers;
print the numbers.

Width 32, 40 steps of AdamW, six rates an octave apart, three seeds; with nothing scaled, and with Depth-muP, which
divides branches by the number of visits. Takes some minutes on one core. With a folder as argument, finished trainings
are kept there and not made again.
"""

import re
import sys
from functools import cache
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

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

VISITS, LAYERS, STEPS, SEEDS, RECIPES = [2, 8, 16], 2, 40, 3, ["sp", "depth-mup"]
RATES = 2.0 ** np.arange(-10, -4)
WIDTH, HEADS, BATCH, TIME = 32, 4, 8, 32


def normed(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class Layer(nn.Module):
    """Causal attention and a gelu MLP, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, n = x.shape
        y = normed(x)
        q, k, v = (matrix(y).view(batch, time, HEADS, -1).transpose(1, 2) for matrix in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, time, n))
        return x + self.down(F.gelu(self.up(normed(x))))


class Looped(nn.Module):
    def __init__(self, visits: int) -> None:
        super().__init__()
        vocabulary = len(tp.tasks.text(1, 1, 1).alphabet)
        self.embedding, self.positions = nn.Embedding(vocabulary, WIDTH), nn.Embedding(TIME, WIDTH)
        self.readout, self.visits = nn.Linear(WIDTH, vocabulary, bias=False), visits
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=parameter.shape[1]**-0.5)
        nn.init.normal_(self.embedding.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for _ in range(self.visits):
            for layer in self.layers:
                x = layer(x)
        return self.readout(normed(x))


def make(visits: int) -> nn.Module:
    return Looped(visits)


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


@cache
def text(seed: int) -> Text:
    return tp.tasks.text(STEPS, BATCH, TIME, seed)


def data(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    found = text(seed)
    yield from zip(torch.from_numpy(found.inputs), torch.from_numpy(found.targets))


def draw(path: Path, folder: str | None) -> None:
    torch.set_num_threads(1)
    sweep = tpt.transfer(make, loss, data, VISITS, RATES, STEPS, RECIPES, seeds=SEEDS, resume=folder)
    print(re.sub(r"\bdepth(s?)\b(?!-)", "visits", str(sweep)))
    base = int(np.argmin(sweep.losses[0, 0].mean(axis=1)))
    print("mean loss of seeds by rate, recipe and visits; inf: a seed diverged")
    for i, recipe in enumerate(sweep.recipes):
        for j, visits in enumerate(sweep.depths):
            means = sweep.losses[i, j].mean(axis=1)
            print(f"{recipe:>12} {visits:>8} " + " ".join(f"{mean:7.3f}" for mean in means)
                  + f"   at the best rate of {VISITS[0]} visits: {means[base]:.3f}")
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    sweep.plot(figure.subplots(1, len(RECIPES), sharey=True))
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).with_name("loop_transfer.svg"), sys.argv[1] if len(sys.argv) > 1 else None)
