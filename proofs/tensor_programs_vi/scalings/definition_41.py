"""Updates of a matrix with powers of the width and of the depth."""

from __future__ import annotations

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber
from tpcalc.programs.language import Matrix

from ..._line import GENERAL, NET

OPTIMIZERS = (tp.SGD(), tp.SignSGD())


def update(opt: tp.SGD | tp.SignSGD) -> Equation:
    """W_{t+1} and its value in the program that is trained by an optimizer."""
    location = next(p for p in tp.program(NET, opt, GENERAL).locations() if isinstance(p.statement.target, Matrix))
    return Equation(location.statement.target, location.statement.value)


def evidence() -> Evidence:
    """A quarter of the depth and four times the learning rate, gamma = 1: the same power of L in front of Q."""
    task, numbers = tp.Task([1.0, 0.8], [1.0, -0.7]), []
    for opt, quarter in ((tp.SGD(0.1), tp.SGD(0.4)), (tp.SignSGD(0.1), tp.SignSGD(0.4))):
        found, expected = (
            float(tp.train(NET, task, one, tp.DepthScaling(0, gamma), 4, width=16, seed=3).outputs[1, 0, 0])
            for one, gamma in ((quarter, 1), (opt, 0)))
        numbers.append(MeasuredNumber(f"f_1 by {type(opt).__name__} at gamma = 0, by 4 times its learning rate at L = "
                                      "4 and gamma = 1", found, 1e-10, expected))
    return Evidence(tuple(numbers))


ENTRY = Entry(
    key="tensor_programs_vi/definition_41",
    kind="definition",
    title="updates with powers of the depth",
    source="Tensor Programs VI, definition 4.1",
    says="An update has the size $L^{-\\gamma}$ and is an entrywise function $Q$ of gradients that do not see the "
         "width. Here for SGD, $Q$ the identity of the last gradient, and for SignSGD, its sign.",
    statement=lambda: Equations(tuple(update(opt) for opt in OPTIMIZERS)),
    uses=("tensor_programs_vi/nonlinear_outer_product", "tensor_programs_vi/program_1"),
    evidence=evidence,
)
