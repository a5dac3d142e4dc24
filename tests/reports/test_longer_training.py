"""``tpcalc audit --batch-size --steps --decay``: what rate and decay become, and what is refused."""

from __future__ import annotations

import json

import pytest

import tpcalc as tp
from tpcalc.reports.cli import main


def printed(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert main(["audit", *line.split()]) == 0
    return capsys.readouterr().out


def test_numbers_are_those_of_the_rule(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--batch-size 512,1024 --steps 10000,40000 --optimizer adamw --x 0.3 --u 1 --decay 0.1")
    factors = tp.transfer_rule("adamw", x="0.3", u=1).factors(2, 4)
    rate, decay = (float(factors[name]) for name in ("rate", "decay"))
    assert f"rate times {rate:.6g}, decay times {decay:.6g}, decay becomes {0.1 * decay:.6g}" in text
    assert "of your data" not in text and "batches below the critical one" in text


def test_what_data_decide_stays_a_symbol(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--steps 10000,40000 --optimizer muon")
    assert "muon, below the width: rate times 4**(-x)" in text
    assert "of your data: u, x; give --u and --x" in text
    found = json.loads(printed(capsys, "--batch-size 512,1024 --json"))
    assert found["optimizer"] == "adam" and found["regions"][0]["rate"] == "2**(1/2 - x)"


@pytest.mark.parametrize("line, said", [
    ("", "branch: got none; expected --branch, --recipe, --list, or --batch-size and --steps"),
    ("--branch -1 --x 0.3", "x: got 0.3 with a recipe, whose powers are of the depth"),
    ("--list --x 0.3", "x: got 0.3 with --list, whose powers are of the depth"),
    ("--steps 4,8 --decay lots", "--decay: got 'lots'; expected a number of at least 0 such as 0.3 or 1/3"),
    ("--steps 4,8 --data width", "data: got one with other batches or steps and no recipe"),
    ("--steps 0,4", "two whole numbers of at least 1, of base and target"),
    ("--steps 4", "two whole numbers of at least 1, of base and target"),
    ("--steps 4,8 --optimizer soap", "functions of matrices"),
    ("--steps 4,8 --optimizer magic", "optimizer: got 'magic'")])
def test_refusals(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["audit", *line.split()])
    except SystemExit as stopped:
        status = int(str(stopped.code))
    assert status == 2 and said in capsys.readouterr().err
