"""The short commands print what the library says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.reports.derive import COLUMN
from tpcalc.reports.pages import breaking
from tpcalc.reports.cli import main


def printed(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert main(line.split()) == 0
    out, err = capsys.readouterr()
    assert not err
    return out


def test_train_prints_the_losses(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "train --steps 3 --batch 2 --depth 8 --lr 1,0.5,0.25")
    run = tp.train(tp.ResNet(), tp.tasks.digits(3, 2), tp.SGD([1, 0.5, 0.25]), tp.DepthScaling(), 8)
    for step, loss in enumerate(run.losses):
        assert f"{step:>5} {loss:>14.10f}" in out


@pytest.mark.parametrize("line, arguments", [
    ("--depth 8", {"depth": 8}), ("--depth oo", {"depth": tp.oo}), ("", {"depth": tp.oo}),
    ("--depth 4 --width 16 --seed 3", {"depth": 4, "width": 16, "seed": 3}),
    ("--depth 4 --method coefficients", {"depth": 4, "method": "coefficients"})])
def test_train_as_json(line: str, arguments: dict, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, f"train --steps 2 --batch 2 --alpha 0.75 --gamma 1/4 --json {line}"))
    run = tp.train(tp.ResNet(), tp.tasks.digits(2, 2), tp.SGD(1.0), tp.DepthScaling(0.75, 0.25), **arguments)
    assert np.array_equal(found["outputs"], run.outputs) and found["method"] == run.method


@pytest.mark.parametrize("line, net, opt, settings", [
    ("--phi tanh --block mlp --optimizer adam --depth 3 --width 8 --lr 0.1", tp.ResNet("tanh", "mlp"), tp.Adam(0.1),
     {"depth": 3, "width": 8}),
    ("--phi relu --norm rms --optimizer signsgd --depth 2 --samples 700 --seed 1 --lr 0.1",
     tp.ResNet("relu", norm="rms"), tp.SignSGD(0.1), {"depth": 2, "samples": 700, "seed": 1}),
    ("--phi erf", tp.ResNet("erf"), tp.SGD(1.0), {"depth": tp.oo})])
def test_train_takes_every_network_and_optimizer(line: str, net: tp.ResNet, opt: tp.SGD, settings: dict,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, f"train --steps 2 --batch 2 --json {line}"))
    run = tp.train(net, tp.tasks.digits(2, 2), opt, tp.DepthScaling(), **settings)
    assert np.array_equal(found["outputs"], run.outputs) and found["method"] == run.method
    assert found["setup"]["net"] == repr(net) and found["setup"]["optimizer"] == repr(opt)


def test_train_saves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, f"train --steps 2 --batch 1 --depth 4 --save {tmp_path / 'run.npz'}")
    with np.load(tmp_path / "run.npz") as saved:
        assert saved["outputs"].shape == (2, 1, 10) and saved["losses"].shape == (2,)


def test_negative_exponents_are_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert "does not" in printed(capsys, "train --steps 2 --batch 1 --alpha 3/2 --gamma -1/2")


@pytest.mark.parametrize("alpha, gamma", [("1/2", "1/2"), ("1", "0"), ("1/4", "0"), ("2", "-1")])
def test_classify(alpha: str, gamma: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, f"classify --alpha {alpha} --gamma {gamma}")
    verdict = tp.classify(alpha, gamma)
    assert verdict.name in out and all(reason in out for reason in verdict.reasons)
    found = json.loads(printed(capsys, f"classify --alpha {alpha} --gamma {gamma} --json"))
    assert found["flags"]["stable_in_training"] is verdict.stable_in_training
    assert verdict.latex() in printed(capsys, f"classify --alpha {alpha} --gamma {gamma} --latex")


def test_classify_takes_other_networks(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = tp.classify(0.5, 0.5, tp.ResNet("relu", "pre_nonlin"))
    found = json.loads(printed(capsys, "classify --phi relu --block pre_nonlin --json"))
    assert found["reasons"] == list(verdict.reasons) and verdict.reasons != tp.classify(0.5, 0.5).reasons


def test_classify_prints_the_plane(capsys: pytest.CaptureFixture[str]) -> None:
    diagram = tp.phase_diagram(tp.ResNet("linear", "mlp"))
    assert printed(capsys, "classify --plane --block mlp").strip() == str(diagram)
    assert printed(capsys, "classify --plane --block mlp --latex").strip() == diagram.latex()
    found = json.loads(printed(capsys, "classify --plane --block mlp --json"))
    assert found["regions"] == [one.row for one in diagram.regions] and found["block"] == "mlp"


def test_classify_measures(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "classify --alpha 3/4 --gamma 1/4 --measure --depths 64:1024 --json"))
    measured = {row["name"]: row for row in found["rows"] if row["measured"] is not None}
    assert abs(measured["change of f"]["measured"]) < 0.1 and found["depths"] == [64, 128, 256, 512, 1024]


def test_reasons_are_formulas_in_latex(capsys: pytest.CaptureFixture[str]) -> None:
    """The same sentences as in text, where a piece adds powers of its length and of the depth."""
    out = printed(capsys, "classify --alpha 5/4 --gamma=-1/4 --latex")
    noise = r"noise of order $L^{-3/4}$ $\varepsilon^{1/2}$ and drift of order $\varepsilon$: exponent 0"
    assert noise in out and r"the change of $h$ is $L^{1/4}$: no" in out
    assert out.count(r"\begin{align*}") == out.count(r"\begin{itemize}") == 1 and "^(" not in out
    text = printed(capsys, "classify --alpha 5/4 --gamma=-1/4")
    assert "adds noise of order L^(-3/4) eps^(1/2) and drift of order eps: exponent 0" in text and " times " not in (
        text.split("far away")[0])


def test_derive(capsys: pytest.CaptureFixture[str]) -> None:
    program = tp.program(tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(1, 0))
    recursion = tp.recursion(tp.kets(program))
    out = printed(capsys, "derive --alpha 1 --gamma 0")
    assert str(program) in out and str(recursion) in out
    out = printed(capsys, "derive --alpha 1 --gamma 0 --fragment")
    assert breaking.aligned(recursion.latex(), COLUMN) in out
    out = printed(capsys, "derive --alpha 1 --gamma 0 --derivation")
    assert all(step.latex() in out for step in recursion.derivation.steps)
    steps = json.loads(printed(capsys, "derive --json"))["steps"]
    assert [step["number"] for step in steps] == list(range(1, len(steps) + 1))
    assert any(r"\gamma" in step["latex"] for step in steps)


@pytest.mark.parametrize("line, given", [
    ("--branch -1 --lr 0 --optimizer adam --eps -1", dict(branch=-1, lr=0, eps=-1)),
    ("--branch 0 --init -1/2 --weight-decay -0.5 --coupled", dict(branch=0, lr=0, init=-0.5, weight_decay=-0.5,
                                                                  decoupled=False)),
    ("--branch -1/2 --lr -1/2 --no-eps --gradient -1/4", dict(branch=-0.5, lr=-0.5, eps=None, gradient=-0.25)),
    ("--branch -1/2 --lr 1/2 --optimizer sgd", dict(branch=-0.5, lr=0.5, optimizer="sgd"))])
def test_audit(line: str, given: dict, capsys: pytest.CaptureFixture[str]) -> None:
    expected = tp.audit(**given)
    assert printed(capsys, f"audit {line}") == f"{expected}\n"
    assert expected.latex() in printed(capsys, f"audit {line} --latex")
    found = json.loads(printed(capsys, f"audit {line} --json"))
    assert (found["alpha"], found["gamma"]) == (str(expected.alpha), str(expected.gamma))
    assert found["warnings"] == list(expected.warnings) and found["verdict"] == expected.verdict.name


def test_audit_of_named_recipes(few_recipes: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    named = tp.named_recipes()
    assert printed(capsys, "audit --recipe rezero") == f"{named['rezero']}\n"
    assert printed(capsys, "audit --list") == f"{named}\n"
    fixup = json.loads(printed(capsys, "audit --recipe fixup --json"))
    assert (fixup["zero"], fixup["alpha"], fixup["verdict"]) == (["W2"], "1", named["fixup"].verdict.name)
    assert json.loads(printed(capsys, "audit --list --json")) == named.rows


def test_what_was_read_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "train --steps 2 --batch 1 --depth 4 --alpha 0.75 --gamma 1/4 --lr 1/2")
    assert out.startswith("alpha = 3/4, gamma = 1/4, learning rate 0.5\n")


@pytest.mark.parametrize("line, name", [("--branch 0.7", "branch"), ("--branch -1 --lr 1e-3", "lr"),
                                        ("--branch -1 --eps 1e-8", "eps")])
def test_values_are_not_taken_for_powers(line: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *line.split()]) == 2
    assert f"{name}: " in (said := capsys.readouterr().err) and "looks like a value" in said
