"""What optimizers remember where their coefficients depend on the layer, or layers have optimizers of their own."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings

import tpcalc as tp
from support.nightly import few
from support.layered import (G, HALF, L, ONE, THIRD, TWO, U, W, ZERO, FORWARD, at, compiled_outputs, derive,
                             exact_outputs, f, l, layered_programs, layers, m, nV, t, trained, x)
from tpcalc.calculus import kets
from tpcalc.calculus.memory import _what_may_vanish, decays, memory_of
from tpcalc.interpreters import steps as step_module, step_values
from tpcalc.programs.language import Family, Matrix, Mean, Outer
from tpcalc.programs.program import Assign, Program

SGD = Assign(W[t + 1, l], W[t, l] - G)
HEAVY = (Assign(m[t + 1, l], m[t, l] / 2 + G), Assign(W[t + 1, l], W[t, l] - m[t + 1, l] / 3))
EMPTY = Assign(m[0, l], ZERO)
GAMMA = next(symbol for symbol in G.free_symbols if symbol.name == "gamma")
CUT = sp.floor(L / 2)
PROGRAMS = {
    "decay by layer": trained([layers(Assign(W[t + 1, l], (1 - l / (2 * L)) * W[t, l] - G))]),
    "heavy ball by layer": trained([layers(Assign(m[t + 1, l], l / L * m[t, l] + G),
                                           Assign(W[t + 1, l], W[t, l] - l / L * m[t + 1, l]))], [layers(EMPTY)]),
    "decay by layer and step": trained(
        [layers(Assign(W[t + 1, l], (1 - l / (L * (t + 2))) * W[t, l] - G / (t + 1)))]),
    "decay that leaves nothing of the last layer": trained([layers(Assign(W[t + 1, l], (1 - l / L) * W[t, l] - G))]),
    "decay by the loss": trained([layers(Assign(W[t + 1, l], (1 - l * f[t]**2 / (5 * L)) * W[t, l] - (l - 1) * G))]),
    "a rate that vanishes in one statement": trained(
        [layers(Assign(m[t + 1, l], m[t, l] / 2 + (l - 1) * t * G), Assign(W[t + 1, l], W[t, l] - m[t + 1, l] - G))],
        [layers(EMPTY)]),
    "two steps back": trained([layers(Assign(W[t + 1, l], W[t, l] + l / L * (W[t, l] - W[t - 1, l]) - G))],
                              [layers(Assign(W[-1, l], W[0, l]))]),
    "a buffer that starts at the weights": trained(
        [layers(Assign(m[t + 1, l], m[t, l] / 2 + W[t, l] / 3 + G),
                Assign(W[t + 1, l], W[t, l] / 2 + m[t + 1, l] / 5))],
        [layers(Assign(m[0, l], 2 * W[0, l]))]),
    "half SGD, half heavy ball": trained([layers(SGD, last=CUT), layers(*HEAVY, first=CUT + 1)],
                                         [layers(EMPTY, first=CUT + 1)]),
    "half heavy ball, half decaying SGD": trained(
        [layers(*HEAVY, first=CUT + 1), layers(Assign(W[t + 1, l], (1 - l / (3 * L)) * W[t, l] - G), last=CUT)],
        [layers(EMPTY, first=CUT + 1)]),
    "a last layer of its own": trained([layers(SGD, last=L - 1),
                                        at(L, Assign(W[t + 1, l], W[t, l] / 3 - 2 * G))]),
    "a first layer that stays": trained([at(ONE, Assign(W[t + 1, l], W[t, l])), layers(SGD, first=TWO)]),
    "a clipped gradient": trained([layers(Assign(W[t + 1, l], W[t, l] - G / 9 * Mean(x[t, l]**2)))]),
}
FIGURES = {"decay by layer": (1.28631592, 0.18391587), "heavy ball by layer": (0.9765625, -0.20104386)}
SOME = [pytest.param(name, marks=[pytest.mark.slow] * (i % 2)) for i, name in enumerate(PROGRAMS)]


@pytest.mark.parametrize("name", SOME)
def test_compiled_recursions_are_the_exact_reading(name: str) -> None:
    program = PROGRAMS[name]
    recursion = derive(program)
    for depth in (3, 4):
        exact = exact_outputs(program, depth)
        assert np.abs(compiled_outputs(recursion, depth) - exact).max() < 1e-12 * np.abs(exact).max()
    if name in FIGURES:  # of the exact reading, so that it does not change with the calculus
        assert np.abs(exact_outputs(program, 4)[1:] - FIGURES[name]).max() < 1e-8


@pytest.mark.parametrize("name", [*SOME[::4], *(pytest.param(*one.values, marks=[*one.marks, pytest.mark.nightly])
                                                for k, one in enumerate(SOME) if k % 4)])
def test_every_step_holds_for_layered_optimizers(name: str) -> None:
    data = {"xi": [1.0, 0.8], "y": [1.0, -0.7], "alpha": 0.5, "gamma": 0.5}
    checks = tp.check_steps(derive(PROGRAMS[name]), {"T": 2, "L": 3}, data)
    assert all(check.cases and check.difference < 1e-12 for check in checks)


@pytest.mark.parametrize("name", few(["heavy ball by layer", "half SGD, half heavy ball"], "half SGD, half heavy ball"))
def test_every_step_holds_exactly_in_rationals(name: str) -> None:
    data = {"xi": [1, "4/5"], "y": [1, "-7/10"], "alpha": "1/2", "gamma": "1/2"}
    checks = tp.check_steps(derive(PROGRAMS[name]), {"T": 2, "L": 4}, data, exact=True)
    assert [check.difference for check in checks] == [0.0] * len(checks)


@settings(max_examples=3, deadline=None)
@given(program=layered_programs())
def test_random_layered_optimizers(program: Program) -> None:
    recursion = derive(program)
    exact = exact_outputs(program, 3)
    assert np.abs(compiled_outputs(recursion, 3) - exact).max() < 1e-12 * np.abs(exact).max()
    data = {"xi": [1.0, 0.8], "y": [1.0, -0.7], "alpha": 0.5, "gamma": 0.5}
    for check in tp.check_steps(recursion, {"T": 2, "L": 2}, data):
        assert check.cases and check.difference < 1e-12, (str(check.step), check.problem)


@pytest.mark.nightly
def test_numba_compiles_a_memory_with_layers() -> None:
    for name in ("half heavy ball, half decaying SGD",):
        exact = exact_outputs(PROGRAMS[name], 4)
        assert np.abs(compiled_outputs(derive(PROGRAMS[name]), 4, numba=True) - exact).max() < 1e-12


def test_the_layer_is_an_index_only_where_it_matters() -> None:
    def targets(program: Program) -> list[str]:
        return [str(e.target) for e in derive(program).equations if e.kind == "memory"]

    assert targets(PROGRAMS["decay by layer"]) == ["rho_W[t + 1, l]", "w_W[t + 1, s, l]"]
    assert targets(trained([layers(*HEAVY)], [layers(EMPTY)])) == [
        "rho_m[t + 1]", "w_m[t + 1, s]", "rho_W[t + 1]", "w_W[t + 1, s]"]
    assert targets(trained([layers(Assign(W[t + 1, l], W[t, l] - l / L * G))])) == []
    assert targets(PROGRAMS["a last layer of its own"]) == [
        "rho_W[t + 1, l]", "w_W[t + 1, s, l]", "rho_W[t + 1, L]", "w_W[t + 1, s, L]"]


def test_check_steps_sees_a_memory_without_its_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The equations of another layer: what was silently wrong when rho and w had no layer."""
    right = step_values.memory_equations
    monkeypatch.setattr(step_values, "memory_equations", lambda *of: [
        (left, value.subs({l / L: (l - 1) / L}), location) for left, value, location in right(*of)])
    data = {"xi": [1.0, 0.8], "y": [1.0, -0.7], "alpha": 0.5, "gamma": 0.5}
    checks = step_module.check_steps(derive(PROGRAMS["heavy ball by layer"]), {"T": 2, "L": 3}, data)
    assert "unroll the updates" in {check.step.rule for check in checks if check.difference > 1e-3}


