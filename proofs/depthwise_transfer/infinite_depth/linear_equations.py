"""Linear networks of infinite depth: derivatives of fields, and the kernel after a step, as integral equations."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import sympy as sp

from tpcalc._types import Value
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import Letters
from ._batch_case import BATCH, C, batch_case
from .._fields import Slope, fields, mean_of
from ._linear_case import C as SINGLE, TAU, case, curve

x, y, z, t, s, v = sp.symbols("x y z t s v", integer=True)
tau, location, sigma, rho = sp.symbols("tau {\\tau'} sigma rho", real=True)
c, size = sp.symbols("c |B|")
h, g, u, r, H, Phi, G, A, B = fields("h g u r H Phi G A B")
Delta = sp.IndexedBase(r"\Delta")
LOCATIONS = {tau: 0.6, location: 0.35}

_inputs = (z, 0, size - 1)
DRIFT = Phi(x, t, z, v, sigma) * Delta[z, v] / size + A(x, t, z, v, sigma)
BACK = G(t, v, sigma) * Delta[z, v] / size + B(t, z, v, sigma)
SOURCE_U, SOURCE_R = u(y, s, location), r(s, location)


def forward(source: sp.Expr) -> sp.Expr:
    return c * sp.Integral(sp.Sum(DRIFT * Slope(g(v, sigma), source), _inputs, (v, 0, t - 1)), (sigma, 0, tau))


def backward(source: sp.Expr, kernel: sp.Expr = BACK) -> sp.Expr:
    return c * sp.Integral(sp.Sum(kernel * Slope(h(z, v, sigma), source), _inputs, (v, 0, t - 1)), (sigma, tau, 1))


SLOPES = (
    Equation(Slope(h(x, t, tau), SOURCE_U), sp.Heaviside(tau - location) * sp.KroneckerDelta(x, y) * sp.KroneckerDelta(
        t, s) + forward(SOURCE_U)),
    Equation(Slope(g(t, tau), SOURCE_U), backward(SOURCE_U)),
    Equation(Slope(h(x, t, tau), SOURCE_R), forward(SOURCE_R)),
    Equation(Slope(g(t, tau), SOURCE_R), sp.Heaviside(location - tau) * sp.KroneckerDelta(t, s) + backward(SOURCE_R)))

_drift = H(1, 0, sigma) * Delta[0] + A(1, 0, sigma)
FIELD = Equation(h(1, tau), h(1, 0) + u(1, tau) + c * sp.Integral(_drift * g(0, sigma), (sigma, 0, tau)))
_after = _drift.subs(sigma, rho)
KERNEL = Equation(H(1, 1, tau), H(1, 1, 0) + sp.Integral(H(1, 1, sigma), (sigma, 0, tau)) + c**2 * sp.Integral(
    mean_of(g(0, rho) * g(0, sigma)) * _after * _drift, (rho, 0, tau), (sigma, 0, tau)))
KERNEL_SLOPE = Equation(H(1, 1, tau).diff(tau), H(1, 1, tau) + 2 * c**2 * _drift.subs(sigma, tau) * sp.Integral(
    mean_of(g(0, tau) * g(0, sigma)) * _drift, (sigma, 0, tau)))


def letters_of_inputs(t_: int, s_: int) -> Letters:
    """For input 0 of step t_ and the source of input 0 of step s_."""
    known = replace(batch_case().reading, bound=(LOCATIONS[location],))   # fields jump where their source is
    return known.at({x: 0, y: 0, t: t_, s: s_, c: C, size: BATCH, **LOCATIONS})


@lru_cache(maxsize=None)
def residuals() -> dict[str, float]:
    """Left sides less right sides."""
    found = {}
    for number, equation in enumerate(SLOPES):
        here = letters_of_inputs(2, 0)
        found[f"line {number + 1} of (89), linear, {BATCH} inputs a step"] = abs(
            here.of(equation.target - equation.value))
    one = single()
    found["(95), one input a step"] = abs(one.of(KERNEL.target - KERNEL.value))
    found["(96), the same"] = abs(case().slope("H")[1, 1] - one.of(KERNEL_SLOPE.value))
    met = 0.8   # both sides of (93) times g_0 at this place, which h_1(0) and u_1 know nothing of
    fields_ = {**one.fields, "g": lambda step, p: gradients(p, met), "u": lambda step, p: 0.0,
               "h": lambda step, p: 0.0}
    truth = case().run.cross_covariance(1, 0, 0, 1, TAU, met) / case().chi[0]
    found["(93), its mean with a gradient"] = abs(replace(one, fields=fields_).of(FIELD.value) - truth)
    return {name: float(value) for name, value in found.items()}


def gradients(p: float, q: float) -> float:
    """<g_0 g_0> between two places."""
    return float(case().run.cross_covariance(0, 0, 1, 1, p, q) / case().chi[0]**2)


@lru_cache(maxsize=None)
def single() -> Letters:
    """One input a step."""
    curves = {(name, t_, s_): curve(case().curves[name][:-1, t_, s_]) for name in "HA" for t_ in (0, 1)
              for s_ in (0, 1)}

    def mean(here: Letters, body: sp.Expr) -> float:
        first, second = (here.of(one.args[-1]) for one in body.args)
        return gradients(first, second)
    tables: dict[str, Value] = {name: lambda t_, s_, p, name=name: float(curves[name, t_, s_](p)) for name in "HA"}
    return Letters({**tables, r"\Delta": lambda s_: float(case().Delta[s_])}, {c: SINGLE, tau: TAU}, mean)


def argument_witness() -> Witness:
    """The printed kernel has the source's input, here the first, for that which is summed over."""
    printed, here = backward(SOURCE_R, BACK.subs(z, y)), letters_of_inputs(2, 0)
    return Witness("the slope of g_2 in the source of step 0 behind it, linear, two inputs a step",
                   float(here.of(SLOPES[3].target)), 1e-7, float(here.of(printed)), float(here.of(SLOPES[3].value)))


def evidence() -> Evidence:
    return Evidence(tuple(MeasuredNumber(f"{name}, left less right", value, 1e-7, 0.0)
                          for name, value in residuals().items()))


ENTRY = Entry(
    key="depthwise_transfer/linear_equations",
    kind="proposition",
    title="linear networks of infinite depth as integral equations",
    source="Depthwise Hyperparameter Transfer, appendix G.2, (89), (93), (95) and (96)",
    says="The first four equations are of networks with several inputs $x, z$ a step, whose gradients are the same for "
         "all inputs, so that $g$, $r$ and $G$ have steps alone: slopes of fields in the sources $du$ and $dr$, here "
         "written $u$ and $r$, at the layer time $\\tau'$. The others are of one input a step and its kernel after the "
         "first.",
    statement=lambda: Equations((*SLOPES, FIELD, KERNEL, KERNEL_SLOPE)),
    assumptions=("linear activation", "width to infinity, then depth", "frozen embedding and readout", "plain "
                 "gradient descent"),
    uses=("depthwise_transfer/proposition_3",),
    evidence=evidence,
    errata=(
        Erratum(Slip.MISPRINT, "(89), second to fourth line: kernels with the source's input, for that of the sum",
                r"\frac{\delta g(\tau, x, t)}{\delta dr(\tau', x', s)} &= \ldots + c \int_\tau^1 d\tau'' \int dx'' "
                r"\int dt'\, C_g(\tau'', x, x', t, t') \frac{\delta h(\tau'', x'', t')}{\delta dr(\tau', x', s)}",
                lambda: line(SLOPES[3].target, SLOPES[3].value), argument_witness),
    ),
)
