"""``tpcalc prove``: the table, the folder, and the exit status."""

import json
from pathlib import Path

import pytest
from support.entries import entry, measured, proof

from tpcalc.ledger import Entry
from tpcalc.reports import cli

GOOD, BAD = entry("p/good", derive=proof), entry("p/bad", evidence=lambda: measured(7.0))


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> dict[str, Entry]:
    found: dict[str, Entry] = {"p/good": GOOD}
    monkeypatch.setattr("tpcalc.reports.prove.entries", lambda: found)
    return found


def test_table_and_folder(ledger: dict[str, Entry], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    assert cli.main(["prove", "--no-pdf", "--output", str(folder)]) == 0
    assert "p/good" in capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {"ledger.json", "ledger.dot", "ledger.tex"}
    assert json.loads((folder / "ledger.json").read_text())[0]["status"] == "derived throughout"


def test_json(ledger: dict[str, Entry], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prove", "p/good", "--json", "--no-pdf", "-o", str(tmp_path)]) == 0
    assert [row["key"] for row in json.loads(capsys.readouterr().out)] == ["p/good"]


def test_a_failing_check_is_exit_status_1(ledger: dict[str, Entry], tmp_path: Path,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    ledger["p/bad"] = BAD
    assert cli.main(["prove", "--no-pdf", "-o", str(tmp_path)]) == 1
    assert "FAILS p/bad" in capsys.readouterr().out
    assert cli.main(["prove", "p/good", "--no-pdf", "-o", str(tmp_path)]) == 0


def test_an_unknown_key_is_exit_status_2(ledger: dict[str, Entry], tmp_path: Path,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prove", "p/god", "-o", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == ("tpcalc prove: key: got 'p/god'; the ledger has no such entry; expected "
                                       "its keys, near are 'p/good'\n")
    assert not (tmp_path / "none").exists()
