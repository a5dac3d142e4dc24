"""Numbered statements of the papers: keys are there, and counts are those of the weakest entry."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.entries import entry, measured, proof

from tpcalc.ledger import check, table
from tpcalc.ledger.table import counts, table_of_counts
from tpcalc.ledger.catalogue import keys


def test_every_key_is_an_entry_and_every_statement_is_settled() -> None:
    statements = table.numbered()
    known = set(keys())
    assert len(statements) == 3
    for paper, found in statements.items():
        named = {key for settled in found.values() for key in settled if not key.startswith(table.TESTS)}
        assert named <= known, paper
        assert not [name for name, settled in found.items() if not settled], paper


def test_every_test_that_is_named_is_there() -> None:
    named = {key for found in table.numbered().values() for settled in found.values() for key in settled
             if key.startswith(table.TESTS)}
    assert named
    for name in named:
        file, function = name.removeprefix(table.TESTS).split("::")
        tree = ast.parse((Path(__file__).parents[1] / file).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


def test_a_statement_stands_as_its_weakest_entry_does(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {e.key: e for e in (entry("p/derived", derive=proof), entry("p/measured", evidence=measured),
                                  entry("p/bad", derive=lambda: proof(difference=1.0)))}
    entries["p/above"] = entry("p/above", derive=proof, uses=("p/bad",))
    monkeypatch.setattr(table, "numbered", lambda: {"P": {
        "1": ("p/derived",), "2": ("p/derived", "p/measured"), "3": (), "4": ("p/bad",), "5": ("p/above",),
        "6": ("p/elsewhere",), "7": ("tests/test_a.py::test_b",), "8": ("p/bad", "tests/test_a.py::test_b")}})
    ledger = check(entries)
    assert counts(ledger)["P"] == {"derived throughout": 1, "measured": 1, "missing": 2, "fails": 2,
                                   "tested": 1, "rests on what fails": 1}
    assert table_of_counts(ledger) == ("P: 8 numbered statements: 1 derived throughout, 1 measured, "
                                       "1 rests on what fails, 2 fails, 1 tested, 2 missing")
