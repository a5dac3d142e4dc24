"""The ledger's document compiles, with every reference resolved."""

import re
from pathlib import Path

import pytest

from tpcalc.ledger import check, entries
from tpcalc.reports.latex import compile_pdf, find_tex
from tpcalc.reports.prove import write

pytestmark = pytest.mark.skipif(find_tex() is None, reason="no pdflatex on the path")


def test_the_real_ledger_compiles(tmp_path: Path) -> None:
    write(check(entries()), tmp_path)
    assert (tmp_path / "ledger.pdf").read_bytes()[:5] == b"%PDF-"
    (tmp_path / "report.tex").write_text((tmp_path / "ledger.tex").read_text())
    compile_pdf(tmp_path, str(find_tex()))
    log = (tmp_path / "report.log").read_text(encoding="latin-1")
    assert "undefined" not in log and "multiply defined" not in log
    assert all(float(points) < 10 for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log))
