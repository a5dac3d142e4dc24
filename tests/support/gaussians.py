"""Gaussian expectations to try, and independent quadrature to try them against."""

import math
from collections.abc import Callable
from functools import cache

import mpmath
import numpy as np
import sympy as sp
from hypothesis import strategies as st

from tpcalc.gaussian import (Blur, ConditionOnForm, Degenerate, Expectation, Gaussians, IndependentFactors, Linearity,
                             Moments,
                             Open, Parity, Phases, Price, Shift, SquareInExponent, Stein, Values, expectation)


U, V, W, C, M, S, T = sp.symbols("u v w c m s t", real=True)
A, B = sp.symbols("a b", positive=True)
PAIR = Gaussians({(U, U): A, (U, V): C, (V, V): B})
TWINS = Gaussians({(U, U): A, (U, V): A, (V, V): A})
RULES = (Blur, ConditionOnForm, Degenerate, IndependentFactors, Linearity, Moments, Open, Parity, Phases, Price, Shift,
         SquareInExponent,
         Stein, Values)


def node(body: sp.Expr, gaussians: Gaussians = PAIR) -> sp.Expr:
    return Expectation(body, gaussians.variables, gaussians.matrix)


def relu(x: sp.Expr) -> sp.Expr:
    return sp.Max(x, 0)


def gelu(x: sp.Expr) -> sp.Expr:
    return x * (1 + sp.erf(x / sp.sqrt(2))) / 2


def erf_slope(x: sp.Expr) -> sp.Expr:
    return 2 / sp.sqrt(sp.pi) * sp.exp(-x**2)


PAIRS = {
    "relu relu": relu(U) * relu(V),
    "step step": sp.Heaviside(U) * sp.Heaviside(V),
    "step relu": sp.Heaviside(U) * relu(V),
    "relu^2 relu^2": relu(U)**2 * relu(V)**2,
    "relu relu, leaky": (relu(U) - relu(-U) / 10) * (relu(V) - relu(-V) / 10),
    "abs abs": sp.Abs(U) * sp.Abs(V),
    "abs relu": sp.Abs(U) * relu(V),
    "min max": sp.Min(U, V) * sp.Max(U, V),
    "max": sp.Max(U, V),
    "sign sign": sp.sign(U) * sp.sign(V),
    "sign poly": sp.sign(U) * V**3 * U**2,
    "erf erf": sp.erf(S * U) * sp.erf(T * V),
    "erf' erf'": erf_slope(S * U) * erf_slope(T * V),
    "erf relu": sp.erf(S * U) * relu(V),
    "erf^2": sp.erf(S * U)**2 * V**2,
    "gelu gelu": gelu(U) * gelu(V),
    "gelu' gelu'": gelu(U).diff(U) * gelu(V).diff(V),
    "gelu relu": gelu(U) * relu(V),
    "poly": U**4 * V**2 - 3 * U * V + 1,
    "poly exp": U**2 * V * sp.exp(S * U + T * V),
    "exp relu": sp.exp(S * V) * relu(U),
    "exp exp sin": sp.exp(S * U - V / 2) * sp.sin(T * V + M),
    "sin sin": sp.sin(S * U + M) * sp.sin(T * V),
    "poly waves": U * V * sp.sin(U)**2 * sp.cos(V + M),
    "sign wave": sp.sign(U) * sp.cos(T * V + M) * U,
    "abs wave": sp.Abs(U) * sp.sin(S * U + T * V + M),
    "squares": sp.exp(-U**2 - U * V / 2 + S * U) * V,
    "square relu": sp.exp(-U**2) * relu(V) * relu(U),
    "cosh cos": sp.cosh(S * U) * sp.cos(V),
    "erfc": sp.erfc(U) * V**2,
}
SINGLES = {
    "relu": relu(U + M), "relu^2": relu(U + M)**2, "abs": sp.Abs(U + M), "sign": sp.sign(U + M) * U**3,
    "step": sp.Heaviside(S * U + M), "erf": sp.erf(S * U + M) * U, "erf alone": sp.erf(S * U + M), "gelu": gelu(U + M),
    "gelu moment": gelu(U + M) * U**2, "exp relu": sp.exp(S * U) * relu(U + M), "wave": U**2 * sp.cos(S * U + M),
    "exp": U**3 * sp.exp(S * U + M), "erf'": erf_slope(S * U + M) * U**2, "exp wave": sp.exp(S * U) * sp.sin(T * U + M),
    "one variable twice": relu(U) * sp.sign(U) * sp.erf(U), "min": sp.Min(U, M) * U,
    "max of both": sp.Max(U, -U) * U**2,
}
PARAMETERS = (A, B, C, S, T, M)


