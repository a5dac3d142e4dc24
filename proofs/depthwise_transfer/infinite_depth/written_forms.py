"""Slips of index, argument and measure in equations whose content is elsewhere, each with a number that it misses."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc._types import Value
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import Letters
from .._fields import Slope, fields, mean_of
from ._directions import Direction, bases, left_less_right
from ._linear_case import C, STEPS, TASK, TAU, case, curve
from ._stochastic_equations import BACKWARD
from .proposition_3 import by_read_in, pushed

DEPTH = 6
tau, sigma, c = sp.symbols("tau sigma c")
t, s, v, ell, k, L = sp.symbols("t s v ell k L", integer=True)
h, g, u, r, phi, dphi, A, B, Cg, Ch, G, Phi = fields("h g u r phi dphi A B Cg Ch G Phi")
Delta = sp.IndexedBase(r"\Delta")

UNFOLDED = Equation(h(t, ell), h(t, 1) + sp.Sum(u(t, k), (k, 2, ell)) / sp.sqrt(L) + c / L * sp.Sum(
    Ch(t, s, k) * g(s, k + 1), (k, 1, ell - 1), (s, 0, t - 1)))
_noise = sp.Sum(dphi(t, k) * r(t, k), (k, ell, L)) / sp.sqrt(L)
UNFOLDED_BACK = Equation(g(t, ell), g(t, L + 1) + _noise + c / L * sp.Sum(
    Cg(t, s, k) * dphi(t, k) * phi(s, k), (k, ell, L), (s, 0, t)))
RESPONSE = Equation(A(t, s, tau), sp.Integral(sp.Sum(Ch(t, v, sigma) * mean_of(dphi(t, tau) * Slope(
    g(v, sigma), r(s, tau))), (v, s, t - 1)), (sigma, 0, tau)))
_f = sp.Function("F")
SUMS = Equation(sp.Limit(sp.Sum(_f(k / L), (k, 1, tau * L)) / L, L, sp.oo), sp.Integral(_f(sigma), (sigma, 0, tau)))
_drift = c * sp.Sum(Ch(t, s, tau) * g(s, tau), (s, 0, t - 1))
INCREMENT = Equation(sp.Symbol("dh_t"), sp.Symbol("du_t") + _drift * sp.Symbol(r"d\tau"))
BACK_KERNEL = Equation(Cg(t, s, tau), (1 - sp.KroneckerDelta(t, s)) * G(t, s, tau) * Delta[s] + B(t, s, tau))


@lru_cache(maxsize=None)
def layers() -> tuple[tp.Run, tp.theory.OrderParameters]:
    raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=C / 0.8, eta0=0.8), tp.ResNet(), TASK, DEPTH)
    run = tp.train(raw.problem, keep_nodes="all")
    return run, tp.theory.order_parameters(run, raw)


def at_nodes(**first: Value) -> Letters:
    """Letters of the linear network of finite depth, after a step; first: what is pushed by what is asked about."""
    found = layers()[1]
    H, G, A, B = (getattr(found, name)[:, :, 0, :, 0] for name in ("Phi", "G", "A", "B"))
    tables: dict[str, Value] = {
        "Ch": lambda a, b, node: H[node - 1, a, b] * found.Delta[b, 0] + A[node - 1, a, b],
        "Cg": lambda a, b, node: (a > b) * G[node, a, b] * found.Delta[b, 0] + B[node - 1, a, b],
        "dphi": lambda *_: 1.0, **dict.fromkeys(("h", "g", "u", "r", "phi"), lambda *_: 0.0), **first}
    return Letters(tables, {c: C, L: DEPTH, t: 1})


def sources_witness() -> Witness:
    """Before training: independent sources are orthogonal, and h^4 has those of the blocks before it."""
    kernels, axes = layers()[1], np.eye(DEPTH + 2)
    here = at_nodes(h=lambda a, node: np.sqrt(kernels.H[0, 0, 0, 0, 0]) * axes[0],
                    u=lambda a, k: np.sqrt(kernels.Phi[k - 2, 0, 0, 0, 0]) * axes[k])
    return Witness(f"H^4 at L = {DEPTH} before training, linear", float((1 + 1 / DEPTH)**3), 1e-12, None,
                   float(np.sum(here.at({t: 0, ell: 4}).of(UNFOLDED.value)**2)))


def layered_witness() -> Witness:
    """dg_1/dU at the first node, as a sum over blocks; the printed sum over k again has no value."""
    run = layers()[0]
    chi = (run.outputs - run.task.targets).ravel()
    here = at_nodes(phi=lambda a, node: TASK.inputs[0, 0, 0] if a == 0 else 0.0)
    return Witness(f"dg_1/dU at L = {DEPTH}, linear", run.gamma(1, -1, 1, 0, 0.0, 1.0) / float(chi[1]), 1e-10, None,
                   float(here.at({ell: 1}).of(UNFOLDED_BACK.value)))


def in_layer_time(**first: Value) -> Letters:
    """Letters of the linear network of infinite depth."""
    found = case()
    curves: dict[str, np.ndarray] = {**found.curves, "Phi": found.curves["H"], "Ch": found.kernels("H", "A"),
                                     "Cg": found.kernels("G", "B")}
    tables: dict[str, Value] = {name: lambda a, b, location, table=table: curve(table[:-1, a, b])(location)
                                for name, table in curves.items()}
    return Letters({**tables, "dphi": lambda *_: 1.0, r"\Delta": lambda a: found.Delta[a], **first}, {c: C, tau: TAU},
                   mean=lambda reading, body: reading.of(body))


def response_witness() -> Witness:
    """A_30 from the derivatives of g_0, g_1 and g_2 in the noise r_0 at TAU."""
    found = case()
    here = in_layer_time(**{"g/r": lambda a, p, b, q: found.run.gamma(a, b, 1, 1, p, q) * found.chi[b] / found.chi[a]})
    swapped = RESPONSE.value.replace(Ch, lambda *of: A(*of) + Phi(t, s, sigma) * Delta[s])
    right, printed = (float(here.at({t: 3, s: 0}).of(value)) for value in (RESPONSE.value, swapped))
    return Witness(f"A_30 at layer time {TAU}, linear", float(found.A[3, 0]), 1e-8, printed, right)


def sums_witness() -> Witness:
    many = 10**6
    truth = np.sum(np.arange(1, int(TAU * many) + 1) / many) / many
    right, printed = (float(SUMS.value.replace(_f, of).doit().subs(tau, TAU)) for of in (lambda x: x, lambda x: tau))
    return Witness(f"the mean over layers of F = tau, until {TAU}", float(truth), 1e-6, printed, right)


def increment_witness() -> Witness:
    """Increments over 1000 layers, added up: what h_1 owes to the read-out, which g_0 is but for noise."""
    many, step = 1000, sp.Symbol(r"d\tau")
    here = in_layer_time(g=lambda *_: 1.0).at({t: 1, sp.Symbol("du_t"): 0.0})
    right, printed = (float(sum(here.at({tau: location, step: size}).of(INCREMENT.value)
                                for location in (np.arange(many) + 0.5) * TAU / many)) for size in (TAU / many, 1.0))
    return Witness(f"dh_1/dw at layer time {TAU}, linear, of 1000 increments",
                   case().run.gamma(1, -1, 0, 1, TAU, 1.0), 1e-6, printed, right)


def kernels_of_drift() -> MeasuredNumber:
    """(51) at the last step, for all earlier ones: against the kernel that the backward pass has."""
    found, here, last = case(), in_layer_time(), STEPS - 1
    off = [here.at({t: last, s: other, tau: TAU}).of(BACK_KERNEL.value) - found.Cg[last, other]
           for other in range(STEPS)]
    return MeasuredNumber(f"(51) at layer time {TAU}, linear, less the kernel", float(np.max(np.abs(off))), 1e-9, 0.0)


def kernel_witness() -> Witness:
    """dg_1/dU, with the kernel of the drift as the equation has it."""
    found, here = case(), in_layer_time()

    def kernel(step: int, other: int, location: float) -> Value:
        return here.at({t: step, s: other, tau: location}).of(BACK_KERNEL.value)
    return Witness("dg_1/dU at layer time 0, linear", found.run.gamma(1, -1, 1, 0, 0.0, 1.0) / found.chi[1], 1e-8, None,
                   pushed(BACKWARD.value, 0.0, {"phi": by_read_in, "Cg": kernel}))


def along_sources() -> tuple[MeasuredNumber, ...]:
    """(40) and (41) at the last step and node 4, (82) at TAU: what fields owe to embedding, readout and sources."""
    run, last, found = layers()[0], STEPS - 1, {UNFOLDED: 0.0, UNFOLDED_BACK: 0.0, INCREMENT: 0.0}
    chi = (run.outputs - run.task.targets).ravel()
    for base in bases(STEPS):
        for block in range(1, DEPTH + 1):
            here = at_nodes(**Direction(run, chi, base, block).tables).at({t: last, ell: 4})
            for equation in (UNFOLDED, UNFOLDED_BACK):
                found[equation] = max(found[equation], left_less_right(equation, here))
        along = Direction(case().run, case().chi, base)
        rate = (along.field(0, last, TAU + 1e-4) - along.field(0, last, TAU - 1e-4)) / 2e-4
        there = in_layer_time(**along.tables).at({t: last, sp.Symbol(r"d\tau"): 1.0, INCREMENT.target: rate,
                                                  sp.Symbol("du_t"): float(base == (0, last))})
        found[INCREMENT] = max(found[INCREMENT], left_less_right(INCREMENT, there))
    return tuple(MeasuredNumber(f"{name}, left less right along all that is drawn, linear", value, 1e-7, 0.0)
                 for name, value in zip(("(40)", "(41)", "(82)"), found.values()))


def evidence() -> Evidence:
    """(93) to (97): the printed integral, and A + H_0 Delta in it."""
    found = case()
    A, H = (found.curves[name][:-1, 1, 0] for name in "AH")
    slope = curve(A).deriv()(TAU) - curve(A)(TAU) - curve(H)(TAU) * found.Delta[0]
    whole = sp.integrate(sp.exp(sigma) * (sigma + 1), (sigma, 0, tau)) - tau * sp.exp(tau)
    return Evidence((*along_sources(), kernels_of_drift(),
                     MeasuredNumber("(94), left less right, linear", float(slope), 1e-8, 0.0),
                     MeasuredNumber("(97), left less right", float(sp.simplify(whole)), 0.0, 0.0)))


ENTRY = Entry(
    key="depthwise_transfer/written_forms",
    kind="remark",
    title="forms of equations",
    source="Depthwise Hyperparameter Transfer, (40), (41), (44), (51), (56), (82), (94) and (97)",
    says="Equations that repeat others in another form, as they have to be read.",
    statement=lambda: Equations((UNFOLDED, UNFOLDED_BACK, RESPONSE, SUMS, INCREMENT, BACK_KERNEL)),
    uses=("depthwise_transfer/proposition_3",),
    evidence=evidence,
    errata=(
        Erratum(Slip.MISPRINT, "(40): sources $u^0$ and $u^1$, which there are none of", r"h^\ell &= h^1 + "
                r"\tfrac{1}{\sqrt{L}} \sum_{k=0}^{\ell} u^k + \ldots", lambda: line(UNFOLDED.target, UNFOLDED.value),
                sources_witness),
        Erratum(Slip.MISPRINT, "(41): a sum over $k$ within that over $k$", r"g^\ell &= \ldots + \tfrac{c}{L} "
                r"\sum_{k=\ell}^L \dot\phi(h^k) \sum_s \Delta_s \sum_{k=1}^{\ell-1} G^k \phi(h^k)",
                lambda: line(UNFOLDED_BACK.target, UNFOLDED_BACK.value), layered_witness),
        Erratum(Slip.MISPRINT, "(44): $\\Delta$ and $\\Phi$ at $s$, not at the time that is summed over",
                r"A^\ell_{ts} &= \ldots + \tfrac{c}{L} \sum_k \sum_{t'} \Delta_s \Phi^k_{ts} \left\langle "
                r"\dot\phi(h^\ell_t) \frac{\delta g^k_{t'}}{\delta r^\ell_s} \right\rangle",
                lambda: line(RESPONSE.target, RESPONSE.value), response_witness),
        Erratum(Slip.MISPRINT, "(51): the second kernel is called $C_h$ too", r"C_{h, ts} &= B_{ts} + G_{ts} \Delta_s",
                lambda: line(BACK_KERNEL.target, BACK_KERNEL.value), kernel_witness),
        Erratum(Slip.MISPRINT, "(56): the integrand at $\\tau$ for $\\tau'$",
                r"\lim \tfrac{1}{L} \sum F^\ell &= \int_0^\tau d\tau' F(\tau)",
                lambda: line(SUMS.target, SUMS.value), sums_witness),
        Erratum(Slip.MISPRINT, "(82): no $d\\tau$ in the drift", r"dh &= du + c\, C_h g",
                lambda: line(INCREMENT.target, INCREMENT.value), increment_witness),
    ),
)
