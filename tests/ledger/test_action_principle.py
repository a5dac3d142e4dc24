"""The action of a block in the ledger: its checks can fail, and what it does not cover is refused, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp

from support.proofs_module import proofs_module
from tpcalc.action.action import Along, Field, Inner, Kernel, Saddle, dt, x
from tpcalc.action.densities import derive_densities_of_kernels
from tpcalc.ledger import check_entry, entry


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    derive_densities_of_kernels.cache_clear()
    yield
    derive_densities_of_kernels.cache_clear()


def first_slot_only(along: Along) -> sp.Expr:
    """As if a block did not read the size of its input."""
    name, one, two, first, second = along.args
    s, u = sp.symbols("s u")
    left, right = Field(x, one) + s * Field(dt, one), Field(x, two) + u * Field(dt, two)
    value = Kernel(name, 0, 0, 0, Inner(left, right), Inner(Field(x, one), Field(x, one)),
                   Inner(Field(x, two), Field(x, two)))
    return (value.diff(s) if first else value).subs(s, 0).diff(u).subs(u, 0) if second else (
        value.diff(s) if first else value).subs(s, 0).subs(u, 0)


def test_a_wrong_chain_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Along, "moved", first_slot_only)
    account = check_entry(entry("tpcalc/block_densities"))
    assert account.difference is not None and account.difference > 1e-3
    assert any(failure.startswith("numbers differ") for failure in account.failures)


def test_an_acausal_saddle_changes_the_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were x to answer the gradients of later steps, more would be left than the densities."""
    causal = Saddle.rewrite
    monkeypatch.setattr(Saddle, "rewrite", lambda self, overlap: sp.Symbol("r_ba") if (
        overlap.args[0].args[0] == x and overlap.args[1].args[0] == dt and causal(self, overlap) == 0
    ) else causal(self, overlap))
    assert any(zero != 0 for zero in derive_densities_of_kernels().zeros.values())


@pytest.mark.parametrize("what, reason", [
    ("'pre_nonlin' blocks", "acts on the stream"), ("weights shared by layers", "weights shared between layers"),
    ("a matrix used twice", "multiplies two vectors"), ("outputs with a mean", "mean that is not zero"),
    ("Adam", "tp.SGD"), ("alpha = 1", "nothing closes on kernels")])
def test_what_is_not_covered_is_refused_for_its_reason(what: str, reason: str) -> None:
    refusals = proofs_module("tpcalc.action_principle").refusals()
    with pytest.raises(ValueError, match=reason):
        refusals[what]()


def test_a_case_that_goes_through_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The evidence counts refusals: it fails where one of what is not covered is computed all the same."""
    principle = proofs_module("tpcalc.action_principle")
    monkeypatch.setattr(principle, "simulated", lambda: (np.zeros(3), np.full(3, np.inf)))  # it takes long
    cases = {"'pre_nonlin' blocks": principle.refusals()["'pre_nonlin' blocks"], "Adam": lambda: "a number"}
    monkeypatch.setattr(principle, "refusals", lambda: cases)
    monkeypatch.setattr(principle, "_limit", lambda: SimpleNamespace(outputs=np.zeros(4)))
    failure, = principle.evidence().failures
    assert failure.startswith("refused with the reason") and "1 +- 0, expected 2" in failure
