"""Coordinates become independent copies of kets as the width grows."""

from __future__ import annotations

import numpy as np

import tpcalc as tp
from tpcalc.ledger import Entry, Evidence, Formula, Number, Rate

from .._line import DEPTH_MUP, NET, OPT

WIDTHS, SEEDS, DEPTH = (64, 128, 256, 512), 24, 4


def evidence() -> Evidence:
    """Outputs of real networks against the kets' numbers, over seeds."""
    task = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5])
    limit = tp.train(NET, task, OPT, DEPTH_MUP, DEPTH).outputs.ravel()
    found = np.array([[tp.train(NET, task, OPT, DEPTH_MUP, DEPTH, width=n, seed=seed).outputs.ravel()
                       for seed in range(SEEDS)] for n in WIDTHS])
    mean, error = found[-1].mean(0), found[-1].std(0, ddof=1) / np.sqrt(SEEDS)
    spread = np.sqrt(np.mean((found - limit) ** 2, axis=(1, 2)))
    numbers = tuple(Number(f"f_{t} at L = {DEPTH}, mean of {SEEDS} networks of width {WIDTHS[-1]}", float(mean[t]),
                           float(error[t]), float(limit[t])) for t in range(task.steps))
    return Evidence(numbers, (Rate("root mean square distance of f from its limit", "n", 0.5,
                                   tuple(map(float, WIDTHS)), tuple(map(float, spread)), 0.1),))


ENTRY = Entry(
    key="tensor_programs_vi/master_theorem",
    kind="theorem",
    title="master theorem",
    source="Tensor Programs VI, appendices E.1 and F, after Yang et al. (2022)",
    says="Averages over the coordinates of a program's vectors converge to expectations of their kets; here the "
         "program is the training of a linear residual network.",
    statement=lambda: Formula(r"\frac{1}{n} \sum_{i=1}^{n} \psi\left(x^1_i, \ldots, x^k_i\right) &\longrightarrow "
                              r"\mathbb{E}\, \psi\left(| x^1 \rangle, \ldots, | x^k \rangle\right), \quad n "
                              r"\to \infty"),
    assumptions=("entrywise functions are smooth enough and of polynomial growth",),
    uses=("tensor_programs_vi/definition_c1",),
    evidence=evidence,
)
