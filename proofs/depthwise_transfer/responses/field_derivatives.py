"""Derivatives of fields in Gaussian sources, which responses are means of: the terms of curved activations count."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc._types import Value
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, MeasuredNumber, Slip, Witness
from tpcalc.ledger.entry import line

from ..._letters import Letters
from .._fields import Slope, fields

DEPTH, STEPS, RATE, SAMPLES, BATCHES, BLOCK = 6, 3, 1.5, 4096, 16, 3
t, s, v, ell, k, m = sp.symbols("t s v ell k m", integer=True)
depth, c = sp.symbols("L c")
g, h, u, r, phi, dphi, Ch, Cg = fields("g h u r phi dphi Ch Cg")
delta, after_block = sp.KroneckerDelta, sp.Symbol(r"\Theta_{\ell \geq m}")

FORWARD = Equation(Slope(h(t, ell), u(s, m)), delta(t, s) * after_block / sp.sqrt(depth) + c / depth * sp.Sum(
    Ch(t, v, k) * Slope(g(v, k + 1), u(s, m)), (k, 1, ell - 1), (v, 0, t - 1)))
BACKWARD = Equation(Slope(g(t, ell), u(s, m)), sp.Sum(r(t, k) * Slope(dphi(t, k), u(s, m)), (k, ell, depth)) / sp.sqrt(
    depth) + c / depth * sp.Sum(Cg(t, v, k) * (dphi(t, k) * Slope(phi(v, k), u(s, m)) + phi(v, k) * Slope(
        dphi(t, k), u(s, m))), (k, ell, depth), (v, 0, t)))


UNBENT = Equation(BACKWARD.target, BACKWARD.value.replace(
    lambda e: isinstance(e, Slope) and isinstance(e.args[0], dphi), lambda e: sp.Integer(0)))  # as (67) has it


def mean_derivative(found: tp.theory.OrderParameters, source: tuple[int, int], forward: Equation, backward: Equation
                    ) -> np.ndarray:
    """The mean over samples of d g_t at the source's node / d u_s there, (batches, t), by the two equations.

    found: of a tanh network with its fields; source: (step, block), blocks counted from 1. Nodes are solved upward and
    then downward at every step, each from what the equations say of those before it.
    """
    assert found.fields is not None
    assert found.fields.r is not None
    step, block = source
    x, noise = found.fields.h[:, :, 0], found.fields.r[:, :, 0]
    Phi, G, A, B = (getattr(found, name)[:, :, 0, :, 0] for name in ("Phi", "G", "A", "B"))
    drift = {"Ch": np.tril(Phi[:-1] * found.Delta[:, 0], -1) + A, "Cg": np.tril(G[1:] * found.Delta[:, 0], -1) + B}
    values, slope = np.tanh(x), np.cosh(x)**-2.0
    dh, dg = np.zeros_like(x), np.zeros_like(x)
    tables: dict[str, Value] = {
        "Ch": lambda a, b, node: drift["Ch"][node - 1, a, b], "Cg": lambda a, b, node: drift["Cg"][node - 1, a, b],
        "r": lambda a, node: noise[node - 1, a], "phi": lambda a, node: values[node - 1, a],
        "dphi": lambda a, node: slope[node - 1, a], "g/u": lambda a, node, *_: dg[node - 1, a],
        "phi/u": lambda a, node, *_: slope[node - 1, a] * dh[node - 1, a],
        "dphi/u": lambda a, node, *_: -2 * values[node - 1, a] * slope[node - 1, a] * dh[node - 1, a]}
    letters = Letters(tables, {c: RATE, depth: DEPTH, s: step, m: block + 1})
    for now in range(STEPS):
        for node in range(1, DEPTH + 2):
            dh[node - 1, now] = letters.at({t: now, ell: node, after_block: float(node >= block + 1)}).of(forward.value)
        for node in range(DEPTH, 0, -1):
            dg[node - 1, now] = letters.at({t: now, ell: node}).of(backward.value)
    each = dg[block].reshape(STEPS, BATCHES, SAMPLES).mean(axis=-1).T
    return np.asarray(each * np.sqrt(DEPTH) / RATE)


@lru_cache(maxsize=None)
def sampled() -> tp.theory.OrderParameters:
    task = tp.Task([1.0, 1.0, 1.0], [2.0, -1.5, 1.0])
    raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(eta0=RATE), tp.ResNet("tanh", "pre_nonlin"), task, DEPTH)
    return tp.theory.dmft(raw, tp.methods.Particles(samples=SAMPLES, batches=BATCHES, seed=5))


def compared(later: int, step: int, backward: Equation) -> tuple[float, float, float]:
    """B by causality, by derivatives of fields, and what chance makes of both."""
    found, location = sampled(), (BLOCK - 1, later, 0, step, 0)
    means = mean_derivative(found, (step, BLOCK), FORWARD, backward)[:, later]
    error = float(found.standard_errors["B"][location]) + float(np.std(means, ddof=1) / np.sqrt(BATCHES))
    return float(found.B[location]), float(means.mean()), error


def evidence() -> Evidence:
    numbers = []
    for later, step in ((1, 0), (1, 1), (2, 1)):
        value, right, error = compared(later, step, BACKWARD)
        numbers.append(MeasuredNumber(f"B_{later}{step} of block {BLOCK} of {DEPTH}, tanh, by causality, {BATCHES} "
                                      "batches of particles, against derivatives of fields", value, error, right))
    return Evidence(tuple(numbers))


def witness() -> Witness:
    (value, right, error), (_, printed, _) = (compared(1, 1, one) for one in (BACKWARD, UNBENT))
    return Witness(f"B_11 of block {BLOCK} of {DEPTH}, tanh", value, error, printed, right)


ENTRY = Entry(
    key="depthwise_transfer/field_derivatives",
    kind="proposition",
    title="derivatives of fields in their sources",
    source="Depthwise Hyperparameter Transfer, (50) and (67)",
    says="Depth L; sums become integrals over layer time as it grows. What a source moves at an earlier layer changes "
         "the slope of the activation behind it, and with it what the backward noise and drift are multiplied by.",
    statement=lambda: Equations((FORWARD, BACKWARD)),
    assumptions=("width to infinity at fixed depth", "smooth activations"),
    uses=("depthwise_transfer/responses",),
    evidence=evidence,
    errata=(
        Erratum(Slip.FALSE, "(67): no terms of the changing slope, which (50) has; they do not vanish with L",
                r"\frac{\delta g_t(\tau)}{\delta du_s(\tau')} &= c \int d\tau'' \dot\phi(h_t) \sum_v C_{g, tv} "
                r"\frac{\delta \phi(h_v)}{\delta du_s(\tau')}", lambda: line(BACKWARD.target, BACKWARD.value), witness),
    ),
)
