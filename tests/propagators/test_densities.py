"""The solver's densities are the derived ones, entry by entry: several rows a step, decay, any block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from support.references.overlap_values import number

import tpcalc as tp
from tpcalc.action.action import a, at, b
from tpcalc.action.densities import derive_densities
from tpcalc.propagators.laws.pair_laws import BackwardLaw, ForwardLaw, kernels_of

h = sp.Symbol("h", real=True)
SINE = sp.sin(h + sp.Rational(1, 2))
PAST, OWN = 3, 2
NOISE, DRIFT = 1.7, 0.6


@pytest.mark.parametrize("net", [
    tp.ResNet(), tp.ResNet(SINE), tp.ResNet("tanh"), tp.ResNet(h**3 - h), tp.ResNet(SINE, "mlp"),
    tp.ResNet(SINE, "mlp", matrices=3), tp.ResNet("tanh", "glu"), tp.ResNet(SINE, "mlp", norm="rms"),
    tp.ResNet(SINE, "glu", norm="rms")])
def test_densities_are_the_solver_s(net: tp.ResNet) -> None:
    """Rows of the past have decays of their own; the constants of noise and drift multiply kappa and theta."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((PAST + OWN, 6)) / 2
    C0, C1 = root @ root.T, np.cov(rng.standard_normal((PAST + OWN, 9)))
    r, e = rng.standard_normal((2, OWN, PAST + OWN))
    e[:, PAST:] = np.diag(np.diag(e[:, PAST:]))  # of its own step a gradient answers its own sample alone
    rho, w = np.append(rng.uniform(.5, 1, PAST), [.8, .8]), rng.uniform(.5, 1, PAST)
    c0, own = C0[PAST:, :PAST], C0[PAST:, PAST:]
    forward = ForwardLaw(kernels_of(net), NOISE, DRIFT * w, np.diag(C0)[:PAST], rho[-1] * rho[:PAST], rho[-1]**2)
    ahead = forward(r[:, :PAST], c0, own)
    back = BackwardLaw(forward, r[:, :PAST], c0, own)(e, C1[PAST:, :PAST], C1[PAST:, PAST:])

    derived = derive_densities(net)
    weights = [s for s in derived.A.free_symbols if str(s).startswith("w^")]

    def value(expression: Any, i: int, j: int) -> float:
        """Of row i of the step and row j of all; with constants in front of what has w and what has not."""
        known: dict[sp.Symbol, float] = {}
        for (one, p), (two, q) in (((a, i + PAST), (b, j)), ((a, i + PAST), (a, i + PAST)), ((b, j), (b, j))):
            known |= {at("C", one, two): C0[p, q], at("C^1", one, two): C1[p, q], at("rho", one, two): rho[p] * rho[q]}
        known |= {at("r", a, b): r[i, j], at("e", a, b): e[i, j], at("e", a, a): e[i, i + PAST]}
        known |= {s: w[j] if j < PAST else np.nan for s in weights}
        learned = sp.sympify(expression).xreplace({s: sp.Integer(0) for s in weights})
        return NOISE * number(learned, known) + DRIFT * number(sp.expand(expression - learned), known)

    def values(expression: Any, columns: range) -> np.ndarray:
        return np.array([[value(expression, i, j) for j in columns] for i in range(OWN)])

    past, present = range(PAST), range(PAST, PAST + OWN)
    for ours, theirs in ((ahead.density, values(derived.A, past)), (ahead.noise, values(derived.N0, past)),
                         (ahead.own_noise, values(derived.N0, present)), (back.density, values(derived.B, past)),
                         (back.noise, values(derived.N1, past)), (back.own_noise, values(derived.N1, present))):
        np.testing.assert_allclose(np.broadcast_to(ours, theirs.shape), theirs, rtol=0, atol=1e-10)
    on_diagonal = [value(derived.own, i, i + PAST) + sum(value(derived.past, i, j) for j in past) for i in range(OWN)]
    if back.diagonal is None:  # linear blocks: e_aa = 0 solves its own equation
        assert derived.past == 0 and derived.own == at("rho", a, a) * at("e", a, a)
    else:
        np.testing.assert_allclose(back.diagonal, on_diagonal, rtol=0, atol=1e-10)
