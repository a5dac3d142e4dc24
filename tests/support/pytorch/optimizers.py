"""Optimizers that people use, written from their papers, and by how much a training with one moves outputs."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import torch

BATCH = torch.randn(16, 5, generator=torch.Generator().manual_seed(1))
Group = dict[str, Any]


class Simple(torch.optim.Optimizer):  # type: ignore[misc,name-defined]
    """Parameters by themselves: ``moved(p, g, state, group)`` is what a step adds, before decoupled weight decay."""

    usual: Group = {"lr": 1e-3, "weight_decay": 0.0}

    def __init__(self, params: Any, **given: Any) -> None:
        super().__init__(params, {**Simple.usual, **type(self).usual, **given})

    def moved(self, p: Any, g: Any, state: Group, group: Group) -> Any:
        raise NotImplementedError

    @torch.no_grad()  # type: ignore[misc]
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                state = self.state[p]
                state["t"] = state.get("t", 0) + 1
                change = self.moved(p, p.grad, state, group)
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(change)


class Lion(Simple):
    """As published: w <- (1 - lr decay) w - lr sign(b1 m + (1 - b1) g), m <- b2 m + (1 - b2) g."""

    usual = {"betas": (0.9, 0.99)}

    def moved(self, p: Any, g: Any, state: Group, group: Group) -> Any:
        (one, two), m = group["betas"], state.setdefault("m", torch.zeros_like(p))
        change = -group["lr"] * (m * one + g * (1 - one)).sign()
        m.mul_(two).add_(g, alpha=1 - two)
        return change


def adams(p: Any, g: Any, state: Group, betas: tuple[float, float], eps: float, t: int) -> Any:
    """Adam's direction with bias correction, of its ``t``-th step."""
    m, v = (state.setdefault(name, torch.zeros_like(p)) for name in ("m", "v"))
    m.lerp_(g, 1 - betas[0])
    v.lerp_(g**2, 1 - betas[1])
    return m / (1 - betas[0]**t) / ((v / (1 - betas[1]**t)).sqrt() + eps)


class SOAP(Simple):
    """arXiv:2409.11321, algorithm 3, eigenvectors anew at every step; the first step fills averages, and moves nothing.
    Vectors move by Adam."""

    usual = {"betas": (0.95, 0.95), "eps": 1e-8}

    def moved(self, p: Any, g: Any, state: Group, group: Group) -> Any:
        t, beta = state["t"], group["betas"][1]
        if p.dim() != 2:
            return -group["lr"] * adams(p, g, state, group["betas"], group["eps"], t - 1) if t > 1 else 0 * p
        change = 0 * p
        if t > 1:
            m = state.setdefault("average", torch.zeros_like(p)).lerp_(g, 1 - group["betas"][0])
            left, right = (torch.linalg.eigh(state[name].double())[1].to(p) for name in ("rows", "columns"))
            v = state.setdefault("squares", torch.zeros_like(p)).lerp_((left.T @ g @ right)**2, 1 - beta)
            turned = (left.T @ m @ right) / (1 - group["betas"][0]**(t - 1))
            change = -group["lr"] * left @ (turned / ((v / (1 - beta**(t - 1))).sqrt() + group["eps"])) @ right.T
        for name, gram in (("rows", g @ g.T), ("columns", g.T @ g)):
            state.setdefault(name, torch.zeros_like(gram)).lerp_(gram, 1 - beta)
        return change


class ScheduleFree(Simple):
    """arXiv:2405.15682: z moves by the base's steps, x averages z, and gradients are taken at y = (1 - b) z + b x."""

    def base(self, p: Any, g: Any, state: Group, group: Group) -> Any:
        return g

    def moved(self, p: Any, g: Any, state: Group, group: Group) -> Any:
        b = group["betas"][0]
        z, x = (state.setdefault(name, p.clone()) for name in ("z", "x"))
        z.sub_(self.base(p, g, state, group), alpha=group["lr"])
        x.lerp_(z, 1 / state["t"])
        return (1 - b) * z + b * x - p


class SGDScheduleFree(ScheduleFree):
    usual = {"betas": (0.9, 0.0)}


class AdamWScheduleFree(ScheduleFree):
    usual = {"betas": (0.9, 0.999), "eps": 1e-8}

    def base(self, p: Any, g: Any, state: Group, group: Group) -> Any:
        return adams(p, g, state, (0.0, group["betas"][1]), group["eps"], state["t"])


class AdamW8bit(torch.optim.AdamW):  # type: ignore[misc,name-defined]
    """By its class it is that of bitsandbytes, whose averages are kept to few digits, of a wide range of sizes."""

    def step(self, closure: Any = None) -> None:
        super().step()
        for state in self.state.values():
            for name in ("exp_avg", "exp_avg_sq"):
                size = 2.0**((4 * state[name].abs().log2()).round() / 4)
                state[name].copy_(state[name].sign() * size)


def moved(model: Any, trainer: Any, steps: int) -> float:
    """By how much training changes outputs, root mean square."""
    before = model(BATCH).detach()
    for _ in range(steps):
        trainer.zero_grad()
        (model(BATCH) - 1).square().mean().backward()
        trainer.step()
    return float((model(BATCH).detach() - before).square().mean().sqrt())


def mean_moved(make: Any, optimizer: Callable[[Any], Any], sizes: Iterable[tuple[int, int]], steps: int) -> list[float]:
    """At every size, over initializations."""
    found = []
    for layers, n in sizes:
        total = 0.0
        for seed in range(4):
            torch.manual_seed(seed)
            model = make(layers, n)
            total += moved(model, optimizer(model), steps)
        found.append(total / 4)
    return found
