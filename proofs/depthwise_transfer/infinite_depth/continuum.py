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
from ._batch_case import BATCH, C as BATCH_C, ETA0, MU0, STEPS, batch_case
from .._fields import fields, mean_of
from ._directions import Direction, left_less_right
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
    """Real tanh networks before training, two inputs: the mean of their sums of all sources, less that of kernels."""
    rng, found, blocks = np.random.default_rng(0), [], 5
    for _ in range(SEEDS):
        h_ = np.outer([1.3, 0.8], rng.normal(size=WIDTH)) + np.outer([0.0, 0.9], rng.normal(size=WIDTH))
        total, kernels = np.zeros_like(h_), []
        for _ in range(blocks):
            kernels.append(np.tanh(h_) @ np.tanh(h_).T / WIDTH)
            source = np.tanh(h_) @ rng.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH)
            total, h_ = total + source / np.sqrt(blocks), h_ + source / np.sqrt(blocks)
        here = Letters({"Phi": lambda a, b, node: kernels[node - 1][a, b]}, {t: 1, s: 0, ell: blocks + 1, L: blocks})
        found.append(np.mean(total[1] * total[0]) - float(here.of(SOURCES.value)))
    return MeasuredNumber(f"(53), left less right, {SEEDS} tanh networks of width {WIDTH}", float(np.mean(found)),
                          float(np.std(found, ddof=1) / np.sqrt(SEEDS)), 0.0)


def rates() -> tuple[Rate, ...]:
    """A kernel of two steps at layer time 1/2, what a field there owes to the embedding, and the kernel's sum over
    layers until there, from their limits."""
    limit, kernel, embedding, sums, half = curve(case().curves["H"][:-1, 2, 1]), [], [], [], sp.Rational(1, 2)
    here = Letters({"F": limit, "h": lambda step, time: case().run.gamma(step, -1, 0, 0, time, 0.0)}, {t: 2, tau: half})
    order = -sp.log(RIEMANN.value.getO().expr).diff(L) * L
    for depth in DEPTHS:
        raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=MU0, eta0=ETA0), tp.ResNet(), TASK, depth)
        run, there = tp.train(raw.problem), here.at({L: depth})
        found = tp.theory.order_parameters(run, raw).H[depth // 2, 2, 0, 1, 0]
        kernel.append(abs(float(found - limit(0.5))))
        embedding.append(abs(run.gamma(2, -1, 0, 0, 0.5, 0.0) - float(there.of(CONTINUED.value))))
        sums.append(abs(float(there.of(RIEMANN.target) - there.of(RIEMANN.value.removeO()))))
    return (Rate("H_21 of a linear network at layer time 1/2, from its limit", "L", 1.0, DEPTHS, tuple(kernel)),
            Rate("(55), dh_2/dU there, from its limit", "L", 1.0, DEPTHS, tuple(embedding)),
            Rate("(57), of H_21 until layer time 1/2", "L", float(order), DEPTHS, tuple(sums)))


def along_sources() -> MeasuredNumber:
    """(132) for the first input at the last step: what fields owe to the readout, the sources u of every row, and r of
    every step, which all of its inputs share."""
    found, last, worst = batch_case(), STEPS - 1, 0.0
    rows = [[(step, one) for one in range(BATCH)] for step in range(STEPS)]
    groups: list[list[Value]] = [["V"], *([(0, row)] for step in rows for row in step),
                                 *([(1, row) for row in step] for step in rows)]
    for bases in groups:
        along = [Direction(found.run, found.chi, base) for base in bases]
        tables: dict[str, Value] = {
            "h": lambda one, step, time: sum(of.field(0, (step, one), time) for of in along),
            "g": lambda step, time: sum(of.field(1, (step, found.of_g[step]), time) for of in along),
            "u": lambda one, step, time: time * ((0, (step, one)) in bases)}
        here = Letters({**found.reading.fields, **tables}, {c: BATCH_C, size: BATCH, tau: TAU, x: 0, t: last})
        worst = max(worst, left_less_right(FIELD, here))
    return MeasuredNumber(f"(132), left less right along all that is drawn, linear, {BATCH} inputs a step", worst, 1e-8,
                          0.0)


def at_start(value: sp.Expr) -> np.ndarray:
    """A field of the first input at t = 0, when nothing is learnt yet: what it owes to h(0), and to its source."""
    found = batch_case()
    begin = found.kernel("H", 0, 0, 0, 0)(0.0)

    def source(one: int, step: int, time: float) -> np.ndarray:
        noise = found.kernel("Phi", step, one, step, one).integ()
        return np.array([0.0, np.sqrt(noise(time) - noise(0.0))])
    here = Letters({"h": lambda one, step, time: np.array([np.sqrt(begin), 0.0]), "u": source}, {
        c: BATCH_C, size: BATCH, tau: TAU, x: 0, t: 0})
    return np.asarray(here.of(value))


def variance_witness() -> Witness:
    """The source of the other input would add another variance."""
    right, printed = (float(np.sum(at_start(value)**2)) for value in (
        FIELD.value, FIELD.value.xreplace({u(x, t, tau): u(1 - x, t, tau)})))
    return Witness(f"<h_0 h_0> of the first input at layer time {TAU}, linear, the other being x'",
                   float(batch_case().kernel("H", 0, 0, 0, 0)(TAU)), 1e-9, printed, right)


def start_witness() -> Witness:
    """Without h(0) nothing is left of what a field was."""
    start = h(x, t, 0)
    right, printed = (float(at_start(value) @ at_start(start)) for value in (FIELD.value, FIELD.value - start))
    return Witness(f"<h_0({TAU}) h_0(0)> of the first input, linear",
                   float(batch_case().run.cross_covariance((0, 0), (0, 0), 0, 0, TAU, 0.0)), 1e-9, printed, right)


def evidence() -> Evidence:
    truth, right, _ = drift()
    several = rates()
    return Evidence((sources_of_networks(), along_sources(),
                     MeasuredNumber(f"(57), left less right at L = {DEPTHS[-1]}, of H_21", several[-1].distances[-1],
                                    1 / DEPTHS[-1], 0.0),
                     MeasuredNumber("(54), left less right, linear, one step", truth - right, 1e-10, 0.0)), several)


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
                variance_witness),
        Erratum(Slip.MISPRINT, "(132): neither $h(0, x, t)$ nor $d\\tau'$; (69) has both",
                r"h(\tau, x, t) &= \int_0^\tau du(\tau', x, t) + c \int_0^\tau \int dx' \sum_{s < t} C_h(\tau', "
                r"x, x', t, s) g(\tau', x', s)", lambda: line(FIELD.target, FIELD.value),
                start_witness),
    ),
)
