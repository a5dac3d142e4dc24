"""The action at infinite depth: of streams, with conjugate kernels and responses of order one, as a limit of layers."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, Callable

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Rate, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import Letters
from ._action import BLOCKS, STEPS, A, B, G, Gh, Phi, Phih, Sites, T, Z, g, h, phi
from .._fields import fields, mean_of
from ..networks.finite_network import Delta, c, depth, ell, s, t
from .path_integral import DEPTH, SCALING, TASK, slope, solved

hh, gh, u, r, dphi = fields("hh gh u r dphi")
tau, location = sp.symbols("tau {\\tau'}")
CURVES, TRIAL = (0.5, 0.3), (8, 16, 32)   # of conjugate kernels; depths

_past = (s, 0, t - 1), STEPS[1], BLOCKS
_learnt = sp.Sum(Phi(t, s, ell) * Delta[s] * hh(t, ell + 1) * g(s, ell + 1) + G(t, s, ell + 1) * Delta[s] * gh(
    t, ell) * dphi(t, ell) * phi(s, ell), *_past)
_returned = sp.Sum(A(t, s, ell) * hh(t, ell + 1) * g(s, ell + 1) + B(t, s, ell) * gh(t, ell) * dphi(t, ell) * phi(
    s, ell), *STEPS, BLOCKS)
_noise = sp.Sum(hh(t, ell + 1) * u(t, ell + 1) + gh(t, ell) * dphi(t, ell) * r(t, ell), STEPS[1], BLOCKS)
_kernels = sp.Sum(Phih(t, s, ell) * phi(t, ell) * phi(s, ell) + Gh(t, s, ell + 1) * g(t, ell + 1) * g(
    s, ell + 1), *STEPS, BLOCKS)
_moves = sp.Sum(hh(t, ell + 1) * h(t, ell + 1) - hh(t, ell + 1) * h(t, ell) + gh(t, ell) * g(t, ell) - gh(t, ell) * g(
    t, ell + 1), STEPS[1], BLOCKS)
ENERGY = Equation(sp.Symbol("H"), -sp.I * _moves + sp.I * _noise / sp.sqrt(depth) + sp.I * c / depth * _learnt
                  + sp.I * c / depth * _returned + _kernels / depth)
_density = sp.Sum(Phi(t, s, tau) * Phih(t, s, tau) + G(t, s, tau) * Gh(t, s, tau) - c**2 * A(t, s, tau) * B(
    s, t, tau), *STEPS)
LIMIT = Equation(sp.Symbol(r"S_\infty"), sp.Integral(_density, (tau, 0, 1)) + sp.log(Z))
SADDLE = (Equation(Phi(t, s, ell), mean_of(phi(t, ell) * phi(s, ell))),
          Equation(G(t, s, ell + 1), mean_of(g(t, ell + 1) * g(s, ell + 1))),
          Equation(B(t, s, ell), -sp.I * mean_of(hh(s, ell + 1) * g(t, ell + 1)) / c),
          Equation(A(t, s, ell), -sp.I * mean_of(gh(s, ell) * dphi(s, ell) * phi(t, ell)) / c))
_phase = sp.exp(-sp.I * sp.Integral(hh(t, tau) * u(t, tau).diff(tau), (tau, 0, 1)))
SHIFT = Equation(sp.Symbol(r"\frac{\delta}{\delta du_t(\tau')}") * _phase, -sp.I * hh(t, location) * _phase)


class Streams(Sites):
    """Single sites of a linear network by their streams: h, g, their conjugates, and sources drawn beforehand."""

    NORMAL = ("U", "w", "n", "m")

    @property
    def action(self) -> complex:
        """(77) of order parameters that are constant within layers."""
        L, steps = self.shape
        tables = {name: lambda t_, s_, at, value=value: value[int(at * L), t_, s_]
                  for name, value in self.parameters.items()}
        symbols = {T: steps, c: self.c, Z: np.exp(self.log_z)}
        return complex(Letters(tables, symbols, bound=tuple(np.arange(1, L) / L)).of(LIMIT.value))

    @cached_property
    def rows(self) -> dict[tuple[str, int, int], np.ndarray]:
        L, steps = self.shape
        nodes = {"hh": 2, "gh": 1, "h": 2, "g": 1, "n": 2, "m": 1}
        names = [(name, t_, k + first) for name, first in nodes.items() for t_ in range(steps) for k in range(L)]
        names += [("U", 0, 0), ("w", 0, 0), *[("n", t_, 1) for t_ in range(steps)]]
        unit = dict(zip(names, np.eye(len(names), dtype=complex)))
        found: dict[tuple[str, int, int], np.ndarray] = dict(unit)
        kernels = [np.outer(self.inputs, self.inputs), *self.parameters["Phi"]]   # u^l has that of the node before
        for t_ in range(steps):
            found["h", t_, 1], found["g", t_, L + 1] = self.inputs[t_] * unit["U", 0, 0], unit["w", 0, 0]
            for k in range(L + 1):
                found["u", t_, k + 1] = sum(root(kernels[k])[t_, v] * unit["n", v, k + 1] for v in range(steps))
            for k in range(L):
                found["r", t_, k + 1] = sum(root(self.parameters["G"][k])[t_, v] * unit["m", v, k + 1]
                                            for v in range(steps))
        found.update({("phi", *key[1:]): row for key, row in list(found.items()) if key[0] == "h"})
        return found


def root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    found: np.ndarray = vectors * np.sqrt(np.maximum(values, 0))
    return found


@lru_cache(maxsize=None)
def streams(late: bool = True) -> Streams:
    """At the solver's kernels and rescaled responses; late: sources u of the layer behind a block, not before."""
    sites = solved()
    size = np.sqrt(DEPTH) / sites.c
    parameters = {**sites.parameters, "A": size * sites.parameters["A"], "B": size * sites.parameters["B"]}
    energy = ENERGY.value if late else ENERGY.value.replace(u, lambda t_, node: u(t_, node - 1))
    return Streams(parameters, sites.Delta, sites.inputs, sites.c, sites.jh, sites.jg, energy)


