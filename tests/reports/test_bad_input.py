"""What is not allowed: status 2 and one line that says what was given and what is allowed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tpcalc.reports.cli import main

BAD = {
    "no command": ("", "train"),
    "unknown command": ("inspect", "inspect"),
    "unknown option": ("train --speed 3", "--speed"),
    "alpha is a word": ("train --alpha half", "'half'"),
    "alpha divides by zero": ("classify --alpha 1/0", "'1/0'"),
    "alpha is not finite": ("classify --alpha nan", "exact number"),
    "an activation that is not known": ("classify --phi step", "'relu'"),
    "a block that is not known": ("classify --plane --block deep", "'mlp'"),
    "a plane to be measured": ("classify --plane --measure", "expected one of them"),
    "a nonlinear network to be measured": ("classify --measure --phi relu", "phi='linear'"),
    "gamma is infinite": ("report --gamma inf", "exact number"),
    "alpha has no value": ("train --alpha", "--alpha"),
    "lr is a word": ("train --lr fast", "finite number"),
    "lr is infinite": ("train --lr inf", "'inf'"),
    "lr is NaN": ("train --lr nan", "'nan'"),
    "too many learning rates": ("train --steps 2 --batch 1 --lr 1,2,3", "3 learning rates"),
    "depth 0": ("train --depth 0", "'0'"),
    "negative depth": ("train --depth -3", "'-3'"),
    "half a layer": ("train --depth 2.5", "whole number"),
    "width 0": ("train --depth 4 --width 0", "'0'"),
    "width is a word": ("train --width wide", "oo"),
    "finite width at infinite depth": ("train --width 8 --depth oo", "dense"),
    "no steps": ("train --steps 0", "at least 1"),
    "no batch": ("report --batch 0", "at least 1"),
    "negative seed": ("train --seed -1", "at least 0"),
    "more images than there are": ("train --steps 100 --batch 64", "1797"),
    "an optimizer that cannot train": ("train --steps 1 --batch 1 --optimizer adagrad", "'signsgd'"),
    "a norm that is not known": ("train --steps 1 --batch 1 --norm batch", "'rms'"),
    "samples of an exact reading": ("train --steps 1 --batch 1 --depth 2 --samples 64", "'particles'"),
    "unknown method": ("train --steps 1 --batch 1 --method magic", "reflection"),
    "a method of another depth": ("train --steps 1 --batch 1 --method reflection --depth oo", "finite depth"),
    "alpha too small for a limit": ("train --steps 2 --batch 1 --alpha 1/4 --gamma 1", "alpha >= 1/2"),
    "updates too large for a limit": ("train --steps 2 --batch 1 --gamma -1/4", "alpha + gamma >= 1"),
    "nothing to audit": ("audit", "--branch"),
    "two things to audit": ("audit --branch -1 --recipe completep", "--recipe"),
    "a branch that is a word": ("audit --branch half", "'half'"),
    "a learning rate that is not finite": ("audit --branch -1 --lr nan", "exact number"),
    "an optimizer of unknown size": ("audit --branch -1 --optimizer adagrad", "'signsgd'"),
    "an unknown recipe": ("audit --recipe magic", "'completep'"),
    "decay coupled and independent": ("audit --branch -1 --coupled --independent", "expected one of them"),
    "one depth": ("report --depths 16", "'16'"),
    "depths that shrink": ("report --depths 16,8", "growing"),
    "depths from zero": ("report --depths 0:16", "growing"),
    "depths without end": ("report --depths 16:", "'16:'"),
    "a range that shrinks": ("classify --measure --depths 64:16", "growing"),
    "widths that repeat": ("report --widths 16,16", "growing"),
    "one seed": ("report --seeds 1", "at least 2"),
    "unknown task": ("train --task mnist", "'mnist'"),
    "a file that is not there": ("train --task nowhere.npz", "nowhere.npz"),
    "a csv that is not there": ("report --task nowhere.csv", "nowhere.csv"),
    "LaTeX and JSON at once": ("classify --latex --json", "--json"),
    "a training that blows up": ("train --steps 6 --batch 2 --depth 8 --lr 1e80", "step"),
    "too many networks' weights": ("train --steps 1 --batch 1 --depth 4 --width 100000000", "GiB"),
    "a folder that cannot be written": ("train --steps 1 --batch 1 --save /proc/none/here.npz", "/proc/none"),
    "a file that is a folder": ("train --steps 1 --batch 1 --save /proc", "--save: got '/proc'"),
    "a report where nothing can be written": ("report -o /proc/none", "--output: got '/proc/none'"),
    "a ledger where nothing can be written": ("prove -o /proc/none", "--output: got '/proc/none'"),
}


def complaint(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    status = main(arguments)
    out, err = capsys.readouterr()
    assert status == 2, (status, out, err)
    assert err.count("\n") == 1 and err.endswith("\n") and "Traceback" not in err, err
    return err


@pytest.mark.parametrize("line, said", BAD.values(), ids=BAD.keys())
def test_one_line_and_status_2(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in complaint(capsys, line.split())


FILES = {
    "empty.csv": ("", "header"),
    "only_header.csv": ("x,y\n", "no line"),
    "no_targets.csv": ("x1,x2\n1,2\n", "x1,x2"),
    "stray_column.csv": ("x,y,note\n1,2,3\n", "note"),
    "words.csv": ("x,y\n1,2\none,2\n", "line 3"),
    "short_line.csv": ("x1,x2,y\n1,2,3\n1,2\n", "line 3"),
    "nan.csv": ("x,y\n1,nan\n2,3\n", "line 2 has '1,nan'"),
    "infinite.csv": ("x,y\ninf,1\n2,3\n", "infinite"),
    "binary.csv": (b"\xff\xfe\x00\x01", "binary.csv"),
    "not_an_archive.npz": (b"PK nothing", "not_an_archive.npz"),
    "empty.npz": (b"", "empty.npz"),
    "one.array.txt": ("1 2 3", ".npz or .csv"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_not_tasks(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, said = FILES[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert said in complaint(capsys, ["train", "--task", str(tmp_path / name)])


ARCHIVES = {
    "no inputs": ({"targets": np.ones(3)}, "targets"),
    "different lengths": ({"inputs": np.ones((4, 2)), "targets": np.ones((3, 1))}, "4 inputs and 3 targets"),
    "different steps": ({"inputs": np.ones((4, 2, 2)), "targets": np.ones((3, 2, 1))}, "3 steps"),
    "four dimensions": ({"inputs": np.ones((1, 1, 1, 1)), "targets": np.ones(1)}, "(1, 1, 1, 1)"),
    "text": ({"inputs": np.array(["a"]), "targets": np.ones(1)}, "inputs"),
    "objects": ({"inputs": np.array([None]), "targets": np.ones(1)}, "data.npz"),
    "complex numbers": ({"inputs": np.array([1j]), "targets": np.ones(1)}, "complex"),
    "NaN": ({"inputs": np.array([np.nan]), "targets": np.ones(1)}, "NaN"),
    "nothing": ({"inputs": np.ones((0, 2)), "targets": np.ones((0, 1))}, "0 samples"),
}


@pytest.mark.parametrize("arrays, said", ARCHIVES.values(), ids=ARCHIVES.keys())
def test_archives_that_are_not_tasks(arrays: dict[str, np.ndarray], said: str, tmp_path: Path,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "data.npz", **arrays)
    assert said in complaint(capsys, ["train", "--task", str(tmp_path / "data.npz")])


def test_where_to_save_is_looked_at_before_training(monkeypatch: pytest.MonkeyPatch,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    def work(*arguments: object, **options: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("tpcalc.reports.commands.train_network", work)
    assert "nowhere" in complaint(capsys, ["train", "--steps", "1", "--batch", "1", "--save", "nowhere/run.npz"])


def test_steps_other_than_the_file_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "data.npz", inputs=np.ones((4, 2, 2)), targets=np.ones((4, 2, 1)))
    assert "steps: got 3; expected 4" in complaint(
        capsys, ["train", "--task", str(tmp_path / "data.npz"), "--steps", "3"])


def test_a_report_onto_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    complaint(capsys, ["report", "--steps", "1", "--batch", "1", "-o", str(tmp_path / "taken")])
    assert (tmp_path / "taken").read_text() == ""


@pytest.mark.parametrize("command", ["", "report", "derive", "train", "classify", "audit", "prove", "figure", "warmup"])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"usage: tpcalc {command}".strip()) and not err


def test_a_process_of_its_own() -> None:
    """No warnings and no traceback come past the one line either."""
    done = subprocess.run([sys.executable, "-m", "tpcalc.reports.cli", *BAD["a training that blows up"][0].split()],
                          capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and not done.stdout


def test_help_needs_none_of_the_extras() -> None:
    code = ("import sys; from tpcalc.reports.cli import main; main(['report', '--help']); "
            "print(sorted({'matplotlib', 'jinja2', 'latex2mathml', 'sklearn', 'tqdm'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
