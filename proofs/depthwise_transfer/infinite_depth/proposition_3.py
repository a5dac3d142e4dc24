"""Infinite width and depth: the stochastic integral equations, and the kernels that they close on."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc._types import Value
from tpcalc.ledger import Entry, Equation, Erratum, Evidence, MeasuredNumber, Slip, Witness

from ..._letters import Letters
from .._fields import Slope
from ._directions import Direction, bases, left_less_right
from ._linear_case import C, DEPTH, ETA0, STEPS, TASK, TAU, Case, case, curve
from ._stochastic_equations import (ADAPTED, ANSWERS, BACKWARD, DRIFT, DRIFTS, EQUATIONS, FINITE_RESPONSE, FORWARD,
                                    GRADIENT_SLOPE, H_KERNEL, KERNEL_SLOPE, KERNELS, LAST_OUTPUT, OUTPUT, RESPONSES,
                                    SWAPPED, Ch, Delta, c, ell, g, s, sigma, t, tau, u)

WIDTH, LAYERS, SEEDS, RATE = 512, 6, 48, 2.0


SLOPES = {"H": KERNEL_SLOPE, "G": GRADIENT_SLOPE}   # those of Phi, where phi is linear


def evidence() -> Evidence:
    found = case()
    residuals = tuple(MeasuredNumber(f"{name}' of a linear network less the right side, the largest of {STEPS} steps",
                                     float(np.max(np.abs(found.slope(name) - found.slope_by(equation)))), 1e-7, 0.0)
                      for name, equation in SLOPES.items())
    return Evidence((*residuals, *printed(), *measured()))


@lru_cache(maxsize=None)
def measured() -> tuple[MeasuredNumber, ...]:
    """Real tanh networks of finite depth, their own matrices, with responses and kernels of particles."""
    scaling, net = tp.theory.DepthwiseScaling(eta0=RATE), tp.ResNet("tanh", "pre_nonlin")
    task = tp.Task([1.0, 1.0, 1.0], [2.0, -1.5, 1.0])
    limit = tp.theory.dmft(tp.theory.raw_problem(scaling, net, task, LAYERS),
                           tp.methods.Particles(samples=4096, batches=8, seed=3))
    raw, layer, rows = tp.theory.raw_problem(scaling, net, task, LAYERS, WIDTH), LAYERS // 2, []
    response = (RATE / np.sqrt(LAYERS)) * limit.A[layer, :, 0, :, 0]
    for seed in range(SEEDS):
        run = tp.train(raw.problem, method=tp.methods.Dense(seed=seed), keep_nodes="all")
        fields = tp.theory.order_parameters(run, raw).fields
        assert fields is not None
        h, g, chi = fields.h[layer, :, 0], fields.g[layer + 1, :, 0], fields.chi[layer, :, 0]
        u = chi - response @ g
        rows.append([np.mean(u[2] * u[2]), np.mean(u[2] * u[0]), np.mean((chi[1] - u[1]) * g[0]),
                     np.mean(np.tanh(h[2]) * u[0])])
    means, errors = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(SEEDS)
    Phi, G = (getattr(limit, name)[:, :, 0, :, 0] for name in ("Phi", "G"))
    assert limit.fields is not None  # what h has of the noise behind it, through gradients of earlier steps
    anticipated = np.mean(np.tanh(limit.fields.h[layer, 2, 0]) * limit.fields.u[layer, 0, 0])
    where = f"block {layer + 1} of {LAYERS}, {SEEDS} tanh networks of width {WIDTH}"
    bias = 1.0 / WIDTH  # finite width moves means by so much
    return (MeasuredNumber(f"<u_2 u_2>, {where}", float(means[0]), float(errors[0] + bias), float(Phi[layer, 2, 2])),
            MeasuredNumber(f"<u_2 u_0>, {where}", float(means[1]), float(errors[1] + bias), float(Phi[layer, 2, 0])),
            MeasuredNumber(f"<A g_1 g_0>, {where}", float(means[2]), float(errors[2] + bias),
                           float((response @ G[layer + 1])[1, 0])),
            MeasuredNumber(f"<phi(h_2) u_0> before that block, {where}", float(means[3]), float(errors[3] + bias),
                           float(anticipated)))


def by_solver(**first: Value) -> Letters:
    """Letters of the linear network, kernels of drifts as printed, averages by its coefficients; first: others."""
    found = case()
    curves = {"Phi": "H", "G": "G", "A": "A", "B": "B"}
    tables: dict[str, Value] = {
        letter: lambda a, b, location, name=name: curve(found.curves[name][:-1, a, b])(location)
        for letter, name in curves.items()}
    known = Letters({**tables, r"\Delta": lambda a: found.Delta[a], "f": lambda a, _: found.f[a]})
    drifts: dict[str, Value] = {
        type(one.target).__name__: lambda a, b, at, one=one: known.at({t: a, s: b, tau: at}).of(one.value)
        for one in DRIFTS}
    slopes: dict[str, Value] = {
        "dphi": lambda *_: 1.0,
        "phi/r": lambda a, p, b, q: found.run.gamma(a, b, 0, 1, p, q) * found.chi[b],
        "g/u": lambda a, p, b, q: found.run.gamma(a, b, 1, 0, p, q) / found.chi[a]}
    return Letters({**known.fields, **drifts, **slopes, **first}, {
        c: C, tau: TAU, sp.Symbol("eta_0"): ETA0}, _average)


def _average(reading: Letters, body: sp.Expr) -> Value:
    """The mean of two fields, by their coefficients; of a derivative its value, as it is a number."""
    if isinstance(body, Slope):
        return reading.of(body)
    one, two = sp.Mul.make_args(body) if not body.is_Pow else (body.base,) * int(body.exp)
    (step, at), (other, there) = (map(reading.of, field.args) for field in (one, two))
    is_gradient = isinstance(one, g)
    scale = case().chi[step] * case().chi[other] if is_gradient else 1.0
    return case().run.cross_covariance(step, other, is_gradient, is_gradient, at, there) / scale


def printed() -> tuple[MeasuredNumber, ...]:
    """Every equation at the last step: those of fields along all that is drawn, those of numbers for all earlier
    steps, but the kernels of drifts, which are in the former."""
    found, last = dict.fromkeys((FORWARD, BACKWARD), 0.0), STEPS - 1
    for base in bases(STEPS):
        here = by_solver(**Direction(case().run, case().chi, base).tables).at({t: last})
        for equation in found:
            found[equation] = max(found[equation], left_less_right(equation, here))
    for equation in (*KERNELS, *ANSWERS, OUTPUT):
        found[equation] = max(left_less_right(equation, by_solver().at({t: last, s: other})) for other in range(last))
    names = ("h", "g", "Phi", "G", "A", "B", "f")
    return tuple(MeasuredNumber(f"{name} of a linear network less the right side, layer time {TAU}", value, 1e-8, 0.0)
                 for name, value in zip(names, found.values()))


def slope_witness(name: str, printed: Equation) -> Witness:
    found, location = case(), (2, 1)
    right, wrong = (float(found.slope_by(one)[location]) for one in (SLOPES[name], printed))
    return Witness(f"{name}'_21 at layer time {TAU}, linear", float(found.slope(name)[location]), 1e-7, wrong, right)


def pushed(value: sp.Expr, at: float, first: dict[str, Value]) -> float:
    """What a drift adds at a layer time, noise and the other end left out; first: letters that are what is pushed."""
    found = case()
    kernels = {name: found.kernels(*of)[:-1] for name, of in (("Ch", ("H", "A")), ("Cg", ("G", "B")))}
    tables: dict[str, Value] = {
        **{name: lambda a, b, location, table=table: curve(table[:, a, b])(location) for name,
           table in kernels.items()},
        "g": lambda *_: 0.0, "h": lambda *_: 0.0, "phi": lambda *_: 0.0, "dphi": lambda *_: 1.0, **first}
    without_noise = value.replace(sp.Derivative, lambda *_: sp.Integer(0))
    return float(Letters(tables, {c: C, t: 1, tau: at}).of(without_noise))


def by_read_in(step: int, location: float) -> float:
    """dh_0/dU, at every layer time."""
    return float(TASK.inputs[0, 0, 0]) if step == 0 else 0.0


def limits_witness() -> Witness:
    """What g_1 owes to the read-in U: nothing but the drift, whose h_0 is U at every layer time."""
    found, to_there = case(), {sp.Tuple(sigma, tau, 1): sp.Tuple(sigma, 0, tau)}
    right, printed = (pushed(value, TAU, {"phi": by_read_in}) for value in (
        BACKWARD.value, BACKWARD.value.xreplace(to_there)))
    truth = found.run.gamma(1, -1, 1, 0, TAU, 1.0) / found.chi[1]
    return Witness(f"dg_1/dU at layer time {TAU}, linear", truth, 1e-8, printed, right)


def start_witness() -> Witness:
    found = case()
    return Witness("dg_1/dU at layer time 0, linear", found.run.gamma(1, -1, 1, 0, 0.0, 1.0) / found.chi[1], 1e-8, None,
                   pushed(BACKWARD.value, 0.0, {"phi": by_read_in}))


def drift_witness() -> Witness:
    """What h_1 owes to the embedding, to the read-out, which is g_0 at every node but for noise, and to a source."""
    run, found = finite()
    chi = (run.outputs - run.task.targets).ravel()
    along = [Direction(run, chi, base, block=2) for base in ("U", "V", (0, 1))]
    tables: dict[str, Value] = {name: lambda step, node, name=name: sum(one.tables[name](step, node) for one in along)
                                for name in "hgu"}
    Phi, A = found.Phi[:, :, 0, :, 0], found.A[:, :, 0, :, 0]
    here = Letters({
        "Ch": lambda a, b, node: Phi[node - 1, a, b] * found.Delta[b, 0] + A[node - 1, a, b],
        r"\Delta": lambda a: found.Delta[a, 0], **tables},
        {c: C, t: 1, ell: DEPTH + 1, sp.Symbol("L"): DEPTH})
    again = DRIFT.value.replace(Ch, lambda *of: Ch(*of) * Delta[of[1]])
    right, printed = (float(here.of(value)) for value in (DRIFT.value, again))
    return Witness(f"h_1 behind {DEPTH} blocks, linear, along the embedding, the read-out and a source together",
                   float(here.of(DRIFT.target)), 1e-8, printed, right)


def response_witness() -> Witness:
    found = case()
    here = Letters({"phi/r": lambda a, p, b, q: found.run.gamma(a, b, 0, 1, p, q) * found.chi[b]},
                   {c: C, t: 1, s: 0, tau: TAU}, mean=lambda reading, body: reading.of(body))
    right, printed = (float(here.of(value)) for value in (RESPONSES.value, c * RESPONSES.value))
    return Witness(f"A_10 at layer time {TAU}, linear, as (94) has it", _first_response(found), 1e-8, printed, right)


def _first_response(found: Case) -> float:
    """(94) for this input: A_10 solves A' = A + H_10 Delta_0, A(0) = 0, and H_10 = x_1 x_0 e^tau."""
    x0, x1 = TASK.inputs[0, 0, 0], TASK.inputs[1, 0, 0]
    return float(x0 * x1 * found.Delta[0] * TAU * np.exp(TAU))


