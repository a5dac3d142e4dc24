"""A stream damped by sqrt(1 - b/L) and blocks of sqrt(b/L): what it is beside L^(-1/2) alone."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Sequence

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters.program_coefficients import ProgramCoefficients, read_program_coefficients
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Rate
from tpcalc.models.skips import Junction
from tpcalc.programs.indices import L as DEPTH

from .._line import DEPTH_MUP
from ._networks import PlainNetwork, mean_change

F, F1, G, G1 = sp.symbols("f f_1 \\tilde{f} \\tilde{f}_1")
E, ETA, Y = sp.symbols("e eta y")
B, L = sp.symbols("b L", positive=True)
SIZE = Equation(sp.Symbol(r"{\langle (x^l)^2 \rangle}"), sp.Integer(1))
DAMPING = Equation(E**2, (1 - B / L)**L)
BRANCH = Equation(sp.Symbol(r"\tilde{a}")**2, B / (L - B))
LOWER = Equation(sp.Symbol(r"\tilde{\eta}"), E**2 * ETA)
HIGHER = Equation(sp.Symbol(r"\tilde{y}"), Y / E)
OUTPUT = Equation(F, E * G, r"\text{at every step}")
DAMPED = Equation(F1, B * ETA * Y)
UNDAMPED = Equation(G1, B * ETA * Y * (1 + B / L)**(L - 1), r"\text{with } \sqrt{b/L}, \eta, y")

RATE, EXACT, WIDE, DEEP, SEEDS = 0.6, 1e-9, 200, 16, 20
INPUTS, TARGETS = (1.0, 0.7, -0.4), (1.25, -0.5, 0.8)
SIZES = ((0.5, 2), (1.0, 5), (1.7, 4))


def network(keep: sp.Expr, front: sp.Expr) -> tp.ResNet:
    """x^l = keep x^(l-1) + front L^(-1/2) W^l x^(l-1); gradients have the front, and updates are L^(-1/2) of them."""
    def mixed(junction: Junction) -> Sequence[sp.Expr]:
        x, = junction.streams
        return (keep * x + front * junction.branch(x),)
    return tp.ResNet("linear", skip=mixed)


@lru_cache(maxsize=None)
def trained(b: float, depth: int, damped: bool, rate: float = RATE, targets: tuple[float, ...] = TARGETS,
            branch: float | None = None) -> ProgramCoefficients:
    """Three steps, statement by statement; branch: what stands before blocks of the undamped stream, sqrt(b / L)."""
    share = sp.Rational(b).limit_denominator(100)
    front = sp.sqrt(share) if branch is None else sp.Float(branch * depth**0.5)
    net = network(sp.sqrt(1 - share / DEPTH) if damped else sp.Integer(1), front)
    program = tp.program(net, tp.SGD(rate), DEPTH_MUP)
    return read_program_coefficients(program, {"T": len(INPUTS), "L": depth},
                                     {"xi": list(INPUTS), "y": list(targets)})


def outputs(*of: Any) -> np.ndarray:
    return np.array(trained(*of).series("f"), dtype=float)


def stated(equation: Equation, **known: float) -> float:
    return float(equation.value.subs({symbol: known[str(symbol)] for symbol in equation.value.free_symbols
                                      if str(symbol) in known}))


def by_the_undamped(b: float, depth: int) -> np.ndarray:
    """The outputs of the damped network from a training of the undamped one, as the equations have it."""
    e = stated(DAMPING, b=b, L=depth)**0.5
    targets = tuple(stated(HIGHER, y=y, e=e) for y in TARGETS)
    found = outputs(b, depth, False, stated(LOWER, eta=RATE, e=e), targets, stated(BRANCH, b=b, L=depth)**0.5)
    return np.array([float(OUTPUT.value.subs({E: e, G: f})) for f in found])


def at_infinite_depth() -> np.ndarray:
    """What that is where b = 1 and L is infinite, by the limit of the undamped network."""
    e = float(sp.sqrt(sp.limit(DAMPING.value.subs(B, 1), L, sp.oo)))
    task = tp.Task(INPUTS, [stated(HIGHER, y=y, e=e) for y in TARGETS])
    run = tp.train(tp.ResNet("linear"), task, tp.SGD(stated(LOWER, eta=RATE, e=e)), DEPTH_MUP, depth=tp.oo)
    return np.array([float(OUTPUT.value.subs({E: e, G: f})) for f in np.ravel(run.outputs)])


def evidence() -> Evidence:
    """Exactly at finite depth, on the way to the limit, and real networks."""
    numbers = []
    for b, depth in SIZES:
        run = trained(b, depth, True)
        x = [v for v in run.vectors if str(v) == f"x[0, {depth}]"]
        numbers.append(MeasuredNumber(f"mean square of x^{depth}, b = {b}", float(run.bracket(*x, *x)), EXACT,
                                      float(SIZE.value)))
        numbers += [MeasuredNumber(f"f_{t} of the damped stream, b = {b}, L = {depth}", value, EXACT, expected)
                    for t, (value, expected) in enumerate(zip(outputs(b, depth, True), by_the_undamped(b, depth)))]
        known = {"b": b, "L": depth, "eta": RATE, "y": TARGETS[0]}
        numbers += [MeasuredNumber(f"{words} after one step, b = {b}, L = {depth}",
                                   outputs(b, depth, damped)[1] / INPUTS[1], EXACT, stated(equation, **known))
                    for words, equation, damped in (("damped", DAMPED, True), ("undamped", UNDAMPED, False))]
    b = SIZES[-1][0]
    for equation, keep in ((DAMPED, (1 - b / DEEP)**0.5), (UNDAMPED, 1.0)):
        mean, error = mean_change(PlainNetwork(DEEP, WIDE, keep=keep, branch=b**0.5), SEEDS)
        numbers.append(MeasuredNumber(f"change of f of {SEEDS} networks of width {WIDE}, L = {DEEP}, s = {keep:.3f}",
                                      b**0.5 * mean, b**0.5 * error, stated(equation, b=b, L=DEEP, eta=1.0, y=1.0)))
    depths, limit = (8, 16, 32), at_infinite_depth()
    away = tuple(float(np.max(np.abs(outputs(1.0, depth, True) - limit))) for depth in depths)
    return Evidence(tuple(numbers), (Rate("damped stream, b = 1, from its limit", "L", 1.0, depths, away,
                                          allowance=0.1),))


ENTRY = Entry(
    key="contested/damped_stream",
    kind="claim",
    title="a damped stream is the undamped one at a lower rate",
    source="in our words; the stream of marin #8860, with a constant $b$; against $L^{-1/2}$ alone, as in marin #5178",
    says="$L^{-1/2}$ alone was said to give mixed results, and $x^l = \\sqrt{1 - b/L}\\, x^{l-1} + \\sqrt{b/L}\\, W^l "
         "x^{l-1}$ to keep the size of the stream. It does; and for linear blocks that is all. Divided by what damping "
         "leaves, $x^l$ is the stream of an undamped network with $\\tilde a$ before its blocks, whose output is "
         "$f / e$. Gradients carry $e$ once and outputs once more, so that it is trained at the lower rate "
         "$\\tilde \\eta$ on the higher target $\\tilde y$, at infinite depth at $e^{-b} \\eta$ with $\\sqrt{b/L}$. "
         "$f_1$, $\\tilde f_1$ are outputs after one step with the same $b$, $\\eta$ and $y$ on one input. Blocks that "
         "are not linear see a stream of another size, and are not judged.",
    statement=lambda: Equations((SIZE, DAMPING, BRANCH, LOWER, HIGHER, OUTPUT, DAMPED, UNDAMPED)),
    assumptions=("a linear network of blocks of one matrix", "squared loss", "width to infinity at fixed depth",
                 "frozen read-in and read-out", "gradients with the multiplier, but for a power of the depth"),
    uses=("tensor_programs_vi/definitions_5",),
    evidence=evidence,
)
