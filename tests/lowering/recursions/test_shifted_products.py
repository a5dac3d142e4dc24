"""One matrix that multiplies members of a family one or more steps apart, as recurrent networks and momentum do."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.interpreters import read_program_coefficients, run_program
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, Outer, Scalar, Transpose, Vector
from tpcalc.programs.program import Assign, Loop, Program

T = sp.Symbol("T", integer=True, positive=True)
t = sp.Symbol("t", integer=True, nonnegative=True)
u, v = Family(Vector, "u")(), Family(Vector, "v")()
x, y = Family(Vector, "x"), Family(Vector, "y")
W, f = Family(Matrix, "W"), Family(Scalar, "f")
w, back = W[t], Transpose(W[t])


def program(one: sp.Expr, other: sp.Expr, update: sp.Expr) -> Program:
    body = (Assign(x[t], one), Assign(y[t], other), Assign(f[t], Mean(x[t] * (y[t] + u)) + Mean(y[t] * v)),
            Assign(W[t + 1], W[t] - update / 4))
    start = (Assign(x[-1], u), Assign(x[-2], 2 * u - v), Assign(y[-1], u + v))
    return Program("steps apart", (u, v), (W[0],), (), (*start, Loop(t, sp.Integer(0), T - 1, body)), (T,))


PROGRAMS = {
    "recurrence": program(MatVec(w, x[t - 1]) / 2 + u, x[t] + v, Outer(x[t], y[t])),
    "two steps": program(MatVec(w, x[t - 1]) / 2 + MatVec(w, x[t - 2]) / 3 + u, x[t] + v, Outer(x[t], y[t])),
    "both": program(u + y[t - 1] / 3, MatVec(w, x[t]) / 2 + MatVec(w, x[t - 1]) / 3 + v, Outer(x[t], y[t])),
    "in turn": program(MatVec(w, x[t - 1]) / 2 + u, MatVec(w, x[t]) / 2 + v, Outer(x[t], y[t])),
    "transposed": program(MatVec(w, x[t - 1]) / 2 + MatVec(w, x[t - 2]) / 3 + u,
                          MatVec(back, x[t]) / 2 - MatVec(back, x[t - 1]) / 5 + v, Outer(y[t], x[t - 1])),
    "all": program(MatVec(w, x[t - 1]) / 2 + MatVec(back, y[t - 1]) / 3, MatVec(back, x[t]) + MatVec(w, x[t - 1]) / 3,
                   Outer(x[t], y[t - 1])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_is_coefficients(name: str) -> None:
    recursion = tp.recursion(tp.kets(PROGRAMS[name]))
    assert all(step.check() for step in recursion.derivation.steps)
    compiled = recursion.compile()
    compiled = replace(compiled, kernel=compiled.kernel.py_func)  # type: ignore[attr-defined]
    theirs = read_program_coefficients(PROGRAMS[name], {"T": 5}, {}).series("f")
    assert_close(compiled.evaluate(T=5, y=np.zeros(5))["f"], theirs, 1e-12)
    assert np.ptp(theirs) > 1e-2


def test_the_limit_is_that_of_real_networks() -> None:
    n, seeds = 500, 24
    runs = np.array([run_program(PROGRAMS["all"], {"T": 4}, {}, n, seed).series("f") for seed in range(seeds)])
    truth = read_program_coefficients(PROGRAMS["all"], {"T": 4}, {}).series("f")
    error = runs.std(axis=0, ddof=1) / np.sqrt(seeds)
    assert np.all(np.abs(runs.mean(axis=0) - truth) < 4 * error) and np.all(error < 0.1)


def test_every_way_to_write_a_product_is_its_own() -> None:
    """W x[t - 1] is, a step later, what W x[t] was: both have names, and a hat is read by how it is written."""
    equations = tp.kets(PROGRAMS["both"])
    products = equations.setting.products
    assert {str(p.matvec) for p in products} == {"W[0] @ x[t]", "W[0] @ x[t - 1]"}
    s = sp.Symbol("s", integer=True, nonnegative=True)
    for product in products:
        again = product.matvec.subs(t, s)
        assert equations.setting.product_like(again) == (product, {t: s})


def test_indices_of_an_expanded_bracket_do_not_shadow_those_of_the_base_ket() -> None:
    """<x[t-1]|y[s]> in the equation of a coefficient: r is taken."""
    for e in tp.recursion(tp.kets(PROGRAMS["recurrence"])).equations:
        bound = {limit[0] for total in e.value.atoms(sp.Sum) for limit in total.limits}
        assert not bound & e.target.free_symbols
