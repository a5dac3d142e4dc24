"""Reports of nonlinear networks: the same numbers as from Python, and a sentence for every part that is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

import tpcalc as tp
from tpcalc.reports import report as reports
from tpcalc.reports.cli import main
from tpcalc.reports.options import ReportOptions, Setup
from tpcalc.reports.stages import SYMBOLS

from .conftest import Written

ARGUMENTS = ["--phi", "tanh", "--steps", "2", "--batch", "2", "--depths", "4:16", "--widths", "16,32",
             "--network-depth", "4", "--seeds", "2"]


@pytest.fixture(scope="module")
def tanh(tmp_path_factory: pytest.TempPathFactory) -> Written:
    pytest.importorskip("jinja2")
    folder = tmp_path_factory.mktemp("tanh")
    arguments = ["report", *ARGUMENTS, "--no-pdf", "-o", str(folder)]
    return Written(folder, main(arguments), arguments)


def test_every_part_is_there_but_for_what_is_measured_by_the_exact_solver(tanh: Written) -> None:
    assert tanh.status == 0
    figures = {path.stem for path in (tanh.folder / "figures").iterdir()}
    assert figures == {"convergence", "training", "networks", "widths", "plane"}
    found = json.loads((tanh.folder / "report.json").read_text())
    assert found["failures"] == found["left_out"] == {}
    assert "--phi tanh" in found["command"] and found["setup"]["net"] == repr(tp.ResNet("tanh"))


def test_numbers_are_those_of_python(tanh: Written) -> None:
    found = json.loads((tanh.folder / "report.json").read_text())
    net, task = tp.ResNet("tanh"), tp.tasks.digits(steps=2, batch=2)
    shared = tp.methods.Particles(coarsest=4)  # depths are doublings, and share their draws
    runs = [tp.train(net, task, tp.SGD(1.0), tp.DepthScaling(), depth, method=shared) for depth in (4, 8, 16)]
    assert found["converged"]["losses"] == [run.losses.tolist() for run in runs]
    assert found["converged"]["method"] == "particles"
    assert found["converged"]["sampling_error"] == max(run.error_estimate for run in runs)
    limit = tp.train(net, task, tp.SGD(1.0), tp.DepthScaling(), tp.oo)
    assert found["converged"]["limit_losses"] == limit.losses.tolist()
    verdict = tp.classify("1/2", "1/2", net)
    assert found["classified"]["name"] == verdict.name
    assert {row["name"]: row["derived"] for row in found["classified"]["rows"]} == {
        name: None if value is None else str(value) for name, value in verdict.exponents.items()}
    assert all(row["measured"] is None for row in found["classified"]["rows"])
    assert found["derived"]["kets"] == str(tp.kets(tp.program(net, tp.SGD(1.0), tp.DepthScaling(*SYMBOLS))))


def test_what_is_sampled_is_not_called_exact(tanh: Written) -> None:
    text = (tanh.folder / "index.html").read_text(encoding="utf-8")
    for sentence in ("A tanh residual network, wide and deep", "is sampled at every depth by particles",
                     "there is no recursion of coefficients", "those of this network are derived alone",
                     "means over seeds are not extrapolated"):
        assert sentence in text, sentence
    for sentence in ("linear residual network", "evaluated exactly at every depth", "standard errors in root mean"):
        assert sentence not in text, sentence


def refuse(*arguments: Any, **options: Any) -> NoReturn:
    raise tp.NotCovered("net: got one; expected others")


@pytest.mark.parametrize("phi", ["erf", "linear"])
def test_a_part_that_refuses_a_nonlinear_network_is_left_out_with_its_sentence(
        phi: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2")
    for stage in ("judge_network", "divide_plane", "converge", "compare_networks"):
        monkeypatch.setattr(reports, stage, refuse)
    options = ReportOptions(Setup(steps=1, batch=2, net=tp.ResNet(phi)))
    if phi == "linear":
        with pytest.raises(ValueError, match="expected others"):
            reports.write_report(options, tmp_path, pdf=False)
        return
    results = reports.write_report(options, tmp_path, pdf=False)
    assert set(results.left_out) == {"classification", "plane", "convergence", "networks"} and not results.failures
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert text.count("net: got one; expected others") == 5 and "An erf residual network" in text  # limit: convergence
    assert text.count("This part is left out for this network:") == 5


def test_networks_that_there_are_none_of_are_refused_before_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--phi", "sine", "-o", "nowhere"]) == 2
    assert "phi: got 'sine'; expected" in capsys.readouterr().err and not Path("nowhere").exists()
