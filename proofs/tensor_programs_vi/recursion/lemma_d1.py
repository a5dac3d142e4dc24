"""The recursion of Gamma and C at finite depth."""

from __future__ import annotations

from typing import Any

import numpy as np

import tpcalc as tp
from tpcalc.calculus.kets import Gamma
from tpcalc.interpreters import read_coefficients
from tpcalc.ledger import Entry, Erratum, Proof, Slip, Witness
from tpcalc.ledger.entry import line

from ..._line import (DEPTH, DEPTH_MUP, OPT, XI, Y, compiled, derived_outputs, kets, random_task, recursion, relative,
                      true_outputs, worst_equation, worst_step)
from ._printed import PrintedRecursion, printed_output

LAYERS, STEPS = 6, 3


def against_coefficients(trained: Any, task: tp.Task, scale: tp.DepthScaling, depth: int) -> float:
    """Outputs, every Gamma and every C of a compiled recursion against the hand-written kernel."""
    oracle = read_coefficients(task, OPT, scale, depth)
    worst = relative(trained.outputs, oracle.outputs.ravel())
    for a, (hat, ends) in enumerate(((oracle.x, oracle.x_outputs), (oracle.delta, oracle.delta_inputs))):
        gamma = trained.arrays[f"Gamma{a}"]  # [t, l, r + 1, b, m]
        worst = max(worst, relative(gamma[:, :, 1:, :, 1:].transpose(0, 1, 3, 4, 2), np.sqrt(depth) * hat),
                    relative(gamma[:, :, 0, :, 0], ends))
    return max(worst, *(relative(trained.arrays[f"C{b}_{b}"][..., 1:].transpose(2, 0, 1), oracle.covariance[b])
                        for b in (0, 1)))


def derive() -> Proof:
    steps = recursion().derivation.steps[len(kets().derivation.steps):]

    def numbers(rng: np.random.Generator) -> float:
        task = random_task(rng)
        xi, y = task.inputs.ravel(), task.targets.ravel()
        trained = compiled()(LAYERS, xi, y)
        printed = PrintedRecursion(xi[:3].tolist(), y[:3].tolist(), LAYERS)  # with every slip corrected
        data = {"xi": xi[:STEPS], "y": y[:STEPS]}
        sizes = {"T": STEPS, "L": STEPS}
        return max(worst_step(tp.check_steps(recursion(), sizes, data)),
                   worst_equation(recursion(), recursion().equations, sizes, data),
                   against_coefficients(trained, task, DEPTH_MUP, LAYERS),
                   relative([float(f) for f in printed.outputs], trained.outputs[:3]))

    return Proof(steps, numbers, f"both sides of every step and equation at {STEPS} steps and layers, for every base "
                 f"ket; the compiled recursion on a random task, L = {LAYERS}: outputs, every $\\Gamma$ and "
                 "every $C$ against the hand-written kernel, outputs against the printed recursion with its slips "
                 "corrected, in rationals")


def start() -> str:
    """Where the forward recursion starts."""
    first = next(e for e in recursion().equations if isinstance(e.target, Gamma))
    return line(first.target, first.value)


def witness() -> Witness:
    """With q read as b = 1 (q is a layer time, and 1 is the one value that is both), x^0 depends on nV."""
    return Witness(f"f_0 at L = {DEPTH}", true_outputs()[0], 1e-12, printed_output(0, XI, Y, DEPTH, x0_of_nV=1),
                   derived_outputs()[0])


ENTRY = Entry(
    key="tensor_programs_vi/lemma_d1",
    kind="lemma",
    title="recursion of $\\Gamma$ and $C$ at finite depth",
    source="Tensor Programs VI, lemma D.1",
    says="$\\Gamma_{t,r,a,b}$ is $\\sqrt{L}$ times the coefficient of a hat-ket ($r \\ge 0$), or the coefficient of "
         "$U$ or $nV$ ($r = -1$), in $|x_t\\rangle$ ($a = 0$) or $|\\delta x_t\\rangle$ ($a = 1$); $C$ is the "
         "covariance of hat-kets.",
    statement=recursion,
    assumptions=("width to infinity at fixed depth and number of steps", "$\\alpha = \\gamma = 1/2$",
                 "one input and one output a step"),
    uses=("tensor_programs_vi/ket_equations", "tensor_programs_vi/definition_c1"),
    derive=derive,
    errata=(Erratum(Slip.MISPRINT, "lemma D.1, initial condition: the layer time $q$ stands where $b$ belongs",
                    r"\Gamma_{t,-1,0,q}(0, q) &= \xi_{t}", start, witness),),
)