def covariance_witness() -> Witness:
    here = by_solver().at({t: 3, s: 2})
    right, printed = (float(here.of(value)) for value in (H_KERNEL.value, H_KERNEL.value.xreplace({s: t})))
    return Witness(f"H_32 at layer time {TAU}, linear", float(case().H[3, 2]), 1e-9, printed, right)


@lru_cache(maxsize=None)
def finite() -> tuple[tp.Run, tp.theory.OrderParameters]:
    raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=C / ETA0, eta0=ETA0), tp.ResNet(), TASK, DEPTH)
    run = tp.train(raw.problem, keep_nodes="all")
    return run, tp.theory.order_parameters(run, raw)


def last_layer_witness() -> Witness:
    """The derivative of the last field in the read-out, over eta0 mu0, gives the output."""
    run, found = finite()
    L = sp.Symbol("L")
    here = Letters({"phi/r": lambda a, node, *_: run.gamma(a, -1, 0, 1, node / DEPTH, 1.0)},
                   {c: C, t: 1, s: 0, L: DEPTH}, mean=lambda reading, body: reading.of(body))
    right, printed = (ETA0 * float(here.of(value)) for value in (LAST_OUTPUT.value, sp.sqrt(L) * LAST_OUTPUT.value))
    return Witness(f"f_1 at L = {DEPTH}, linear", float(found.f[1, 0]), 1e-10, printed, right)


