"""Indices have roles, and symbols of one name are one symbol."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.layered import (XI, G, L, T, U, W, Y, compiled_outputs, derive, dx, exact_outputs, l, layers, nV, t,
                             trained, xi)
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, Scalar, Vector
from tpcalc.programs.program import Assign, Loop, Program, Statement

DECAY = trained([layers(Assign(W[t + 1, l], (1 - l / (2 * L)) * W[t, l] - G))])


def rewritten(body: tuple[Statement, ...], into: dict[type, dict[str, tuple[Family, tuple[int, ...]]]]
              ) -> tuple[Statement, ...]:
    """Statements with other families, whose indices stand in another order."""
    def member(e: sp.Expr) -> sp.Expr:
        family, order = into[type(e)][e.name]
        return family[tuple(e.indices[i] for i in order)]

    def moved(e: sp.Expr) -> sp.Expr:
        return e.replace(lambda q: type(q) in into and q.name in into[type(q)], member)

    return tuple(replace(s, body=rewritten(s.body, into)) if isinstance(s, Loop) else
                 Assign(moved(s.target), moved(s.value)) for s in body)


def test_roles_are_those_of_the_builder_and_of_custom() -> None:
    program = tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(1, 0), batch=True, d_in=2, d_out=2)
    named = {str(index): role for index, role in program.index_roles().items()}
    assert named == {"t": "clock", "i": "sample", "j": "width", "l": "layer", "o": "width"}
    by_custom = replace(program, roles={}).index_roles()
    assert {str(index): role for index, role in by_custom.items()} == {**named, "j": "sample", "o": "sample"}


def test_the_clock_has_a_name_and_not_a_place() -> None:
    """With the depth as the first size the clock is not the customary one: named, or refused."""
    sizes_swapped = replace(DECAY, sizes=(L, T), roles={t: "clock"})
    compiled = derive(sizes_swapped).compile()
    assert compiled.sizes == ("L", "T") and compiled.order == ("T", "L")
    assert np.abs(compiled_outputs(derive(sizes_swapped), 4) - exact_outputs(DECAY, 4)).max() < 1e-12
    with pytest.raises(ValueError, match=r"no loop is the clock; say which one is, with roles=\{t: 'clock'\}"):
        tp.kets(replace(sizes_swapped, roles={}))


def test_matrices_may_have_the_step_last() -> None:
    family = Family(Matrix, "W")
    body = rewritten(DECAY.body, {Matrix: {"W": (family, (1, 0))}})
    turned = Program("turned", (U, nV), (family[l, 0],), (xi[t],), body, (T, L))
    assert np.abs(compiled_outputs(derive(turned), 4) - exact_outputs(DECAY, 4)).max() < 1e-12


def test_a_layer_is_what_is_called_one() -> None:
    """Without superscripts the layer is a sample by custom: the same network, with other scales of Gamma."""
    W_flat, plain = Family(Matrix, "W"), {name: (Family(Vector, name), (0, 1)) for name in ("x", "dx")}
    body = rewritten(DECAY.body, {Matrix: {"W": (W_flat, (0, 1))}, Vector: plain})
    flat = Program("flat", (U, nV), (W_flat[0, l],), (xi[t],), body, (T, L))
    layered = replace(flat, roles={l: "layer"})
    assert derive(flat).setting.depth is None and derive(layered).setting.depth == L
    for program in (flat, layered):
        assert np.abs(compiled_outputs(derive(program), 4) - exact_outputs(DECAY, 4)).max() < 1e-12


@pytest.mark.parametrize("roles, said", [
    ({l: "heads"}, "roles: got 'heads' for l; expected 'clock', 'layer', 'visit', 'sample', 'position', 'width'"),
    ({T: "sample"}, "roles: got 'sample' for T, which is the index of no loop and no sum"),
    ({l: "clock"}, "roles: got the clock l; expected the index of one outermost loop"),
    ({l: "clock", t: "clock"}, "roles: got the clock l, t")])
def test_what_is_no_role_is_refused(roles: dict[sp.Symbol, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(DECAY, roles=roles)


def test_a_step_that_is_not_first_is_refused_for_vectors() -> None:
    body = rewritten(DECAY.body, {Vector: {"x": (Family(Vector, "x"), (1, 0))}})
    with pytest.raises(ValueError, match="has the clock at another place than its first index"):
        tp.kets(Program("turned", (U, nV), (W[0, l],), (xi[t],), body, (T, L)))


def test_symbols_of_one_name_are_one_symbol() -> None:
    with pytest.raises(ValueError, match="a symbol L that is not the size or index L of the program"):
        replace(DECAY, sizes=(T, sp.Symbol("L")))

    def other(b: Branch) -> sp.Expr:
        return b.let("h", MatVec(b.weights(), b.x)) / sp.Symbol("l")

    with pytest.raises(ValueError, match="a symbol l that is not the size or index l"):
        tp.program(tp.ResNet(block=other), tp.SGD(), tp.DepthScaling(1, 0))


def test_sizes_by_symbol_or_name_and_no_others() -> None:
    by_symbol = [str(s) for s in DECAY.unroll({T: 2, L: 3})]
    assert by_symbol == [str(s) for s in DECAY.unroll({sp.Symbol("T"): 2, "L": 3})] and len(by_symbol) == 26
    assert DECAY.count({"T": 2, "L": 3}) == 26
    for sizes in ({T: 2}, {T: 2, L: 3, "B": 1}, {T: 2, sp.Symbol("T"): 3, L: 3}):
        for use in (DECAY.count, lambda given: list(DECAY.unroll(given)), lambda given: tp.check_steps(
                tp.kets(DECAY), given, {})):
            with pytest.raises(ValueError, match=r"expected \['T', 'L'\], what program layered needs"):
                use(sizes)


def test_loops_that_end_between_numbers_are_refused() -> None:
    halves = trained([layers(Assign(W[t + 1, l], W[t, l] - G), last=L / 2),
                      layers(Assign(W[t + 1, l], W[t, l] - G), first=L / 2 + 1)])
    with pytest.raises(ValueError, match="loop over l from 1 to L/2: 1 and 3/2 found .* expected whole numbers"):
        exact_outputs(halves, 3)


@pytest.mark.parametrize("name", ["b", "r"])
def test_names_of_base_kets_are_taken(name: str) -> None:
    program = trained([layers(Assign(W[t + 1, l], sp.Symbol(name, real=True) * W[t, l] - G))])
    with pytest.raises(ValueError, match=f"it has symbols {name}, the names of a base ket's indices"):
        tp.recursion(tp.kets(program))


@pytest.mark.parametrize("name", ["s", "s_0"])
def test_a_number_may_have_the_name_of_an_earlier_step(name: str) -> None:
    def outputs(kept: str) -> np.ndarray:
        program = trained([layers(Assign(W[t + 1, l], sp.Symbol(kept, real=True) * W[t, l] - G))])
        compiled = derive(program).compile()
        plain = replace(compiled, kernel=compiled.kernel.py_func)  # type: ignore[attr-defined]
        return plain(4, XI, Y, alpha=.5, gamma=.5, **{kept: .7}).outputs

    assert np.array_equal(outputs(name), outputs("kappa")) and abs(outputs(name)[2]) > 1e-3


@pytest.mark.parametrize("name", ["L", "np", "Gamma0"])
def test_two_things_of_one_name_are_not_compiled(name: str) -> None:
    loop, = DECAY.body
    more = Assign(Family(Scalar, name)[t], Mean(nV * dx[t, L]))
    program = replace(DECAY, body=(replace(loop, body=(*loop.body, more)),))  # type: ignore[union-attr, type-var]
    with pytest.raises(ValueError, match=f"the names {name} stand for two things, or for something of Python's"):
        derive(program).compile()
