"""A derivation as text, as LaTeX and as MathML, each with the reasons beside the steps."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.derivations import Derivation, mathml
from tpcalc.derivations.printing import rich, with_upright_words


@pytest.fixture(scope="module")
def derivation() -> Derivation:
    scale = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
    return tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), scale))).derivation


@pytest.mark.parametrize("reasons", [False, True])
def test_every_step_is_a_row_with_its_words(derivation: Derivation, reasons: bool) -> None:
    """The same words in LaTeX and in MathML, where they are text as it is."""
    table = ET.fromstring(derivation.mathml(reasons)).find("mtable")
    assert table is not None and len(table) == len(derivation.steps) == derivation.latex(reasons).count(" \\\\\n") + 1
    for step, row, line in zip(derivation.steps, table, derivation.latex(reasons).split(" \\\\\n")):
        words = f"({step.number}) {step.rule}" + (f": {step.reason}" if reasons else "")
        assert [cell.tag for cell in row] == ["mtd"] * 3  # left side, right side, words
        assert "".join(row[2].itertext()).replace("\N{NO-BREAK SPACE}", " ") == words
        assert line == rf"{step.latex()} && \text{{{rich(words)}}}"


def test_formulas_within_reasons() -> None:
    text = mathml.annotated([("x &= y", "because $a < b$ & c")])
    row = ET.fromstring(text)[0][0]
    assert [part.tag for part in row[2]] == ["mtext", "mrow", "mtext"]
    assert row[2][1].find("mo").text == "<" and row[2][2].text == "\N{NO-BREAK SPACE}&\N{NO-BREAK SPACE}c"
    assert rich("because $a < b$ & c") == r"because $a < b$ \& c"


def test_notebooks_show_mathml_where_there_is_some(derivation: Derivation, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = derivation._repr_html_()
    assert shown is not None and derivation.mathml(reasons=True) in shown
    assert derivation.latex() in derivation._repr_latex_()
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", None)
    assert derivation._repr_html_() is None
    with pytest.raises(tp.MissingExtra, match=r"pip install 'tpcalc\[report\]'"):
        derivation.mathml()


def test_text_names_the_reason(derivation: Derivation) -> None:
    first, step = str(derivation).splitlines()[0], derivation.steps[0]
    assert first == f"(1) {step.left} = {step.after}    [{step.rule}: {step.reason}]"


def test_steps_with_samples_are_kept_together_in_text() -> None:
    """A step alone needs no parentheses, a step with a sample does, and so do those of LaTeX."""
    written = [str(tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(), batch=batch))))
               for batch in (False, True)]
    assert "Gamma[t,r,0,b]" in written[0] and "(t" not in written[0]
    assert "Gamma[(t,i),(r,j),0,b]" in written[1] and "C[(t,i),(s,i'),0](l)" in written[1]


@pytest.mark.parametrize("name, latex", [
    ("{W_1}", "W_{1,t}^{l}"), ("Wq", "W_{q,t}^{l}"), ("{W_{1,2}}", "W_{1,2,t}^{l}"), ("W", "W_{t}^{l}"),
    (r"\mathrm{m}{W_1}", r"\mathrm{m}W_{1,t}^{l}"), (r"\rho^{{W_1}}", r"\rho^{{W_1}}_{t}^{l}")])
def test_an_index_of_a_name_stands_before_others(name: str, latex: str) -> None:
    """W_1 at step 0 is no W with the index 10."""
    t, l = sp.symbols("t l", integer=True)
    assert sp.latex(tp.theory.Family(tp.theory.Matrix, "M", name, layered=True)[t, l]) == latex


@pytest.mark.parametrize("name, latex", [
    ("value", r"\mathrm{value}"), (r"\delta score", r"\delta \mathrm{score}"), ("Wq", "{W_q}"), ("nV", "nV"),
    ("{W_{1,2}}", "{W_{1,2}}"), (r"\mathrm{m}{W_1}", r"\mathrm{m}{W_1}"),
    (r"\mathrm{free}\,Wo", r"\mathrm{free}\,{W_o}"), (r"\rho^{Wv}", r"\rho^{{W_v}}"), (r"\tilde{x}", r"\tilde{x}")])
def test_words_are_upright(name: str, latex: str) -> None:
    assert with_upright_words(name) == latex
