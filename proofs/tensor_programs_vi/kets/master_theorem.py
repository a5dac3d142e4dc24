"""Coordinates become independent copies of kets as the width grows."""

from __future__ import annotations

import operator

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus.kets import Ket
from tpcalc.gaussian.variables import Expectation
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Rate
from tpcalc.programs.language import Family, Mean, Vector

from ..._finite_width import at_width
from ..._line import DEPTH_MUP, NET, OPT, kets

WIDTHS, SEEDS, DEPTH = (64, 128, 256, 512), 24, 4
PSI, TWO = sp.Function("psi"), tuple(Family(Vector, f"x{k}", f"x^{k}")() for k in (1, 2))


def statement() -> Equations:
    return Equations((Equation(Mean(PSI(*TWO)), Expectation(PSI(*map(Ket, TWO))), r"n \to \infty",
                               r"\longrightarrow"),))


def misread() -> float:
    """How far the statement, for a product of two vectors, is from what a program says of f and what kets say of it."""
    equations = kets()
    of_kets = next(e.value for e in equations.equations if getattr(e.target, "name", "") == "f")
    of_program = next(location.statement.value for location in equations.setting.program.locations()
                      if location.statement.target.name == "f")
    vectors = sorted(of_program.atoms(Vector), key=str)
    values = dict(zip(vectors, np.random.default_rng(0).standard_normal((2, 50))))
    sides = statement().equations[0]
    read = [side.replace(PSI, operator.mul).xreplace(dict(zip(TWO, vectors))) for side in (sides.target, sides.value)]
    return max(abs(float(at_width(ours, values) - at_width(theirs, values)))
               for ours, theirs in zip(read, (of_program, of_kets)))


def evidence() -> Evidence:
    """The formula read on f, and outputs of real networks against the kets' numbers, over seeds."""
    task = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5])
    limit = tp.train(NET, task, OPT, DEPTH_MUP, DEPTH).outputs.ravel()
    found = np.array([[tp.train(NET, task, OPT, DEPTH_MUP, DEPTH, width=n, seed=seed).outputs.ravel()
                       for seed in range(SEEDS)] for n in WIDTHS])
    mean, error = found[-1].mean(0), found[-1].std(0, ddof=1) / np.sqrt(SEEDS)
    spread = np.sqrt(np.mean((found - limit) ** 2, axis=(1, 2)))
    read = MeasuredNumber("the formula for f, against the program's average and the kets' bracket", misread(), 1e-12,
                          0.0)
    numbers = tuple(MeasuredNumber(f"f_{t} at L = {DEPTH}, mean of {SEEDS} networks of width {WIDTHS[-1]}",
                                   float(mean[t]),
                                   float(error[t]), float(limit[t])) for t in range(task.steps))
    rate = Rate("root mean square distance of f from its limit", "n", 0.5, tuple(map(float, WIDTHS)),
                tuple(map(float, spread)), 0.1)
    return Evidence((read, *numbers), (rate,))


ENTRY = Entry(
    key="tensor_programs_vi/master_theorem",
    kind="theorem",
    title="master theorem",
    source="Tensor Programs VI, appendices E.1 and F, after Yang et al. (2022)",
    says="Averages over the coordinates of a program's vectors, of any number of them, converge to expectations of "
         "their kets; here the program is the training of a linear residual network.",
    statement=statement,
    assumptions=("entrywise functions are smooth enough and of polynomial growth",),
    uses=("tensor_programs_vi/definition_c1",),
    evidence=evidence,
)
