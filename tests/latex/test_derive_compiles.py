"""What ``tpcalc derive --latex`` prints compiles as it stands, within the margins; fragments do in an article."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpcalc.reports import cli
from tpcalc.reports.pages.latex import compile_pdf, find_tex

pytestmark = pytest.mark.skipif(find_tex() is None, reason="no pdflatex on the path")
LINES = ("", "--derivation", "--phi relu --optimizer adam", "--phi tanh --block mlp", "--net transformer",
         "--phi tanh --alpha 1/2 --gamma 1/2 --derivation", "--phi silu --block glu --derivation",
         "--phi silu --block glu --optimizer adam --derivation", "--norm rms --block mlp --derivation",
         "--phi gelu --norm rms")


@pytest.mark.parametrize("line", LINES)
def test_documents_compile(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["derive", *line.split(), "--latex"]) == 0
    (tmp_path / "report.tex").write_text(capsys.readouterr().out, encoding="utf-8")
    compile_pdf(tmp_path, str(find_tex()))
    log = (tmp_path / "report.log").read_text(encoding="latin-1")
    assert "\n! " not in log and "Overfull" not in log and "undefined" not in log.lower()
    assert "Scaled formula" not in log


@pytest.mark.parametrize("line", [
    "", "--phi relu --optimizer adam", "--phi tanh --block mlp --momentum 0.9", "--net transformer", "--optimizer lion",
    "--phi silu --block glu --optimizer adam --derivation", "--net transformer --optimizer adam"])
def test_fragments_compile_in_an_article(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they stand, within the margins of the class that has the widest ones."""
    assert cli.main(["derive", *line.split(), "--fragment"]) == 0
    (tmp_path / "report.tex").write_text("\n".join([
        r"\documentclass{article}", r"\usepackage{amsmath,amssymb}", r"\begin{document}", capsys.readouterr().out,
        r"\end{document}"]), encoding="utf-8")
    compile_pdf(tmp_path, str(find_tex()))
    log = (tmp_path / "report.log").read_text(encoding="latin-1")
    assert "\n! " not in log and "Overfull" not in log
