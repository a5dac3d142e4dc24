"""Spoiling: every printed equation is made wrong, and what no check notices is said, and does not count."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from support.entries import LEFT, RIGHT, A, B, entry as made, measured, proof
from support.nightly import few

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, Identity, MeasuredNumber, Proof, Slip, Witness
from tpcalc.ledger import check, check_entry, entries, entry
from tpcalc.ledger.record import ReadEntry, counts_of_read, read_ledger, read_record, write_record
from tpcalc.ledger.spoiling import _attribute_of, _text, read_corrections, read_equations, spoiled, spoils
from tpcalc.reports import cli

DOCS = Path(__file__).parents[2] / "docs"
f, g = sp.Function("f"), sp.Function("g")
t, s = sp.symbols("t s", integer=True)

# how many equations are read of entries whose checks are quick, all of those that were once falsified and passed among
# them; what is missing is what `tpcalc prove --spoil` prints as not read
READ = {"tpcalc/muon_on_gram_matrices": (1, 1), "tpcalc/batches": (4, 4),
        "tpcalc/long_training": (4, 4), "tpcalc/stationary_state": (11, 11),
        "depthwise_transfer/parametrization": (3, 3),
        "depthwise_transfer/responses": (9, 9), "depthwise_transfer/finite_size": (3, 3),
        "depthwise_transfer/finite_network": (4, 4), "depthwise_transfer/tangent_kernel": (4, 4),
        "depthwise_transfer/embedding_and_readout": (4, 4), "depthwise_transfer/momentum": (4, 4),
        "depthwise_transfer/weight_decay": (2, 2), "depthwise_transfer/within_blocks": (6, 6),
        "depthwise_transfer/field_derivatives": (4, 4), "depthwise_transfer/averages_over_weights": (3, 3),
        "depthwise_transfer/several_matrices": (2, 2),
        "gaussian/stein": (1, 1), "gaussian/isserlis": (1, 1), "meta_principled/differential_form": (6, 6),
        "tensor_programs_vi/operators": (1, 1), "tensor_programs_vi/outer_product": (2, 2)}


LONG = {"depthwise_transfer/field_derivatives", "depthwise_transfer/responses", "tpcalc/muon_on_gram_matrices",
        "depthwise_transfer/several_matrices"}


@pytest.mark.parametrize("key", [pytest.param(key, marks=[pytest.mark.nightly] * (key in LONG)) for key in READ])
def test_what_is_read_of_an_entry(key: str) -> None:
    found = read_equations(entry(key))
    assert (sum(one.is_read for one in found), len(found)) == READ[key], [str(one) for one in found if not one.is_read]


@pytest.mark.parametrize("key", ["tensor_programs_vi/parameter_update", "tensor_programs_vi/proposition_d2",
                                 "depthwise_transfer/infinite_depth_action", "depthwise_transfer/continuum"])
def test_corrected_forms_of_an_entry_are_read(key: str) -> None:
    found = read_corrections(entry(key))
    assert found and not [str(one) for one in found if not one.is_read]


@pytest.mark.parametrize("seed", few(range(3), 1))
def test_what_is_read_of_streams_does_not_hang_on_the_draw(seed: int) -> None:
    assert all(one.is_read for one in read_equations(entry("depthwise_transfer/infinite_depth_action"), seed))


@pytest.mark.nightly
def test_what_is_read_of_the_ledger() -> None:
    """At least so many equations of each paper, with a few in hand for draws."""
    read = read_ledger(entries())
    papers: dict[str, list[bool]] = {}
    for key, several in read.items():
        papers.setdefault(key.partition("/")[0], []).extend(one.is_read for one in several.equations)
    counted = {paper: sum(known) for paper, known in papers.items()}
    assert counted["gaussian"] == len(papers["gaussian"]) and sum(counted.values()) >= 450, counted


@pytest.mark.parametrize("side, kinds", [
    (f(t, s) * g(t, s) + A**2, ["a sign", "a factor of 2", "an exponent", "an index shifted", "two names swapped"]),
    (A + B, ["a sign", "a factor of 2", "an exponent", "two names swapped"]),
    (sp.Integer(0), ["a sign", "a factor of 2"]),
    (sp.Ge(A, B), ["a relation turned round", "a relation moved"]), (True, ["turned round"]), ("text", [])])
def test_each_kind_of_spoil_changes_something(side: object, kinds: list[str]) -> None:
    found = spoils(side, np.random.default_rng(1))
    assert [what for what, _ in found] == kinds and all(wrong != side for what, wrong in found
                                                        if what != "two names swapped")


def test_a_spoil_is_what_it_is_called() -> None:
    """Of every seed: the smallest fault of its kind, which is the hardest to notice."""
    kinds = {"a sign": {A - B, B - A}, "a factor of 2": {2 * A + B, A + 2 * B}, "an exponent": {A**2 + B, A + B**2},
             "two names swapped": {A + B}}
    found = [dict(spoils(A + B, np.random.default_rng(seed))) for seed in range(12)]
    assert {what: {one[what] for one in found} for what in found[0]} == kinds
    drawn = [dict(spoils(f(t, s) * A**3, np.random.default_rng(seed))) for seed in range(12)]
    assert {one["an index shifted"] for one in drawn} == {f(t + 1, s) * A**3, f(t, s + 1) * A**3}
    assert {one["an exponent"] for one in drawn} == {f(t, s) * A**4}
    drawn = [dict(spoils(f(t, 1), np.random.default_rng(seed))) for seed in range(4)]
    assert {one["an index shifted"] for one in drawn} == {f(t + 1, 1)}
    assert dict(spoils(sp.Integer(0), np.random.default_rng(1))) == {"a sign": -1, "a factor of 2": 2}
    swapped = dict(spoils(f(t, s) - 2 * g(s, t), np.random.default_rng(1)))["two names swapped"]
    assert swapped == g(t, s) - 2 * f(s, t) and "two names swapped" not in dict(spoils(A**2, np.random.default_rng(1)))


def test_what_is_left_equal_is_listed_and_never_noticed() -> None:
    """a and b in each other's places leave the square as it was."""
    one, = read_equations(made(derive=proof))
    assert one.equal == ("two names swapped",) and one.is_read
    assert {what for what, noticed in one.spoils} == {"a sign", "a factor of 2", "an exponent"}


