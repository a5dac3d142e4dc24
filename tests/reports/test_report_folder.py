"""What a report leaves: every file, the numbers of the solvers, a page that stands alone, and nothing lost."""

from __future__ import annotations

import base64
import csv
import json
import re
import shutil
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.ledger.bibliography import PAPERS
from tpcalc.reports import report as reports
from tpcalc.reports.cli import main
from tpcalc.reports.pages.phase import DividedPlane
from tpcalc.reports.stages import Derived

from .conftest import SMALL, Written

TABLES = ("convergence", "training", "networks", "band", "verdict", "exponents", "regions")
FIGURES = ("convergence", "training", "networks", "widths", "exponents", "plane")


def numbers(written: Written) -> dict[str, Any]:
    return json.loads((written.folder / "report.json").read_text())


def read_csv(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_every_file_is_there(written: Written) -> None:
    assert written.status == 0
    expected = {"index.html", "report.tex", "report.json", "outputs.csv", "references.bib"}
    expected |= {f"{table}.csv" for table in TABLES}
    expected |= {f"figures/{figure}.{form}" for figure in FIGURES for form in ("svg", "pdf", "png")}
    stages = ("derivation", "classification", "plane", "convergence", "networks")
    expected |= {f"stages/{stage}.json" for stage in stages}
    found = {p.relative_to(written.folder).as_posix() for p in written.folder.rglob("*") if p.is_file()}
    assert found == expected and all((written.folder / name).stat().st_size > 0 for name in found)


def test_numbers_are_those_of_the_solvers(written: Written) -> None:
    task = tp.tasks.digits(steps=2, batch=3)
    direct = tp.convergence(tp.ResNet(), task, tp.SGD(1.0), tp.DepthScaling(), [4, 8, 16])
    found = numbers(written)["converged"]
    assert direct.limit is not None and direct.limit_order is not None
    assert found["losses"] == direct.losses.tolist() and found["limit_losses"] == direct.limit.losses.tolist()
    assert [row["distance"] for row in found["rows"]] == direct.distance.tolist()
    assert [row["cauchy"] for row in found["rows"]][1:] == direct.cauchy.tolist()
    assert (found["limit_order"], found["cauchy_order"]) == (direct.limit_order.order, direct.cauchy_order.order)
    rows = read_csv(written.folder / "outputs.csv")
    assert np.array_equal([float(row["L=16"]) for row in rows], direct.outputs[-1].ravel())
    assert np.array_equal([float(row["limit"]) for row in rows], direct.limit.outputs.ravel())
    assert np.array_equal([float(row["target"]) for row in rows], task.targets.ravel())


def test_networks_are_compared_with_infinite_width(written: Written) -> None:
    task = tp.tasks.digits(steps=2, batch=3)
    exact = tp.train(tp.ResNet(), task, tp.SGD(1.0), tp.DepthScaling(), 4).outputs
    found = numbers(written)["networks"]
    for i, width in enumerate((16, 32)):
        for seed in range(3):
            run = tp.train(tp.ResNet(), task, tp.SGD(1.0), tp.DepthScaling(), 4, width=width, seed=seed)
            assert found["errors"][i][seed] == pytest.approx(np.sqrt(np.mean((run.outputs - exact)**2)), rel=1e-12)
    assert found["infinite_losses"] == task.losses(exact).tolist()


def test_the_verdict_is_that_of_classify(written: Written) -> None:
    verdict, found = tp.classify("1/2", "1/2"), numbers(written)["classified"]
    assert found["name"] == verdict.name and found["flags"]["redundant"] is verdict.redundant
    derived = {row["name"]: row["derived"] for row in found["rows"]}
    assert derived == {**derived, **{name: str(exponent) for name, exponent in verdict.exponents.items()}}
    for row in found["rows"]:
        if row["measured"] is not None:
            assert abs(row["measured"] - row["derived_value"]) < 0.01


def test_regions_are_those_of_the_phase_diagram(written: Written) -> None:
    regions = tp.phase_diagram().regions
    assert read_csv(written.folder / "regions.csv") == [one.row for one in regions]
    assert [row["name"] for row in numbers(written)["plane"]["rows"]] == [one.name for one in regions]
    text = page(written)
    assert text.count('data-part="area"') == sum(one.dimension == 2 for one in regions)
    assert "rate of convergence L^-r" in text and 'r="11"' in text  # the circle around the report's own scaling


def test_tables_are_the_numbers_of_the_json(written: Written) -> None:
    found = numbers(written)
    for key, rows in (("convergence", found["converged"]["rows"]), ("networks", found["networks"]["rows"]),
                      ("exponents", found["classified"]["rows"])):
        for line, row in zip(read_csv(written.folder / f"{key}.csv"), rows, strict=True):
            for column, cell in line.items():
                if column in row and isinstance(row[column], float):
                    assert float(cell) == row[column]


def page(written: Written) -> str:
    return (written.folder / "index.html").read_text(encoding="utf-8")


def test_every_formula_of_the_page_parses(written: Written) -> None:
    formulas = re.findall(r"<math\b.*?</math>", page(written), re.DOTALL)
    assert len(formulas) > 50
    known = {"math", "mrow", "mi", "mo", "mn", "mtext", "msub", "msup", "msubsup", "munder", "mover", "munderover",
             "mfrac", "msqrt", "mroot", "mtable", "mtr", "mtd", "mstyle", "mspace", "mpadded"}
    for formula in formulas:
        for node in ET.fromstring(formula).iter():
            assert node.tag in known, formula
            assert "\\" not in (node.text or "") and "&" not in (node.text or ""), formula


def test_the_page_stands_alone(written: Written) -> None:
    text = page(written)
    printed = {link for paper in PAPERS.values() for link in re.findall(r"https?:[^\s}]*", paper)}  # in BibTeX
    assert set(re.findall(r"https?:[^\s}<\"]*", text)) <= printed and "@import" not in text and "url(" not in text

    class Links(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.links: list[str] = []
            self.ids: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in ("script", "link", "iframe", "object", "embed")
            self.links += [value or "" for name, value in attrs if name in ("src", "href")]
            self.ids += [value or "" for name, value in attrs if name == "id"]

    parser = Links()
    parser.feed(text)
    assert len(set(parser.ids)) == len(parser.ids)
    for link in parser.links:
        if link.startswith("data:"):
            assert b"<svg" in base64.b64decode(link.partition(",")[2])
        elif link.startswith("#"):
            assert link[1:] in parser.ids
        elif link != "report.pdf":
            assert (written.folder / link).is_file()


def test_the_page_says_the_key_numbers(written: Written) -> None:
    summary = re.sub(r"<[^>]+>", "", page(written).split('id="program"')[0])
    found = numbers(written)["converged"]
    for value in (f"{found['limit_order']:.3f}", f"{found['limit_losses'][-1]:.3f}", "Depth-muP",
                  "2 steps of 3 inputs"):
        assert value in summary


def copy(written: Written, folder: Path) -> list[str]:
    """A copy of the report's folder, and the arguments that write it again."""
    shutil.copytree(written.folder, folder)
    return [*written.arguments[:-1], str(folder)]


def test_a_second_run_reuses_all_stages(written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    arguments = copy(written, tmp_path / "copy")
    for name in ("derive_stage", "converge", "compare_networks", "judge_network", "divide_plane"):
        monkeypatch.setattr(reports, name, lambda *a, **k: pytest.fail("computed again"))
    assert main(arguments) == 0
    assert capsys.readouterr().out.count("as computed before") == 5
    assert (tmp_path / "copy" / "index.html").read_text() == page(written)


@pytest.fixture
def derived_before(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two stages of exact algebra, which take seconds, find what they found."""
    for name, stage, kind in (("derive_stage", "derivation", Derived), ("divide_plane", "plane", DividedPlane)):
        found = json.loads((written.folder / "stages" / f"{stage}.json").read_text())["fields"]["result"]
        monkeypatch.setattr(reports, name, lambda *a, found=kind(**found), **k: found)


@pytest.mark.usefixtures("derived_before")
def test_other_options_compute_again(written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = copy(written, tmp_path / "copy")
    assert main([*arguments, "--seed", "7"]) == 0
    assert capsys.readouterr().out.count("as computed before") == 4
    assert main([*arguments, "--seed", "7", "--fresh"]) == 0
    assert "as computed before" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_damaged_stage_is_computed_again(written: Written, tmp_path: Path,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    arguments = copy(written, tmp_path / "copy")
    (tmp_path / "copy" / "stages" / "networks.json").write_text('{"key": "')
    assert main(arguments) == 0
    assert capsys.readouterr().out.count("as computed before") == 4


@pytest.mark.usefixtures("derived_before")
def test_an_interruption_keeps_what_was_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(reports, "compare_networks", interrupted)
        assert main(["report", *SMALL, "-o", str(tmp_path)]) == 130
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and str(tmp_path) in err
    assert (tmp_path / "convergence.csv").exists() and "interrupted" in (tmp_path / "index.html").read_text()
    assert main(["report", *SMALL, "--no-pdf", "-o", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("as computed before") == 4


@pytest.mark.usefixtures("derived_before")
def test_a_stage_that_diverges_leaves_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["report", *SMALL, "--steps", "6", "--lr", "1e60", "--no-pdf", "-o", str(tmp_path)])
    err = capsys.readouterr().err
    assert status == 2 and err.count("\n") == 1 and "convergence" in err and "step" in err
    assert "<strong>Depth-muP</strong>" in (tmp_path / "index.html").read_text()
    assert "convergence" in json.loads((tmp_path / "report.json").read_text())["failures"]


@pytest.mark.slow
def test_a_scaling_without_a_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", *SMALL, "--alpha", "1/2", "--gamma", "0.25", "--no-pdf", "-o", str(tmp_path)]) == 0
    text = (tmp_path / "index.html").read_text()
    assert "There is no limit" in text and "<strong>unstable in training</strong>" in text


def test_without_tex(tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch,
                     capsys: pytest.CaptureFixture[str]) -> None:
    arguments = copy(written, tmp_path / "copy")
    arguments.remove("--no-pdf")
    monkeypatch.setattr(reports, "find_tex", lambda: None)
    assert main(arguments) == 0
    assert "no TeX was found" in capsys.readouterr().out
    assert "No TeX was found" in (tmp_path / "copy" / "index.html").read_text()


@pytest.mark.slow
def test_tex_that_fails(tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch,
                        capsys: pytest.CaptureFixture[str]) -> None:
    """A stand-in for a TeX that stops at an error: its first error line is said, and nothing else is lost."""
    program = tmp_path / "pdflatex"
    program.write_text("#!/bin/sh\necho '! Undefined control sequence.'\necho 'l.7 \\nonsense'\nexit 1\n")
    program.chmod(0o755)
    arguments = copy(written, tmp_path / "copy")
    arguments.remove("--no-pdf")
    monkeypatch.setattr(reports, "find_tex", lambda: str(program))
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "Undefined control sequence. (line 7)" in err
    assert (tmp_path / "copy" / "index.html").exists()


def test_figures_leave_matplotlib_alone(written: Written, tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    stage = json.loads((written.folder / "stages" / "convergence.json").read_text())["fields"]["result"]
    from tpcalc.reports.pages.figures import convergence_figure, save
    from tpcalc.reports.stages import Converged

    figure = convergence_figure(Converged(**stage))
    save(figure, tmp_path, "convergence")
    assert (tmp_path / "convergence.svg").read_bytes() == (written.folder / "figures" / "convergence.svg").read_bytes()
    assert figure.axes and dict(matplotlib.rcParams) == before


@pytest.mark.usefixtures("derived_before")
def test_the_command_that_is_said_writes_the_same(written: Written, tmp_path: Path) -> None:
    import shlex

    said = shlex.split(numbers(written)["command"])
    assert main([*said[1:], "--no-pdf", "-o", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "report.json").read_text())["converged"] == numbers(written)["converged"]
