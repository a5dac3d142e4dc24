"""Statements of Depthwise Hyperparameter Transfer: their checks have teeth, and real networks decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

from support.proofs_module import proofs_module


def module(name: str) -> Any:
    return proofs_module(f"depthwise_transfer.{name}")


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


def spoiled(value: Any, letter: str) -> Any:
    """The expression with another sign of a letter."""
    def turned(one: sp.Basic) -> sp.Basic:
        if letter_of(one) == letter:
            return -one
        whole = not one.args or letter_of(one) is not None
        return one if whole else one.func(*map(turned, one.args))
    assert letter in letters(value)
    return turned(value)


def test_stein_terms_are_all_that_the_printed_slope_lacks() -> None:
    """Without them the slope of H is off; at the first two steps nothing is."""
    equations, found = module("_stochastic_equations"), module("_linear_case").case()
    slope, printed = found.slope("H"), found.slope_by(equations.ADAPTED)
    np.testing.assert_allclose(found.slope_by(equations.KERNEL_SLOPE), slope, rtol=0, atol=1e-7)
    assert np.max(np.abs(printed - slope)[:2, :2]) < 1e-7 < 1e-2 < np.max(np.abs(printed - slope)[2])


@pytest.mark.parametrize("name", ["H", "G"])
def test_slopes_of_kernels_are_read_as_they_are_printed(name: str) -> None:
    """As printed both sides agree; the sign of any letter in a term is seen, but of a square, and so are sums that end
    at one of the two steps."""
    equation, found = module("proposition_3").SLOPES[name], module("_linear_case").case()
    slope = found.slope(name)
    np.testing.assert_allclose(found.slope_by(equation), slope, rtol=0, atol=1e-7)
    wrong = {(term, letter): equation.value.xreplace({term: spoiled(term, letter)})
             for term in sp.Add.make_args(equation.value) for letter in letters(term)}
    wrong |= {end: equation.value.xreplace({end: end.args[0]}) for end in equation.value.atoms(sp.Max)}
    squares = {key for key, value in wrong.items() if value == equation.value}
    assert {letter for _, letter in squares} == ({"dphi"} if name == "G" else set()) and len(squares) < 2
    for key in wrong.keys() - squares:
        assert np.max(np.abs(found.slope_by(replace(equation, value=wrong[key])) - slope)) > 1e-3, key


def test_real_networks_have_the_covariances_and_responses_of_the_limit() -> None:
    """And tell the noise that h anticipates of one step from that of another."""
    numbers = module("proposition_3").measured()
    assert len(numbers) == 4 and all(found.holds for found in numbers), numbers


@pytest.mark.parametrize("name", ["FORWARD", "BACKWARD"])
def test_derivatives_of_fields_are_read_as_they_are_printed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    entry = module("field_derivatives")
    assert not entry.evidence().failures
    equation = getattr(entry, name)
    for letter in letters(equation.value):
        monkeypatch.setattr(entry, name, type(equation)(equation.target, spoiled(equation.value, letter)))
        assert entry.evidence().failures, letter


FORMS = {"UNFOLDED": ("sources_witness", set()), "UNFOLDED_BACK": ("layered_witness", {"g", "r"}),
         "RESPONSE": ("response_witness", set()), "INCREMENT": ("increment_witness", set()),
         "BACK_KERNEL": ("kernel_witness", {"B"})}  # letters that the witness leaves out, or that are 0 in it


@pytest.mark.parametrize("name", FORMS)
def test_written_forms_are_read_as_they_are_printed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The sign of any letter that a witness of one step knows; of sources there, the number."""
    forms, (witness, unseen) = module("written_forms"), FORMS[name]
    equation = getattr(forms, name)
    assert getattr(forms, witness)().corrected_holds
    if name == "UNFOLDED":
        wrongs = [equation.value.replace(lambda e: e == sp.Tuple(forms.k, 2, forms.ell),
                                         lambda e: sp.Tuple(forms.k, 2, forms.ell - 1))]
    else:
        wrongs = [spoiled(equation.value, letter) for letter in letters(equation.value) - unseen]
    assert wrongs
    for wrong in wrongs:
        monkeypatch.setattr(forms, name, type(equation)(equation.target, wrong))
        assert not getattr(forms, witness)().corrected_holds, wrong


@pytest.mark.nightly  # one by one; every run checks the ledger as a whole
@pytest.mark.parametrize("name", ["fields_and_kernels", "field_derivatives", "finite_size", "parametrization",
                                  "written_forms", "blocks_of_several_matrices", "responses", "several_matrices",
                                  "path_integral",
                                  "infinite_depth_action", "linear_equations", "continuum", "response_sizes",
                                  "convolutions", "width_scales"])
def test_cheap_entries_hold(name: str) -> None:
    entry = module(name).ENTRY
    assert all(found.holds for found in entry.evidence().measurements)
    for erratum in entry.errata:
        witness = erratum.witness()
        assert witness.printed_fails and witness.corrected_holds, str(witness)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["proposition_3", "kernel_fluctuations"])
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


def test_conjugate_streams_are_slopes_in_their_sources() -> None:
    """The weight of streams is e^-H: responses of the saddle are what its slopes in u and r make of their fields."""
    limit = module("infinite_depth_action")
    s, t, ell, c, response = limit.s, limit.t, limit.ell, limit.c, {one.target: one for one in limit.SADDLE}

    def slope(source: sp.Expr) -> sp.Expr:
        part, = (one for one in sp.Add.make_args(limit.ENERGY.value) if one.has(type(source)))
        total, = part.atoms(sp.Sum)
        return -sp.sqrt(limit.depth) * part / total * sp.expand(total.function).coeff(source)

    for target, source, field in ((limit.B, limit.u(t, ell + 1), limit.g(s, ell + 1)),
                                  (limit.A, limit.r(t, ell), limit.phi(s, ell))):
        found = response[target(t, s, ell)].value.xreplace({s: t, t: s})
        assert found == -sp.I * limit.mean_of(sp.I * slope(source) * field) / c, target


def test_covariances_of_kernels_tell_nodes_apart() -> None:
    """Those of real networks are not what the action gives for a pair of nodes that is one off."""
    fluctuations = module("kernel_fluctuations")
    evidence = fluctuations.evidence()
    assert not evidence.failures
    found, = (one for one in evidence.numbers if "of other nodes" in one.what)
    sigma, last = fluctuations.propagator(), fluctuations.DEPTH - 1
    assert found.expected == sigma[0, last]
    for wrong in (sigma[1, last], sigma[last, last]):
        assert not replace(found, expected=float(wrong)).holds, wrong


def test_every_numbered_equation_of_the_paper_is_counted() -> None:
    """Those that have no entry yet are counted as missing."""
    numbered = proofs_module("_numbered")
    counted = numbered.NUMBERED["Depthwise Hyperparameter Transfer in Residual Networks"]
    assert {f"({number})" for number in range(1, 142)} <= set(counted)
    assert counted["(67)"] == ("depthwise_transfer/field_derivatives",)
    assert counted["(24)"] == ("depthwise_transfer/averages_over_weights",)
