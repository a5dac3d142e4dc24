"""The small parts that documents are made of."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tpcalc.derivations import mathml
from tpcalc.derivations.printing import SPECIAL
from tpcalc.reports.pages import breaking, latex, tables
from tpcalc.reports import progress, store
from tpcalc.reports.arguments import growing, join_negative
from tpcalc.reports.pages.document import TableColumn, Document, Paragraph, Section, DocumentTable, literal, translate
from tpcalc.reports.stages import extrapolated_z

TERM = r"\sum_{\substack{1 \leq m \leq L\\0 \leq r + 1 \leq s}} \frac{a + b}{c} \left(x + y\right)"


def test_rows_break_only_before_top_level_plus() -> None:
    body = rf"z &= {TERM} + {TERM} + {TERM} \\ w &= {TERM}"
    rows = breaking.rows(body, 30)
    more = breaking.CONTINUED + "{} + " + TERM
    assert rows == [rf"z &= {TERM}", more, more, rf"w &= {TERM}"]
    assert breaking.rows(body, 1e6) == [part.strip() for part in (rf"z &= {TERM} + {TERM} + {TERM}", rf"w &= {TERM}")]


def test_broken_rows_are_mathml() -> None:
    text = mathml.display(breaking.rows(rf"z &= {TERM} + {TERM}", 30))
    assert text.count("<munder>") == 2 and "\\" not in text and "xmlns" not in text


def test_assignments_and_dots() -> None:
    assert "<mo>:=</mo>" in mathml.inline("a := b")
    assert 'accent="true"' in mathml.inline(r"| x \dot{\rangle}")


@pytest.mark.parametrize("formula", [r"\nosuchcommand x", "a & b"])
def test_formulas_without_mathml_are_refused(formula: str) -> None:
    with pytest.raises(ValueError, match="has no MathML"):
        mathml.inline(formula)


@pytest.mark.parametrize("value, expected", [
    (0.0, "$0$"), (None, "\u2013"), (float("nan"), "\u2013"), (0.25, "$0.250$"), (123.4, "$123$"),
    (1.234e-5, r"$1.23 \times 10^{-5}$"), (-9.999e-4, r"$-1.00 \times 10^{-3}$")])
def test_numbers_in_text(value: float | None, expected: str) -> None:
    assert tables.math_number(value) == expected


def test_uncertainties_show_their_digits() -> None:
    assert tables.with_uncertainty(1.00043, 0.00017) == r"$1.00043 \pm 0.00017$"
    assert tables.with_uncertainty(0.5, 0.04, 2, "r") == r"$r = 0.500 \pm 0.040$"
    assert tables.with_uncertainty(0.5, float("inf")) == "$0.500$"
    assert tables.with_uncertainty(float("nan"), float("inf")) == "\u2013"


def test_cells() -> None:
    column = TableColumn("a", "a", "sci")
    assert tables.tex_number(0.0123, column) == r"$1.23 \times 10^{-2}$"
    assert tables.html_number(-0.0123, column) == "\u22121.23&#8239;×&#8239;10<sup>\u22122</sup>"
    assert tables.tex_number(None, column) == "--" and tables.html_number(None, column) == "\u2013"
    assert tables.tex_number(0.125, TableColumn("a", "a", "percent", 1)) == r"$12.5 \%$"


@given(st.text(max_size=40))
def test_escaped_text_has_no_meaning_for_tex(text: str) -> None:
    plain = latex.escape_for_tex(text)
    assert plain.isascii()
    left = plain
    for code in sorted({*latex.SPELLED.values(), *SPECIAL.values()}, key=len, reverse=True):
        left = left.replace(code, "")
    assert not set(left) & set("\\{}$&#%_^~")


@given(st.text(max_size=40))
def test_literal_text_has_no_markup(text: str) -> None:
    def never(*arguments: str) -> str:
        raise AssertionError(arguments)

    assert translate(literal(text), lambda s: s, never, never, never, never) == literal(text)


def test_markup() -> None:
    found = translate("a $x$ `b` **c** [[figure:d]] [[file:e.csv]]", str.upper, lambda s: f"m{s}", lambda s: f"c{s}",
                      lambda s: f"s{s}", lambda kind, key: f"{kind}-{key}")
    assert found == "A mx cb sc figure-d file-e.csv"


def test_references_to_what_is_missing_are_said() -> None:
    text = latex.render_latex(Document("t", "", [Section("s", "s", [Paragraph("see [[figure:gone]]")])]))
    assert r"\ref" not in text and "the figure that is missing" in text


def test_tables_and_figures_are_numbered() -> None:
    empty = [DocumentTable(key, "", [TableColumn("a", "a")], []) for key in ("one", "two")]
    assert Document("t", "", [Section("s", "s", empty)]).numbers == {("table", "one"): 1, ("table", "two"): 2}


@dataclass(frozen=True)
class Result:
    values: list


def test_the_store(tmp_path: Path) -> None:
    def compute() -> Result:
        return Result([np.float64(0.1), float("nan"), np.int64(3), None, "a"])

    first = store.Store(tmp_path).run("stage", {"a": (1, 2)}, Result, compute)
    assert first.result.values == [0.1, None, 3, None, "a"] and not first.reused
    again = store.Store(tmp_path).run("stage", {"a": (1, 2)}, Result, compute)
    assert again.reused and again.result == first.result and again.seconds == first.seconds
    assert not store.Store(tmp_path).run("stage", {"a": (1, 3)}, Result, compute).reused
    assert not store.Store(tmp_path, fresh=True).run("stage", {"a": (1, 3)}, Result, compute).reused
    for damage in ("", "[]", '{"key": 1}', "\x00"):
        (tmp_path / "stage.json").write_text(damage)
        assert not store.Store(tmp_path).run("stage", {"a": (1, 3)}, Result, compute).reused
    kept = json.loads((tmp_path / "stage.json").read_text())["fields"]
    assert kept["result"] == {"values": [0.1, None, 3, None, "a"]}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream, shown", [(Terminal(), True), (io.StringIO(), False)])
def test_progress_only_on_a_terminal(stream: io.StringIO, shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", stream)
    with progress.bar("training", 3) as update:
        for done in (1, 2, 3):
            update(done, 3)
    assert ("training" in stream.getvalue()) is shown


def test_ranges() -> None:
    assert growing("16:128") == (16, 32, 64, 128) and growing("3:20") == (3, 6, 12) and growing("2,3,5") == (2, 3, 5)
    assert join_negative(["x", "--gamma", "-1/2", "--lr", "1"]) == ["x", "--gamma=-1/2", "--lr", "1"]


def test_extrapolation_removes_the_bias_and_keeps_the_scatter() -> None:
    """Independent outputs with mean c/n and variance 1/n: rms z is 1 when extrapolated."""
    rng, widths, seeds = np.random.default_rng(0), np.array([64.0, 128.0, 256.0]), 400
    samples = [5 / n + rng.normal(size=(seeds, 2000)) / np.sqrt(n) for n in widths]
    means, variances = (np.array([f(s) for s in samples]) for f in (
        lambda s: s.mean(axis=0), lambda s: s.var(axis=0, ddof=1)))
    assert extrapolated_z(widths, means, variances, seeds) == pytest.approx(1, abs=0.05)
