"""Ket equations of Adam: functions of the whole history of gradients."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp

import tpcalc as tp
from support.nightly import few
from tpcalc.calculus.kets import Averaged, Ket, random_parts
from tpcalc.interpreters import UnhandledNode, read_program_coefficients
from tpcalc.programs.language import Family, Outer, Vector

SCALE = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
NETS = [dict(), dict(phi="tanh"), dict(phi="tanh", train_embedding_readout=True),
        dict(block="mlp", train_embedding_readout=True),
        dict(phi="gelu", block="glu", norm="rms")]
k, s, t = sp.symbols("k s t", integer=True, nonnegative=True)


@pytest.mark.parametrize("batch", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("net", few(NETS, NETS[0], NETS[1], NETS[-1]), ids=str)
def test_what_kets_depend_on_is_what_it_is_under_sgd(net: dict, batch: bool) -> None:
    """The last of the gradients in an average is that of the step: kets know as much of the noise as under SGD."""
    found = [tp.kets(tp.program(tp.ResNet(**net), opt, SCALE, batch))
             for opt in (tp.SGD(), tp.Adam(), tp.Adam(weight_decay=0.1), tp.SignSGD())]
    assert all(step.check() for equations in found for step in equations.derivation.steps)
    sgd, *others = (equations.support.offsets for equations in found)
    assert all(offsets == sgd for offsets in others)


def averages(opt: Any) -> set[sp.Expr]:
    equations = tp.kets(tp.program(tp.ResNet("tanh"), opt, SCALE))
    return next(e.value for e in equations.equations if str(e.target) == "|h[t, l]>").atoms(Averaged)


def test_an_update_averages_the_direction_of_its_step() -> None:
    """At step 0 it is that of SignSGD, whatever the averages; later it knows all gradients up to its step."""
    one, = averages(tp.Adam())
    sign, = averages(tp.SignSGD())
    gradient, = sign.body.args
    assert one.args[1] == sign.args[1]
    assert one.body.subs(s, 0).doit() == gradient.subs(s, 0) / sp.sqrt(gradient.subs(s, 0) ** 2)
    second = one.body.subs(s, 1).doit().atoms(Outer)
    assert second == {gradient.subs(s, 0), gradient.subs(s, 1)}


def test_random_parts_of_a_history_are_those_at_its_ends() -> None:
    u, v = Family(Vector, "u"), Family(Vector, "v")
    history = sp.Sum(Outer(u[k], v[k]) ** 2, (k, 0, s))
    assert random_parts(Averaged(sp.sqrt(history), v[t])) == {Ket(u[0]), Ket(u[s])}
    assert random_parts(sp.tanh(sp.Sum(Ket(u[k]), (k, 0, s)))) == {Ket(u[0]), Ket(u[s])}


def test_trained_ends_move_by_functions_of_kets() -> None:
    equations = tp.kets(tp.program(tp.ResNet(train_embedding_readout=True), tp.Adam(lr=1, beta1=0, beta2=0, eps=1),
                                   SCALE))
    U, dx, xi = Family(Vector, "U"), equations.setting.families[1], sp.Symbol("xi", real=True)
    value = next(e.value for e in equations.equations if str(e.target) == "|U[t + 1]>")
    moved = (Ket(U[t]) - value).xreplace({m: xi for m in value.atoms() | value.atoms(sp.Expr) if str(m) == "xi[t]"})
    kets_of = {a for a in moved.atoms(Ket)}
    assert {str(a) for a in kets_of} == {"|dx[t, 0]>"} and dx is not None
    one, = kets_of
    assert sp.simplify(moved - xi * one / (sp.Abs(xi * one) + 1)) == 0


@pytest.mark.parametrize("opt", [tp.Adam(), tp.Adam(weight_decay=0.1)], ids=["Adam", "AdamW"])
@pytest.mark.parametrize("ends", [False, True])
def test_there_is_no_recursion_of_coefficients(opt: tp.Adam, ends: bool) -> None:
    program = tp.program(tp.ResNet(train_embedding_readout=ends), opt, SCALE)
    with pytest.raises(ValueError, match=r"E'\[.*Sum\(.*\|dx\[k, l\]> \|x\[k, l - 1\]>'.* is not linear in kets"):
        tp.recursion(tp.kets(program))
    with pytest.raises(UnhandledNode, match="read_program_coefficients does not read NonlinearOuter .* full rank"):
        read_program_coefficients(program, {"T": 2, "L": 2}, dict(xi=[1, 1], y=[1, 1], alpha=1, gamma=0))
