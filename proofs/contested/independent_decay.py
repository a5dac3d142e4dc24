"""Decay that is independent of the rate: held as the width grows, or 1/width?"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, OrderBound, Rate

from .._line import DEPTH_MUP, HALF, NET
from ._networks import PlainNetwork

ETA, Y, DECAY = sp.symbols("eta y w")
L, WIDTH, STEPS, START = sp.symbols("L n T c", positive=True)
FALLS, GROWS = sp.symbols("p q", real=True)
OUTPUT = Equation(sp.Symbol("f_1"), ETA * Y * (1 + (1 - DECAY) / L)**(L - 1))
LEFT = Equation(sp.Symbol("rho_T"), (1 - DECAY)**STEPS)
WITH = r"w \propto n^{-p},\ T \propto n^q,\ p \geq q \geq 0"
EFFECT = OrderBound(("f_T - f_T(w = 0)",), GROWS - FALLS, WITH, "n")
KEPT = Equation(sp.Symbol(r"{\lim_{n \to \infty} \rho_T}"), sp.exp(-START), r"w = c / n,\ T = n")

RATE, TARGET, EXACT, DEPTH = 0.6, 1.25, 1e-9, 4
HORIZONS = ((1, 0), (HALF, 0), (0, 0), (1, 1), (2, 1))  # of p and q
FEW, TIME, SHARE, WIDTHS = 4, 1.5, 0.8, (16, 32, 64, 128)
WIDE, SEEDS, TAKEN, FAR = (48, 192), 40, 0.4, 2**16


def optimizer(rate: float, decay: float) -> tp.SGD:
    return tp.SGD(rate, weight_decay=decay, decoupled=True, independent=True)


def after_one_step(decay: float, depth: int) -> float:
    """f_1 of definition C.1, statement by statement."""
    program = tp.program(NET, optimizer(RATE, decay), DEPTH_MUP)
    run = read_program_coefficients(program, {"T": 2, "L": depth}, {"xi": [1.0, 1.0], "y": [TARGET, 0.0]})
    return float(run.series("f")[1])


def trained(decay: float, steps: int) -> float:
    """The output after some steps on one input, at rates that add up to the same, and infinite width."""
    task = tp.Task([1.0] * (steps + 1), [TARGET] * (steps + 1))
    return float(tp.train(NET, task, optimizer(TIME / steps, decay), DEPTH_MUP, depth=DEPTH).outputs.ravel()[-1])


@lru_cache(maxsize=None)
def effect(falls: sp.Expr, grows: int, width: int) -> float:
    """What decay does to the output at the end, as it is set for that width."""
    steps = FEW if grows == 0 else int(width)
    decay = SHARE / WIDTHS[0] * (width / WIDTHS[0])**-float(falls)
    return abs(trained(decay, steps) - trained(0.0, steps))


@lru_cache(maxsize=None)
def of_real(decay: float, width: int) -> tuple[float, float]:
    """The change of the output in one step with that decay, over networks, and its standard error."""
    found = []
    for seed in range(SEEDS):
        network = PlainNetwork(DEPTH, width, seed=seed)
        left = (1 - decay) * network.draws[2]
        found.append(network.output(left + network.updates) - network.output(left))
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(SEEDS))


def stated(decay: float, depth: int, rate: float, target: float) -> float:
    return float(OUTPUT.value.subs({DECAY: decay, L: depth, ETA: rate, Y: target}))


def evidence() -> Evidence:
    """Exactly at finite depth; real networks; what an optimizer remembers; trainings of few steps and of many."""
    numbers = [MeasuredNumber(f"f_1 with decay {decay}, L = {depth}", after_one_step(decay, depth), EXACT,
                              stated(decay, depth, RATE, TARGET)) for decay in (0.0, 0.3) for depth in (2, 5)]
    for scaled in (False, True):
        for width in WIDE:
            decay = TAKEN * (WIDE[0] / width if scaled else 1.0)
            numbers.append(MeasuredNumber(f"change of f of {SEEDS} networks of width {width} with decay {decay}",
                                          *of_real(decay, width), stated(decay, DEPTH, 1.0, 1.0)))
    numbers.append(MeasuredNumber("initial weights left after 7 steps with decay 0.3",
                                  float(optimizer(RATE, 0.3).memory(8)[0][-1]), EXACT,
                                  float(LEFT.value.subs({DECAY: 0.3, STEPS: 7}))))
    numbers.append(MeasuredNumber(f"initial weights left where n = T = {FAR}, c = {SHARE}",
                                  float(LEFT.value.subs({DECAY: SHARE / FAR, STEPS: FAR})), 1.0 / FAR,
                                  float(KEPT.value.subs(START, SHARE))))
    rates = tuple(Rate(f"what decay does to f at the end, p = {falls}, q = {grows}", "n",
                       0.0 - float(EFFECT.power.subs({FALLS: falls, GROWS: grows})), WIDTHS,
                       tuple(effect(falls, grows, width) for width in WIDTHS)) for falls, grows in HORIZONS)
    return Evidence(tuple(numbers), rates)


ENTRY = Entry(
    key="contested/independent_decay",
    kind="claim",
    title="independent decay is held over few steps, 1/width over n of them",
    source="in our words, 1/width as in the abstract of arXiv:2512.05620v2, whose trainings are compute-optimal; held "
           "as in nanoGPT #607 and mup #56, of a fixed number of steps",
    says="$W \\leftarrow (1 - w) W$ beside the update. It was said that $w$ is to fall like the inverse of the width, "
         "and that it is to be held. $f_1$ is the output after one step on one input at $\\alpha = \\gamma = 1/2$: at "
         "infinite width $w$ takes part in it, so that over a fixed number of steps one that is held does the same at "
         "every width and one that falls does nothing in the limit. Where the number of steps grows like the width, "
         "at rates that add up to the same, $1/n$ does the same at every width, and one that is held leaves nothing of "
         "the initial weights. The horizon decides: $p = q$.",
    statement=lambda: Equations((OUTPUT, LEFT, EFFECT, KEPT)),
    assumptions=("a linear network of blocks of one matrix", "gradient descent at rates of the limit",
                 "frozen read-in and read-out", "the initial weights and their decay, not the noise of batches"),
    uses=("depthwise_transfer/weight_decay", "contested/decay_timescale"),
    evidence=evidence,
)
