"""Train a small mixture-of-experts transformer in PyTorch over the granularity of its experts, their width m and their
number E, with a plan and without.

    python docs/images/expert_transfer.py train FOLDER    writes expert_transfer.json beside this file
    python docs/images/expert_transfer.py draw            draws expert_transfer.svg from it

Two layers of width 64, English text by characters, 100 steps, rates an octave apart, four seeds. Finished trainings are
kept in FOLDER and not made again. Takes some twenty minutes on one core.
"""

import json
import sys
from dataclasses import dataclass
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
from tpcalc.torch.sweep import TransferSweep

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

KEPT = Path(__file__).with_suffix(".json")
STEPS, SEEDS, RECIPES = 100, 4, ["sp", "depth-mup"]  # nothing grows in depth: the latter is the plan in m, E and k
WIDTH, LAYERS, HEADS, BATCH, TIME = 64, 2, 4, 8, 32


@dataclass(frozen=True)
class Sizes:
    """Of a layer's experts: how many there are, how many act, how wide they are."""

    E: int
    k: int
    m: int


@dataclass(frozen=True)
class Sweep:
    """What grows, by which optimizer, over which powers of 2 as rates."""

    optimizer: str
    sizes: tuple[int, ...]
    rates: tuple[int, int]

    @property
    def learning_rates(self) -> list[float]:
        low, high = self.rates
        return [2.0**power for power in range(low, high + 1)]


SWEEPS = {"granularity": Sweep("adamw", (1, 4, 16), (-10, -3)), "m": Sweep("adamw", (8, 32, 128), (-10, -4)),
          "E by SGD": Sweep("sgd", (4, 16, 64), (-6, 1)), "E": Sweep("adamw", (4, 16, 64), (-10, -4))}


def normed(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class Experts(nn.Module):
    """Experts in stacks, all run on everything; shares of those that act have the sum 1, which is convention A."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.k, self.router = sizes.k, nn.Linear(WIDTH, sizes.E, bias=False)
        self.up = nn.Parameter(torch.empty(sizes.E, sizes.m, WIDTH))
        self.down = nn.Parameter(torch.empty(sizes.E, WIDTH, sizes.m))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, 1)
        weight, which = self.router(rows).softmax(-1).topk(self.k)
        weight = weight / weight.sum(-1, keepdim=True)
        shares = torch.zeros(len(rows), len(self.up)).scatter(1, which, weight)
        hidden = F.gelu(torch.einsum("bn,emn->ebm", rows, self.up))
        return torch.einsum("ebm,enm->ebn", hidden * shares.T[..., None], self.down).sum(0).view(x.shape)


class Layer(nn.Module):
    """Causal attention and experts, each behind a norm."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.experts = Experts(sizes)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, n = x.shape
        y = normed(x)
        q, k, v = (matrix(y).view(batch, time, HEADS, -1).transpose(1, 2) for matrix in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, time, n))
        return x + self.experts(normed(x))


class Transformer(nn.Module):
    """Matrices start at fan-in^(-1/2)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        vocabulary = len(tp.tasks.text(1, 1, 1).alphabet)
        self.embedding, self.positions = nn.Embedding(vocabulary, WIDTH), nn.Embedding(TIME, WIDTH)
        self.readout = nn.Linear(WIDTH, vocabulary, bias=False)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(LAYERS))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=parameter.shape[-1]**-0.5)
        nn.init.normal_(self.embedding.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.readout(normed(x))


def finer(r: int) -> nn.Module:
    return Transformer(Sizes(4 * r, 2 * r, 64 // r))


def wider(m: int) -> nn.Module:
    return Transformer(Sizes(8, 2, m))


def more(E: int) -> nn.Module:
    return Transformer(Sizes(E, 2, 16))


SHORT = {"granularity": "r", "m": "m", "E by SGD": "E", "E": "E"}
MAKE = {"granularity": finer, "m": wider, "E by SGD": more, "E": more}


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


@cache
def text(seed: int) -> Text:
    return tp.tasks.text(STEPS, BATCH, TIME, seed)


def data(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    found = text(seed)
    yield from zip(torch.from_numpy(found.inputs), torch.from_numpy(found.targets))


def told(done: int, total: int) -> None:
    print(f"\r{done} of {total}", end="", file=sys.stderr, flush=True)


def planned(name: str) -> dict[str, dict[str, list[float]]]:
    """By matrix what a plan multiplies its initial size and its rate with, size by size."""
    one, found = SWEEPS[name], dict[str, dict[str, list[float]]]()
    for matrix in ("router.weight", "up", "down"):
        plans = [tpt.plan(lambda size: MAKE[name](size), {"size": one.sizes[0]}, {"size": size},
                          optimizer=one.optimizer).entry(f"layers.0.experts.{matrix}") for size in one.sizes]
        found[matrix] = {setting: [round(entry.factor(setting), 4) for entry in plans] for setting in ("init", "lr")}
    return found


def train(folder: Path) -> None:
    torch.set_num_threads(1)
    kept = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, one in SWEEPS.items():
        found = tpt.transfer(MAKE[name], loss, data, list(one.sizes), one.learning_rates, STEPS, RECIPES, one.optimizer,
                             seeds=SEEDS, resume=str(folder / name.replace(" ", "_")), progress=told)
        print(name, found, sep="\n")
        kept[name] = {"sizes": list(one.sizes), "optimizer": one.optimizer, "rates": one.learning_rates,
                      "plan": planned(name),
                      "losses": {recipe: np.where(np.isfinite(found.losses[i]), found.losses[i], -1).round(4).tolist()
                                 for i, recipe in enumerate(RECIPES)}}
    KEPT.write_text(json.dumps(kept) + "\n")


def swept(name: str) -> TransferSweep:
    """A sweep as it was kept; "depths" are what grows in it."""
    one = json.loads(KEPT.read_text())[name]
    losses = np.array([one["losses"][recipe] for recipe in RECIPES])
    return TransferSweep(tuple(RECIPES), tuple(one["sizes"]), np.array(one["rates"]),
                         np.where(losses < 0, np.inf, losses), {})


def draw(path: Path) -> None:
    figure = Figure(figsize=(12, 6), layout="constrained")
    grid = figure.subplots(len(RECIPES), len(SWEEPS), sharey=True)
    for column, name in zip(grid.T, SWEEPS):
        found = swept(name)
        found.plot(column)
        for axis, recipe in zip(column, ("without a plan", "with it")):
            axis.set(title=f"{name}, {recipe}", xlabel="learning rate")
            curves, _ = axis.get_legend_handles_labels()
            axis.legend(curves, [f"{SHORT[name]} = {size}" for size in found.depths], frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(Path(sys.argv[2]))
    else:
        draw(KEPT.with_suffix(".svg"))
