"""Sides of outer products in ket equations: numbers and sums come out, what has no name is refused, by shape alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.interpreters import read_program_coefficients
from tpcalc.programs.blocks import vector
from tpcalc.programs.indices import L, l, t
from tpcalc.programs.language import Family, Matrix, MatVec, Member, Mean, NonlinearOuter, Outer, Scalar
from tpcalc.programs.program import Assign, Program, mapped

x, dx, c, f = vector("x")[t, l - 1], vector("dx")[t, l], Family(Scalar, "c")[t], Family(Scalar, "f")[t]
DATA = {"xi": [1, 0.5, -0.7], "y": [1, -1, 0.5]}
NET, SCALE = tp.ResNet(), tp.DepthScaling(1, 0)


def updated(value: sp.Expr, net: tp.ResNet = NET) -> Program:
    """W moves by this; there is a number c at every step."""
    def change(s: Assign) -> list[Assign]:
        if isinstance(s.target, Matrix):
            return [Assign(s.target, Family(Matrix, "W", layered=True)[t, l] - value / L)]
        return [s, Assign(c, sp.sqrt(1 + f**2))] if s.target == Family(Scalar, "chi", r"\chi")[t] else [s]
    program = tp.program(net, tp.SGD(1.0), SCALE)
    return replace(program, body=mapped(program.body, change))


def renamed(program: Program, names: dict[str, str]) -> Program:
    """The same shape, its families called something else."""
    def change(s: Assign) -> list[Assign]:
        found = {m: Family(type(m), names[m.name], layered=bool(int(m.args[2])))[m.indices]
                 for m in (s.target, *s.value.atoms(Member)) if m.name in names}
        return [Assign(s.target.xreplace(found), s.value.xreplace(found))]
    return replace(program, body=mapped(program.body, change))


def compiled(program: Program, depth: int) -> np.ndarray:
    recursion = tp.recursion(tp.kets(program))
    assert all(step.check() for step in recursion.derivation.steps)
    kernel = recursion.compile()
    return np.ravel(replace(kernel, kernel=kernel.kernel.py_func)(depth, DATA["xi"], DATA["y"]).outputs)


def exact(program: Program, depth: int) -> np.ndarray:
    """Of the reading that knows definition C.1 only."""
    return read_program_coefficients(program, {"T": 3, "L": depth}, DATA).series("f")


@pytest.mark.parametrize("opt", [tp.SGD(0.5), tp.SGD(0.5, momentum=0.5, nesterov=True),
                                 tp.SGD(0.5, weight_decay=0.3, decoupled=True)])
def test_clipped_programs_have_kets_whatever_their_names(opt: tp.SGD) -> None:
    clipped = tp.program(NET, tp.Clipped(opt, 0.3), tp.DepthScaling())
    other = renamed(clipped, {"clip": "brake", "squares": "sizes", "gradnorm": "length"})
    assert "brake[t]" in str(other) and "clip[t]" not in str(other)
    for program in (clipped, other):
        assert np.abs(compiled(program, 3) - exact(program, 3)).max() < 1e-12
    plain = exact(tp.program(NET, opt, tp.DepthScaling()), 3)
    assert np.abs(exact(other, 3) - plain).max() > 0.05


SIDES: tuple[Callable[[sp.Expr, sp.Expr], sp.Expr], ...] = (
    lambda u, v: u, lambda u, v: c * u, lambda u, v: u / 3, lambda u, v: u + c * v / 2,
    lambda u, v: (u - v) * (1 + c) / 2,
    lambda u, v: Mean(v**2) * u, lambda u, v: l * u / L + Mean(u * v) * v)


@settings(max_examples=3, deadline=None)
@given(st.sampled_from(SIDES), st.sampled_from(SIDES), st.integers(1, 3))
def test_numbers_and_sums_come_out(left: Callable, right: Callable, depth: int) -> None:
    program = updated(Outer(left(dx, x), right(x, dx)))
    assert np.abs(compiled(program, depth) - exact(program, depth)).max() < 1e-11


@pytest.mark.parametrize("phi", ["tanh", "relu"])
def test_a_number_inside_is_one_in_front(phi: str) -> None:
    dh = vector("dh")[t, l]
    inside, front = (tp.kets(updated(value, tp.ResNet(phi))) for value in (Outer(c * dh, x / 2), c * Outer(dh, x) / 2))
    assert str(inside) == str(front) and "c[s]" in str(inside)


@pytest.mark.parametrize("value", [Outer(dx * x, x), Outer(dx, sp.tanh(x)), Outer(dx, x + 1), Outer(dx, c * x * dx),
                                   Outer(MatVec(Family(Matrix, "W", layered=True)[t, l], x), x),
                                   NonlinearOuter(sp.sign(Outer(c * dx, x)))])
def test_what_has_no_name_is_refused(value: sp.Expr) -> None:
    with pytest.raises(ValueError, match=r"program .*W\[t \+ 1, l\] := .* is no vector with a name; expected outer"):
        tp.kets(updated(value))


def test_clipped_signs_are_refused() -> None:
    with pytest.raises(ValueError, match="no numbers in front of one inside of a function of entries"):
        tp.kets(tp.program(NET, tp.Clipped(tp.SignSGD(0.5), 1.0), SCALE))


def test_powers_of_the_depth_are_not_counted_in_silence() -> None:
    for program in (tp.program(NET, tp.Clipped(tp.SGD(0.5), 1.0), SCALE), tp.program(NET, tp.NormalizedSGD(), SCALE)):
        with pytest.raises(ValueError, match="no rule for its order in L"):
            tp.classify(1, 0, program)
        with pytest.raises(ValueError, match="no rule for its order in L"):
            tp.depth_limit(tp.recursion(tp.kets(program)))
