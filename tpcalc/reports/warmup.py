"""``tpcalc warmup``: compile every kernel into numba's cache, so that no training waits for it."""

from __future__ import annotations

import argparse
import time
from typing import Any, Callable

import numpy as np
import sympy as sp

from .. import SGD, DepthScaling, Problem, ResNet, Stream, Task, kets, long_horizon, program, recursion, train
from ..theory import AttentionLayer, attention_limit
from ..methods import Coefficients, LongCollocation
from .progress import bar


def warmup_tasks() -> dict[str, Callable[[], Any]]:
    """What is solved, small, by what it warms up: one input a step, batches, many rows, every kind of propagator."""
    rng = np.random.default_rng(0)
    one, batch = Task([1.0, 0.8], [1.0, -0.7]), Task(rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3, 2)))
    scale, opt, linear = DepthScaling(), SGD(0.1), ResNet()

    def problem(net: ResNet, task: Task, depth: Any) -> Problem:
        return Problem(net, task, opt, scale, depth)

    def fluctuations(depth: Any) -> Any:
        return train(problem(linear, one, depth)).at_width(64)

    def compiled() -> Any:
        kernel = recursion(kets(program(linear, opt, scale))).compile()
        return kernel(4, [1.0, 0.8], [1.0, -0.7])

    return {"one input a step": lambda: train(problem(linear, one, 4), keep_nodes="all"),
            "batches": lambda: train(problem(linear, batch, 4), keep_nodes="all"),
            "the oracle": lambda: train(problem(linear, batch, 3), method=Coefficients()),
            "infinite depth": lambda: train(problem(linear, one, sp.oo)),
            "long training at infinite depth": lambda: train(problem(linear, Task(np.ones(4), -np.ones(4)), sp.oo),
                                                             method=LongCollocation()),
            "batches at infinite depth": lambda: train(problem(linear, batch, sp.oo)),
            "activations at infinite depth": lambda: train(problem(ResNet("tanh", "mlp"), one, sp.oo)),
            "finite width": lambda: fluctuations(3), "finite width at infinite depth": lambda: fluctuations(sp.oo),
            "attention": lambda: attention_limit(AttentionLayer(2, points=2, scrambles=2), np.ones((1, 1, 2, 1)),
                                                 np.zeros((1, 1, 2, 1))),
            "steps on fresh samples": lambda: long_horizon(
                linear, Stream(np.eye(2), np.eye(2)[0], 0.1), opt, DepthScaling(1, 0)).risk("linear", 16, 100),
            "derived recursions": compiled}


def warm(say: Callable[[str, float], None] = lambda name, seconds: None) -> None:
    """Solve all of them; say: told each name and how long it took."""
    todo = warmup_tasks()
    with bar("compiling", len(todo)) as progress:
        for done, (name, solve) in enumerate(todo.items(), start=1):
            start = time.perf_counter()
            solve()
            say(name, time.perf_counter() - start)
            progress(done, len(todo))


def warmup_command(args: argparse.Namespace) -> int:
    """Print what was compiled, and how long it took."""
    warm(lambda name, seconds: print(f"{name:<32} {seconds:6.1f} s", flush=True))
    return 0
