"""From layers to layer time: sums of sources and of drifts over layers, their sizes, and what they become."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc._types import Value
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Rate, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import Letters
from ._batch_case import BATCH, C as BATCH_C, ETA0, MU0, batch_case
from .._fields import fields, mean_of
from ._linear_case import C, TASK, TAU, case, curve
from .written_forms import DEPTH, layers

DEPTHS, WIDTH, SEEDS = (8, 16, 32, 64, 128), 128, 48
x, z, t, s, v, k, j, ell, L = sp.symbols("x z t s v k j ell L", integer=True)
tau, sigma, c, size = sp.symbols("tau sigma c |B|", real=True)
h, g, u, H, Phi, A, Ch = fields("h g u H Phi A Ch")
Delta = sp.IndexedBase(r"\Delta")
F = sp.Function("F")

_sum = sp.Sum(u(t, k), (k, 2, ell)) / sp.sqrt(L)
SOURCES = Equation(mean_of(sp.Mul(_sum, _sum.subs({t: s, k: j}), evaluate=False)), sp.Sum(Phi(t, s, k), (
    k, 1, ell - 1)) / L)
DRIFTS = Equation(mean_of(sp.Symbol("d")**2), (c / L)**2 * sp.Sum(Ch(t, s, k) * Ch(t, v, j) * mean_of(
    g(s, k + 1) * g(v, j + 1)), (k, 1, ell - 1), (j, 1, ell - 1), (s, 0, t - 1), (v, 0, t - 1)))
CONTINUED = Equation(sp.Limit(h(t, tau * L), L, sp.oo), h(t, tau))
RIEMANN = Equation(sp.Sum(F(k / L), (k, 1, tau * L)) / L, sp.Integral(F(sigma), (sigma, 0, tau)) + sp.Order(1 / L, (
    L, sp.oo)))
KERNEL = Phi(x, t, z, s, sigma) * Delta[z, s] / size + A(x, t, z, s, sigma)
FIELD = Equation(h(x, t, tau), h(x, t, 0) + u(x, t, tau) + c * sp.Integral(sp.Sum(KERNEL * g(s, sigma), (
    z, 0, size - 1), (s, 0, t - 1)), (sigma, 0, tau)))


@lru_cache(maxsize=None)
def drift() -> tuple[float, float, float]:
    """<d d> behind all blocks but the last after a step: by kernels of h, by (54) as corrected, as printed."""
    run, found = layers()
    kernels = {name: getattr(found, name)[:, :, 0, :, 0] for name in ("H", "Phi", "A")}
    chi = float((run.outputs - run.task.targets).ravel()[0])
    last = DEPTH

    def mean(here: Letters, body: sp.Expr) -> float:
        (_, p), (_, q) = (tuple(here.of(i) for i in one.args) for one in body.args)
        return run.cross_covariance(0, 0, 1, 1, (p - 1) / DEPTH, (q - 1) / DEPTH) / chi**2
    tables: dict[str, Value] = {
        "Ch": lambda a, b, node: kernels["Phi"][node - 1, a, b] * found.Delta[b, 0] + kernels["A"][node - 1, a, b]}
    here = Letters(tables, {c: C, L: DEPTH, ell: last, t: 1}, mean)
    right = float(here.of(DRIFTS.value))
    sources = float(np.sum(kernels["Phi"][:last - 1, 1, 1])) / DEPTH
    truth = float(kernels["H"][last - 1, 1, 1] - kernels["H"][0, 1, 1]) - sources
    return truth, right, right * float(found.Delta[0, 0])**2


def drift_witness() -> Witness:
    truth, right, printed = drift()
    return Witness(f"<d d> at node {DEPTH} of {DEPTH + 1} after a step, linear", truth, 1e-10, printed, right)


def sources_of_networks() -> MeasuredNumber:
    """Real tanh networks before training: the sum of all sources, squared, less the mean of their kernels."""
    rng, found, blocks = np.random.default_rng(0), [], 5
    for _ in range(SEEDS):
        h_, total, kernels = 1.3 * rng.normal(size=WIDTH), np.zeros(WIDTH), []
        for _ in range(blocks):
            kernels.append(np.mean(np.tanh(h_)**2))
            source = rng.normal(size=(WIDTH, WIDTH)) @ np.tanh(h_) / np.sqrt(WIDTH)
            total, h_ = total + source / np.sqrt(blocks), h_ + source / np.sqrt(blocks)
        found.append(np.mean(total**2) - np.mean(kernels))
    return MeasuredNumber(f"(53), left less right, {SEEDS} tanh networks of width {WIDTH}", float(np.mean(found)),
                          float(np.std(found, ddof=1) / np.sqrt(SEEDS)), 0.0)


def rates() -> tuple[Rate, ...]:
    """A kernel of two steps at layer time 1/2, and the sum of its limit over layers until there."""
    limit, off = curve(case().curves["H"][:-1, 2, 1]), []
    for depth in DEPTHS:
        raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=MU0, eta0=ETA0), tp.ResNet(), TASK, depth)
        off.append(abs(float(tp.theory.dmft(raw).H[depth // 2, 2, 0, 1, 0] - limit(0.5))))
    whole = limit.integ()
    sums = [abs(float(np.sum(limit(np.arange(1, n // 2 + 1) / n)) / n - whole(0.5) + whole(0))) for n in DEPTHS]
    return (Rate("H_21 of a linear network at layer time 1/2, from its limit", "L", 1.0, DEPTHS, tuple(off)),
            Rate("(57), of H_21 until layer time 1/2", "L", 1.0, DEPTHS, tuple(sums)))


def pushed() -> MeasuredNumber:
    """What h_1 of the first input owes to the read-out w, which every g_0 is but for noise: (132) at g_0 = 1."""
    found = batch_case()
    tables = {**found.reading.fields, "h": lambda *key: 0.0, "u": lambda *key: 0.0, "g": lambda *key: 1.0}
    symbols = {c: BATCH_C, size: BATCH, tau: TAU, x: 0, t: 1}
    left, right = found.run.gamma((1, 0), -1, 0, 1, TAU, 1.0), float(Letters(tables, symbols).of(FIELD.value))
    return MeasuredNumber(f"(132), dh_1/dw at layer time {TAU}, linear, {BATCH} inputs a step, left less right",
                          left - right,
                          1e-8, 0.0)


def variance_witness(case_: str, start: bool, source: int) -> Witness:
    """<h_0 h_0> of the first input by (132) at t = 0, h(0) and du being independent: with a start, with a source."""
    found = batch_case()
    noise = [found.kernel("Phi", 0, one, 0, one).integ() for one in (0, source)]
    first, other = (float(one(TAU) - one(0)) for one in noise)
    begin = float(found.kernel("H", 0, 0, 0, 0)(0.0))
    return Witness(case_, float(found.kernel("H", 0, 0, 0, 0)(TAU)), 1e-9, start * begin + other, begin + first)


WHERE = f"H_00 of the first input at layer time {TAU}, linear"


def evidence() -> Evidence:
    truth, right, _ = drift()
    return Evidence((sources_of_networks(), pushed(),
                     MeasuredNumber("(54), left less right, linear, one step", truth - right, 1e-10, 0.0)), rates())


ENTRY = Entry(
    key="depthwise_transfer/continuum",
    kind="proposition",
    title="layers become layer time",
    source="Depthwise Hyperparameter Transfer, appendices E.3 to E.5 and K.4, (53) to (55), (57), (63) and (132)",
    says="Sources of different layers are independent, so that their sum over layers has the mean of $\\Phi$ as its "
         "covariance; $d$ is the sum of all drifts until node $\\ell$ after one step, of order one as gradients of "
         "different layers are correlated. Both have limits, at a distance of $1 / L$. In the last line $B$ is the "
         "batch of a step, and gradients, of a linear network, are the same for all inputs.",
    statement=lambda: Equations((SOURCES, DRIFTS, CONTINUED, RIEMANN, FIELD)),
    assumptions=("width to infinity first", "frozen embedding and readout", "plain gradient descent"),
    uses=("depthwise_transfer/responses",),
    evidence=evidence,
    errata=(
        Erratum(Slip.MISPRINT, "(54): $\\Delta$ a second time, which is in $C_h$, and one input $x'$ in both kernels",
                r"\tfrac{c^2}{L^2} \sum_{kk'} \int ds\, ds'\, E_{x' x''} \Delta(x', s) \Delta(x'', s') "
                r"C^k_h(x, x', t, s) C^{k'}_h(x, x', t, s) \langle g^{k+1} g^{k'+1} \rangle &\sim O(1)",
                lambda: line(DRIFTS.target, DRIFTS.value), drift_witness),
        Erratum(Slip.MISPRINT, "(63): the source $du$ of another input; (62) has it right",
                r"dh(\tau, x, t) &= du(\tau, x', t) + \ldots", lambda: line(FIELD.target, FIELD.value),
                lambda: variance_witness(f"{WHERE}, the other being x'", True, 1)),
        Erratum(Slip.MISPRINT, "(132): neither $h(0, x, t)$ nor $d\\tau'$; (69) has both",
                r"h(\tau, x, t) &= \int_0^\tau du(\tau', x, t) + c \int_0^\tau \int dx' \sum_{s < t} C_h(\tau', "
                r"x, x', t, s) g(\tau', x', s)", lambda: line(FIELD.target, FIELD.value),
                lambda: variance_witness(WHERE, False, 0)),
    ),
)
