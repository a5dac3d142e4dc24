"""How far preactivations move with the width: by a fixed output multiplier, and by one that grows with the width."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from tpcalc._types import Value
from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof, Rate

from ..._letters import Letters
from ..._rewriting import Rewriting, of_nodes
from .._fields import Slope
from .._site import SiteLetters
from ._finite_network import TINY, L, N, Trained, train
from ._network_numbers import PRODUCTS, letters_of_network, worst
from ._network_rules import (KERNELS, LINEAR, OUT_OF_SUMS, OUTER, Acts, Phi, W, dh, dW, depth, dphi, g, h, insert, phi,
                             read, v, width)
from .fields_and_kernels import ell, mu0, t
from .finite_network import WHERE, Delta, c, eta, step_of_loss, stream_after

WIDTHS, SEEDS, ETA0, MU0, XI = (32, 64, 128, 256), 32, 0.7, 1.3, 1.1
eta0, gamma, time = sp.symbols("eta_0 gamma t")
own = c, eta0 * gamma / sp.sqrt(width)   # eta_0 mu_0 of the other entries

LEARNT = Equation(Acts(dW(t, ell), phi(t, ell)) / sp.sqrt(width), eta0 * gamma / (sp.sqrt(width) * sp.sqrt(
    depth)) * Delta[t] * Phi(t, t, ell) * g(t, ell + 1))
MUP = Equation(LEARNT.target, eta0 * mu0 / sp.sqrt(depth) * Delta[t] * Phi(t, t, ell) * g(t, ell + 1))
MOTION = Equation(v(t, ell + 1), v(t, ell) + Acts(W(t, ell), dphi(t, ell) * v(t, ell)) / (sp.sqrt(width) * sp.sqrt(
    depth)) + eta0 / depth * Delta[t] * Phi(t, t, ell) * g(t, ell + 1))


def _in_time(slope: Slope) -> sp.Expr:
    """The product rule: what moves are weights and streams."""
    if slope.args[1] != time:
        return slope
    field, weights, features = h(t, ell), W(t, ell), phi(t, ell)
    acted = Acts(dW(t, ell), features) + Acts(weights, dphi(t, ell) * dh(t, ell))
    return slope.args[0].xreplace({Acts(weights, features): acted, field: dh(t, ell)})


IN_TIME = Rewriting("product rule", "weights and streams move, activations with their slope", "calculus",
                    of_nodes(Slope, _in_time))
SIZED = read(dh(t, ell), gamma / sp.sqrt(width) * v(t, ell), "motion, in units of $\\gamma N^{-1/2}$",
             "depthwise_transfer/width_scales")


@lru_cache(maxsize=None)
def derivation() -> Derivation:
    steps = Derivation()
    push = step_of_loss(steps)
    units = read(*own, "$\\mu_0 = \\gamma N^{-1/2}$ in the units of the other statements",
                 "depthwise_transfer/parametrization")
    flow = read(dW(t, ell), push, "gradient flow", "depthwise_transfer/parametrization")
    learnt = steps.through((flow, LINEAR, OUTER, KERNELS, units), LEARNT.target, LEARNT.target)
    steps.apply(read(gamma, mu0 * sp.sqrt(width), "the mean field parametrization",
                     "depthwise_transfer/parametrization"), LEARNT.target, learnt)
    acted = LEARNT.target * sp.sqrt(width)
    steps.through((IN_TIME, insert(acted, learnt * sp.sqrt(width)), SIZED, LINEAR, OUT_OF_SUMS), v(t, ell + 1),
                  sp.sqrt(width) / gamma * Slope(stream_after(t), time))
    return steps


def letters_of_flow(net: Trained, at: dict[sp.Symbol, Any]) -> SiteLetters:
    """Letters of a network of one input that moves by gradient flow at the step ``at`` has; slopes in time by complex
    steps of a forward pass."""
    plain = letters_of_network(net, at)
    step, rate = at[t], net.eta0 * net.mu0**2 * N
    speed = np.array([-rate * net.slope(step, "loss", "W", block)[0] for block in range(1, L + 1)])
    weights, streams = net.W[step] + 1j * TINY * speed, [net.h[step, 0, :, 0].astype(complex)]
    for matrix in weights:
        streams.append(streams[-1] + matrix @ np.tanh(streams[-1]) / np.sqrt(L * N))
    moved = Letters({**PRODUCTS, "h": lambda _, node: streams[node - 1], "W": lambda _, block: weights[block - 1],
                     "phi": lambda _, node: np.tanh(streams[node - 1])}, plain.symbols)
    motion = [stream.imag / TINY for stream in streams]
    tables: dict[str, Value] = {"dW": lambda _, block: speed[block - 1], "dh": lambda _, node: motion[node - 1],
                                "v": lambda _, node: motion[node - 1] * np.sqrt(N) / at[gamma]}
    return SiteLetters({**plain.fields, **tables}, plain.symbols, moved=moved, by=time)


def derive() -> Proof:
    def numbers(rng: np.random.Generator) -> float:
        net, found = train(inputs=1, rng=rng), 0.0
        for block in range(1, L + 1):
            at = {t: 1, ell: block, mu0: net.mu0, eta0: net.eta0, gamma: net.mu0 * np.sqrt(N), c: net.eta0 * net.mu0,
                  eta: net.eta0 * net.mu0**2 * N}
            found = max(found, worst(derivation().steps, letters_of_flow(net, at)))
        return found
    return Proof(derivation().steps, numbers, WHERE)


@lru_cache(maxsize=None)
def moved(neurons: int, mup: bool) -> tuple[float, float, float]:
    """At the start of gradient flow, Delta = 1: rms dh/dt of the end, of dW/dt phi / sqrt N, and its error by (17)."""
    size = MU0 * np.sqrt(neurons) if mup else MU0
    squares, off = [], 0.0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        streams = [XI * rng.normal(size=neurons)]
        matrices, readout = rng.normal(size=(L, neurons, neurons)), rng.normal(size=neurons)
        for matrix in matrices:
            streams.append(streams[-1] + matrix @ np.tanh(streams[-1]) / np.sqrt(neurons * L))
        back = [readout * np.cosh(streams[-1])**-2.0]   # df/dh times sqrt N gamma
        for matrix, before in zip(matrices[::-1], streams[-2::-1]):
            back.append(back[-1] + np.cosh(before)**-2.0 * (matrix.T @ back[-1]) / np.sqrt(neurons * L))
        speed, found = np.zeros(neurons), np.zeros(neurons)
        for node, (matrix, before, behind) in enumerate(zip(matrices, streams, back[-2::-1]), 1):
            a = np.tanh(before)
            slope = np.outer(behind, a) / np.sqrt(neurons * L) / (np.sqrt(neurons) * size)   # df/dW
            learnt = ETA0 * size**2 * slope
            found = learnt @ a / np.sqrt(neurons)
            tables: dict[str, Value] = {"Phi": lambda *_, a=a: a @ a / neurons, "g": lambda *_, behind=behind: behind,
                                        r"\Delta": lambda _: 1.0}
            printed = Letters(tables, {ell: node, eta0: ETA0, gamma: size, width: neurons, depth: L, t: 0})
            off = max(off, float(np.max(np.abs(printed.of(LEARNT.value) - found))))
            speed = speed + (found + matrix @ (np.cosh(before)**-2.0 * speed) / np.sqrt(neurons)) / np.sqrt(L)
        squares.append((np.mean(speed**2), np.mean(found**2)))
    motion, inner = np.sqrt(np.mean(squares, axis=0))
    return float(motion), float(inner), off


def rates() -> tuple[Rate, ...]:
    found = []
    for mup, what in ((False, "a fixed multiplier"), (True, "one of N^(1/2)")):
        value = (MUP if mup else LEARNT).value
        expected = 0.0 - float(sp.simplify(width * value.diff(width) / value))
        for number, name in ((0, "dh/dt at the end"), (1, "N^(-1/2) dW/dt phi of the last block")):
            found.append(Rate(f"{name}, {what}, means over {SEEDS} tanh networks", "N", expected, WIDTHS,
                              tuple(moved(neurons, mup)[number] for neurons in WIDTHS), 0.06))
    return tuple(found)


def evidence() -> Evidence:
    worst = max(moved(neurons, mup)[2] for neurons in WIDTHS for mup in (False, True))
    return Evidence((MeasuredNumber(f"what a block learns, left less right, tanh networks of {L} blocks", worst, 1e-12,
                                    0.0),),
                    rates())


ENTRY = Entry(
    key="depthwise_transfer/width_scales",
    kind="proposition",
    title="how far features move with the width",
    source="Depthwise Hyperparameter Transfer, appendix C, (9) and (10)",
    says="Gradient flow of the rate $\\eta_0 \\gamma^2$ on networks whose output is divided by $\\sqrt N \\gamma$, "
         "with one input of error $\\Delta$; $g$ is $\\sqrt N \\gamma$ times the gradient of the output, of order one. "
         "What a block learns moves by $\\gamma N^{-1/2}$, and at order one in the mean field parametrization, "
         "$\\gamma = \\mu_0 \\sqrt N$, which is the second line. $v$ is the motion of streams, $dh/dt = \\gamma "
         "N^{-1/2} v$: in its recursion no $\\gamma$ is left, so that streams move as $\\gamma N^{-1/2}$ too. "
         "Powers of $N$ that are measured are those of the first two lines.",
    statement=lambda: Equations((LEARNT, MUP, MOTION)),
    assumptions=("$\\alpha = 1/2$, rate 0", "gradient flow", "one input", "a frozen embedding"),
    uses=("depthwise_transfer/parametrization", "depthwise_transfer/fields_and_kernels"),
    derive=derive,
    evidence=evidence,
)