V = Family(Matrix, "V", layered=True)
OTHER = trained([layers(SGD, last=L - 1), at(L, Assign(W[t + 1, l], W[t, l] - Outer(nV, x[t, l - 1])))])


@pytest.mark.parametrize("program, said", [
    (OTHER, "see different outer products; expected multiples of one, as a function of the layer"),
    (trained([layers(Assign(m[t + 1, l], m[t, l] + Outer(U, nV)), Assign(W[t + 1, l], W[t, l] - m[t + 1, l] - G))],
             [layers(EMPTY)]), "see different outer products"),
    (trained([layers(Assign(m[t + 1, l], m[t, l] + G), Assign(W[t + 1, l], W[t, l] - m[t + 1, l]))],
             [layers(Assign(m[0, l], Outer(U, nV)))]), r"expected starts are 0 and multiples of W\[0, l\]"),
    (trained([layers(Assign(W[t + 1, l], W[t, l] / 2 + W[t, L + 1 - l] / 2 - G))]),
     r"it reads W\[t, L - l \+ 1\]; expected matrices with the target's own indices"),
    (trained([layers(Assign(W[t + 1, l], (1 - Mean(x[t, l]**2) / 9) * W[t, l] - G))]),
     "is an average of vectors; expected numbers and scalars, so name it as a scalar first")])
