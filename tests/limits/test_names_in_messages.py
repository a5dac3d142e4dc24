"""Messages speak of a program in its own names, and its names decide nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Callable

import pytest
import sympy as sp
from sympy.core.symbol import Str

import tpcalc as tp
from support.nightly import few
from tpcalc.limits.slow_streams import normal_form
from tpcalc.orders.quantities import BaseQuantity, Quantity, in_names_of, in_program_names
from tpcalc.programs.blocks import Branch
from tpcalc.programs.indices import t
from tpcalc.programs.language import Family, Matrix, MatVec, Member, Scalar, Vector
from tpcalc.programs.program import Assign, Program, mapped
from drawn.drawn_programs import ALPHA, GAMMA, deep_program, training_program, with_numbers
from drawn.layer_sweep import Line, Term
from limits.test_streams import BRANCH, H, training, x_of

NAMED = re.compile(r"([\w~']+)\[")  # what looks like a member of a family
PRIMED = re.compile(r"\b[a-z]\d?'+(?!s)")


def names_of(program: Program) -> set[str]:
    return {m.name for p in program.locations() for e in p.statement.expressions for m in e.atoms(Member)}


def foreign(message: str, program: Program) -> set[str]:
    """What a message names and the program does not have."""
    inside = {name for made in re.findall(r"\w+\(([^()\[\]]*)\)\[", message) for name in re.split(r", ", made)}
    said = {*NAMED.findall(message), *PRIMED.findall(message), *(name for name in inside if not name.isdigit())}
    return said - names_of(program)


def drawn(seed: int) -> Program:
    recipe = deep_program(seed).recipe
    return with_numbers(training_program(recipe), dict(zip((ALPHA, GAMMA), recipe.point)))


def shared() -> Program:
    """One matrix for all layers, with momentum: a refusal of a sum over layers."""
    return drawn(5)


def read_late() -> Program:
    """A vector that fluctuates and is read by a later layer."""
    return training(Line("z", (Term("x", 1, matrix="V"),)), x_of(Term("x", 1), Term("z", 1, power=1, matrix="W")))


def looped() -> Program:
    def block(branch: Branch) -> sp.Expr:
        v = branch.trained("v")
        return v**2 * branch.let("h", MatVec(branch.weights(), branch.x))
    return tp.program(tp.ResNet(block=block), tp.SGD(), tp.DepthScaling(1, 0))


REFUSED: dict[str, Callable[[], Program]] = {"a shared matrix": shared, "a late read": read_late, "a square": looped}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_what_the_program_has(name: str) -> None:
    program = REFUSED[name]()
    for ask in (lambda: tp.depth_limit(tp.recursion(tp.kets(program))), lambda: normal_form(program)):
        try:
            ask()
        except tp.NotCovered as refusal:
            assert not foreign(str(refusal), program), refusal
            break
    else:
        raise AssertionError("nothing was refused")


@pytest.mark.slow
def test_refusals_of_drawn_programs_name_what_they_have() -> None:
    """About half of the programs are refused, so that there are messages to read."""
    refused = 0
    for program in map(drawn, range(40)):
        try:
            tp.depth_limit(tp.recursion(tp.kets(program))).regions[0].compile()([0.8, 0.6], [1, -0.7])
        except (tp.NotCovered, tp.Divergence) as refusal:
            assert not foreign(str(refusal), program), refusal
            refused += 1
    assert refused >= 10


LINES = {"an average in front": (Line("z", (Term("z", 1, H), Term("x", 1, H))),
                                 x_of(Term("x", 1), Term("z", 1, power=1, matrix="W"))),
         "a mean of two layers": (x_of(Term("x", 1, H), Term("x", 2, H), BRANCH),),
         "two interleaved streams": (x_of(Term("x", 2), BRANCH),)}


def test_all_that_is_made_is_called_after_what_the_program_has() -> None:
    for lines in LINES.values():
        program = training(*lines)
        for name in names_of(normal_form(program).program) - names_of(program):
            what, _, sources = name.partition("(")
            inside = re.split(", ", sources.rstrip(")'"))
            assert what in names_of(program) and inside[0].isdigit() or {re.sub(r"\(\d+\)?$", "", i)
                                                                         for i in inside} <= names_of(program), name


@pytest.mark.parametrize("name", few(LINES, "a mean of two layers"))
def test_a_program_may_use_any_names(name: str) -> None:
    """Names that normal form, memory and base kets might have used are a program's like any others."""
    program = training(*LINES[name])
    plain = sorted(names_of(program) - {"xi", "f", "chi", "y"})
    for others in (("u0", "ud0", "u1", "move_of_x", "stream_0", "rho_W", "w_W", "carried_1", "x_1", "x_2", "b", "r"),
                   ("x_2", "x_1", "move", "stream_1", "ud1", "u0", "memory", "w_x", "coefficient", "Gamma", "C", "dx")):
        other = renamed(program, dict(zip(plain, others)))
        one, two = ([p.statement.value.count_ops() for p in normal_form(asked).program.locations()]
                    for asked in (program, other))
        assert sorted(one) == sorted(two)
        region, again = (tp.depth_limit(tp.recursion(tp.kets(p))).regions[0] for p in (program, other))
        assert region.reason == again.reason and region.has_limit == again.has_limit
        if region.has_limit:
            assert (region.rate, region.exponents["f",]) == (again.rate, again.exponents["f",])
            assert sorted(map(str, region.exponents.values())) == sorted(map(str, again.exponents.values()))


