"""Blocks of two matrices at alpha = 1/2: does the inner one stop to learn, and may its learning rate make up for it?"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, OrderBound, Rate, Slip, Witness

from .._claims import QUARTER, Point
from .._line import HALF
from ._equivalence import Equivalence
from ._networks import PlainNetwork, mean_change

ETA, Y = sp.symbols("eta y")
L = sp.Symbol("L", positive=True)
INNER, OUTER = GAMMAS = sp.symbols("gamma_1 gamma_2", real=True)
NET = tp.ResNet("linear", "mlp")
RATE, TARGET, EXACT = 0.75, 1.25, 1e-9
WIDE, DEEP, SEEDS, NEVER = 128, 16, 24, 99.0
POINTS: tuple[Point, ...] = ((HALF, HALF), (sp.Integer(0), HALF), (HALF, sp.Integer(1)), (3 * QUARTER, QUARTER))
GRID = tuple((i * QUARTER, j * QUARTER) for i in range(-1, 5) for j in range(-1, 5))


def scaling(inner: sp.Expr, outer: sp.Expr) -> tp.Parametrization:
    return tp.Parametrization(depth={"alpha": HALF, "W1": inner, "W2": outer})


@lru_cache(maxsize=None)
def judged(inner: sp.Expr, outer: sp.Expr) -> tp.verdicts.Verdict:
    return tp.classify(scaling(inner, outer), NET)


OUTPUT = Equation(sp.Symbol("f_1"), ETA * Y * (1 + 1 / L)**(L - 1) * (L**(HALF - INNER) + L**(HALF - OUTER)))
OF_INNER = OrderBound((r"\Delta W_1\, x",), -INNER, r"\text{of one layer}")
OF_OUTER = OrderBound((r"\Delta W_2\, z",), -OUTER, r"\text{of one layer}")
STABLE = Equivalence("x and f stable", lambda v: v.output_stable, sp.And(INNER >= HALF, OUTER >= HALF),
                     judge=judged, points=GRID, symbols=(INNER, OUTER))


def at_depth(point: Point, depth: int) -> float:
    """f_1 of definition C.1, statement by statement."""
    run = read_program_coefficients(tp.program(NET, tp.SGD(RATE), scaling(*point)), {"T": 2, "L": depth},
                                    {"xi": [1.0, 1.0], "y": [TARGET, 0.0]})
    return float(run.series("f")[1])


def stated(inner: object, outer: object, depth: float, eta: float = RATE, y: float = TARGET) -> float:
    return float(OUTPUT.value.subs({ETA: eta, Y: y, L: depth, INNER: inner, OUTER: outer}))


@lru_cache(maxsize=None)
def in_a_layer(power: float, depth: int) -> np.ndarray:
    """The root mean square, for W1 and for W2, of what an update makes of what it acts on, over layers and networks."""
    squares = []
    for seed in range(SEEDS):
        network = PlainNetwork(depth, WIDE // 2, gammas=(power, power), seed=seed)
        acted = np.array(network.forward(network.draws[2])[1])
        squares.append(np.mean(np.einsum("lkij,lkj->lki", network.updates, acted)**2, axis=(0, 2)))
    return np.asarray(np.sqrt(np.mean(squares, axis=0)))


def of_a_layer(bound: OrderBound, name: str, power: sp.Expr, depths: tuple[int, ...] = (4, 8, 16, 32)) -> Rate:
    which = (INNER, OUTER).index(*bound.power.free_symbols)
    return Rate(f"{name} of {SEEDS} networks of width {WIDE // 2}, gamma = {power}", "L",
                0.0 - float(bound.power.subs({INNER: power, OUTER: power})), depths,
                tuple(float(in_a_layer(float(power), depth)[which]) for depth in depths), allowance=0.1)


def evidence() -> Evidence:
    """Exactly at finite depth, real networks with one or both matrices trained, and verdicts on a grid."""
    numbers = [MeasuredNumber(f"f_1 at gamma_1, gamma_2 = {point}, L = {depth}", at_depth(point, depth), EXACT,
                              stated(*point, depth)) for point in POINTS for depth in (2, 5)]
    for gammas, words in (((0.5, 0.5), "both trained"), ((0.5, NEVER), "the inner one trained")):
        mean, error = mean_change(PlainNetwork(DEEP, WIDE, gammas=gammas), SEEDS)
        numbers.append(MeasuredNumber(f"change of f of {SEEDS} networks of width {WIDE}, L = {DEEP}, {words}", mean,
                                      error, stated(*gammas, DEEP, 1.0, 1.0)))
    rates = tuple(of_a_layer(bound, name, power) for bound, name in ((OF_INNER, "dW1 x"), (OF_OUTER, "dW2 z"))
                  for power in (HALF, 3 * HALF))
    return Evidence((*numbers, STABLE.agreement()), rates)


def share() -> Witness:
    """What the inner matrices of real networks do to the output, the others held: nothing, if they stop to learn."""
    mean, error = mean_change(PlainNetwork(DEEP, WIDE, gammas=(0.5, NEVER)), SEEDS)
    return Witness(f"change of f by the inner matrices alone, L = {DEEP}", mean, error, 0.0,
                   stated(HALF, NEVER, DEEP, 1.0, 1.0))


ENTRY = Entry(
    key="contested/inner_matrices",
    kind="claim",
    title="the inner matrix of a block learns as the last one does",
    source="in our words, from the abstract of arXiv:2512.21075v1; against Depthwise Hyperparameter Transfer, K.2",
    says="It was said that at $\\alpha = \\gamma = 1/2$ feature learning collapses in the first matrix of a block of "
         "two, $x + L^{-1/2} W_2 z$, $z = W_1 x$, and that its learning rate should make up for it. In a layer the "
         "updates of both matrices vanish alike, as they do in blocks of one; layers add up to the same for both. "
         "$f_1$ is the output after one step on one input, with updates of size $L^{-\\gamma_1}$ and "
         "$L^{-\\gamma_2}$. Updates of the inner matrix that do not vanish in a layer, $\\gamma_1 = 0$, move the "
         "output by $L^{1/2}$.",
    statement=lambda: Equations((OUTPUT, OF_INNER, OF_OUTER, STABLE)),
    assumptions=("a linear network of blocks of two matrices", "width to infinity at fixed depth",
                 "frozen read-in and read-out"),
    uses=("depthwise_transfer/several_matrices",),
    evidence=evidence,
    errata=(Erratum(Slip.INCOMPLETE, "the abstract, of the first internal layer: it holds of one layer, and of the "
                    "last matrix too, not of what layers add up to",
                    r"f_1 \text{ by the updates of } W_1 \text{ alone} &\to 0", OUTPUT.latex, share),),
)