def test_what_memory_cannot_hold_is_refused(program: Program, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.recursion(tp.kets(program))


def test_two_initial_matrices_in_one_memory_are_refused() -> None:
    given = trained([layers(Assign(W[t + 1, l], HALF * W[t, l] + THIRD * V[t, l] - G),
                            Assign(V[t + 1, l], V[t, l] - G))], matrices=(V[0, l],))
    with pytest.raises(ValueError, match=r"updated from V\[t, l\], another initial matrix"):
        tp.recursion(tp.kets(given))


def test_single_layers_beside_a_loop_are_refused_in_products() -> None:
    program = trained([layers(SGD)], forward=[layers(FORWARD, last=L - 1), at(L, FORWARD)])
    with pytest.raises(ValueError, match="meet a single member and a loop's members of one family"):
        tp.kets(program)
    program = trained([layers(SGD)], forward=[layers(FORWARD, last=CUT), layers(FORWARD, first=CUT + 1)])
    with pytest.raises(ValueError, match="expected one loop over all of them"):
        tp.kets(program)


def test_depth_limits_take_a_memory_with_layers() -> None:
    """At infinite depth rho is a function of layer time, like the decay 1 - l / (2 L) that makes it."""
    region = tp.depth_limit(derive(PROGRAMS["decay by layer"])).at(alpha=0.5, gamma=0.5)
    assert region.has_limit and "rho_W[t + 1, p] = " in str(region)


@pytest.mark.parametrize("momentum", [0, 0.9])
@pytest.mark.parametrize("weight_decay", [0, 0.1])
def test_initial_matrices_decay_by_weight_decay_alone(momentum: float, weight_decay: float) -> None:
    setting = kets(tp.program(tp.ResNet(), tp.SGD(0.5, momentum, weight_decay=weight_decay), tp.DepthScaling())).setting
    assert [decays(setting, matrix) for matrix in setting.trained()] == [weight_decay > 0]


def test_what_may_vanish_times_the_rest_is_what_there_was() -> None:
    one, other = Outer(x[t, l], x[t, l - 1]), Outer(x[t, l - 1], x[t, l])
    for outers in (one, l * one, (l - 1) * one, t * one + 2 * t * other, (l - 1) * one + t * other, 3 * one - other):
        front, rest = _what_may_vanish(outers)
        assert sp.expand(front * rest - outers) == 0
    assert _what_may_vanish((l - 1) * one)[0] == l - 1


def test_matrices_that_see_no_gradient_have_none() -> None:
    """Outputs stay what they were, 0, however layers decay."""
    program = trained([layers(Assign(W[t + 1, l], L**-GAMMA * W[t, l] / 2))])
    setting = kets(program).setting
    found = memory_of(setting, setting.trained()[0])
    assert found is not None and found.gradient_at((l,)) == 0
    assert not np.any(compiled_outputs(derive(program), 3)) and not np.any(exact_outputs(program, 3))
