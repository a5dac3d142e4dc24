"""The timescale of decay, against width and depth, where the decay is held and rates follow the update exponents."""

from __future__ import annotations

from functools import lru_cache
from typing import Callable

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, OrderBound, Rate
from tpcalc.optimizers.faithful import faithful_rate

from .._line import ALPHA, GAMMA, HALF
from ._networks import PlainNetwork

ETA, DECAY, STEPS = sp.symbols("eta lambda T", positive=True)
TAU = sp.Symbol("tau")
MEMORY = Equation(TAU, 1 / (ETA * DECAY))
LEFT = Equation(sp.Symbol("rho_T"), (1 - ETA * DECAY)**STEPS)
TERM = (r"\tau",)
OF_SGD = OrderBound(TERM, GAMMA - ALPHA, r"\lambda \text{ fixed, SGD}")
OF_SIGNS = OrderBound(TERM, GAMMA, r"\lambda \text{ fixed, Adam and signs}")
OF_SGD_IN_WIDTH = OrderBound(TERM, sp.Integer(0), r"\lambda \text{ fixed, SGD}", "n")
OF_SIGNS_IN_WIDTH = OrderBound(TERM, sp.Integer(1), r"\lambda \text{ fixed, Adam and signs}", "n")
LINES = ((HALF, HALF), (sp.Integer(1), sp.Integer(0)), (sp.Rational(3, 4), sp.Rational(1, 4)))
DIRECTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"SGD": lambda g: g, "signs": np.sign}
RATE, WD, EXACT, WIDE, SEEDS, DEPTHS, WIDTHS = 0.02, 0.5, 1e-12, 64, 12, (4, 8, 16, 32), (32, 64, 128, 256)


@lru_cache(maxsize=None)
def measured(name: str, alpha: float, gamma: float, depth: int, width: int) -> float:
    """tau at decay 1 of real networks, whose rate is the one at which updates are L^-gamma / n, root mean square."""
    found = []
    for seed in range(SEEDS):
        network = PlainNetwork(depth, width, alpha, (0.0,), "tanh", seed=seed)
        gradient = network.updates * network.multiplier
        found.append(np.mean(DIRECTIONS[name](gradient)**2))
    rate = depth**-gamma / width / np.sqrt(np.mean(found))
    return float(MEMORY.value.subs({ETA: rate, DECAY: 1}))


def evidence() -> Evidence:
    """The memory of an optimizer, powers that are counted from what it does, and rates of real networks."""
    sgd = tp.SGD(RATE, weight_decay=WD, decoupled=True)
    steps, scale = 7, {ETA: RATE, DECAY: WD}
    found = tp.timescale(RATE, WD, steps)
    left = float(sgd.memory(steps + 1)[0][-1])
    numbers = [MeasuredNumber("tau of tp.timescale", found.tau, EXACT, float(MEMORY.value.subs(scale))),
               MeasuredNumber(f"initial weights left after {steps} steps of SGD", left, EXACT,
                              float(LEFT.value.subs({**scale, STEPS: steps})))]
    known = {"SGD": (OF_SGD, OF_SGD_IN_WIDTH), "signs": (OF_SIGNS, OF_SIGNS_IN_WIDTH)}
    rates = []
    for name, (in_depth, in_width) in known.items():
        optimizers = ("sgd",) if name == "SGD" else ("adam", "signsgd")
        for optimizer in optimizers:
            counted = [faithful_rate(optimizer, *powers) for powers in ((GAMMA, ALPHA), (sp.Integer(1), sp.Integer(1)))]
            numbers += [MeasuredNumber(f"power of {variable} that is counted, {optimizer}",
                                       float(sp.Abs(sp.expand(one - bound.power)) == 0), 0.0, 1.0)
                        for variable, one, bound in zip("Ln", counted, (in_depth, in_width))]
        for alpha, gamma in LINES:
            rates.append(Rate(f"tau of {name} at ({alpha}, {gamma}), width {WIDE}", "L",
                              0.0 - float(in_depth.power.subs({ALPHA: alpha, GAMMA: gamma})), DEPTHS,
                              tuple(measured(name, float(alpha), float(gamma), depth, WIDE) for depth in DEPTHS),
                              allowance=0.1))
        rates.append(Rate(f"tau of {name} at L = 4", "n", 0.0 - float(in_width.power), WIDTHS,
                          tuple(measured(name, 0.5, 0.5, 4, width) for width in WIDTHS), allowance=0.05))
    return Evidence(tuple(numbers), tuple(rates))


ENTRY = Entry(
    key="contested/decay_timescale",
    kind="claim",
    title="the timescale of decay moves with what the rate is a power of",
    source="in our words; asked in nanoGPT #607, mup #1 and #56, where a decay that is held and one that is scaled "
           "both have their party; no paper at hand",
    says="Decay takes $\\eta \\lambda$ of the weights in a step, $\\eta$ being the rate that the optimizer is "
         "given, so that $\\rho_T$ of the initial weights is left after $T$ steps, and $\\tau$ steps are what it "
         "remembers. It was said that $\\lambda$ needs no scaling, and that it does. Where updates of a hidden "
         "matrix are of size $L^{-\\gamma} / n$ behind a multiplier $L^{-\\alpha}$, and $\\lambda$ is held, "
         "$\\tau$ moves with the inverse of the rate. So both hold: of SGD at $\\alpha = \\gamma$ nothing moves, "
         "at $\\alpha = 1$ the memory is shorter by $L$; of Adam it is longer by $n$ at every depth, and by "
         "$L^{1/2}$ at $\\gamma = 1/2$. It stays where $\\lambda$ is scaled like $1/\\eta$, or where decay is "
         "independent of the rate.",
    statement=lambda: Equations((MEMORY, LEFT, OF_SGD, OF_SIGNS, OF_SGD_IN_WIDTH, OF_SIGNS_IN_WIDTH)),
    assumptions=("decoupled decay", "hidden matrices, gradients of the size that they have at the start",
                 "eps far below the gradients"),
    uses=("depthwise_transfer/weight_decay",),
    evidence=evidence,
)
