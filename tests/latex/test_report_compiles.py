"""report.tex through a real TeX."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import tpcalc as tp
from tpcalc.reports import transformer_stages
from tpcalc.reports.cli import main
from tpcalc.reports.pages.derivations import derivation
from tpcalc.reports.pages.document import Code, Document, DisplayedFormula, Paragraph, Plain, Section
from tpcalc.reports.failures import CompileError
from tpcalc.reports.pages.latex import compile_pdf, find_tex, render_latex
from tpcalc.reports.stages import derive_stage

pytestmark = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on the path")

WIDEST_BOX = 20.0  # points


def program() -> str:
    found = find_tex()
    assert found is not None
    return found


def complaints(log: str) -> list[str]:
    """Undefined references and boxes that stick out of the page."""
    log = re.sub(r"(?<=.{79})\n", "", log)  # TeX breaks its log's lines
    found = re.findall(r"^.*(?:undefined|multiply defined|may have changed|Missing character).*$", log, re.MULTILINE)
    wide = [m[0] for m in re.finditer(r"Overfull \\hbox \(([\d.]+)pt too wide\)", log) if float(m[1]) > WIDEST_BOX]
    return found + wide + re.findall(r"^(?:Scaled formula|Overfull \\vbox).*$", log, re.MULTILINE)


@pytest.mark.parametrize("scaling", [[], ["--alpha", "1", "--gamma", "0"], ["--gamma", "0"]],
                         ids=["Depth-muP", "ODE limit", "no limit"])
def test_a_report_compiles(scaling: list[str], tmp_path: Path) -> None:
    status = main(["report", "--steps", "2", "--batch", "3", "--depths", "4:16", "--widths", "16,32",
                   "--network-depth", "4", "--seeds", "2", "-o", str(tmp_path), *scaling])
    assert status == 0
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert not complaints((tmp_path / "report.log").read_text(encoding="latin-1"))


def test_a_report_on_a_transformer_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer_stages, "GRID", transformer_stages.GRID[2:6])  # the numbers are not looked at
    monkeypatch.setattr(transformer_stages, "SEEDS", 1)
    status = main(["report", "--net", "transformer", "--steps", "2", "--batch", "1", "--positions", "2", "--depths",
                   "2,4", "--widths", "8,16,32", "--seeds", "2", "-o", str(tmp_path)])
    assert status == 0
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert not complaints((tmp_path / "report.log").read_text(encoding="latin-1"))


def test_text_from_elsewhere_is_harmless(tmp_path: Path) -> None:
    nasty = r"""\input{x} $ % & # _ ^ ~ { } < > | " ' ` -- --- \end{document} é ∞ 漢 ?` !` fi"""
    blocks = [Paragraph("As it is:"), Plain([nasty]), Code(f"  {nasty}\n\n{nasty * 3}"), DisplayedFormula("a &= b")]
    (tmp_path / "report.tex").write_text(render_latex(Document("Title", "$a$", [Section("s", "S", blocks)])))
    assert compile_pdf(tmp_path, program()).exists()
    assert not complaints((tmp_path / "report.log").read_text(encoding="latin-1"))


def test_a_formula_wider_than_the_page_is_scaled(tmp_path: Path) -> None:
    wide = "x &= " + r" \cdot ".join(f"x_{{{i}}}" for i in range(200))
    (tmp_path / "report.tex").write_text(render_latex(Document("Title", "",
                                                               [Section("s", "S", [DisplayedFormula(wide)])])))
    compile_pdf(tmp_path, program())
    found = complaints((tmp_path / "report.log").read_text(encoding="latin-1"))
    assert len(found) == 1 and found[0].startswith("Scaled formula")


@pytest.mark.parametrize("net", [tp.ResNet(block="mlp"), tp.ResNet("tanh", "glu")], ids=["two matrices", "gated"])
def test_derivations_fit_their_pages(net: tp.ResNet, tmp_path: Path) -> None:
    """No formula of the longest derivations has to be scaled, none is taller than a page."""
    found = derive_stage(net, tp.SGD())
    bodies = [body for body in (found.kets_latex, found.recursion_latex, found.limit_latex) if body]
    page = Document("A_title & 100 %", "",
                    [Section("s", "S", [Paragraph("In [[appendix:a]]:"), *map(DisplayedFormula, bodies)]),
                     Section("a", "Steps", derivation(found.steps), is_appendix=True)])
    (tmp_path / "report.tex").write_text(render_latex(page))
    text = compile_pdf(tmp_path, program()).read_bytes()
    assert not complaints((tmp_path / "report.log").read_text(encoding="latin-1"))
    title = re.search(rb"/Title\((.*?)\)/", text)
    assert title is not None
    letters = re.sub(rb"\\(\d{3})", lambda octal: bytes([int(octal[1], 8)]), title[1])
    assert letters.decode("utf-16") == "A_title & 100 %"


def test_the_first_error_is_said(tmp_path: Path) -> None:
    lines = [r"\documentclass{article}", r"\begin{document}", r"\nosuchcommand", r"\end{document}"]
    (tmp_path / "report.tex").write_text("\n".join(lines))
    with pytest.raises(CompileError, match=r"Undefined control sequence\. \(line 3\)"):
        compile_pdf(tmp_path, program())
