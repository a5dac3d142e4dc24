"""The rate at which a step moves the stream by order one in the mean over layers: L^(-3/2) with skips too?"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Sequence

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Rate, Slip, Witness
from tpcalc.models.skips import Junction

from .._claims import QUARTER
from .._line import DEPTH_MUP, HALF
from ._equivalence import Equivalence
from ._networks import PlainNetwork

ETA, Y = sp.symbols("eta y")
L, LAYER = sp.symbols("L l", positive=True)
KEEP, BRANCH = sp.symbols("s a", real=True)
GAMMA = sp.Symbol("gamma", real=True)
DEPTH = sp.Symbol("L")
RATE, TARGET, EXACT, FAR, SMALL = 0.75, 1.25, 1e-9, 2**16, 1e-3
WIDE, SEEDS, SHALLOW, DEEP = 160, 20, 8, 32

GROWTH = KEEP**2 + BRANCH**2
MOVED = Equation(sp.Symbol(r"{\langle (\Delta x^l)^2 \rangle}"), ETA**2 * Y**2 * GROWTH**(L + LAYER - 2) * (
    LAYER**2 + (1 - KEEP**4 / GROWTH**2) * LAYER * (LAYER - 1) * (2 * LAYER - 1) / 6))
WITHOUT = Equation(sp.Symbol(r"\eta_*"), 2 * sp.sqrt(3) / (Y * (L + 1) * sp.sqrt(L + 2)), "s = 0,\\ a = 1")
WITH = Equation(sp.Symbol(r"\lim_{L \to \infty} L \eta_*"), 1 / (Y * sp.sqrt(2 * sp.E - sp.E**2 / 3)),
                r"s = 1,\ a = L^{-1/2}")
LEARNS = Equivalence(r"stable and nontrivial, $\eta \propto L^{-1/2-\gamma}$",
                     lambda v: bool(v.stable_in_training and v.nontrivial), sp.Eq(GAMMA, HALF),
                     judge=lambda alpha, gamma: tp.classify(alpha, gamma, NETS[1][0]),
                     points=tuple((HALF, k * QUARTER) for k in range(6)), symbols=(sp.Symbol("alpha"), GAMMA))


def without_skip(junction: Junction) -> Sequence[sp.Expr]:
    x, = junction.streams
    return (junction.branch(x),)


# by s: a network and its scaling, whose updates of what stands before the stream are of size a L^-gamma
NETS: dict[Any, tuple[tp.ResNet, tp.DepthScaling]] = {
    0: (tp.ResNet("linear", skip=without_skip), tp.DepthScaling(0, 0)), 1: (tp.ResNet("linear"), DEPTH_MUP),
    "damped": (tp.ResNet("linear", skip=tp.Skip(keep=sp.sqrt(1 - 1 / DEPTH))), DEPTH_MUP)}


def at_layers(kind: Any, depth: int) -> list[float]:
    """Mean squares of what one step does to x^1, ..., x^L, statement by statement."""
    program = tp.program(NETS[kind][0], tp.SGD(RATE), NETS[kind][1])
    run = read_program_coefficients(program, {"T": 2, "L": depth}, {"xi": [1.0, 1.0], "y": [TARGET, 0.0]})
    x = {tuple(map(int, v.indices)): v for v in run.vectors if str(v).startswith("x[")}
    moved = [x[1, layer] - x[0, layer] for layer in range(1, depth + 1)]
    return [float(run.bracket(one, one)) for one in moved]


def stated(kind: Any, depth: int, rate: float = RATE, target: float = TARGET) -> list[float]:
    """What the equation gives; rate: without the power of L that the scaling has, or a."""
    scale = NETS[kind][1]
    keep, branch = {0: 0.0, 1: 1.0, "damped": (1 - 1 / depth)**0.5}[kind], depth**-float(scale.alpha)
    known = {ETA: rate * branch * depth**-float(scale.gamma), Y: target, L: depth, KEEP: keep, BRANCH: branch}
    return [float(MOVED.value.subs({**known, LAYER: layer})) for layer in range(1, depth + 1)]


def best(keep: float, branch: float, depth: int, target: float = TARGET) -> float:
    """The rate of the weights themselves at which the mean over layers is 1."""
    squares = sp.lambdify(LAYER, MOVED.value.subs({ETA: 1, Y: target, L: depth, KEEP: keep, BRANCH: branch}))
    with np.errstate(all="ignore"):  # not a number where the equation is spoiled, which is no rate
        return float(np.mean(squares(np.arange(1.0, depth + 1)))**-0.5)


@lru_cache(maxsize=None)
def of_real(phi: str, keep: float, depth: int) -> tuple[float, float]:
    """The mean over layers and networks of one step up the output at rate a L^-gamma, and its standard error.

    A small step, over its size squared: of order n^(-1/2) there are squares of the rate, which layers add up.
    """
    power, found = float(NETS[int(keep)][1].alpha), []
    for seed in range(SEEDS):
        network = PlainNetwork(depth, WIDE, power, (power,), phi, keep=keep, seed=seed)
        before, after = (network.forward(network.draws[2] + step * network.updates)[0] for step in (0.0, SMALL))
        found.append(np.mean((after - before)[1:]**2) / SMALL**2)
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(SEEDS))


def mean_stated(kind: Any, depth: int) -> float:
    return float(np.mean(stated(kind, depth, 1.0, 1.0)))


def evidence() -> Evidence:
    """Exactly at finite depth; the sums that rates are made of; real networks; verdicts on a line."""
    numbers = [MeasuredNumber(f"mean square of x^{layer} after a step less before it, s = {kind}, L = {depth}", value,
                              EXACT, expected) for kind in NETS for depth in (2, 5)
               for layer, (value, expected) in enumerate(zip(at_layers(kind, depth), stated(kind, depth)), 1)]
    numbers += [MeasuredNumber(f"rate without skip connections, L = {depth}", best(0.0, 1.0, depth), EXACT,
                               float(WITHOUT.value.subs({L: depth, Y: TARGET}))) for depth in (2, 9)]
    numbers.append(MeasuredNumber(f"L times the rate with skip connections, L = {FAR}",
                                  FAR * best(1.0, FAR**-0.5, FAR), 1.0 / FAR, float(WITH.value.subs(Y, TARGET))))
    numbers += [MeasuredNumber(f"mean over layers of {SEEDS} networks of width {WIDE}, s = {kind}, L = {depth}",
                               *of_real("linear", float(kind), depth), mean_stated(kind, depth))
                for kind, depth in ((0, SHALLOW // 2), (1, SHALLOW))]
    depths = (SHALLOW, 2 * SHALLOW, DEEP)
    of_tanh = Rate(f"mean over layers at a fixed rate, {SEEDS} networks with tanh", "L", -2.0, depths, tuple(
        depth**2 * of_real("tanh", 1.0, depth)[0] for depth in depths), allowance=0.15)
    return Evidence((*numbers, LEARNS.agreement()), (of_tanh,))


def growth() -> Witness:
    """Were the rate L^(-3/2), the mean over layers would grow at a fixed rate like L^3."""
    (low, low_error), (high, high_error) = (of_real("linear", 1.0, depth) for depth in (SHALLOW, DEEP))
    times = DEEP / SHALLOW
    ratio, error = times**2 * high / low, times**2 * high / low * np.hypot(low_error / low, high_error / high)
    return Witness(f"mean over layers at a fixed rate, L = {DEEP} over L = {SHALLOW}", ratio, float(error), times**3,
                   times**2 * mean_stated(1, DEEP) / mean_stated(1, SHALLOW))


ENTRY = Entry(
    key="contested/rate_from_second_moments",
    kind="claim",
    title="with skip connections the mean over layers asks for 1/L",
    source="in our words, from the abstract of arXiv:2510.04327v1, $L$ being the number of blocks; against Tensor "
           "Programs VI, claim 5.3",
    says="It was said that the rate $\\eta_*$ at which one step moves the stream by order one, in the mean of squares "
         "over layers, is $L^{-3/2}$, with and without skip connections, blocks starting with variance $1/(L n)$. "
         "$x^l = s\\, x^{l-1} + a W^l x^{l-1}$, and $a W^l$ moves by $\\eta$ times the gradient, one step on one "
         "input. Without skip connections it is so: $l^2$ pairs of layers share up to $l$ layers above both, which "
         "stretch some directions by as much. With them what is shared stretches by order one, and it is $1/L$. "
         "At $L^{-3/2}$ outputs and features stay where they are in the limit.",
    statement=lambda: Equations((MOVED, WITHOUT, WITH, LEARNS)),
    assumptions=("a linear network of blocks of one matrix", "width to infinity at fixed depth",
                 "frozen read-in and read-out"),
    uses=("tensor_programs_vi/claim_53",),
    evidence=evidence,
    errata=(Erratum(Slip.INCOMPLETE, "the abstract, of residual networks: it holds of those without skip connections",
                    r"\eta_* &= \Theta(L^{-3/2})", WITH.latex, growth),),
)
