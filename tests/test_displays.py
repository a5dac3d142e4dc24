"""What a person sees of results: a line of ``repr`` each, tables on pages, runs in files."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.bad_values import instances

TASK = tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5], probes=[0.3])
HALF = tp.DepthScaling("1/3", sp.Rational(2, 3), base_depth=2)
LONGEST = 420


def run(net: tp.ResNet = tp.ResNet(), opt: Any = tp.SGD([0.5, 0.4, 0.3], momentum=0.5), depth: Any = 6,
        width: Any = tp.oo) -> tp.Run:
    return tp.train(net, TASK, opt, HALF, depth, width)


RUNS = {"linear": lambda: run(), "wide": lambda: run(width=8), "adamw": lambda: run(
    tp.ResNet("SiLU", "mlp", "rms", True, 3), tp.AdamW(0.1, betas=(0.9, 0.95)), width=8)}


def test_every_public_value_is_a_line_of_repr() -> None:
    shown = {name: repr(value) for name, value in instances().items() if value is not None}
    shown["NamedRecipes"] = repr(tp.named_recipes())
    shown |= {f"{name} of a recursion": repr(getattr(instances()["Recursion"], name))
              for name in ("setting", "derivation", "equations") if name != "equations"}
    shown["a compiled recursion"] = repr(instances()["Recursion"].compile())
    shown["a limit compiled"] = repr(instances()["DepthLimit"].compile())
    assert not {name: len(text) for name, text in shown.items() if len(text) > LONGEST or "\n" in text}
    assert not [name for name, text in shown.items() if " object at 0x" in text]


def test_every_public_value_is_printed_and_pickled() -> None:
    """A public class without a value in tests/support/bad_values.py fails here."""
    public = {name for name in tp.__all__ if isinstance(getattr(tp, name), type)}
    assert public <= set(instances())
    for name, value in instances().items():
        for text in ("__str__", "__repr__", "_repr_html_", "_repr_latex_"):
            assert isinstance(getattr(value, text, str)(), str), name
        assert type(pickle.loads(pickle.dumps(value))) is type(value), name


def test_pages_show_tables() -> None:
    tables = {name: value for name, value in instances().items() if hasattr(value, "rows")}
    assert {"Run", "Convergence", "Transfer", "WidthOrDepth"} <= set(tables)
    for name, value in {**tables, "methods": tp.methods.table(run().problem), "recipes": tp.named_recipes()}.items():
        rows = value.rows
        assert isinstance(rows, list) and all(isinstance(row, dict) for row in rows), name
        assert value._repr_html_().count("<tr>") == len(rows) + 1, name


def test_notebooks_show_formulas_that_are_closed() -> None:
    """Environments and braces are closed, and what stands between them is the value's own LaTeX."""
    shown = {name: value for name, value in instances().items() if hasattr(value, "_repr_latex_")}
    assert {"Program", "Recursion", "DepthLimit"} <= set(shown)
    for name, value in shown.items():
        text = value._repr_latex_()
        begun, ended = ([m[1] for m in re.finditer(rf"\\{word}{{(\w+\*?)}}", text)] for word in ("begin", "end"))
        assert begun[0] == ended[-1] == "aligned" and sorted(begun) == sorted(ended), name
        assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}"), name
        assert text[0] == text[-1] == "$" and value.latex() in text, name


@pytest.mark.parametrize("name", RUNS)
def test_what_was_saved_is_loaded(name: str, tmp_path: Path) -> None:
    before = RUNS[name]()
    before.save(tmp_path / "run.npz")
    after = tp.Run.load(tmp_path / "run.npz")
    assert after == before and hash(after) == hash(before) and repr(after) == repr(before)
    assert np.array_equal(tp.train(after.problem).outputs, before.outputs)
    assert after.problem.opt == before.problem.opt and after.problem.scale == before.problem.scale
    assert list(tmp_path.iterdir()) == [tmp_path / "run.npz"]


def test_runs_differ_where_anything_stored_does() -> None:
    one = run()
    assert one == run() and one == pickle.loads(pickle.dumps(one)) and one != "run"
    assert one != run(depth=7) and one != run(opt=tp.SGD(0.5)) and one != run(width=8)
    other = tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.4], probes=[0.3])  # the last target moves no output
    moved = tp.train(tp.ResNet(), other, tp.SGD([0.5, 0.4, 0.3], momentum=0.5), HALF, 6)
    assert np.array_equal(one.outputs, moved.outputs) and one != moved


def test_fluctuations_of_a_loaded_run_are_found_and_layers_refused(tmp_path: Path) -> None:
    before = run(depth=4)
    before.save(tmp_path / "run.npz")
    after = tp.Run.load(tmp_path / "run.npz")
    assert np.array_equal(after.fluctuations.covariance, before.fluctuations.covariance)
    with pytest.raises(ValueError, match="forward_covariance: .* knows outputs alone; expected runs that were not"):
        after.forward_covariance


def test_what_a_file_cannot_hold_is_asked_for(tmp_path: Path) -> None:
    h = sp.Symbol("h")
    before = run(tp.ResNet(sp.sin(h)), tp.SGD(0.1), width=8)
    before.save(tmp_path / "run.npz")
    with pytest.raises(ValueError, match=r"problem: got None, .*net.phi: sin\(h\)"):
        tp.Run.load(tmp_path / "run.npz")
    assert tp.Run.load(tmp_path / "run.npz", before.problem) == before
    with pytest.raises(ValueError, match="problem: .* not those of"):
        tp.Run.load(tmp_path / "run.npz", run(width=9).problem)


@pytest.mark.parametrize("content", [b"", b"PK nothing", b"words"])
def test_files_that_are_no_runs(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.npz").write_bytes(content)
    with pytest.raises(ValueError, match="path: .* expected a file that run.save wrote"):
        tp.Run.load(tmp_path / "run.npz")
    np.savez(tmp_path / "other.npz", outputs=np.ones(3))
    with pytest.raises(ValueError, match="path: "):
        tp.Run.load(tmp_path / "other.npz")


def test_no_code_is_read_from_a_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "run.npz", words=np.array([{"format": 1}], dtype=object))
    with pytest.raises(ValueError, match="path: .*allow_pickle"):
        tp.Run.load(tmp_path / "run.npz")


def test_the_table_of_a_run_says_its_losses() -> None:
    one = run()
    lines = one.table().splitlines()
    assert len(lines) == 4 and [float(line.split()[1]) for line in lines[1:]] == pytest.approx(one.losses, rel=1e-5)


def test_plots_draw_the_losses_and_say_what_is_missing() -> None:
    one = run()
    line, = one.plot().lines
    assert np.array_equal(line.get_ydata(), one.losses)
    code = ("import sys; sys.modules['matplotlib'] = None\nimport tpcalc as tp\n"
            "run = tp.train(tp.ResNet(), tp.Task([1], [1]), tp.SGD(), tp.DepthScaling(), 2)\n"
            "try: run.plot()\nexcept tp.MissingExtra as error: print(error)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Run.plot needs matplotlib" in done.stdout
