"""``tpcalc figure`` draws, lists and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tpcalc.figures.figure import Sizes, figure_of, figures
from tpcalc.reports.cli import main

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


def test_a_figure_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a picture, and as JSON with the numbers and what the paper concludes; again from what is kept."""
    line = ["figure", "tp6/14", "--toy", "-o", str(tmp_path)]
    assert main(line) == 0
    out, err = capsys.readouterr()
    assert not err and {"tp6-14.svg", "tp6-14.pdf", "tp6-14.json"} <= {path.name for path in tmp_path.iterdir()}
    data = json.loads((tmp_path / "tp6-14.json").read_text())
    drawing = figure_of("tp6/14").draw(Sizes("toy"))
    assert [one["paper"] for one in data["conclusions"]] == [one.claim for one in drawing.conclusions]
    assert all(f"  {one}" in out.splitlines() for one in map(str, drawing.conclusions))
    assert data["numbers"]["losses"] == drawing.numbers["losses"] and data["size"] == "toy"
    kept = sorted((tmp_path / "trainings").iterdir())
    assert main([*line, "--json"]) == 0 and sorted((tmp_path / "trainings").iterdir()) == kept
    assert json.loads(capsys.readouterr().out) == data


def test_processes_share_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = (json.loads(_printed(capsys, f"figure tp6/14 --toy --json --workers {n} -o {tmp_path / str(n)}"))
                for n in (1, 2))
    assert one == two


def test_all_figures_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """In words at one size, as JSON at another."""
    out = _printed(capsys, "figure --list")
    rows = {row["figure"]: row for row in json.loads(_printed(capsys, "figure --list --json --toy"))}
    assert [*rows] == [*figures()]
    for key, figure in figures().items():
        assert f"{key:<13} {figure.shows}" in out and figure.instead in out
        assert rows[key]["is drawn"] is (figure.asks is not None)
    count, cost = figure_of("tp6/11").cost(Sizes())
    assert f"{count} trainings, {cost:.1e} multiplications" in out
    assert cost > 1e4 * rows["tp6/11"]["multiplications"] and figure_of("tp6/11").cost(Sizes("full"))[1] > 1e4 * cost


@pytest.mark.parametrize("line, words", [
    ("figure", "expected keys such as tp6/11, or --list alone"), ("figure tp6/1 --list", "--list alone"),
    ("figure tp6/77", "figure: got 'tp6/77'; expected one of"), ("figure tp6/14 --toy --data none", "data: got 'none'"),
    ("figure tp6/1 --toy --data x.npz", "is of verdicts"), ("figure tp6/15 --toy --data x.npz", "text that ships"),
    ("figure depthwise/2", "it is not drawn: BatchNorm"), ("figure tp6/14 --toy --full", "not allowed with"),
    ("figure tp6/14 --workers 0", "--workers")])
def test_bad_calls_are_refused(line: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert words in err and err.count("\n") == 1 and not out and not [*tmp_path.iterdir()]


def _printed(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert main(line.split()) == 0
    out, err = capsys.readouterr()
    assert not err
    return out
