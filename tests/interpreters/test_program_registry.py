"""Every interpreter reads, or refuses by name, every node type of the language."""

from __future__ import annotations

import importlib
import pkgutil
from types import SimpleNamespace
from typing import Any

import pytest
import sympy as sp

from reference.conditioned import CONDITIONED
from reference.particles import PARTICLES
from tpcalc.interpreters.program_coefficients import KETS, read_program_coefficients
from tpcalc.interpreters.registry import Registry, UnhandledNode
from tpcalc.interpreters.vectors import VECTORS, run_program
from tpcalc.optimizers.spectral import Spectral
from tpcalc.programs.by_position import TableValues
from tpcalc.programs.language import Family, Matrix, Member, Mean, OfOuters, Real, Vector
from tpcalc.programs.program import Assign, Program

PARTS = (Member, OfOuters, Real, Spectral, TableValues)  # of nodes, or what several have in common
WRITTEN = ("tpcalc.programs", "tpcalc.optimizers", "tpcalc.models", "tpcalc.training")
REGISTRIES = (KETS, VECTORS, CONDITIONED, PARTICLES)
A, B = (Family(Vector, name)() for name in "ab")
Y = Family(Vector, "y")()


def language_nodes() -> list[type]:
    """All sympy classes that the language defines, and what is written in it, but for the abstract ones."""
    for package in WRITTEN:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    found, todo = [], [sp.Basic]
    while todo:
        for node_type in todo.pop().__subclasses__():
            todo.append(node_type)
            if str(node_type.__module__).startswith(WRITTEN) and node_type not in PARTS:
                found.append(node_type)
    return sorted(set(found), key=lambda c: c.__name__)


def one_statement(value: Any) -> Program:
    return Program("one statement", (A, B), (Family(Matrix, "W")[0],), (), (Assign(Y, value),), ())


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda r: r.name)
@pytest.mark.parametrize("node_type", language_nodes(), ids=lambda c: c.__name__)
def test_every_node_type_of_the_language_is_declared(registry: Registry, node_type: type) -> None:
    rule = Spectral if issubclass(node_type, Spectral) else node_type  # one for all functions of whole matrices
    assert rule in registry.rules, f"{registry.name} neither reads nor refuses {node_type.__name__}"


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda r: r.name)
@pytest.mark.parametrize("node_type", [sp.Add, sp.Mul, sp.Pow, sp.Sum, sp.Symbol, sp.Integer, sp.Rational, sp.Float,
                                       type(sp.pi), sp.tanh, sp.Abs, sp.Max, sp.Piecewise, sp.KroneckerDelta],
                         ids=lambda c: c.__name__)
def test_every_sympy_node_of_a_program_is_declared(registry: Registry, node_type: type) -> None:
    assert any(base in registry.rules for base in node_type.__mro__)


def test_the_enumeration_sees_the_language() -> None:
    names = {c.__name__ for c in language_nodes()}
    assert {"Vector", "Matrix", "Scalar", "MatVec", "Transpose", "Outer", "Mean", "LossDerivative"} <= names


@pytest.mark.parametrize("value, node", [
    (sp.tanh(A), "tanh"), (A * B, "Mul"), (A**2, "Pow"), (A + 2 * sp.Abs(B), "Abs"), (Mean(A * B**2) * A, "Mul"),
    (sp.Piecewise((A, A > 0), (0, True)), "Piecewise"), (Mean(sp.exp(A)) * A, "exp")])
def test_what_is_not_linear_is_refused_by_name_and_place(value: sp.Expr, node: str) -> None:
    with pytest.raises(UnhandledNode, match=rf"coefficients does not read {node} nodes .* in y := ") as caught:
        read_program_coefficients(one_statement(value), {})
    assert caught.value.interpreter == "read_program_coefficients" and type(caught.value.node).__name__ == node
    assert caught.value.statement.target == Y and "run_program takes it" in caught.value.reason
    assert run_program(one_statement(value), {}, width=8).vectors[Y].shape == (8,)


class Triangle(Vector):
    """A node that nobody has a rule of its own for."""


class Unknown(sp.Expr):
    is_commutative = True


@pytest.mark.parametrize("read", [read_program_coefficients, run_program])
def test_a_node_without_a_rule_is_refused(read: Any) -> None:
    with pytest.raises(UnhandledNode, match="does not read Unknown nodes such as Unknown.*in y := .*no rule"):
        read(one_statement(A + Unknown(sp.Integer(1)) * B), {})


def test_rules_are_those_of_the_nearest_class_and_refusals_too() -> None:
    run = SimpleNamespace(statement=None)
    parent = Registry("parent")
    parent.rule(sp.Expr)(lambda run, node: "expression")
    parent.rule(Vector)(lambda run, node: "vector")
    child = Registry("child", parent)
    child.refuse("of no use", Triangle)
    triangle = Triangle(*A.args)
    assert parent.value(run, triangle) == child.value(run, A) == "vector"
    assert child.value(run, sp.pi) == "expression"
    assert Triangle not in parent.rules and Triangle in child.rules and sp.Symbol not in child.rules
    with pytest.raises(UnhandledNode, match=r"child does not read Triangle nodes such as a: of no use"):
        child.value(run, triangle)
