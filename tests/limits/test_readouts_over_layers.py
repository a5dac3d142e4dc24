"""Read-outs that add up layers, and numbers made of numbers: their limits are what finite depths converge to."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.programs.indices import L, T, l, t
from tpcalc.programs.language import Family, LossDerivative, Matrix, MatVec, Mean, Outer, Scalar, Transpose, Vector
from tpcalc.programs.program import Assign, Loop, Program

from support.interpreted import interpreted

HALF = sp.Rational(1, 2)
INPUTS, TARGETS = [1.0, 0.8, -0.6], [1.0, -0.7, 0.5]


def read_over_layers(alpha: sp.Rational, weight: sp.Expr, power: sp.Rational) -> Program:
    """f = mean(nV s[L]) with s[l] = s[l - 1] + weight x[l] / L, read through q = f L^-power; plain SGD."""
    x, s, dx = (Family(Vector, name, layered=True) for name in ("x", "s", "dx"))
    W, (U, nV) = Family(Matrix, "W", layered=True), (Family(Vector, name)() for name in ("U", "nV"))
    xi, q, f, chi = (Family(Scalar, name) for name in ("xi", "q", "f", "chi"))
    eps, g, read = L**-alpha, L ** (alpha - 1), weight / L
    forward = Loop(l, sp.Integer(1), L, (
        Assign(x[t, l], x[t, l - 1] + eps * MatVec(W[t, l], x[t, l - 1])),
        Assign(s[t, l], s[t, l - 1] + read * x[t, l])))
    backward = Loop(l, L, sp.Integer(1), (Assign(dx[t, l - 1], (
        dx[t, l] + eps * MatVec(Transpose(W[t, l]), dx[t, l]) + read.subs(l, l - 1) * chi[t] * nV)),), descending=True)
    update = Loop(l, sp.Integer(1), L, (Assign(W[t + 1, l], W[t, l] - HALF * g * Outer(dx[t, l], x[t, l - 1])),))
    body = (Assign(x[t, 0], xi[t] * U), Assign(s[t, 0], sp.Integer(0)), forward,
            Assign(q[t], Mean(nV * s[t, L]) * L**-power), Assign(f[t], L**power * q[t]),
            Assign(chi[t], LossDerivative(f[t], t)), Assign(dx[t, L], read.subs(l, L) * chi[t] * nV), backward, update)
    return Program("read over layers", (U, nV), (W[0, l],), (xi[t],), (Loop(t, sp.Integer(0), T - 1, body),), (T, L))


@pytest.mark.parametrize("alpha, weight, power", [
    pytest.param(HALF, sp.Integer(1), sp.Integer(0), marks=pytest.mark.nightly),
    pytest.param(sp.Integer(1), sp.Integer(1), HALF, marks=pytest.mark.nightly), (HALF, 1 + l / L, HALF)], ids=str)
def test_limits_of_readouts_over_layers_are_reached_with_their_rate(alpha: sp.Rational, weight: sp.Expr,
                                                                    power: sp.Rational) -> None:
    recursion = tp.recursion(tp.kets(read_over_layers(alpha, weight, power)))
    region, = tp.depth_limit(recursion).regions
    found, finite = region.compile()(INPUTS, TARGETS).outputs, interpreted(recursion)
    errors = [finite(depth, INPUTS, TARGETS).outputs - found for depth in (16, 32, 64)]
    assert region.rate == 1 and np.all(np.abs(found[1:]) > 0.01)
    orders = [np.log2(np.abs(a[1:]) / np.abs(b[1:])) for a, b in zip(errors, errors[1:])]
    assert np.abs(orders[-1] - 1).max() < 0.15, (found, errors)
    assert np.abs(2 * errors[-1] - errors[-2]).max() < 0.1 * np.abs(errors[-1]).max()  # nothing is left at depth oo
