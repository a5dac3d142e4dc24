"""Models, losses and data of small sweeps, as functions of a module, which processes can be sent."""

from __future__ import annotations

from typing import Any, Iterator

import torch

import tpcalc.torch as tpt


class Sum(torch.nn.Module):
    """x times the sum of all weights: gradient descent on it is that on one weight, at depth times the rate."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.randn(1).double()) for _ in range(depth))

    def forward(self, x: Any) -> Any:
        return x * sum(self.weights)


class Net(torch.nn.Module):
    """Residual, with branches of two matrices."""

    def __init__(self, depth: int, n: int = 8) -> None:
        super().__init__()
        self.emb, self.head = torch.nn.Linear(2, n), torch.nn.Linear(n, 1)
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(
            torch.nn.Linear(n, n, bias=False), torch.nn.ReLU(), torch.nn.Linear(n, n, bias=False))
            for _ in range(depth))

    def forward(self, x: Any) -> Any:
        x = self.emb(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


class Normed(Net):
    """Branches end with a norm, so that the last matrix cannot carry their multiplier."""

    def __init__(self, depth: int) -> None:
        super().__init__(depth)
        for layer in self.layers:
            layer.append(torch.nn.LayerNorm(8, elementwise_affine=False))


class Noisy(Net):
    def __init__(self, depth: int) -> None:
        super().__init__(depth)
        self.emb = torch.nn.Sequential(self.emb, torch.nn.Dropout(0.2))


def make_sum(depth: int) -> Any:
    return Sum(depth)


def make_net(depth: int) -> Any:
    return Net(depth)


def make_normed(depth: int) -> Any:
    return Normed(depth)


def make_noisy(depth: int) -> Any:
    return Noisy(depth)


def ones(seed: int) -> Iterator[Any]:
    while True:
        yield torch.ones(1).double()


def normal(seed: int) -> Iterator[Any]:
    draw = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randn(16, 2, generator=draw)


def square(model: Any, batch: Any) -> Any:
    return (model(batch) - 3.0).square().mean() / 2


def product(model: Any, batch: Any) -> Any:
    return (model(batch) - batch.prod(dim=1, keepdim=True)).square().mean()


def small(**options: Any) -> Any:
    return tpt.transfer(make_net, product, normal, **{
        "depths": [2, 4], "learning_rates": [1e-3, 1e-2], "steps": 6, "recipes": ["sp", "completep"], "seeds": 2,
        **options})
