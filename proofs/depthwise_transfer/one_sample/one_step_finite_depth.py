"""One step on one sample at finite depth: kernels and output in closed form."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Proof

from ..._line import DEPTH_MUP, NET, relative
from ._rules import L_, LAYER, Q_
from ._two_steps import ETA, F1, G0, G1, H0, H1, P, Y, by_layers


@lru_cache(maxsize=None)
def derivation() -> tuple[Derivation, dict[sp.Expr, sp.Expr]]:
    steps = Derivation()
    return steps, by_layers(steps, sp.Integer(0))


def statement() -> Equations:
    found = derivation()[1]
    return Equations(tuple(Equation(target, found[target]) for target in (
        H0(LAYER), G0(LAYER), P(LAYER), F1, H1(LAYER) - H0(LAYER), G1(LAYER) - G0(LAYER))))


def formulas() -> Any:
    """(eta, y, L, layers) -> H_0, G_0, f_1, H_1 - H_0, G_1 - G_0."""
    found = derivation()[1]
    values = [found[target].subs(Q_, 1 + 1 / L_) for target in (
        H0(LAYER), G0(LAYER), F1, H1(LAYER) - H0(LAYER), G1(LAYER) - G0(LAYER))]
    return sp.lambdify((ETA, Y, L_, LAYER), values, "numpy")


def trained(eta: float, y: float, depth: Any, times: Any = "all") -> tuple[np.ndarray, ...]:
    """The solver gives the five at all nodes or at layer times; the second step's target is another."""
    task = tp.Task([1.0, 1.0], [y, y + 2.0])
    run = tp.train(NET, task, tp.SGD(eta), DEPTH_MUP, depth, keep_nodes=times)
    chi = run.outputs.ravel() - task.targets.ravel()
    forward = np.diagonal(run.forward_covariance, axis1=1, axis2=2)
    backward = np.diagonal(run.backward_covariance, axis1=1, axis2=2) / chi**2
    return (forward[:, 0], backward[:, 0], run.outputs[1].ravel(), forward[:, 1] - forward[:, 0],
            backward[:, 1] - backward[:, 0])


def _numbers(rng: np.random.Generator) -> float:
    worst = 0.0
    for _ in range(4):
        eta, y, depth = rng.uniform(0.1, 1), rng.uniform(0.2, 1), int(rng.integers(1, 40))
        found = formulas()(eta, y, float(depth), np.arange(depth + 1))
        worst = max(worst, *(relative(np.broadcast_to(ours, theirs.shape), theirs)
                             for ours, theirs in zip(found, trained(eta, y, depth))))
    return worst


def derive() -> Proof:
    return Proof(derivation()[0].steps, _numbers, "kernels at every node and $f_1$, by the solver, for 4 random "
                 "learning rates, targets and depths")


ENTRY = Entry(
    key="depthwise_transfer/one_step_finite_depth",
    kind="proposition",
    title="one step on one sample, every layer",
    source="tpcalc (new); for Depthwise Hyperparameter Transfer, appendix G.2.2",
    says="A linear residual network at $\\alpha = \\gamma = 1/2$ after one update of learning rate $\\eta$ on one "
         "input with $|\\xi| = 1$ and target $y$, squared loss: $H^l = \\langle x^l | x^l \\rangle$ and $G^l = "
         "\\langle g^l | g^l \\rangle$, $g$ being gradients of the output itself, before (0) and after (1) the step. "
         "$P$ is the entry of the reflection form that joins the two rows; $q = 1 + 1/L$.",
    statement=statement,
    assumptions=("width to infinity at fixed depth", "frozen read-in and read-out", "plain gradient descent"),
    uses=("tpcalc/reflection_form",),
    derive=derive,
)