def trial_action(L: int) -> float:
    """One step, kernels of one and constant conjugate kernels."""
    one, none = np.ones((L, 1, 1), dtype=complex), np.zeros((L, 1))
    parameters = dict(zip(("Phi", "G", "Phih", "Gh", "A", "B"), (one, one, CURVES[0] * one, CURVES[1] * one, 0 * one,
                                                                 0 * one)))
    return Streams(parameters, np.zeros(1), np.ones(1), 0.0, none, none, ENERGY.value).action.real


def trial_limit() -> float:
    """There h and g are independent Brownian motions that start at N(0, 1), known by the formula of Cameron, Martin."""
    k = np.sqrt(2 * np.array(CURVES))
    return float(sum(CURVES) - np.sum(np.log(np.cosh(k) + k * np.sinh(k))) / 2)


@lru_cache(maxsize=None)
def response() -> float:
    """B_10 of the first block, from the solver's derivative of delta_1 in the noise behind it."""
    raw = tp.theory.raw_problem(SCALING, tp.ResNet(), TASK, DEPTH)
    run = tp.train(raw.problem)
    chi = (run.outputs - raw.problem.task.targets).ravel()
    return float(run.gamma(1, 0, 1, 0, 1 / DEPTH, 1 / DEPTH) / chi[1] / (SCALING.mu0 * SCALING.eta0))


def shift_witness() -> Witness:
    sites = streams()
    reading = Letters(sites.reading.fields, sites.reading.symbols, sites.mean).at({t: 1, s: 0, ell: 1})
    return Witness(f"B_10 of the first block of {DEPTH}, linear, as a slope in its source", response(), 1e-10, None,
                   float(np.real(reading.of(SADDLE[2].value))))


def sources_witness() -> Witness:
    """A source is in the stream behind its block, over sqrt(L), and in none before."""
    stream, source = ("h", 0, DEPTH + 1), ("u", 0, DEPTH + 1)
    right, printed = (float(np.real(one.rows[stream] @ one.moments @ one.rows[source]))
                      for one in (streams(), streams(False)))
    found = tp.theory.dmft(tp.theory.raw_problem(SCALING, tp.ResNet(), TASK, DEPTH))
    return Witness(f"<h_0 u_0> behind the last of {DEPTH} blocks, linear",
                   float(found.Phi[-2, 0, 0, 0, 0] / np.sqrt(DEPTH)), 1e-10, printed, right)


