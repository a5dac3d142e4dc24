"""How large coefficients and brackets are."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters import read_coefficients
from tpcalc.ledger import Entry, Equations, Evidence, Rate, OrderBound

from ..._line import DEPTH_MUP, HALF, OPT

TASK = tp.Task([0.5, 0.4, -0.3], [0.5, -0.4, 0.2])
DEPTHS = tuple(2**k for k in range(4, 9))


SIZES = (OrderBound((r"\frac{\partial |y\rangle}{\partial |\widehat{W_0^m x_s^{m-1}}\rangle}",
                     r"\frac{\partial |y\rangle}{\partial |\widehat{W_0^{m\top} \delta x_s^m}\rangle}"), -HALF),
         OrderBound((r"\frac{\partial |y\rangle}{\partial |U\rangle}",
                     r"\frac{\partial |y\rangle}{\partial |nV\rangle}"),
                    sp.Integer(0)),
         OrderBound((r"\langle y | z \rangle",), sp.Integer(0)))


def sizes(depth: int) -> tuple[float, float, float]:
    """Largest coefficient of an earlier step's hat-kets; of U and nV; largest <y|y>."""
    run = read_coefficients(TASK, OPT, DEPTH_MUP, depth)
    hats = max(float(np.abs(hat[t, ..., :t]).max()) for hat in (run.x, run.delta) for t in range(1, TASK.steps))
    ends = max(float(np.abs(end).max()) for end in (run.x_outputs, run.delta_inputs))
    brackets = max(float(np.abs(run.node_covariance(forward)).max()) for forward in (True, False))
    return hats, ends, brackets


def evidence() -> Evidence:
    """Divided by their powers of L, they change less and less as the depth doubles."""
    units = [[depth ** float(one.power) for one in SIZES] for depth in DEPTHS]
    changes = np.abs(np.diff(np.array([sizes(depth) for depth in DEPTHS]) / units, axis=0)).T
    lengths = tuple(map(float, DEPTHS[2:]))
    names = ("largest coefficient of an earlier hat-ket", "largest coefficient of U and nV", "largest bracket")
    return Evidence(rates=tuple(
        Rate(f"{name}, divided by L^({one.power}): change from L/2 to L", "L", 1.0, lengths,
             tuple(map(float, change[1:])), 0.1)
        for name, one, change in zip(names, SIZES, changes)))


ENTRY = Entry(
    key="tensor_programs_vi/proposition_c2",
    kind="proposition",
    title="sizes of coefficients and brackets",
    source="Tensor Programs VI, proposition C.2",
    says="For $y$ and $z$ among all $x_t^l$ and $\\delta x_t^l$. A bracket is at most the product of two norms, so the "
         "largest $\\langle y|y\\rangle$ is measured. A step's own hat-ket has the coefficient $L^{-1/2}$ from where "
         "it is born.",
    statement=lambda: Equations(SIZES),
    assumptions=("width to infinity, then depth", "$\\alpha = \\gamma = 1/2$", "one input and one output a step"),
    uses=("tensor_programs_vi/ket_equations", "tensor_programs_vi/definition_c1"),
    evidence=evidence,
)
