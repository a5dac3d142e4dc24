"""Reports on transformers: the numbers of Python, every file, and a sentence for what is left out or refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.reports import transformer as reports
from tpcalc.reports import transformer_stages as stages
from tpcalc.reports.cli import main
from tpcalc.reports.transformer_options import TransformerOptions

from .conftest import Written

ARGUMENTS = ["report", "--net", "transformer", "--steps", "2", "--batch", "1", "--positions", "2", "--head-dim", "1",
             "--depths", "2,4", "--widths", "8,16,32", "--seeds", "2", "--no-pdf"]


@pytest.fixture(scope="module", autouse=True)
def few_points() -> Iterator[None]:
    """Coarse means of heads, which reports and Python take alike."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stages, "POINTS", 8)
        patched.setattr(stages, "SCRAMBLES", 2)
        yield


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    pytest.importorskip("jinja2")
    folder = tmp_path_factory.mktemp("transformer")
    with pytest.MonkeyPatch.context() as patched:  # fewer trainings: what they find is not looked at
        patched.setattr(stages, "GRID", stages.GRID[2:6])
        patched.setattr(stages, "SEEDS", 1)
        return Written(folder, main([*ARGUMENTS, "-o", str(folder)]), ARGUMENTS)


def test_every_file_is_there(written: Written) -> None:
    assert written.status == 0
    assert {path.stem for path in (written.folder / "figures").iterdir()} == {"networks", "widths", "rates"}
    names = {path.name for path in written.folder.iterdir()}
    assert {"index.html", "report.tex", "report.json", "references.bib", "outputs.csv", "training.csv", "networks.csv",
            "rates.csv"} <= names
    page = (written.folder / "index.html").read_text(encoding="utf-8")
    for sentence in ("causal transformer of softmax attention", "score[t, p, m, l] := ",
                     "kets are of one coordinate"):
        assert (sentence in page) != (sentence.startswith("kets")), sentence  # heads of one coordinate have kets


def test_numbers_are_those_of_python(written: Written) -> None:
    found = json.loads((written.folder / "report.json").read_text())
    assert found["failures"] == found["left_out"] == {}
    net, task = tp.Transformer(head_dim=1, positions=2), tp.tasks.text(2, 1, 2).sequences()
    layer = tp.theory.AttentionLayer(2, 1, causal=True, points=stages.POINTS, scrambles=stages.SCRAMBLES,
                                     mlp=tp.ResNet("gelu", "mlp", "rms"))
    limit = tp.theory.attention_limit(layer, task.inputs, task.targets, tp.SGD(1.0), loss="softmax")
    assert found["limit"]["losses"] == (task.losses(limit.outputs) / 2).tolist()
    runs = [tp.train(net, task, tp.SGD(1.0), tp.DepthScaling(), 4, 32, method="dense", seed=seed) for seed in (0, 1)]
    row = found["real"]["rows"][-1]
    assert (row["width"], row["depth"]) == (32, 4)
    assert np.isclose(row["error"], np.sqrt(np.mean([(run.outputs - limit.outputs)**2 for run in runs])), rtol=1e-12)
    assert row["last_loss"] == np.mean([run.losses[-1] for run in runs]) / 2
    assert found["rates"]["predicted"] == {"1/2, 1/2": 0.0, "1, 0": 0.0, "1/2, 0": -0.5, "1, 1/2": 0.5}
    with (written.folder / "outputs.csv").open() as lines:
        outputs = [float(line["limit"]) for line in csv.DictReader(lines)]
    assert np.allclose(outputs, limit.outputs.ravel(), rtol=0, atol=1e-15)


def test_the_command_of_the_report_is_the_report(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    command = json.loads((written.folder / "report.json").read_text())["command"].split()[1:]
    assert main([*command, "--no-pdf", "-o", str(written.folder)]) == 0
    assert capsys.readouterr().out.count("as computed before") == 4


def test_exponents_without_a_limit_leave_it_out_with_its_sentence(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.setattr(stages, "GRID", stages.GRID[3:6])
    monkeypatch.setattr(stages, "SEEDS", 1)
    monkeypatch.setattr(TransformerOptions, "scalings", property(lambda self: ((self.alpha, self.gamma),)))
    options = TransformerOptions(Fraction(1), Fraction(0), steps=2, batch=1, positions=2, head_dim=1, depths=(2, 4),
                                 widths=(8, 16), seeds=2)
    results = reports.write_transformer_report(options, tmp_path, pdf=False)
    assert set(results.left_out) == {"limit"} and not results.failures and results.real is not None
    assert all(row["error"] is None for row in results.real.rows)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "expected alpha = gamma = 1/2" in page and "figure-networks" not in page


@pytest.mark.slow
def test_best_rates_move_as_theory_says() -> None:
    """By default: the four powers of L are told apart, and each is within .2 of its own."""
    found = stages.find_rates(TransformerOptions())
    assert {key: power for key, power in found.measured.items() if power is not None} == pytest.approx(
        found.predicted, abs=.2)


@pytest.mark.parametrize("line, said", [
    ("--block mlp", "--block: got mlp with --net transformer"), ("--norm rms", "--norm: got rms"),
    ("--network-depth 8", "--network-depth: got 8"), ("--task digits", "expected text"),
    ("--positions 1", "positions: got 1"), ("--seeds 1", "seeds: got 1"), ("--widths 31,32", "width: got 31"),
    ("--phi sine", "phi: got 'sine'"), ("--lr 1,2", "2 learning rates")])
def test_what_is_not_allowed_is_said_before_the_work(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--net", "transformer", *line.split(), "-o", "nowhere"]) == 2
    assert said in capsys.readouterr().err and not Path("nowhere").exists()


def test_options_of_transformers_are_refused_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--positions", "4", "-o", "nowhere"]) == 2
    assert "--positions: got 4 with --net resnet" in capsys.readouterr().err
