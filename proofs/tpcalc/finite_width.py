"""Fluctuations of trained linear networks of finite width, from the tilted reflection form."""

from __future__ import annotations

import numpy as np

import tpcalc as tp
from tpcalc.ledger import Entry, Evidence, Number, Rate
from tpcalc.ledger.entry import Formula

from .._line import NET

TASK, OPT, DEPTH = tp.Task((1.0, 0.8), (1.0, -0.7)), tp.SGD(0.3), 4
WIDTHS, NETWORKS, TOGETHER = (24, 48), (40000, 20000), 250
DEPTHS = (16, 32, 64, 128)

STATEMENT = r"""\Pi^l &= \Theta^l + (1 - \Pi^{l-1} \Omega^l)^{-1} \Pi^{l-1}, \quad
\Theta^l = \Theta\left[(1 - \Pi^{l-1} R^{l-1})^{-1} \Pi^{l-1}\right] \\
R^{l-1} &= \Omega^l + (1 - R^l \Theta^l)^{-1} R^l, \quad \Omega^l = \Omega\left[(1 - R^l \Pi^l)^{-1} R^l\right] \\
R^L &= u u^\top, \quad u = (z + j, \chi), \quad (f, v) = (1 - \Pi^L R^L)^{-1} \Pi^L u, \quad
z_t = v_t \, \partial \chi_t / \partial f_t \\
n \, \mathrm{Cov}(f_t, f_s) &\to \Sigma_{ts} = \left.\partial f_t / \partial j_s\right|_{j=0}, \quad
n^{k-1} \kappa_k(f_t) \to \left.\partial^{k-1} f_t / \partial j_t^{k-1}\right|_{j=0} \\
n \left(\mathrm{E} f_t - f_t\right) &\to b_t = -\tfrac{1}{2} \left.\partial_{j_t} \log \det M(j)\right|_{j=0}"""


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


def evidence() -> Evidence:
    found = tp.train(NET, TASK, OPT, tp.DepthScaling(), DEPTH).fluctuations
    covariance = found.covariance.reshape(2, 2)
    expected = [*covariance[np.triu_indices(2)], found.bias.ravel()[1]]
    names = ("Sigma_00", "Sigma_01", "Sigma_11", "b_1")
    numbers = tuple(Number(f"{name} of real networks, L = {DEPTH}, n = {WIDTHS[0]} and {WIDTHS[1]} extrapolated",
                           *map(float, row)) for name, *row in zip(names, *extrapolated(), expected))
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
    says="Over initialisations the outputs of a trained linear network of width $n$ have a density $e^{n S}$ in the "
         "overlaps of all fields. With the weight $e^{n j \\cdot f}$ on it, $E(j) = \\lim n^{-1} \\log \\mathrm{E}\\, "
         "e^{n j \\cdot f}$ is its saddle and $\\partial E / \\partial j$ the output $f(j)$, so that derivatives of "
         "$f(j)$ are the leading cumulants. At the saddle a node splits the network into Gaussian laws, $\\Pi$ of "
         "$(x, \\tilde{\\delta})$ to its left and $R$ of $(\\tilde{x}, \\delta)$ to its right; $\\Theta[\\cdot]$, "
         "$\\Omega[\\cdot]$ are what a layer makes of overlaps; at $j = 0$, $\\Pi = ((S, P), (P^\\top, 0))$ and this "
         "is the reflection form. $M$ is the linearised system, whose determinant is that of the fluctuations of the "
         "action; eliminated layer by layer, it gives the bias in time linear in $L$. A trained read-in or read-out "
         "is one more layer.",
    statement=lambda: Formula(STATEMENT),
    assumptions=("linear blocks of one matrix, updates linear in gradients",
                 "frozen ends in the last line but three; several outputs: $u u^\\top$ is summed over them",
                 "the series in $1/n$ is asymptotic"),
    uses=("tpcalc/overlap_action", "tpcalc/reflection_form"),
    evidence=evidence,
)