def test_an_equation_that_no_check_reads_is_not_read_and_leaves_the_entry_cited() -> None:
    unread = made("p/unread", evidence=measured)
    one, = read_equations(unread)
    assert not one.is_read and one.missed == ("a sign", "a factor of 2", "an exponent") and "not read" in str(one)
    ledger = check({unread.key: unread})
    assert str(ledger.statuses[unread.key]) == "measured"
    read = {unread.key: ReadEntry((one,))}
    assert str(replace(ledger, read=read).statuses[unread.key]) == "cited"
    assert counts_of_read(read) == ("p: 0 of 1 equations are read\nall: 0 of 1 equations are read\n"
                                    "corrected forms: 0 of 0 are read")


def test_an_equation_of_an_object_that_is_remembered_is_spoiled_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the proofs remember is forgotten before an object is spoiled, never after: checks would make a right one."""
    @lru_cache(maxsize=None)
    def derived() -> Equations:
        return Equations((Equation(LEFT, RIGHT),))

    monkeypatch.setitem(sys.modules, "tpcalc.proofs.made", SimpleNamespace(derived=derived))
    one, = read_equations(replace(made(derive=proof), statement=lambda: derived()))
    assert one.is_read and one.spoils and derived().equations[0].value == RIGHT


SQUARE = Equation(LEFT, RIGHT)


def reading() -> Evidence:
    return Evidence((MeasuredNumber("S at (3, 2)", 25.0, 1e-9, float(SQUARE.value.subs({A: 3, B: 2}))),))


def test_the_object_that_is_printed_is_spoiled_and_mended() -> None:
    constant = replace(made("p/constant", evidence=reading), statement=lambda: Equations((SQUARE,)))
    with spoiled(constant, 0, "value", 2 * RIGHT):
        assert SQUARE.value == 2 * RIGHT and check_entry(constant).failures
    assert SQUARE.value == RIGHT and not check_entry(constant).failures
    one, = read_equations(constant)
    assert one.is_read
    with pytest.raises(KeyboardInterrupt):
        with spoiled(constant, 0, "value", 2 * RIGHT):
            raise KeyboardInterrupt
    assert SQUARE.value == RIGHT


LONE = Equation(LEFT, A + B)


def erratum(corrected: object, equation: Equation) -> Erratum:
    def witness() -> Witness:
        return Witness("at (3, 2)", float((A + B if equation is LONE else RIGHT).subs({A: 3, B: 2})), 1e-9, 0.0,
                       float(equation.value.subs({A: 3, B: 2})))
    return Erratum(Slip.FALSE, "(1)", "0", corrected, witness)  # type: ignore[arg-type]


def test_corrected_forms_are_spoiled_too() -> None:
    """One of its own, one of the statement, by its method or written anew, and one that no check reads."""
    errata = (erratum(LONE.latex, LONE), erratum(SQUARE.latex, SQUARE), erratum(lambda: SQUARE.latex(), SQUARE),
              erratum(lambda: "typed", LONE), erratum(Equation(LEFT, 3 * A).latex, LONE))
    one = replace(made("p/corrected", evidence=reading), statement=lambda: Equations((SQUARE,)), errata=errata)
    own, stated, written, typed, unread = read_corrections(one)
    assert own.is_read and {what for what, _ in own.spoils} == {"a sign", "a factor of 2", "an exponent"}
    assert own.equal == ("two names swapped",) and "corrected, (1): S &= a + b" in str(own)
    assert stated.is_read and written.is_read and stated.spoils == (("a sign in equation 1", True),) == written.spoils
    assert not typed.is_read and typed.spoils == () and "nothing to spoil" in str(typed)
    assert not unread.is_read and unread.missed == ("a sign", "a factor of 2", "an exponent")
    assert LONE.value == A + B and SQUARE.value == RIGHT


def test_each_equation_is_spoiled_by_itself() -> None:
    for equations, expected in (((SQUARE, LONE), [True, False]), ((LONE, SQUARE, LONE), [False, True, False])):
        one = replace(made("p/two", evidence=reading), statement=lambda equations=equations: Equations(equations))
        assert [each.is_read for each in read_equations(one)] == expected


def test_numbers_may_be_off_by_the_tolerance_and_no_more() -> None:
    tolerance = proof().tolerance
    assert check_entry(made(derive=lambda: proof(difference=tolerance))).failures == ()
    assert check_entry(made(derive=lambda: proof(difference=1.01 * tolerance))).failures


def test_a_condition_is_spoiled_where_it_is_what_is_said() -> None:
    """An equation's own condition is words; an equivalence has one that is its side."""
    assert _attribute_of(SimpleNamespace(condition=sp.Ge(A, B))) == ("condition", sp.Ge(A, B))
    assert _attribute_of(SimpleNamespace(condition="", exactly=A)) == ("exactly", A)
    assert _attribute_of(SimpleNamespace(value=A, condition="")) == ("value", A) and _attribute_of(1) == ("", None)


