"""Updates of a matrix with powers of the width and of the depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber
from tpcalc.optimizers.sgd import Scheduled
from tpcalc.optimizers.updates import Optimizer
from tpcalc.programs.language import Family, Matrix, NonlinearOuter, Vector

from ..._finite_width import at_width
from ..._line import ALPHA, GAMMA, GENERAL, NET, relative

WIDTH, DEPTH, STEPS = 6, 3, 3
POWER = 0.7  # of the depth, gamma


@dataclass(frozen=True)
class Saturating(Scheduled):
    """An update map of one's own: Q(g) = g / (1 + g^2) of the last gradient."""

    lr: float = 1.0
    weight_decay = sp.Integer(0)

    def direction(self, gradient: Callable[[sp.Expr], sp.Expr], step: sp.Symbol) -> sp.Expr:
        return gradient(step) / (1 + gradient(step)**2)


Gradients = Sequence[np.ndarray]  # of all steps so far, times the width


def adam(gradients: Gradients) -> np.ndarray:
    """Adam's direction, moment by moment, with its default settings and eps = 0."""
    first = second = np.zeros_like(gradients[0])
    for gradient in gradients:
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
    steps = len(gradients)
    return first / (1 - 0.9**steps) / np.sqrt(second / (1 - 0.999**steps))


# optimizers, and what Q is of the gradients of all steps, in NumPy
UPDATES: tuple[tuple[Optimizer, Callable[[Gradients], np.ndarray]], ...] = (
    (tp.SGD(), lambda g: g[-1]), (tp.SignSGD(), lambda g: np.sign(g[-1])), (tp.Adam(eps=0.0), adam),
    (Saturating(), lambda g: g[-1] / (1 + g[-1]**2)))


def update(opt: Optimizer) -> Equation:
    """W_{t+1} and its value in the program that is trained by an optimizer."""
    location = next(p for p in tp.program(NET, opt, GENERAL).locations() if isinstance(p.statement.target, Matrix))
    return Equation(location.statement.target, location.statement.value)


def statement() -> Equations:
    return Equations(tuple(update(opt) for opt, _ in UPDATES))


def read(number: int) -> MeasuredNumber:
    """An update of a random matrix by random vectors, as it is printed, and by Q of their products in NumPy."""
    equation, (opt, q) = statement().equations[number], UPDATES[number]
    rng, last, layer = np.random.default_rng(number), STEPS - 1, 2
    t, l = equation.target.indices[0] - 1, equation.target.indices[1]
    dx, x = Family(Vector, "dx", r"\delta x", layered=True), Family(Vector, "x", layered=True)
    vectors = {v[s, k]: rng.standard_normal(WIDTH) for v, k in ((dx, layer), (x, layer - 1)) for s in range(STEPS)}
    before = rng.standard_normal((WIDTH, WIDTH))
    values = {**vectors, equation.target.at(last, layer): before}
    at = {t: last, l: layer, sp.Symbol("L", integer=True, positive=True): DEPTH, ALPHA: 0.5, GAMMA: POWER}
    found = at_width(equation.value.subs(at).replace(NonlinearOuter, lambda body: NonlinearOuter(body.doit())), values)
    gradients = [np.outer(vectors[dx[s, layer]], vectors[x[s, layer - 1]]) for s in range(STEPS)]
    expected = before - DEPTH**-POWER * q(gradients) / WIDTH
    return MeasuredNumber(f"W after an update by {type(opt).__name__}, as printed and by Q, relative difference",
                          relative(found, expected), 1e-12, 0.0)


def evidence() -> Evidence:
    """Besides, a quarter of the depth and four times the learning rate, gamma = 1: the same power of L in front."""
    task, numbers = tp.Task([1.0, 0.8], [1.0, -0.7]), list(map(read, range(len(UPDATES))))
    for kind in (tp.SGD, tp.SignSGD, tp.Adam):
        found, expected = (
            float(tp.train(NET, task, kind(rate), tp.DepthScaling(0, gamma), 4, width=16, seed=3).outputs[1, 0, 0])
            for rate, gamma in ((0.4, 1), (0.1, 0)))
        numbers.append(MeasuredNumber(f"f_1 by {kind.__name__} at gamma = 0, by 4 times its learning rate at L = "
                                      "4 and gamma = 1", found, 1e-10, expected))
    return Evidence(tuple(numbers))


ENTRY = Entry(
    key="tensor_programs_vi/definition_41",
    kind="definition",
    title="updates with powers of the depth",
    source="Tensor Programs VI, definition 4.1",
    says="An update has the size $L^{-\\gamma}$ and is an entrywise function $Q$ of gradients that do not see the "
         "width. Here for SGD, $Q$ the identity of the last gradient, for SignSGD, its sign, for Adam, of all "
         "gradients so far, and for a $Q$ of one's own, $g / (1 + g^2)$.",
    statement=statement,
    uses=("tensor_programs_vi/nonlinear_outer_product", "tensor_programs_vi/program_1"),
    evidence=evidence,
)