def renamed(program: Program, names: dict[str, str]) -> Program:
    def of(e: sp.Basic) -> sp.Basic:
        return e.xreplace({m: m.func(Str(names.get(m.name, m.name)), *m.args[1:]) for m in e.atoms(Vector, Matrix)})

    return replace(program, body=mapped(program.body, lambda s: [Assign(of(s.target), of(s.value))]),
                   vectors=tuple(map(of, program.vectors)), matrices=tuple(map(of, program.matrices)))


def test_quantities_are_said_in_words() -> None:
    setting = tp.kets(tp.program(tp.ResNet(), tp.SGD(momentum=0.5), tp.DepthScaling())).setting
    for quantity in (Quantity.coefficient(0, 1, BaseQuantity(0, 1)), Quantity.coefficient(1, 2, BaseQuantity(-1, 0)),
                     Quantity.covariance(0, 1, 1, 0)):
        said = in_program_names(f"{quantity}: does not settle", setting)
        assert not NAMED.search(said) and "at step" in said and said.endswith(": does not settle")
    text = "Sum(Gamma[t,s,0,3](l - 1; l')*w_W[t, s]*C[t,s,0-1](l; l'), (l', 1, L)): base kets' layers, the user's l'"
    said = "Sum(coefficient(x)*memory(W)*covariance(W), (l, 1, L)): base kets' layers, the user's l"
    assert in_program_names(text, setting) == said


def test_refusals_keep_their_kind_and_other_errors_pass() -> None:
    class Kind(tp.NotCovered):
        pass

    setting = tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling())).setting
    for error, said in ((Kind("Gamma[t,s,0,1](l; m)"), "coefficient(x)"),
                        (ValueError("Gamma[t,s,0,1]"), "Gamma[t,s,0,1]")):
        with pytest.raises(type(error)) as caught:
            with in_names_of(setting):
                raise error
        assert str(caught.value) == said


@pytest.mark.parametrize("opt", [tp.SGD(0.5), tp.SGD(0.5, momentum=0.5)], ids=["plain", "momentum"])
def test_scalars_by_the_names_of_memory(opt: tp.SGD) -> None:
    """They work where nothing is remembered, and are refused by name beside an optimizer that remembers."""
    program = tp.program(tp.ResNet(), opt, tp.DepthScaling())
    rho = Family(Scalar, "rho_W")[t]
    one = program.body[-1]
    body = tuple(replace(s, body=(*s.body, Assign(rho, sp.Integer(2) * Family(Scalar, "f")[t]))) if s is one else s
                 for s in program.body)
    asked = replace(program, body=body)
    if not opt.momentum:
        assert any(e.target == rho for e in tp.recursion(tp.kets(asked)).equations)
        return
    with pytest.raises(tp.NotCovered, match="it has scalars rho_W, the names of what its optimizer remembers of W"):
        tp.recursion(tp.kets(asked))
