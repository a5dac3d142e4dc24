"""Blocks of several matrices: every one of them learns at order one."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import Letters
from ..._line import DEPTH_MUP
from .._fields import fields

DEPTH, WIDTH, SEEDS = 8, 256, 20
TASK = tp.Task([1.0, 1.0], [1.0, 0.0])
t, s, ell, k, K, depth = sp.symbols("t s ell k K L", integer=True)
c = sp.Symbol("c")
Theta, h, g, u, A = fields("Theta h g u A")
Delta = sp.IndexedBase(r"\Delta")

LIMIT = Equation(sp.Symbol("f_1"), sp.Symbol("eta_0") * sp.Symbol("y") * K * sp.E)
UNFOLDED = Equation(h(t, ell + 1), h(t, 1) + sp.Sum(u(t, k), (k, 2, ell + 1)) / sp.sqrt(depth) + c / depth * sp.Sum(
    (Theta(t, s, k) * Delta[s] + A(t, s, k)) * g(s, k + 1), (k, 1, ell), (s, 0, t - 1)))


def finite_depth() -> float:
    """f_1 exactly, from the coefficients of all kets of the program."""
    program = tp.program(tp.ResNet("linear", "mlp"), tp.SGD(1.0), DEPTH_MUP)
    run = read_program_coefficients(program, {"T": 2, "L": DEPTH}, {"xi": [1.0, 1.0], "y": [1.0, 0.0]})
    return float({str(one): value for one, value in run.scalars.items()}["f[1]"])


@lru_cache(maxsize=None)
def real_networks() -> tuple[float, float]:
    found = [float(tp.train(tp.ResNet("linear", "mlp"), TASK, tp.SGD(1.0), tp.DepthScaling(), DEPTH, WIDTH,
                            method=tp.methods.Dense(seed=seed)).outputs[1, 0, 0]) for seed in range(SEEDS)]
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(SEEDS))


def unfolded(blocks: int = 4, rate: float = 0.7) -> float:
    """The largest norm of (125) as it is corrected, left less right, of streams of two matrices a block: exactly, from
    the coefficients of all kets. Responses are those of the stream ahead of a block to its inner matrix's transpose."""
    task = {"xi": [1.0, 0.8, -0.6], "y": [1.0, -0.5, 0.3]}
    program = tp.program(tp.ResNet("linear", "mlp"), tp.SGD(rate), DEPTH_MUP)
    run = read_program_coefficients(program, {"T": 3, "L": blocks}, task)
    named = {str(one): run.ket(one) for one in run.vectors}
    bases = {str(one): number for number, one in enumerate(run.bases)}
    chi, unit, covariance = run.series("chi"), np.eye(len(bases)), run.covariance

    def between(first: str, second: str) -> float:
        return float(named[first] @ covariance @ named[second])
    reading = Letters({
        "h": lambda k, node: named[f"x[{k}, {node - 1}]"],
        "u": lambda k, node: unit[bases[f"hat|W2[0, {node - 1}] @ z[{k}, {node - 1}]>"]],
        "g": lambda k, node: named[f"dx[{k}, {node - 1}]"] / chi[k], r"\Delta": lambda k: -chi[k],
        "Theta": lambda k, r, block: between(f"z[{k}, {block}]", f"z[{r}, {block}]") + between(
            f"x[{k}, {block - 1}]", f"x[{r}, {block - 1}]"),
        "A": lambda k, r, block: np.sqrt(blocks) * chi[r] / rate * named[f"x[{k}, {block - 1}]"][
            bases[f"hat|W1[0, {block}].T @ dz[{r}, {block}]>"]]}, {depth: blocks, c: rate})
    away = [reading.at({t: k, ell: block}).of(UNFOLDED.target - UNFOLDED.value)
            for k in (1, 2) for block in (blocks // 2, blocks)]
    return float(max(np.sqrt(one @ covariance @ one) for one in away))


def evidence() -> Evidence:
    numbers = [MeasuredNumber("(125) of two matrices, corrected, left less right at L = 4", unfolded(), 1e-12, 0.0)]
    for matrices in (1, 2):
        net, rate, target = tp.ResNet("linear", "mlp", matrices=matrices), 0.7, 1.3
        run = tp.train(net, tp.Task([1.0, 1.0], [target, 0.0]), tp.SGD(rate), tp.DepthScaling(), tp.oo)
        numbers.append(MeasuredNumber(f"f_1 of blocks of {matrices} matrices, linear, infinite depth",
                                      float(run.outputs[1, 0, 0]), 1e-8,
                                      float(LIMIT.value.subs({"eta_0": rate, "y": target, K: matrices}))))
    mean, error = real_networks()
    return Evidence((*numbers,
                     MeasuredNumber(f"f_1 at L = {DEPTH}, {SEEDS} networks of width {WIDTH}, two matrices", mean,
                                    error, finite_depth())))


def output_witness() -> Witness:
    """Without responses and inner matrices, at this depth: the sum over layers of Phi and <g w>."""
    mean, error = real_networks()
    return Witness(f"f_1 at L = {DEPTH}, two matrices, linear", mean, error, (1 + 1 / DEPTH)**DEPTH - 1, finite_depth())


ENTRY = Entry(
    key="depthwise_transfer/several_matrices",
    kind="proposition",
    title="blocks of several matrices",
    source="Depthwise Hyperparameter Transfer, appendix K.2, (125) to (127)",
    says="A block of $K$ matrices adds to the stream what each of them learns, at order one: the sum over layers of "
         "one matrix's update meets gradients that neighboring layers share, whichever matrix of the block it is. "
         "In the drift stands $\\Theta$, the sum of the tangent kernels of all matrices of a block, in the place of "
         "$\\Phi$. One step on one input of a linear network therefore moves its output by $K$ times what one matrix "
         "gives.",
    statement=lambda: Equations((UNFOLDED, LIMIT)),
    assumptions=("width to infinity, then depth", "frozen embedding and readout", "all matrices trained at one rate"),
    uses=("tpcalc/action_principle",),
    evidence=evidence,
    errata=(
        Erratum(Slip.FALSE, "(125) to (127), and 'as if the weights of a block were static': inner matrices learn, and "
                "responses are as in (38)",
                r"h^{\ell+1}_t &= h^1_t + \tfrac{1}{\sqrt{L}} \sum_{\ell'} u^{\ell'}_t + \tfrac{c}{L} \sum_{\ell'} "
                r"\sum_s \Delta_s \Phi^{\ell'-1,K}_{ts} g^{\ell'}_s", lambda: line(UNFOLDED.target, UNFOLDED.value),
                output_witness),
    ),
)
