"""How long derivations take, and how that grows with the size of the block."""

from __future__ import annotations

from typing import Callable

import numpy as np
import sympy as sp
from support.timing import best
from sympy.core.cache import clear_cache

import tpcalc as tp
from tpcalc.programs.language import Family, LossDerivative, Mat, MatVec, Moment, Outer, Scal, Transpose, Vec
from tpcalc.programs.program import Assign, Loop, Program

T, L = sp.symbols("T L", integer=True, positive=True)
t, l = sp.symbols("t l", integer=True, nonnegative=True)


def chain(matrices: int) -> Program:
    """A residual block that is a product of ``matrices`` matrices, all trained."""
    names = [f"z{k}" for k in range(1, matrices)]
    x, dx = Family(Vec, "x", layered=True), Family(Vec, "dx", layered=True)
    inner = [Family(Vec, name, layered=True)[t, l] for name in names]
    signals = [Family(Vec, "d" + name, layered=True)[t, l] for name in names]
    weights = [Family(Mat, f"W{k}", layered=True) for k in range(1, matrices + 1)]
    U, nV, xi, f, chi = Family(Vec, "U")(), Family(Vec, "nV")(), *(Family(Scal, n) for n in ("xi", "f", "chi"))
    eps = L ** sp.Rational(-1, 2)
    right, left = [x[t, l - 1], *inner], [*signals, dx[t, l]]
    forward = [Assign(z, MatVec(w[t, l], v)) for z, w, v in zip(inner, weights, right)]
    forward.append(Assign(x[t, l], x[t, l - 1] + eps * MatVec(weights[-1][t, l], right[-1])))
    backward = [Assign(signals[k - 1], MatVec(Transpose(weights[k][t, l]), left[k]))
                for k in reversed(range(1, matrices))]
    backward.append(Assign(dx[t, l - 1], dx[t, l] + eps * MatVec(Transpose(weights[0][t, l]), left[0])))
    updates = [Assign(w[t + 1, l], w[t, l] - eps * Outer(d, v)) for w, d, v in zip(weights, left, right)]
    body = (Assign(x[t, 0], xi[t] * U), Loop(l, sp.Integer(1), L, tuple(forward)), Assign(f[t], Moment(nV * x[t, L])),
            Assign(chi[t], LossDerivative(f[t], t)), Assign(dx[t, L], chi[t] * nV),
            Loop(l, L, sp.Integer(1), tuple(backward), descending=True), Loop(l, sp.Integer(1), L, tuple(updates)))
    return Program("chain", (U, nV), tuple(w[0, l] for w in weights), (xi[t],),
                   (Loop(t, sp.Integer(0), T - 1, body),), (T, L))


def test_derivations_take_seconds(record: Callable[[str, str, str], None]) -> None:
    def derive(matrices: int) -> Callable[[], object]:
        def run() -> object:
            clear_cache()
            return tp.recursion(tp.kets(chain(matrices)))
        return run

    sizes = np.array([1, 2, 3, 4])
    times = [best(derive(int(k)), 2) for k in sizes]
    growth = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    record("derivation of the recursion, blocks of 1, 2, 3, 4 matrices",
           ", ".join(f"{seconds:.2f}" for seconds in times) + " s", "< 10 s")
    record("its growth, power of the number of matrices", f"{growth:.1f}", "printed")
    assert max(times) < 10


def test_nonlinear_kets_take_seconds(record: Callable[[str, str, str], None]) -> None:
    scale = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
    nets = {"tanh": tp.ResNet("tanh"), "gelu mlp, rms": tp.ResNet("gelu", block="mlp", norm="rms"),
            "gelu glu": tp.ResNet("gelu", block="glu")}
    for name, net in nets.items():
        seconds = best(lambda: (clear_cache(), tp.kets(tp.program(net, tp.SGD(), scale))), 2)
        record(f"ket equations, {name}", f"{seconds:.2f} s", "< 5 s")
        assert seconds < 5
