"""How far preactivations move with the width: by a fixed output multiplier, and by one that grows with the width."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Rate

from ..._letters import Letters
from .._fields import fields

L, WIDTHS, SEEDS, ETA0, MU0, XI = 3, (32, 64, 128, 256), 32, 0.7, 1.3, 1.1
ell = sp.Symbol("ell", integer=True)
N, depth, eta0, mu0, gamma, error = sp.symbols(r"N L eta_0 mu_0 gamma \Delta", positive=True)
Phi, g, phi, dW = fields("Phi g phi dW")

LEARNT = Equation(dW(ell) * phi(ell) / sp.sqrt(N), eta0 * gamma / sp.sqrt(N * depth) * error * Phi(ell) * g(ell + 1))
MUP = Equation(gamma, mu0 * sp.sqrt(N))


@lru_cache(maxsize=None)
def moved(width: int, mup: bool) -> tuple[float, float, float]:
    """At the start of gradient flow, Delta = 1: rms dh/dt of the end, of dW/dt phi / sqrt N, and its error by (17)."""
    size = MU0 * np.sqrt(width) if mup else MU0
    squares, worst = [], 0.0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        h, W, w = [XI * rng.normal(size=width)], rng.normal(size=(L, width, width)), rng.normal(size=width)
        for matrix in W:
            h.append(h[-1] + matrix @ np.tanh(h[-1]) / np.sqrt(width * L))
        back = [w * np.cosh(h[-1])**-2.0]   # df/dh times sqrt N gamma
        for matrix, before in zip(W[::-1], h[-2::-1]):
            back.append(back[-1] + np.cosh(before)**-2.0 * (matrix.T @ back[-1]) / np.sqrt(width * L))
        speed, found = np.zeros(width), np.zeros(width)
        for node, (matrix, before, behind) in enumerate(zip(W, h, back[-2::-1]), 1):
            a = np.tanh(before)
            slope = np.outer(behind, a) / np.sqrt(width * L) / (np.sqrt(width) * size)   # df/dW
            learnt = ETA0 * size**2 * slope
            found = learnt @ a / np.sqrt(width)
            tables = {"Phi": lambda node_, a=a: a @ a / width, "g": lambda node_, behind=behind: behind}
            printed = Letters(tables, {ell: node, eta0: ETA0, gamma: size, N: width, depth: L, error: 1.0})
            worst = max(worst, float(np.max(np.abs(printed.of(LEARNT.value) - found))))
            speed = speed + (found + matrix @ (np.cosh(before)**-2.0 * speed) / np.sqrt(width)) / np.sqrt(L)
        squares.append((np.mean(speed**2), np.mean(found**2)))
    motion, inner = np.sqrt(np.mean(squares, axis=0))
    return float(motion), float(inner), worst


def rates() -> tuple[Rate, ...]:
    found = []
    for mup, what in ((False, "a fixed multiplier"), (True, "one of N^(1/2)")):
        value = LEARNT.value.subs(gamma, MUP.value) if mup else LEARNT.value
        expected = 0.0 - float(sp.diff(sp.log(value), N).simplify() * N)
        for number, name in ((0, "dh/dt at the end"), (1, "N^(-1/2) dW/dt phi of the last block")):
            found.append(Rate(f"{name}, {what}, means over {SEEDS} tanh networks", "N", expected, WIDTHS,
                              tuple(moved(width, mup)[number] for width in WIDTHS), 0.06))
    return tuple(found)


def evidence() -> Evidence:
    worst = max(moved(width, mup)[2] for width in WIDTHS for mup in (False, True))
    return Evidence((MeasuredNumber(f"what a block learns, left less right, tanh networks of {L} blocks", worst, 1e-12,
                                    0.0),),
                    rates())


ENTRY = Entry(
    key="depthwise_transfer/width_scales",
    kind="proposition",
    title="how far features move with the width",
    source="Depthwise Hyperparameter Transfer, appendix C, (9) and (10)",
    says="Gradient flow of the rate $\\eta_0 \\gamma^2$ on networks whose output is divided by $\\sqrt N \\gamma$, "
         "with one input of error $\\Delta$; $g$ is $\\sqrt N \\gamma$ times the gradient of the output, of order "
         "one. What a block learns, and so every stream, moves by $\\gamma N^{-1/2}$: as $N^{-1/2}$ for a fixed "
         "multiplier, and at order one in the mean field parametrization of the last line. Powers of $N$ that are "
         "measured are those of the first line.",
    statement=lambda: Equations((LEARNT, MUP)),
    assumptions=("$\\alpha = 1/2$, rate 0", "the start of training"),
    uses=("depthwise_transfer/parametrization",),
    evidence=evidence,
)
