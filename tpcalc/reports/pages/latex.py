"""The report as a LaTeX document, and its PDF where a TeX is."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ..._types import Json
from ... import __version__
from ...derivations.printing import escape_as_codes
from ...ledger.document import breakable, tex_templates
from . import breaking, tables
from .document import TableColumn, Document, translate
from ..failures import CompileError

SPELLED = {"-": r"{-}", "'": r"{\textquotesingle}", "\N{EN DASH}": "--", "\N{MINUS SIGN}": "$-$"}


def escape_for_tex(text: str) -> str:
    """Plain text for TeX: every character as it is, none with a meaning; what fonts may lack is spelled out."""
    return "".join(SPELLED[c] if c in SPELLED else escape_as_codes(c) for c in text)


def render_latex(document: Document) -> str:
    """report.tex, with figures in figures/<key>.pdf beside it."""
    environment = tex_templates("tpcalc.reports")
    environment.filters["rich"] = lambda text: _rich(text, document)
    environment.filters["tex"] = escape_for_tex
    environment.filters["displays"] = breaking.displays
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.filters["code"] = _code
    environment.globals["cell"] = lambda row, column: _cell(row, column, document)
    environment.globals["columns"] = _columns
    environment.globals["version"] = __version__
    return environment.get_template("report.tex.j2").render(document=document)


def _rich(text: str, document: Document) -> str:
    return translate(
        text, _prose, lambda math: f"${math}$", lambda code: rf"\texttt{{{breakable(escape_for_tex(code))}}}",
        lambda strong: rf"\textbf{{{_prose(strong)}}}",
        lambda kind, key: _reference(kind, key, document))


def _reference(kind: str, key: str, document: Document) -> str:
    if kind == "file":
        return rf"\texttt{{{escape_for_tex(key)}}}"
    return rf"{kind}~\ref{{{kind}:{key}}}" if (kind, key) in document.numbers else f"the {kind} that is missing"


def _prose(text: str) -> str:
    """Our own sentences: escaped, but hyphens may break lines."""
    return escape_for_tex(text).replace("{-}", "-").replace(r"{\textquotesingle}", "'")


def _code(text: str) -> str:
    """Lines of code: indented as they are, wrapped at spaces where they are long."""
    lines = []
    for line in text.splitlines():
        body = line.lstrip(" ")
        lines.append(rf"\codeline{{{(len(line) - len(body)) * 0.5:g}em}}{{{escape_for_tex(body)}}}")
    return "\n".join(lines)


def _columns(table: Any) -> str:
    """Right for numbers; the last column of words takes what room is left."""
    letters = ["r" if column.numeric else "l" for column in table.columns]
    if letters[-1] == "l":
        letters[-1] = r">{\raggedright\arraybackslash}X"
        return "".join(letters)
    return r">{\raggedright\arraybackslash}X" + "".join(letters[1:]) if letters[0] == "l" else "".join(letters)


def _cell(row: Json, column: TableColumn, document: Document) -> str:
    value = row.get(column.key)
    if column.numeric:
        return tables.tex_number(value, column)
    return _rich(str(value), document) if column.form == "markup" else escape_for_tex(str(value))


def find_tex() -> str | None:
    """The pdflatex on the path, or None."""
    return shutil.which("pdflatex")


def compile_pdf(folder: Path, program: str, timeout: float = 120.0) -> Path:
    """report.pdf from ``folder``/report.tex, by two runs; ``CompileError`` names TeX's first error."""
    with tempfile.TemporaryDirectory() as build:
        command = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape",
                   f"-output-directory={build}", "report.tex"]
        for _ in range(2):  # the second run knows the references
            try:
                done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                                      timeout=timeout)
            except subprocess.TimeoutExpired:
                raise CompileError(f"report.tex: TeX was not done after {timeout:g} s") from None
            log = Path(build) / "report.log"
            text = log.read_text(encoding="latin-1") if log.exists() else done.stdout.decode("latin-1")
            if done.returncode != 0:
                shutil.copy(log, folder / "report.log") if log.exists() else None
                raise CompileError(f"report.tex does not compile: {first_error(text)}")
        shutil.copy(log, folder / "report.log")
        return Path(shutil.copy(Path(build) / "report.pdf", folder / "report.pdf"))


def first_error(log: str) -> str:
    """The first line of a log that is an error, with the line of the source where TeX says it."""
    found = re.search(r"^! ?(.+)$", log, re.MULTILINE)
    location = re.search(r"^l\.(\d+)", log, re.MULTILINE)
    return (found[1] if found else "no error line in its log") + (f" (line {location[1]})" if location else "")