@cache
def closed(name: str, body: sp.Expr, gaussians: Gaussians = PAIR) -> Callable[..., mpmath.mpf]:
    value = expectation(body, gaussians)
    assert not value.has(Expectation), name
    return sp.lambdify(PARAMETERS, value, modules="mpmath")


def exactly(function: Callable[..., mpmath.mpf], a: float, b: float, angle: float, *rest: float) -> float:
    """The closed form in 60 digits at correlation cos(angle)."""
    with mpmath.workdps(60):
        values = [mpmath.mpf(x) for x in (a, b, *rest)]
        values.insert(2, mpmath.sqrt(values[0] * values[1]) * mpmath.cos(mpmath.mpf(angle)))
        result = mpmath.mpmathify(function(*values))
        assert abs(result.imag) < 1e-30
        return float(result.real)


def legendre(edges: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    x, weight = np.polynomial.legendre.leggauss(nodes)
    half = np.diff(edges) / 2
    return ((edges[:-1] + half)[:, None] + half[:, None] * x).ravel(), (half[:, None] * weight).ravel()


def polar(body: sp.Expr, a: float, b: float, angle: float, s: float, t: float, m: float) -> float:
    """E of a body whose kinks lie on rays, in polar coordinates: u = sqrt(a) r cos x, v = sqrt(b) r cos(x - angle)."""
    slope = math.sqrt(a) - math.sqrt(b) * math.cos(angle), -math.sqrt(b) * math.sin(angle)  # u = v, where Max bends
    rays = np.array([math.pi / 2, angle + math.pi / 2, math.atan2(-slope[0], slope[1])])
    edges = np.unique(np.concatenate([np.linspace(0, 2 * math.pi, 5), rays % (2 * math.pi),
                                      (rays + math.pi) % (2 * math.pi)]))
    x, angular = legendre(edges, 40)
    r, radial = legendre(np.linspace(0, 13, 27), 12)
    plain = sp.lambdify((U, V, S, T, M), body, modules=["scipy", "numpy"])
    values = plain(math.sqrt(a) * r[:, None] * np.cos(x), math.sqrt(b) * r[:, None] * np.cos(x - angle), s, t, m)
    return float(np.sum((radial * r * np.exp(-r * r / 2))[:, None] * angular * values)) / (2 * math.pi)


def line(body: sp.Expr, a: float, s: float, t: float, m: float) -> float:
    """E of a body in u alone with kinks at u = 0, -m, m and -m / s."""
    kinks = np.clip(np.array([0, -m, m, -m / s]) / math.sqrt(a), -13, 13)
    x, weight = legendre(np.unique(np.concatenate([np.linspace(-13, 13, 53), kinks])), 16)
    values = sp.lambdify((U, S, T, M), body, modules=["scipy", "numpy"])(math.sqrt(a) * x, s, t, m)
    return float(np.sum(weight * values * np.exp(-x * x / 2))) / math.sqrt(2 * math.pi)


variances = st.floats(0.05, 2.5)
slopes = st.floats(0.1, 1.2) | st.floats(-1.2, -0.1)
offsets = st.floats(-1.5, 1.5)
near = st.sampled_from([1e-3, 1e-6, 1e-9])
# correlations: any, near 0, near 1, near -1
angles = (st.floats(0.01, 3.13) | near.map(lambda e: math.pi / 2 - e) | near.map(lambda e: math.pi / 2 + e) | near
          | near.map(lambda e: math.pi - e))


RANDOM = {A: sp.Rational(13, 10), B: sp.Rational(7, 11), C: sp.Rational(-3, 7), S: sp.Rational(4, 5),
          T: sp.Rational(-5, 8), M: sp.Rational(2, 9)}


def equal(left: sp.Expr, right: sp.Expr) -> bool:
    """At a point of no meaning, to 40 digits: analytic functions do not agree there by chance."""
    return abs(sp.N((left - right).subs(RANDOM), 40, maxn=400, chop=True)) < sp.Float("1e-35")
