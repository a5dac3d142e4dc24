"""Linear networks of infinite depth: derivatives of fields, and the kernel after a step, as integral equations."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from tpcalc._types import Value
from tpcalc.calculus import Derivation
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Proof, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import Letters
from ..._line import relative
from ..._rewriting import Rewriting, of_nodes
from ._batch_case import BATCH, C, batch_case
from .._fields import Average, Field, Slope, fields, mean_of
from .._site import TINY, SiteLetters
from .._sources import differentiate
from ..networks._network_numbers import worst
from ..networks._network_rules import insert
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


# what they are derived from: the linear case of the equations of infinite depth
WHOLE = h(x, t, 0) + sp.Integral(u(x, t, sigma), (sigma, 0, tau)) + c * sp.Integral(sp.Sum(
    DRIFT * g(v, sigma), _inputs, (v, 0, t - 1)), (sigma, 0, tau))
WHOLE_BACK = g(t, 1) + sp.Integral(r(t, sigma), (sigma, tau, 1)) + c * sp.Integral(sp.Sum(
    BACK * h(z, v, sigma), _inputs, (v, 0, t - 1)), (sigma, tau, 1))
ONE_INPUT = h(1, 0) + u(1, tau) + c * sp.Integral(sp.Sum((H(1, v, sigma) * Delta[v] + A(1, v, sigma)) * g(v, sigma), (
    v, 0, 0)), (sigma, 0, tau))


def _moves(one: Field) -> bool:
    return isinstance(one, (h, g)) and one not in (h(x, t, 0), g(t, 1))


def _same(one: sp.Expr, source: sp.Expr) -> sp.Expr:
    """White noise in layer time, of inputs and steps of their own."""
    *own, mine = one.args
    *others, its = source.args
    return sp.Mul(*map(sp.KroneckerDelta, own, others)) * sp.DiracDelta(mine - its)


def _picked(integral: sp.Integral) -> sp.Expr:
    """An integral over a delta is 1 where it is passed."""
    free, bound = integral.function.as_independent(sigma, as_Add=False)
    if not isinstance(bound, sp.DiracDelta):
        return integral
    (_, low, high), = integral.limits
    return free * (sp.Heaviside(high - location) if low == 0 else sp.Heaviside(location - low))


PICK = Rewriting("pick", "one layer time has the source", "calculus", of_nodes(sp.Integral, _picked))
ONE_TERM = Rewriting("one term", "one step is before", "algebra", of_nodes(sp.Sum, lambda e: e.doit()))


def _moments(average: Average) -> sp.Expr:
    """The square of the field: three parts that know nothing of each other."""
    if average.args[0].has(sp.Integral) is False:
        return average
    first, noise, learned = h(1, 0), u(1, tau), next(iter(average.args[0].atoms(sp.Integral)))
    again = sp.Integral(learned.function.subs(sigma, rho), (rho, 0, tau))
    total = sp.Integer(0)
    for term in sp.Add.make_args(sp.expand(average.args[0], deep=False)):
        for part, square in ((first, H(1, 1, 0)), (noise, sp.Integral(H(1, 1, sigma), (sigma, 0, tau))),
                             (learned, _double(again.function, learned.function))):
            if term.has(part**2):
                total += term / part**2 * square
    return total


def _double(first: sp.Expr, second: sp.Expr) -> sp.Expr:
    met = g(0, rho) * g(0, sigma)
    return sp.Integral(mean_of(met) * (first / g(0, rho)) * (second / g(0, sigma)), (rho, 0, tau), (sigma, 0, tau))


MOMENTS = Rewriting("moments", "the first stream, the noise of the second step, whose covariance is the kernel, and "
                    "gradients of the first step know nothing of each other", "depthwise_transfer/proposition_3",
                    of_nodes(Average, _moments))
LEIBNIZ = Rewriting("product rule", "of integrals up to the layer time", "calculus",
                    lambda expression: expression.doit(integrals=False))
ONE_NAME = Rewriting("one name", "of what is integrated over; what does not depend on it stands before the integral",
                     "algebra", lambda expression: of_nodes(sp.Integral, _named)(expression))


def _named(integral: sp.Integral) -> sp.Expr:
    (variable, low, high), *rest = integral.limits
    if rest:
        return integral
    free, bound = integral.function.as_independent(variable, as_Add=False)
    return free * sp.Integral(bound.xreplace({variable: sigma}), (sigma, low, high))


@lru_cache(maxsize=None)
def derivation() -> tuple[Derivation, Derivation]:
    """Steps to slopes in sources, and of the kernel after a step."""
    slopes, kernel = Derivation(), Derivation()
    for source in (SOURCE_U, SOURCE_R):
        for field, value in ((h(x, t, tau), WHOLE), (g(t, tau), WHOLE_BACK)):
            left = Slope(field, source)
            slopes.through((insert(left, Slope(value, source)), differentiate(source, _moves, _same), PICK), left, left)
    field = kernel.apply(ONE_TERM, FIELD.target, ONE_INPUT)
    found = kernel.through((insert(FIELD.target, field), MOMENTS), KERNEL.target, mean_of(FIELD.target**2))
    kernel.through((LEIBNIZ, ONE_NAME), KERNEL_SLOPE.target, sp.Derivative(found, tau))
    return slopes, kernel


def on_grid(rng: np.random.Generator, source: str, at: dict[sp.Symbol, Any]) -> SiteLetters:
    """A linear network of random causal kernels, two inputs a step, on a grid of layer time."""
    steps, batch, points, rate = 3, 2, 5, 0.6
    Phi_, A_ = rng.normal(size=(2, points, batch, steps, batch, steps))
    G_, B_, errors = (rng.normal(size=shape) for shape in ((points, steps, steps), (points, steps, batch, steps),
                                                           (batch, steps)))
    start, end, u_, r_ = (rng.normal(size=shape) for shape in ((batch, steps), (steps,), (batch, steps, points), (
        steps, points)))
    which = (at[y], at[s]) if source == "u" else (at[s],)

    def letters(step: complex) -> Letters:
        noise = {"u": u_.astype(complex), "r": r_.astype(complex)}
        noise[source][(*which, round(at[location] * points))] += step * points   # white: the grid has 1 / points of it
        h_, g_ = np.zeros((batch, steps, points + 1), dtype=complex), np.zeros((steps, points + 1), dtype=complex)
        h_[..., 0], g_[:, points] = start, end
        for now in range(steps):
            for k in range(points):
                drift = sum((Phi_[k, :, now, z_, v_] * errors[z_, v_] / batch + A_[k, :, now, z_, v_]) * g_[v_, k]
                            for z_ in range(batch) for v_ in range(now))
                h_[:, now, k + 1] = h_[:, now, k] + (noise["u"][:, now, k] + rate * drift) / points
            for k in range(points - 1, -1, -1):
                drift = sum((G_[k, now, v_] * errors[z_, v_] / batch + B_[k, now, z_, v_]) * h_[z_, v_, k]
                            for z_ in range(batch) for v_ in range(now))
                g_[now, k] = g_[now, k + 1] + (noise["r"][now, k] + rate * drift) / points

        def k_of(place: float) -> int:
            return round(place * points)
        tables: dict[str, Value] = {
            "h": lambda a, b, p: h_[a, b, k_of(p)], "g": lambda a, p: g_[a, k_of(p)],
            "u": lambda a, b, p: noise["u"][a, b, k_of(p)], "r": lambda a, p: noise["r"][a, k_of(p)],
            "Phi": lambda a, b, d, e, p: Phi_[k_of(p), a, b, d, e], "A": lambda a, b, d, e, p: A_[k_of(p), a, b, d, e],
            "G": lambda a, b, p: G_[k_of(p), a, b], "B": lambda a, b, d, p: B_[k_of(p), a, b, d],
            r"\Delta": lambda a, b: errors[a, b], "DiracDelta": lambda p: points * float(abs(p) < 1e-9)}
        return SiteLetters(tables, {**at, c: rate, size: batch}, grid=points)
    real: dict[str, Value] = {name: lambda *key, table=table: np.real(table(*key))
                              for name, table in letters(0).fields.items()}
    return SiteLetters(real, {**at, c: rate, size: batch}, moved=letters(1j * TINY), grid=points)


def with_functions(expression: sp.Expr, tau_: float, rate: float) -> float:
    """For kernels that are polynomials, H(1, 1, 0) = 1; g_0 has three normal variables, the first stream and the noise
    one each."""
    normal = sp.symbols("n_0:5")

    def gradient(one: Field) -> sp.Expr:
        return sp.Add(*(n * one.args[-1]**power for power, n in enumerate(normal[2:])))

    def mean(body: sp.Expr) -> sp.Expr:
        terms = sp.Poly(sp.expand(body), *normal).terms()
        return sp.Add(*(value for powers, value in terms if sum(powers) == 0 or max(powers) == 2))
    growth = 1 + sigma + sigma**2
    noise = normal[1] * sp.sqrt(sp.integrate(growth, (sigma, 0, tau)))
    known = expression.xreplace({u(1, tau): noise, c: rate}).replace(
        lambda e: isinstance(e, sp.Indexed), lambda e: sp.Rational(3, 4) + e.indices[0])
    known = known.replace(lambda e: isinstance(e, H), lambda e: growth.subs(sigma, e.args[-1]) * (
        2 - e.args[-1] + e.args[1] * (e.args[-1] - 1)))
    known = known.replace(lambda e: isinstance(e, A), lambda e: e.args[-1] - e.args[-1]**2)
    known = known.xreplace({h(1, 0): normal[0]}).replace(lambda e: isinstance(e, g), gradient)
    known = known.replace(lambda e: isinstance(e, Average), lambda e: mean(e.args[0].doit())).doit()
    return float(known.subs(tau, tau_).subs({n: sp.Rational(k + 1, 3) for k, n in enumerate(normal)}))


def derive() -> Proof:
    slopes, kernel = derivation()
    steps = tuple(replace(step, number=number) for number, step in enumerate((*slopes.steps, *kernel.steps), 1))

    def numbers(rng: np.random.Generator) -> float:
        found = 0.0
        for source in "ur":
            for there, here in ((1, 3), (3, 1)):
                at = {x: 1, y: 1, t: 2, s: 0, tau: here / 5, location: there / 5}
                mine = [step for step in slopes.steps if step.left.has(u if source == "u" else r)]
                for one in (at, {**at, s: 2}):
                    found = max(found, worst(mine, on_grid(rng, source, one)))
        tau_, rate = rng.uniform(0.2, 0.9, 2)
        for step in kernel.steps:
            if not step.before.has(FIELD.target):
                found = max(found, relative(*(with_functions(one, tau_, rate) for one in (step.before, step.after))))
        return found
    return Proof(steps, numbers, "both sides of every step: slopes by complex steps of a linear network of random "
                 "causal kernels on a grid of layer time; of the kernel for polynomials, means over normal variables")


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
    derive=derive,
    evidence=evidence,
    errata=(
        Erratum(Slip.MISPRINT, "(89), second to fourth line: kernels with the source's input, for that of the sum",
                r"\frac{\delta g(\tau, x, t)}{\delta dr(\tau', x', s)} &= \ldots + c \int_\tau^1 d\tau'' \int dx'' "
                r"\int dt'\, C_g(\tau'', x, x', t, t') \frac{\delta h(\tau'', x'', t')}{\delta dr(\tau', x', s)}",
                lambda: line(SLOPES[3].target, SLOPES[3].value), argument_witness),
    ),
)