FAULTS = [("tpcalc/muon_on_gram_matrices", 0, lambda value: value.base ** sp.Rational(3, 2)),
          ("depthwise_transfer/finite_size", 1, lambda value: value.xreplace({sp.Integer(-1): sp.Integer(1)})),
          ("depthwise_transfer/parametrization", 2, lambda value: 2 * value),
          ("depthwise_transfer/responses", 4, lambda value: -value),
          ("depthwise_transfer/saddle_point", 0, lambda value: 2 * value),
          ("depthwise_transfer/infinite_depth_action", 1, lambda value: -value),
          ("depthwise_transfer/several_matrices", 1, lambda value: value**2),
          ("tpcalc/action_principle", 0, lambda value: 2 * value)]


@pytest.mark.parametrize("key, number, wrong", FAULTS, ids=[key for key, *_ in FAULTS])
def test_faults_that_once_passed_are_noticed(key: str, number: int, wrong: object) -> None:
    """A sign, a power, a factor in a printed equation."""
    one = entry(key)
    value = one.statement().equations[number].value  # type: ignore[attr-defined]
    with spoiled(one, number, "value", wrong(value)):  # type: ignore[operator]
        assert check_entry(one).failures
    assert one.statement().equations[number].value == value  # type: ignore[attr-defined]


