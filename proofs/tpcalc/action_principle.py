"""Training at infinite depth as the saddle of an action, to which a block gives its kernels and nothing else."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.action.action import a, action, at, b
from tpcalc.action.block_kernels import derive_block_kernels
from tpcalc.interpreters import particles
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber
from tpcalc.programs.blocks import Branch
from tpcalc.programs.indices import L, T, t
from tpcalc.programs.language import Family, Matrix, MatVec

from .._line import DEPTH_MUP, OPT

NET = tp.ResNet("tanh")
INPUTS, TARGETS = (1.0, 0.8, -0.6, 1.1), (1.0, -0.7, 0.5, 1.2)
DEPTHS, BATCHES = (8, 16, 32), (8, 16, 24)  # the deepest weighs most
WEIGHTS = np.array([1, -6, 8]) / 3          # what is left falls like L^-3
SAMPLES = 4096


def statement() -> Equations:
    return Equations((Equation(at("Psi", a, b), action(a, b, ("m",)), "b < a"),
                      Equation(at("Psi", a, a), action(a, a, ("m",)))))


def simulated(net: tp.ResNet = NET) -> tuple[np.ndarray, np.ndarray]:
    """f_1, f_2, f_3 of particles, extrapolated in the depth, and standard errors."""
    program, data = tp.program(net, OPT, DEPTH_MUP), {"xi": np.array(INPUTS), "y": np.array(TARGETS)}
    runs = [particles(program, {T: len(INPUTS), L: depth}, data, SAMPLES, depth, batches)
            for depth, batches in zip(DEPTHS, BATCHES)]
    values, errors = (np.array([of(run)[1:] for run in runs]) for of in (
        lambda run: run.series("f"), lambda run: run.error_series("f")))
    return WEIGHTS @ values, np.sqrt(WEIGHTS**2 @ errors**2)


def shared(branch: Branch) -> sp.Expr:
    """One matrix in all layers."""
    return MatVec(Family(Matrix, "W")[t], branch.x)


def uncentered(branch: Branch) -> sp.Expr:
    return branch.let("z", sp.cos(branch.let("h", MatVec(branch.weights(), branch.x))))


def twice(branch: Branch) -> sp.Expr:
    """One matrix on two vectors."""
    return MatVec(branch.weights(), branch.let("z", branch.phi(branch.let("h", MatVec(branch.weights(), branch.x)))))


def _limit(net: tp.ResNet = NET, opt: Any = OPT, scale: tp.DepthScaling = DEPTH_MUP) -> tp.Run:
    return tp.train(net, tp.Task(INPUTS, TARGETS), opt, scale, depth=tp.oo, method="collocation")


def refusals() -> dict[str, Callable[[], Any]]:
    """What the principle does not cover, and what refuses it."""
    return {"'pre_nonlin' blocks": lambda: derive_block_kernels(tp.ResNet("tanh", "pre_nonlin")),
            "weights shared by layers": lambda: derive_block_kernels(tp.ResNet("tanh", shared)),
            "a matrix used twice": lambda: derive_block_kernels(tp.ResNet("tanh", twice)),
            "outputs with a mean": lambda: derive_block_kernels(tp.ResNet("tanh", uncentered)),
            "Adam": lambda: _limit(opt=tp.Adam(0.1)),
            "alpha = 1": lambda: _limit(scale=tp.DepthScaling(1, 0))}


def refused(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except tp.NotCovered:
        return True
    return False


def evidence() -> Evidence:
    values, errors = simulated()
    limit = _limit().outputs.ravel()[1:]
    outputs = tuple(MeasuredNumber(f"f_{k + 1} of tanh, particles at L = 8, 16, 32 extrapolated", *map(float, numbers))
                    for k, numbers in enumerate(zip(values, errors, limit)))
    cases = refusals()
    compiled = (action(a, b, ("m",)), action(a, a, ("m",)))
    differ = sum(sp.expand(one.value - other) != 0 for one, other in zip(statement().equations, compiled))
    same = MeasuredNumber("equations that differ from what the solver of these outputs is compiled from",
                          float(differ), 0.0, 0.0)
    told = MeasuredNumber(f"refused with the reason: {', '.join(cases)}", float(sum(map(refused, cases.values()))), 0.0,
                          float(len(cases)))
    return Evidence((*outputs, same, told))


ENTRY = Entry(
    key="tpcalc/action_principle",
    kind="claim",
    title="the action of a block",
    source="tpcalc (new); a field-theoretic argument, no proof",
    says="A residual block $F$ enters training at infinite width and depth only through $\\kappa_{ab}$, the "
         "covariance of its outputs over its initial weights, and $\\theta^m_{ab}$, the overlap of its gradients in "
         "the matrix $m$, as functions of the overlaps of the stream. With response fields $\\tilde{x}$ of the stream "
         "and $\\tilde{\\delta}$ of its gradient, sites $a$ (a sample of a step; $b < a$ of an earlier one), and "
         "$D_a$ the derivative along $\\tilde{\\delta}_a$ in the copy of $x_a$ that the block reads, the action per "
         "unit of layer time and of width is $\\Psi = \\sum_{b<a} \\Psi_{ab} + \\sum_a \\Psi_{aa}$, summed over "
         "pairs, and over $m$; pairs of one step have no $\\theta$. Layers are independent, so that of the block's "
         "cumulants half the variance counts, $\\kappa$, and the mean under past updates, $\\theta$; later ones add "
         "up to nothing. The densities in layer time are coefficients of $\\Psi$ at its saddle.",
    statement=statement,
    assumptions=("$\\alpha = \\gamma = 1/2$; for $1/2 < \\alpha < 1$, $\\gamma = 1 - \\alpha$ terms in $\\kappa$ drop",
                 "the first operation of the block is a fresh random matrix of its own layer, each matrix used once",
                 "outputs and their derivatives in the input have mean zero over the initial weights",
                 "$\\kappa$, $\\theta$ are functions of overlaps only, which average themselves at infinite width",
                 "updates are linear in the gradients"),
    uses=("gaussian/price", "gaussian/stein", "gaussian/conditioning"),
    evidence=evidence,
)
