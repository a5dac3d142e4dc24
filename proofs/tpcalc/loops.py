"""Layers that are visited again: what words in one matrix weigh, how that settles, and the equation in loop time."""

from __future__ import annotations

import numpy as np
import sympy as sp
from scipy.special import iv

import tpcalc as tp
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Proof, Rate
from tpcalc.propagators.loop_time import train_in_loop_time
from tpcalc.theory import Family, Mean, Vector

from ._steps import InTheLimit, Simplified

VISITS, EPS, C, TAU, OTHER = sp.symbols(r"N \epsilon c \tau \tau'", positive=True)
J = sp.Symbol("j", integer=True, nonnegative=True)
RATIO, SETTLED, SECOND = sp.symbols(r"a_{j+1}/a_j b_{j+1}/b_j \partial_\tau\partial_{\tau'}C_{j+1}")
COUNTS, DEPTH = (8, 16, 32, 64), 3


def term(j: sp.Expr) -> sp.Expr:
    """A term of the overlap of two loop times."""
    return (C**2 * TAU * OTHER) ** j / sp.factorial(j) ** 2


def statement() -> Equations:
    return Equations((Equation(RATIO, EPS * (VISITS - J) / (J + 1)), Equation(SETTLED, C / (J + 1)),
                      Equation(SECOND, C**2 * (C**2 * TAU * OTHER) ** J / sp.factorial(J) ** 2)))


def derive() -> Proof:
    ratio, settled, second = (equation.value for equation in statement().equations)
    weights = EPS ** (J + 1) * sp.binomial(VISITS, J + 1) / (EPS**J * sp.binomial(VISITS, J))
    steps = (Simplified(1, RATIO, weights, ratio, "binomial", "N visits of 1 + eps W are (1 + eps W)^N, in which a "
                        "word of j letters has the weight a_j = eps^j binomial(N, j)"),
             InTheLimit(2, SETTLED, ratio.subs(EPS, C / VISITS), settled, "limit", "eps = c / N",
                        grows=VISITS),
             Simplified(3, SECOND, sp.diff(term(J + 1), TAU, OTHER), second, "derivative",
                        "in both loop times, of a term of their overlap"))
    return Proof(steps, numbers, "coefficients of a program, a network in loop time, and differences", 1e-6)


def squares(visits: int, c: float) -> float:
    """<x|x> after so many visits of one matrix, of the coefficients of the program's kets."""
    found = read_program_coefficients(tp.program(tp.ResNet(visits=visits), tp.SGD(), tp.DepthScaling(0, 0, branch=c)),
                                      dict(T=1, L=1, N=visits), dict(xi=[1.0], y=[0.0]))
    end = Family(Vector, "x", layered=True)[0, visits, 1]
    return float(found.value(Mean(end**2)))


def numbers(rng: np.random.Generator) -> float:
    """What words weigh, from the printed ratios, against programs; the second derivative against differences."""
    ratio, settled, second = (equation.value for equation in statement().equations)
    visits, c = int(rng.integers(2, 7)), float(rng.uniform(0.5, 1.5))
    per_word = [float(ratio.subs({EPS: c / visits, VISITS: visits, J: j})) for j in range(visits)]
    weights = np.cumprod([1.0, *per_word])
    worst = abs(squares(visits, c) / float(weights @ weights) - 1)
    endless = np.cumprod([1.0, *(float(settled.subs({C: c, J: j})) for j in range(20))])
    solved = train_in_loop_time(tp.Task([1.0], [0.0]), tp.SGD(), c**2, c**2).squares[0, 0]
    worst = max(worst, abs(solved / float(endless @ endless) - 1))
    tau, other, step, j = *rng.uniform(0.4, 1.0, 2), 1e-3, int(rng.integers(1, 4))
    at = sp.lambdify((TAU, OTHER), term(sp.Integer(j + 1)).subs(C, c))
    crossed = sum(p * q * at(tau + p * step, other + q * step) for p in (1, -1) for q in (1, -1)) / (4 * step**2)
    said = float(second.subs({C: c, TAU: tau, OTHER: other, J: j}))
    return max(worst, abs(crossed / said - 1) / 100)  # differences are good to step^2


def evidence() -> Evidence:
    """Programs of more and more visits against loop time, and kernels of infinite depth."""
    task, scale = tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5]), tp.DepthScaling()
    limit = tp.train(tp.ResNet(visits=tp.oo), task, tp.SGD(1.0), scale, depth=1).outputs
    outputs = tuple(float(np.max(np.abs(tp.train(tp.ResNet(visits=count), task, tp.SGD(1.0), scale, depth=1).outputs
                                        - limit))) for count in COUNTS)
    deep = tuple(float(abs(tp.kernel_fn(tp.ResNet(visits=count))([[1.0]], get="nngp")[0, 0] - iv(0, 2)))
                 for count in COUNTS)
    shallow = tp.kernel_fn(tp.ResNet(visits=tp.oo), DEPTH)([[1.0]], get="nngp")[0, 0]
    return Evidence((MeasuredNumber("overlap in loop time at depth 3, against I_0(2)", float(abs(shallow - iv(0, 2))),
                                    1e-12, 0.0),),
                    (Rate("outputs of one layer, against loop time", "N", 1.0, COUNTS, outputs, allowance=0.15),
                     Rate("overlap at infinite depth, against loop time", "N", 2.0, COUNTS, deep, allowance=0.15)))


ENTRY = Entry(
    key="tpcalc/loops",
    kind="proposition",
    title="layers that are visited again are one matrix in loop time",
    source="tpcalc (new)",
    says="A linear network visits $L$ layers $N$ times, $x \\to x + \\epsilon W^l x$. Words in initial matrices are "
         "orthogonal at infinite width. With one layer a word of $j$ letters has the weight $a_j$, and "
         "$\\langle x | x \\rangle$ grows by $\\sum_j a_j^2$; with $\\epsilon = c / N$ weights settle at $b_j = c^j / "
         "j!$, so that it is $I_0(2 c)$, and overlaps of two loop times are $C = \\sum_j C_j$, which solves "
         "$\\partial_\\tau \\partial_{\\tau'} C = c^2 C$. Several layers in cycles, with $\\epsilon = c / (N \\sqrt "
         "L)$, are then one matrix: their sum over $\\sqrt L$ is $N(0, 1/n)$, and the stream meets all of them equally "
         "often.",
    statement=statement,
    assumptions=("frozen embedding and readout", "infinite width"),
    derive=derive,
    evidence=evidence,
)