def test_a_step_that_changes_nothing_derives_nothing() -> None:
    five = sp.Integer(5)
    step = Identity(1, LEFT, five, five)
    same = Proof((step,), lambda rng: 0.0, "nothing")
    nothing = Entry(key="p/nothing", kind="lemma", title="five", source="a paper", says="Five.",
                    statement=lambda: tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling()), derive=lambda: same)
    assert str(check({nothing.key: nothing}).statuses[nothing.key]) == "cited"
    equal = replace(made("p/equal", value=five), derive=lambda: same)
    assert str(check({equal.key: equal}).statuses[equal.key]) == "compared"


def test_an_entry_that_fails_is_not_spoiled() -> None:
    with pytest.raises(tp.NotCovered, match="its checks fail as it is"):
        read_equations(made(derive=lambda: proof(difference=1.0)))


def test_executors_decide_nothing() -> None:
    known = {key: entry(key) for key in ("gaussian/stein", "tensor_programs_vi/operators")}
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        assert read_ledger(known, executor=executor) == read_ledger(known)


def test_what_was_read_is_kept_while_code_and_seed_are_what_they_were(tmp_path: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    known = {key: entry(key) for key in ("gaussian/stein", "tensor_programs_vi/parameter_update")}
    told: list[tuple[int, int]] = []
    first = read_ledger({"gaussian/stein": known["gaussian/stein"]}, folder=tmp_path)
    both = read_ledger(known, folder=tmp_path, progress=lambda *done: told.append(done))
    assert told == [(2, 2)] and both["gaussian/stein"] == first["gaussian/stein"]
    assert both == read_ledger(known) and both["tensor_programs_vi/parameter_update"].corrections
    monkeypatch.setattr("tpcalc.ledger.record.ReadEntry.of", lambda entry, seed: ReadEntry(()))
    assert read_ledger(known, folder=tmp_path) == both
    assert read_ledger(known, 1, folder=tmp_path)["gaussian/stein"] == ReadEntry(())
    monkeypatch.setattr("tpcalc.ledger.record.code_digest", lambda *folder: "another code")
    assert read_ledger(known, folder=tmp_path)["gaussian/stein"] == ReadEntry(())
    write_record(tmp_path / "read.json", both)
    assert read_record(tmp_path / "read.json") == both


def test_the_command_says_what_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    known = {"p/read": made("p/read", derive=proof), "p/unread": made("p/unread", evidence=measured)}
    monkeypatch.setattr("tpcalc.reports.prove.entries", lambda: known)
    assert cli.main(["prove", "--spoil", "--no-pdf", "-o", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "0 of 1 equations read" in out and "1 of 1 equations read" in out and "all: 1 of 2 equations are read" in out
    assert "p/unread (1) not read: a sign, a factor of 2, an exponent: S &= a^{2}" in out and "p/read (1)" not in out
    assert next(line for line in out.splitlines() if line.startswith("p/unread")).split()[4:5] == ["cited"]
    read = read_record(tmp_path / "read.json")
    assert counts_of_read(read) in out
    assert cli.main(["prove", "p/read", "--spoil", "--no-pdf", "-o", str(tmp_path)]) == 0
    assert read_record(tmp_path / "read.json") == read


def test_the_record_in_the_documents_is_of_the_ledger_as_it_is() -> None:
    """Run ``tpcalc prove KEY --spoil`` for an entry whose statement or errata have changed, into a folder with this
    record."""
    record, known = read_record(DOCS / "read.json"), entries()
    assert list(record) == list(known)
    for key, one in known.items():
        equations = [_text(each) for each in getattr(one.statement(), "equations", ())]
        assert [each.text for each in record[key].equations] == equations, key
        assert len(record[key].corrections) == len(one.errata), key
