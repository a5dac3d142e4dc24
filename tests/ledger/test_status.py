"""Statuses are computed: each is reached by what earns it, and by nothing less."""

from typing import Any

import numpy as np
import pytest
import sympy as sp
from support.entries import A, B, RIGHT, entry, erratum, measured, proof, random_square

from tpcalc.ledger import Entry, Evidence, MeasuredNumber, Proof, Rate, Slip, check, check_entry
from tpcalc.ledger.table import ledger_table


def status(*entries: Entry) -> str:
    """Of the last entry."""
    return str(check({e.key: e for e in entries}).statuses[entries[-1].key])


def failure(one: Entry) -> str:
    account = check_entry(one)
    assert str(check({one.key: one}).statuses[one.key]) == "fails"
    return "; ".join(account.failures)


def test_each_status_is_reached() -> None:
    cited, measured_one = entry("p/cited"), entry("p/measured", evidence=measured)
    definition = entry("p/definition", kind="definition")
    assert status(cited) == "cited"
    assert status(definition) == "definition"
    assert status(measured_one) == "measured"
    assert status(entry(derive=proof)) == "derived throughout"
    assert status(definition, entry(derive=proof, uses=("p/definition",))) == "derived throughout"
    assert status(cited, entry(derive=proof, uses=("p/cited",))) == "derived"
    assert status(measured_one, entry(derive=proof, uses=("p/measured",))) == "derived"
    assert status(entry(derive=proof, errata=(erratum(),))) == "derived throughout, false as printed"
    assert status(entry(errata=(erratum(printed=None),))) == "cited, false as printed"


def test_derived_throughout_looks_through_the_whole_chain() -> None:
    first = entry("p/first", evidence=measured)
    second = entry("p/second", derive=proof, uses=("p/first",))
    assert status(first, second, entry("p/third", derive=proof, uses=("p/second",))) == "derived"


@pytest.mark.parametrize("options", [dict(derive=proof), dict(evidence=measured), dict(kind="definition"), dict()])
def test_what_rests_on_a_failing_entry_falls_with_it(options: dict[str, Any]) -> None:
    bad = entry("p/bad", derive=lambda: proof(difference=1.0))
    first = entry("p/first", derive=proof, uses=("p/bad",))
    assert status(bad, first) == "rests on what fails"
    assert status(bad, first, entry(uses=("p/first",), **options)) == "rests on what fails"


def test_slips_are_said_with_the_worst_first() -> None:
    slips = tuple(erratum(slip=slip) for slip in (Slip.MISPRINT, Slip.FALSE, Slip.INCOMPLETE, Slip.FALSE))
    assert status(entry(errata=slips)) == "cited, false as printed, incomplete as printed, misprinted"


@pytest.mark.parametrize("options, message", [
    (dict(derive=lambda: proof(after=A**2 + B**2)), "step 1 (identity) is not what its rule gives"),
    (dict(derive=lambda: proof(difference=1e-3)), "numbers differ by 1.0e-03"),
    (dict(derive=lambda: proof(difference=float("nan"))), "numbers differ by nan"),
    (dict(derive=lambda: Proof((), lambda rng: 0.0, "")), "the derivation has no steps"),
    (dict(derive=proof, value=A**2 + B**2), "the last step ends in a**2 + 2*a*b + b**2"),
    (dict(derive=lambda: 1 / 0), "derive raised ZeroDivisionError"),
    (dict(evidence=lambda: measured(1.1)), "evidence does not hold: something: 1.1"),
    (dict(evidence=lambda: measured(float("nan"))), "evidence does not hold"),
    (dict(evidence=lambda: Evidence()), "evidence raised ValueError: evidence: got nothing"),
    (dict(errata=(erratum(printed=1.0),)), "the printed form of the first line passes its witness"),
    (dict(errata=(erratum(corrected=2.0),)), "the corrected form of the first line fails its witness"),
    (dict(errata=(erratum(corrected=float("nan")),)), "the corrected form of the first line fails its witness"),
])
def test_what_does_not_hold_is_said(options: dict[str, Any], message: str) -> None:
    value = options.pop("value", RIGHT)
    assert message in failure(entry(value=value, **options))


def test_a_statement_that_no_step_ends_in_is_not_derived() -> None:
    from dataclasses import replace

    wrong = proof()
    assert "S: no step has it on its left" in failure(
        entry(derive=lambda: replace(wrong, steps=(replace(wrong.steps[0], left=sp.Symbol("T")),))))


def test_one_failing_part_does_not_hide_another() -> None:
    text = failure(entry(derive=lambda: 1 / 0, evidence=lambda: measured(5.0), errata=(erratum(printed=1.0),)))
    assert all(part in text for part in ("ZeroDivisionError", "evidence does not hold", "passes its witness"))


def test_numbers_are_drawn_anew_for_a_seed_and_the_same_for_the_same() -> None:
    drawn: list[float] = []

    def numbers(rng: np.random.Generator) -> float:
        drawn.append(rng.uniform())
        return random_square(rng)

    one = entry(derive=lambda: Proof(proof().steps, numbers, "squares"))
    assert all(not check_entry(one, seed).failures for seed in (0, 0, 1))
    assert drawn[0] == drawn[1] != drawn[2]
    assert check_entry(entry("p/other", derive=one.derive)) and drawn[3] != drawn[0]


def test_rates_hold_where_the_slope_is_right_and_only_there() -> None:
    sizes = (16.0, 32.0, 64.0, 128.0)
    right, noise = tuple(3 / n for n in sizes), (1.0, 1.001, 0.999, 1.0)
    noisy = tuple(d * e for d, e in zip(right, noise))
    assert Rate("d", "L", 1.0, sizes, noisy).holds and not Rate("d", "L", 0.5, sizes, noisy).holds
    assert not Rate("d", "L", 1.0, sizes[:2], right[:2]).holds  # two points have no error
    assert MeasuredNumber("x", 1.0, 0.1, 1.25).holds and not MeasuredNumber("x", 1.0, 0.1, 1.35).holds


def test_the_table_has_every_entry_and_every_failure() -> None:
    good, bad = entry("p/good", derive=proof), entry("p/bad", evidence=lambda: measured(7.0))
    text = ledger_table(check({"p/good": good, "p/bad": bad}))
    assert "p/good  a paper, (1)  derived throughout  1 step, numbers to 0e+00" in text
    assert "FAILS p/bad: evidence does not hold: something: 7" in text


def test_entries_that_make_no_sense_are_refused() -> None:
    for options, message in ((dict(kind="idea"), "got kind 'idea'"), (dict(uses=("paper/square",)), "uses itself"),
                             (dict(kind="definition", derive=proof), "a definition has nothing to derive")):
        with pytest.raises(ValueError, match=message):
            entry(**options)