def slope_of_the_phase() -> tuple[complex, complex]:
    """The phase of given paths, differentiated in a step of u that is smoothed, and what it is said to be."""
    training_step, at, small, narrow = 2, 0.37, 1e-4, 1e-3
    paths: dict[Any, Callable[[Any, Any], Any]] = {
        hh: lambda k, x: (0.4 + 1.1 * x - 0.6 * x**2) * k, u: lambda k, x: 0.3 * k + 0.9 * x + 0.5 * x**3}
    stated = SHIFT.value.subs({location: at, t: training_step})
    for name, path in paths.items():
        stated = stated.replace(name, path)
    times = np.linspace(0, 1, 2**15 + 1)
    step = 1 / (1 + np.exp(-(times - at) / narrow))

    def phase(size: float) -> complex:
        conjugate = paths[hh](training_step, times)
        moved = np.diff(paths[u](training_step, times) + size * step)
        return complex(np.exp(-1j * np.sum((conjugate[1:] + conjugate[:-1]) / 2 * moved)))
    return (phase(small) - phase(-small)) / (2 * small), complex(stated.doit())


def evidence() -> Evidence:
    found_slope, stated_slope = slope_of_the_phase()
    worst = [float(np.max(np.abs(streams().residual(equation)))) for equation in SADDLE]
    limit, found = trial_limit(), [trial_action(L) for L in TRIAL]
    return Evidence(
        (MeasuredNumber(f"(79) at finite depth, left less right at the solver's, linear, L = {DEPTH}, {TASK.steps} "
                        f"steps",
                        max(worst), 1e-10, 0.0),
         MeasuredNumber("slopes of (77) there, by differences",
                        max(abs(slope(streams(), letter, where)) for letter, where in (
                            ("Phih", (1, 2, 1)), ("A", (0, 1, 2)), ("B", (1, 1, 2)))), 1e-8, 0.0),
         MeasuredNumber("(80) on smooth paths, by differences", abs(found_slope - stated_slope), 1e-5, 0.0),
         MeasuredNumber("ln Z there", abs(streams().log_z), 1e-12, 0.0)),
        (Rate("the action at constant conjugate kernels, from its limit", "L", 1.0, TRIAL,
              tuple(abs(one - limit) for one in found)),))


ENTRY = Entry(
    key="depthwise_transfer/infinite_depth_action",
    kind="proposition",
    title="the action at infinite depth",
    source="Depthwise Hyperparameter Transfer, appendix F, (75) to (81)",
    says="$H$ is the energy of one site in terms of streams, whose sources $u^\\ell$ and $r^\\ell$ have covariances "
         "$\\Phi^{\\ell-1}$ and $G^{\\ell+1}$; conjugate kernels are $L$ times, responses $\\sqrt L / c$ times "
         "those of finite depth, which changes no mean. The action then has a limit at fixed width, with the "
         "saddle that the limit of the saddles has: a conjugate stream is a derivative in its source.",
    statement=lambda: Equations((ENERGY, LIMIT, *SADDLE, SHIFT)),
    assumptions=("$\\alpha = 1/2$, rate 0", "plain gradient descent"),
    uses=("depthwise_transfer/path_integral",),
    evidence=evidence,
    errata=(
        Erratum(Slip.MISPRINT, "(75): $u^\\ell$, with the covariance $\\Phi^{\\ell-1}$, in $h^{\\ell+1}$, where "
                "$u^{\\ell+1}$ is", r"i \sum_\ell \hat h^\ell \left(h^{\ell+1} - h^\ell - \tfrac{1}{\sqrt L} u^\ell - "
                r"\ldots\right) &", lambda: line(ENERGY.target, ENERGY.value), sources_witness),
        Erratum(Slip.MISPRINT, "(80): $\\hat h(\\tau)$ outside of the integral over $\\tau$, for $\\hat h(\\tau')$",
                r"\frac{\delta}{\delta du(\tau')} e^{-i \int \hat h(\tau) du(\tau)} &= -i \hat h(\tau) e^{-i \int "
                r"\hat h(\tau) du(\tau)}", lambda: line(SHIFT.target, SHIFT.value), shift_witness),
    ),
)
