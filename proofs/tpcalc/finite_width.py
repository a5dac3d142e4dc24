"""Fluctuations of trained linear networks of finite width, from the tilted reflection form."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Rate
from tpcalc.finite_width.fluctuations import Fluctuations
from tpcalc.finite_width.tilted import tilted_network

from .._line import NET
from .._matrices import Transposed, matrix
from ._tilted_equations import AtZero, Made, TiltedNetworkEquations, Stacked

TASK, OPT, DEPTH = tp.Task((1.0, 0.8), (1.0, -0.7)), tp.SGD(0.3), 4
LABELED = tp.Task((1.0, 0.8), (1.0, -1.0), loss="logistic")  # whose chi has a slope other than 1
WIDTHS, NETWORKS, TOGETHER = (24, 48), (40000, 20000), 250
DEPTHS = (16, 32, 64, 128)

PI, PI_BEFORE, R, R_BEFORE = map(matrix, (r"\Pi^l", r"\Pi^{l-1}", "R^l", "R^{l-1}"))
THETA, OMEGA = map(sp.Symbol, (r"\Theta", r"\Omega"))
ADDED, SENT = map(matrix, (r"\Theta^l", r"\Omega^l"))
PI_LAST, R_LAST, LOOKED, ANSWER = map(matrix, (r"\Pi^L", "R^L", "u", r"\left(f, v\right)"))
Z, V, J, CHI, SLOPE = sp.symbols(r"z v j \chi \chi'")
F_T, J_T, J_S, K = sp.symbols("f_t j_t j_s k")
LOG_DET = sp.Symbol(r"\log \det M(j)")
LAYER = (Equation(ADDED, Made(THETA, (1 - PI_BEFORE * R_BEFORE) ** -1 * PI_BEFORE)),
         Equation(SENT, Made(OMEGA, (1 - R * PI) ** -1 * R)),
         Equation(PI, ADDED + (1 - PI_BEFORE * SENT) ** -1 * PI_BEFORE),
         Equation(R_BEFORE, SENT + (1 - R * ADDED) ** -1 * R))
END = (Equation(Z, V * SLOPE), Equation(LOOKED, Stacked(Z + J, CHI)),
       Equation(ANSWER, (1 - PI_LAST * R_LAST) ** -1 * PI_LAST * LOOKED), Equation(R_LAST, LOOKED * Transposed(LOOKED)))
NAMES = {"Pi": PI, "Pi before": PI_BEFORE, "R": R, "R before": R_BEFORE, "Theta": THETA, "Omega": OMEGA, "v": V, "j": J,
         "Pi last": PI_LAST, "R last": R_LAST, "chi": CHI, "slope": SLOPE, "f and v": ANSWER, "f_t": F_T, "j_t": J_T,
         "j_s": J_S, "log det": LOG_DET}
COVARIANCE = Equation(sp.Symbol(r"n \, \mathrm{Cov}(f_t, f_s)"), AtZero(F_T, J_S, sp.Integer(1)), relation=r"\to")
CUMULANT = Equation(sp.Symbol(r"n^{k-1} \, \kappa_k(f_t)"), AtZero(F_T, J_T, K - 1), relation=r"\to")
BIAS = Equation(sp.Symbol(r"n \left(\mathrm{E} f_t - f_t\right)"), -AtZero(LOG_DET, J_T, sp.Integer(1)) / 2,
                relation=r"\to")


def measured(width: int, networks: int) -> np.ndarray:
    """f_0 and f_1 of real networks, (networks, 2): vectors of all of them at once."""
    (xi, later), (y, _), rate = TASK.inputs.ravel(), TASK.targets.ravel(), float(OPT.schedule(2)[0])
    rng, eps, found = np.random.default_rng(width), DEPTH**-0.5, []
    for _ in range(0, networks, TOGETHER):
        U, V = rng.standard_normal((2, TOGETHER, width))
        W = rng.standard_normal((DEPTH, TOGETHER, width, width)) / np.sqrt(width)
        x = [xi * U]
        for layer in W:
            x.append(x[-1] + eps * np.einsum("nij,nj->ni", layer, x[-1]))
        first = np.mean(x[-1] * V, axis=1)
        delta = [(first - y)[:, None] * V]
        for layer in W[::-1]:
            delta.append(delta[-1] + eps * np.einsum("nij,ni->nj", layer, delta[-1]))
        now = later * U
        for layer, before, gradient in zip(W, x, delta[-2::-1]):
            learnt = rate / DEPTH**0.5 * np.mean(before * now, axis=1, keepdims=True) * gradient
            now = now + eps * (np.einsum("nij,nj->ni", layer, now) - learnt)
        found.append(np.column_stack([first, np.mean(now * V, axis=1)]))
    return np.concatenate(found)


def extrapolated() -> tuple[np.ndarray, np.ndarray]:
    """Sigma_00, Sigma_01, Sigma_11 and b_1 from two widths, with standard errors."""
    limit = tp.train(NET, TASK, OPT, tp.DepthScaling(), DEPTH).outputs.ravel()
    values, errors = [], []
    for width, networks in zip(WIDTHS, NETWORKS):
        change = measured(width, networks) - limit
        (p, q), shift = (change - change.mean(axis=0)).T, change[:, 1]
        each = width * np.column_stack([p**2, p * q, q**2, shift])
        values.append(each.mean(axis=0))
        errors.append(each.std(axis=0, ddof=1) / np.sqrt(networks))
    return 2 * values[1] - values[0], np.sqrt(4 * errors[1] ** 2 + errors[0] ** 2)


def equations_about(found: Fluctuations, task: tp.Task = TASK, loss: str = "mse") -> TiltedNetworkEquations:
    """The printed equations, about a run's network and a task with that loss."""
    network = tilted_network(task, OPT, found.depth or 1, found.noise, found.drift, found.train_embedding_readout)
    return TiltedNetworkEquations(network, task.targets.reshape(-1, 1), NAMES, LAYER, END, loss)


