"""The golden LaTeX compiles as it would in a paper."""

from pathlib import Path

import pytest

from tpcalc.reports.pages.latex import compile_pdf, find_tex

pytestmark = pytest.mark.skipif(find_tex() is None, reason="no pdflatex on the path")
GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("*.tex"))


def test_all_golden_files_compile(tmp_path: Path) -> None:
    assert len(GOLDEN) >= 4
    bodies = [rf"\begin{{align*}}{path.read_text(encoding='utf-8').rstrip()}\end{{align*}}" for path in GOLDEN]
    document = "\n".join([r"\documentclass{article}", r"\usepackage{amsmath,amssymb}", r"\begin{document}", *bodies,
                          r"\end{document}"])
    (tmp_path / "report.tex").write_text(document, encoding="utf-8")
    compile_pdf(tmp_path, str(find_tex()))
    log = (tmp_path / "report.log").read_text(encoding="latin-1")
    assert (tmp_path / "report.pdf").exists() and "Undefined control sequence" not in log and "\n! " not in log
