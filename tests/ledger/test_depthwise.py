"""Statements of Depthwise Hyperparameter Transfer: their checks have teeth, and real networks decide."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import sympy as sp

from tpcalc.ledger.catalogue import package as _package


def module(name: str) -> Any:
    return importlib.import_module(f"{_package().__name__}.depthwise_transfer.{name}")


def test_stein_terms_are_all_that_the_printed_slopes_lack_where_factors_are_right() -> None:
    """Without them, and with them of the other sign, the slope of H is off; at the first two steps nothing is."""
    third, found = module("proposition_3"), module("_linear_case").case()
    right, _, printed, _ = third.slopes(found)
    slope = found.slope("H")
    np.testing.assert_allclose(right, slope, rtol=0, atol=1e-7)
    assert np.max(np.abs(printed - slope)[:2, :2]) < 1e-7 < 1e-2 < np.max(np.abs(printed - slope)[2])
    assert np.max(np.abs(2 * printed - right - slope)) > 1e-2


def letter_of(one: Any) -> str | None:
    """The letter that an expression is: of a derivative "of/by"."""
    kinds = module("_fields")
    if isinstance(one, kinds.Slope):
        return "/".join(type(inner).__name__ for inner in one.args)
    if isinstance(one, sp.Indexed):
        return str(one.base)
    return type(one).__name__ if isinstance(one, kinds.Field) else None


def letters(value: Any) -> set[str]:
    """All letters of an expression; fields in derivatives are none of their own."""
    own = letter_of(value)
    return {own} if own else set().union(*map(letters, value.args))


def spoiled(equation: Any, letter: str) -> Any:
    """The equation with another sign of a letter on its right side."""
    def turned(one: sp.Basic) -> sp.Basic:
        if letter_of(one) == letter:
            return -one
        whole = not one.args or letter_of(one) is not None
        return one if whole else one.func(*map(turned, one.args))
    wrong = turned(equation.value)
    assert wrong != equation.value, letter
    return type(equation)(equation.target, wrong)


def test_identities_of_a_finite_network_are_read_as_they_are_printed() -> None:
    """The sign of any letter is seen, and so is a step or a block of another number."""
    network = module("finite_network")
    for equation, options in network.NETWORKS.items():
        net = network.train(inputs=1, **options)
        assert network.residual(equation, net, 2) < 1e-12
        for letter in letters(equation.value):
            assert network.residual(spoiled(equation, letter), net, 2) > 1e-5, (str(equation), letter)
        for index in (network.t, network.ell):
            moved = type(equation)(equation.target, equation.value.xreplace({index: index - 1}))
            assert network.residual(moved, net, 2) > 1e-5 or not equation.value.has(index)
    for letter in ("G", "Phi", "Kx"):
        assert abs(network.tangent(spoiled(network.TANGENT, letter)) - network.tangent(network.TANGENT)) > 1e-3


@pytest.mark.parametrize("name", ["FORWARD", "BACKWARD"])
def test_derivatives_of_fields_are_read_as_they_are_printed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    entry = module("field_derivatives")
    assert not entry.evidence().failures
    equation = getattr(entry, name)
    for letter in letters(equation.value):
        monkeypatch.setattr(entry, name, spoiled(equation, letter))
        assert entry.evidence().failures, letter


@pytest.mark.parametrize("name", ["finite_network", "field_derivatives", "finite_size", "parametrization",
                                  "within_blocks"])
def test_cheap_entries_hold(name: str) -> None:
    entry = module(name).ENTRY
    assert all(found.holds for found in entry.evidence().measurements)
    for erratum in entry.errata:
        witness = erratum.witness()
        assert witness.printed_fails and witness.corrected_holds, str(witness)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["proposition_3", "responses", "several_matrices",
                                  "written_forms", "path_integral", "infinite_depth_action", "linear_equations",
                                  "continuum", "response_sizes", "kernel_fluctuations", "convolutions",
                                  "width_scales"])
def test_sampled_entries_hold(name: str) -> None:
    test_cheap_entries_hold(name)


@pytest.mark.parametrize("spoiled", ["kernels", "responses", "transposed"])
def test_a_spoiled_action_has_no_saddle_at_the_solution(monkeypatch: pytest.MonkeyPatch, spoiled: str) -> None:
    """Signs of conjugate kernels and of responses, and which step a response is of, are all seen."""
    action, path = module("_action"), module("path_integral")
    sites, t, s = path.solved(), path.t, path.s
    wrong = {"kernels": action.ACTION.value.replace(lambda e: type(e).__name__ == "Phih", lambda e: -e),
             "responses": action.ACTION.value.replace(lambda e: type(e).__name__ == "A", lambda e: -e),
             "transposed": action.ACTION.value.replace(lambda e: type(e).__name__ == "B",
                                                       lambda e: e.func(t, s, e.args[2]))}[spoiled]
    monkeypatch.setattr(action, "ACTION", type(action.ACTION)(action.ACTION.target, wrong))
    slopes = [path.slope(sites, *where) for where in (("Phih", (1, 1, 0)), ("B", (1, 0, 1)), ("A", (0, 1, 0)))]
    assert max(map(abs, slopes)) > 1e-2


def test_printed_objects_are_what_is_read() -> None:
    """Identities within blocks with a sign turned, or learned steps twice as large, have residuals."""
    within = module("within_blocks")
    assert within.residual(within.OUTER, 1) < 1e-12
    for equation in (within.INNER, within.OUTER, within.INNER_GRADIENT, within.OUTER_GRADIENT):
        letters = {type(one).__name__ for one in equation.value.atoms(within.gk.mro()[1])}
        for letter in letters - {"dphi", "dphik"}:
            wrong = equation.value.replace(lambda e: type(e).__name__ == letter, lambda e: -e)
            assert within.residual(type(equation)(equation.target, wrong), 1) > 1e-3, letter


def test_every_numbered_equation_of_the_paper_is_counted() -> None:
    """Those that have no entry yet are counted as missing."""
    numbered = importlib.import_module(f"{_package().__name__}._numbered")
    counted = numbered.NUMBERED["Depthwise Hyperparameter Transfer in Residual Networks"]
    assert {f"({number})" for number in range(1, 142)} <= set(counted)
    assert counted["(67)"] == ("depthwise_transfer/field_derivatives",)
    assert counted["(24)"] == ("depthwise_transfer/path_integral",)