def layer_witness() -> Witness:
    """Which layer's source B asks for: that which is needed for the backward pass of (38)."""
    run, found = finite()
    chi = (run.outputs - run.task.targets).ravel()
    here = Letters({"g/u": lambda a, node, b, source: run.gamma(
        a, b, 1, 0, (node - 1) / DEPTH, (source - 1) / DEPTH) / (chi[a] * np.sqrt(DEPTH))},
        {t: 3, s: 0, ell: 3}, mean=lambda reading, body: reading.of(body))
    right, printed = (float(here.of(value)) for value in (
        FINITE_RESPONSE.value, FINITE_RESPONSE.value.xreplace({u(s, ell + 1): u(s, ell)})))
    scaled = C / np.sqrt(DEPTH)  # found.B is what it becomes at infinite depth: sqrt(L) / c of it
    return Witness(f"dg_3/du_0 of block 3 at L = {DEPTH}, linear", float(found.B[2, 3, 0, 0, 0] * scaled), 1e-10,
                   printed, right)


ENTRY = Entry(
    key="depthwise_transfer/proposition_3",
    kind="proposition",
    title="infinite width and depth as stochastic integral equations",
    source="Depthwise Hyperparameter Transfer, propositions 1 and 3, (5), (38), (39), (52), (58) to (73), (79), (82), "
           "(88), (90), (91) and (131)",
    says="One input a step, in discrete time; $u$ and $r$ are Brownian in layer time with covariances $\\Phi$ and "
         "$G$, and $c = \\eta_0 \\mu_0$. The fields are not adapted: what comes back from deeper layers at earlier "
         "steps makes $h_t(\\tau)$ depend on noise beyond $\\tau$, and $g_t(\\tau)$ on noise before it. So the slopes "
         "of kernels have Stein terms beside those of It\\^o's rule, with $J_{ts}$ and $R_{ts}$ the derivatives of "
         "$h_t$ and $g_t$ in the noise that they anticipate. In linear networks they vanish at the first two steps, "
         "and both sides are known exactly; responses and covariances are measured on real networks.",
    statement=lambda: EQUATIONS,
    assumptions=("width to infinity, then depth", "frozen embedding and readout", "$\\alpha = 1/2$, rate 0", "plain "
                 "gradient descent"),
    uses=("depthwise_transfer/responses", "depthwise_transfer/parametrization"),
    evidence=evidence,
    errata=(
        Erratum(Slip.INCOMPLETE, "(64): no terms from $h$ anticipating its noise",
                r"\partial_\tau \Phi_{ts} &= \tfrac{1}{2} \sum_{t's'} \Phi_{t's'} \langle \partial_{h_{t'}} "
                r"\partial_{h_{s'}} [\phi(h_t) \phi(h_s)] \rangle + c \sum_{t'} C_{h, tt'} \langle g_{t'} "
                r"\dot\phi(h_t) \phi(h_s) \rangle + (t \leftrightarrow s)",
                KERNEL_SLOPE.latex, lambda: slope_witness("H", ADAPTED)),
        Erratum(Slip.FALSE, "(65): factors swapped between the fields, and no terms from $g$ anticipating its noise",
                r"\partial_\tau G_{ts} &= -\langle \dot\phi(h_t) \dot\phi(h_s) \rangle G_{ts} - c \sum_{t'} C_{g, tt'} "
                r"\langle \dot\phi(h_t) \phi(h_s) g_{t'} \rangle - \ldots",
                GRADIENT_SLOPE.latex, lambda: slope_witness("G", SWAPPED)),
        Erratum(Slip.MISPRINT, "(69): the last integral runs from 0 to $\\tau$; (60) has its limits right",
                r"g(\tau) &= g(1) + \int_\tau^1 \dot\phi(h) dr + c \int_0^\tau d\tau' \dot\phi(h) \sum_s C_g "
                r"\phi(h_s)",
                BACKWARD.latex, limits_witness),
        Erratum(Slip.MISPRINT, "(60): $g(\\tau)$ on both sides; (69) has $g(1)$",
                r"g(\tau) &= g(\tau) + \int_\tau^1 dr\, \dot\phi(h) + \ldots",
                BACKWARD.latex, start_witness),
        Erratum(Slip.MISPRINT, "(52): $\\Delta$ a second time; it is in $C_h$ already",
                r"h^\ell &\sim h^1 + \tfrac{1}{\sqrt{L}} \sum_k u^k + \tfrac{\eta_0 \mu_0}{L} \sum_k \sum_s C_h^k "
                r"g^{k+1}_s \Delta_s", DRIFT.latex, drift_witness),
        Erratum(Slip.MISPRINT, "(68) and (90): no $1 / (\\eta_0 \\mu_0)$; (66) and (72) have it",
                r"A_{ts}(\tau) &= \left\langle \frac{\delta \phi(h_t)}{\delta dr_s} \right\rangle",
                RESPONSES.latex, response_witness),
        Erratum(Slip.MISPRINT, "(91): both fields at one time and one input",
                r"H_{ts}(\tau) &= \langle h_t h_t \rangle",
                H_KERNEL.latex, covariance_witness),
        Erratum(Slip.MISPRINT, "(37): $u^\\ell$ for $u^{\\ell+1}$, as (39) has it",
                r"B^\ell_{ts} &= \left\langle \frac{\delta g^{\ell+1}_t}{\delta u^\ell_s} \right\rangle",
                FINITE_RESPONSE.latex, layer_witness),
        Erratum(Slip.FALSE, "(131): $\\sqrt{L}$ in the last layer's response",
                r"A^L_{ts} &= \frac{\sqrt{L}}{\eta_0 \mu_0} \left\langle \frac{\delta \phi(h^L_t)}{\delta r^L_s} "
                r"\right\rangle",
                LAST_OUTPUT.latex, last_layer_witness),
    ),
)