def evidence() -> Evidence:
    """The equations hold for what is solved; their derivatives are what real networks show."""
    found = tp.train(NET, TASK, OPT, tp.DepthScaling(), DEPTH).fluctuations
    assert isinstance(found, Fluctuations)  # of linear networks
    read = equations_about(found)
    expected = [read.at_zero(COVARIANCE.value, t, s) for t, s in ((0, 0), (0, 1), (1, 1))]
    expected.append(read.at_zero(BIAS.value, 1, 1))
    names = ("Sigma_00", "Sigma_01", "Sigma_11", "b_1")
    numbers = (
        MeasuredNumber("the equations at a solution, with and without a tilt, largest difference", read.residual(),
                       1e-10, 0.0),
        MeasuredNumber("the same of a task with labels and the logistic loss",
                       equations_about(found, LABELED, "logistic").residual(), 1e-10, 0.0),
        MeasuredNumber("b_1 by the determinant of the equations, linearized by differentiation", expected[-1], 1e-6,
                       float(found.bias.ravel()[1])),
        MeasuredNumber("third cumulant of f_1, n^2 times it, as found for runs", float(found.cumulant(3).ravel()[1]),
                       1e-10,
                       read.at_zero(CUMULANT.value, 1, 1, {K: 3})),
        *(MeasuredNumber(f"{name} of real networks, L = {DEPTH}, n = {WIDTHS[0]} and {WIDTHS[1]} extrapolated",
                         *map(float, row)) for name, *row in zip(names, *extrapolated(), expected)))
    rates = []
    for alpha, rate in ((0.5, 1.0), (0.75, 0.5)):
        scale = tp.DepthScaling(alpha, 1 - alpha)
        limit = tp.train(NET, TASK, OPT, scale, tp.oo).fluctuations.covariance
        distances = [float(np.max(np.abs(tp.train(NET, TASK, OPT, scale, depth).fluctuations.covariance - limit)))
                     for depth in DEPTHS]
        rates.append(Rate(f"Sigma to its limit at alpha = {alpha}", "L", rate, DEPTHS, tuple(distances), 0.06))
    return Evidence(numbers, tuple(rates))


ENTRY = Entry(
    key="tpcalc/finite_width",
    kind="claim",
    title="fluctuations of a finite width",
    source="tpcalc (new); the fluctuations of an action, to leading order",
    says="Over initializations the outputs of a trained linear network of width $n$ have a density $e^{n S}$ in the "
         "overlaps of all fields. With the weight $e^{n j \\cdot f}$ on it, $E(j) = \\lim n^{-1} \\log \\mathrm{E}\\, "
         "e^{n j \\cdot f}$ is its saddle and $\\partial E / \\partial j$ the output $f(j)$, so that derivatives of "
         "$f(j)$ are the leading cumulants. At the saddle a node splits the network into Gaussian laws, $\\Pi$ of "
         "$(x, \\tilde{\\delta})$ to its left and $R$ of $(\\tilde{x}, \\delta)$ to its right; $\\Theta[\\cdot]$, "
         "$\\Omega[\\cdot]$ are what a layer makes of overlaps; $\\chi'$ is the slope of $\\chi$ in $f$, row by row. "
         "At $j = 0$, $\\Pi = ((S, P), (P^\\top, 0))$ and this is the reflection form. $M$ is the linearized system, "
         "whose determinant is that of the fluctuations of the action; eliminated layer by layer, it gives the bias in "
         "time linear in $L$. A trained read-in or read-out is one more layer.",
    statement=lambda: Equations((*LAYER, *END, COVARIANCE, CUMULANT, BIAS)),
    assumptions=("linear blocks of one matrix, updates linear in gradients",
                 "frozen embedding and readout in the equations of $(f, v)$ and $R^L$; several outputs: $u u^\\top$ "
                 "is summed over them",
                 "the series in $1/n$ is asymptotic"),
    uses=("tpcalc/overlap_action", "tpcalc/reflection_form"),
    evidence=evidence,
)
