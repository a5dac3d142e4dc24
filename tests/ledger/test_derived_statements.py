"""Derived statements of Depthwise Hyperparameter Transfer: a wrong rule is seen on numbers, and those whose condition
fails refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

from support.proofs_module import proofs_module
from tpcalc.ledger import check_entry


def module(name: str) -> Any:
    return proofs_module(f"depthwise_transfer.{name}")


def failures(name: str) -> str:
    found = module(name)
    found.derivation.cache_clear()
    try:
        return " ".join(check_entry(replace(found.ENTRY, evidence=None, errata=())).failures)
    finally:
        found.derivation.cache_clear()


@pytest.mark.parametrize("rule, wrong, name", [
    ("OUTER", lambda e: -e, "finite_network"), ("OUTER", lambda e: -e, "embedding_and_readout"),
    ("RATE", lambda e: 2 * e, "finite_network"), ("ERROR", lambda e: -e, "finite_network"),
    ("KERNELS", lambda e: 2 * e, "tangent_kernel"), ("TWO_OUTER", lambda e: -e, "tangent_kernel"),
    ("OUTER_ACTS", lambda e: -e, "within_blocks"), ("IN_TIME", lambda e: 2 * e, "width_scales"),
    ("MOMENTS", lambda e: 2 * e, "proposition_2"), ("WHITE", lambda e: -e, "proposition_2"),
    ("PICK", lambda e: 2 * e, "field_derivatives"), ("PICK", lambda e: -e, "linear_equations"),
    ("MOMENTS", lambda e: 2 * e, "linear_equations"), ("CONJUGATE", lambda e: -e, "responses"),
    ("STEIN", lambda e: 2 * e, "responses"), ("COVARIANCE", lambda e: -e, "averages_over_weights"),
    ("WEIGHTS_GAUSSIAN", lambda e: -e, "averages_over_weights"), ("OF_SITES", lambda e: -e, "saddle_point"),
    ("INDEPENDENT", lambda e: 2 * e, "last_gradient_kernel")])
def test_a_wrong_rule_is_seen_on_numbers(monkeypatch: pytest.MonkeyPatch, rule: str, wrong: Any, name: str) -> None:
    """And the steps do not end in the statement."""
    assert failures(name) == ""
    right = getattr(module(name), rule)
    kind = type(right)
    monkeypatch.setattr(module(name), rule, kind(right.name, right.reason, right.source,
                                                 lambda expression: wrong(right.apply(expression))))
    found = failures(name)
    assert "numbers differ" in found and "not derived" in found


def test_a_recursion_with_a_factor_that_changes_is_refused() -> None:
    rules, t, s = module("_network_rules"), *sp.symbols("t s", integer=True)
    with pytest.raises(ValueError, match="no recursion of first order"):
        rules.unroll(rules.W(t + 1, 1), t * rules.W(t, 1), t, s)
    with pytest.raises(ValueError, match="no recursion of first order"):
        rules.unroll(rules.W(t + 1, 1), rules.W(t, 1)**2, t, s)


def test_the_chain_rule_refuses_what_nothing_depends_on() -> None:
    rules, t = module("_network_rules"), sp.Symbol("t")
    with pytest.raises(ValueError, match="does not depend on"):
        rules.chain_rule(rules.W(t, 1), {rules.h(t, 2): rules.h(t, 1)})


def test_slopes_of_networks_are_those_by_differences() -> None:
    """Complex steps against central differences of the output, at a field and at weights."""
    network = module("_finite_network")
    net, step = network.train(), 1e-6
    for name, node, entry in (("h", 2, (3, 0)), ("W", 1, (2, 5)), ("W0", 0, (4, 1)), ("w", 0, (7,))):
        found = net.slope(1, "f", name, node)
        moved = np.zeros(found.shape[1:])
        moved[entry] = step
        there, back = (net.output(1, {(name, node): sign * moved}) for sign in (1, -1))
        np.testing.assert_allclose(found[(slice(None), *entry)], (there - back) / (2 * step), rtol=0, atol=1e-9)
