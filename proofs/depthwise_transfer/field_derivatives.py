"""Derivatives of fields in Gaussian sources, which responses are means of: the terms of curved activations count."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, Number, Slip, Witness
from tpcalc.ledger.entry import line

from ._fields import Slope, fields

DEPTH, STEPS, RATE, SAMPLES, BATCHES, BLOCK = 6, 3, 1.5, 4096, 16, 3
t, s, v, ell, k, m = sp.symbols("t s v ell k m", integer=True)
depth, c = sp.symbols("L c")
g, h, u, r, phi, dphi, Ch, Cg = fields("g h u r phi dphi Ch Cg")
delta = sp.KroneckerDelta

FORWARD = Equation(Slope(h(t, ell), u(s, m)), delta(t, s) * sp.Symbol(r"\Theta_{\ell \geq m}") / sp.sqrt(depth)
                   + c / depth * sp.Sum(Ch(t, v, k) * Slope(g(v, k + 1), u(s, m)), (k, 1, ell - 1), (v, 0, t - 1)))
BACKWARD = Equation(Slope(g(t, ell), u(s, m)), sp.Sum(r(t, k) * Slope(dphi(t, k), u(s, m)), (k, ell, depth)) / sp.sqrt(
    depth) + c / depth * sp.Sum(Cg(t, v, k) * (dphi(t, k) * Slope(phi(v, k), u(s, m)) + phi(v, k) * Slope(
        dphi(t, k), u(s, m))), (k, ell, depth), (v, 0, t)))


def mean_derivative(found: tp.OrderParameters, part: slice, source: tuple[int, int], curved: bool) -> np.ndarray:
    """The mean over samples of d g_t at the source's node / d u_s there, (t,), by the two equations, layer by layer.

    found: of a tanh network with its fields; source: (step, block), blocks counted from 1; curved: whether the slope of
    the activation changes too.
    """
    assert found.fields is not None and found.fields.r is not None
    step, block = source
    x, r_, L = found.fields.h[:, :, 0, part], found.fields.r[:, :, 0, part], DEPTH
    Phi, G, A, B = (getattr(found, name)[:, :, 0, :, 0] for name in ("Phi", "G", "A", "B"))
    Delta, earlier = found.Delta[:, 0], np.tril(np.ones((STEPS, STEPS)), -1)
    size = RATE / L
    Ch = size * (earlier * Phi[:-1] * Delta + A)
    Cg = size * (earlier * G[1:] * Delta + B)
    a, slope = np.tanh(x), np.cosh(x)**-2.0
    bend = -2 * a * slope * curved
    dh, dg = np.zeros_like(x), np.zeros_like(x)
    for t_ in range(STEPS):
        for l in range(L):  # node l to l + 1: block l + 1
            dh[l + 1, t_] = dh[l, t_] + (l + 1 == block) * (t_ == step) / np.sqrt(L) + np.tensordot(
                Ch[l, t_, :t_], dg[l + 1, :t_], 1)
        for l in range(L - 1, -1, -1):
            force = r_[l, t_] / np.sqrt(L) + np.tensordot(Cg[l, t_, :t_ + 1], a[l, :t_ + 1], 1)
            moved = np.tensordot(Cg[l, t_, :t_ + 1], slope[l, :t_ + 1] * dh[l, :t_ + 1], 1)
            dg[l, t_] = dg[l + 1, t_] + slope[l, t_] * moved + bend[l, t_] * dh[l, t_] * force
    return np.asarray(dg[block].mean(axis=-1)) * L / np.sqrt(L) / RATE


@lru_cache(maxsize=None)
def measured() -> tuple[tp.OrderParameters, np.ndarray, np.ndarray]:
    """B of a block by causality, and by derivatives of fields with curvature and without: (batches, t) each."""
    task = tp.Task([1.0, 1.0, 1.0], [2.0, -1.5, 1.0])
    raw = tp.raw_problem(tp.DepthwiseScaling(eta0=RATE), tp.ResNet("tanh", "pre"), task, DEPTH)
    found = tp.dmft(raw, tp.methods.Particles(samples=SAMPLES, batches=BATCHES, seed=5))
    parts = [slice(k * SAMPLES, (k + 1) * SAMPLES) for k in range(BATCHES)]
    right, printed = (np.array([mean_derivative(found, part, (1, BLOCK), curved) for part in parts])
                      for curved in (True, False))
    return found, right, printed


def _compared(later: int) -> tuple[float, float, float, float]:
    """B_t1: by causality and its error, by derivatives with curvature and without."""
    found, right, printed = measured()
    place = (BLOCK - 1, later, 0, 1, 0)
    error = float(found.standard_errors["B"][place]) + float(np.std(right[:, later], ddof=1) / np.sqrt(BATCHES))
    return float(found.B[place]), error, float(right[:, later].mean()), float(printed[:, later].mean())


def evidence() -> Evidence:
    numbers = []
    for later in (1, 2):
        value, error, right, _ = _compared(later)
        numbers.append(Number(f"B_{later}1 of block {BLOCK} of {DEPTH}, tanh, by causality, {BATCHES} batches of "
                              "particles, against derivatives of fields", value, error, right))
    return Evidence(tuple(numbers))


def witness() -> Witness:
    value, error, right, printed = _compared(1)
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
