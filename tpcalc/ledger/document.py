"""The ledger as one LaTeX document: numbered, cross-referenced statements with their derivations and errata."""

from __future__ import annotations

import re
from typing import Any

from ..derivations.printing import escape_as_codes, rich
from ..errors import of_extra
from .checking import Ledger
from .entry import KINDS


def tex_templates(package: str) -> Any:
    """The templates of a package that write TeX, whose braces and percent signs they leave alone."""
    jinja2 = of_extra("jinja2", "report", "the ledger's document")
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package), trim_blocks=True, lstrip_blocks=True, autoescape=False,
        block_start_string="<%", block_end_string="%>", variable_start_string="<<", variable_end_string=">>",
        comment_start_string="<#", comment_end_string="#>", undefined=jinja2.StrictUndefined)


def breakable(code: str) -> str:
    """Code within a line, which may be broken after slashes and underscores: keys of the ledger are long."""
    return code.replace(r"\_", r"\_\allowbreak{}").replace("/", r"/\allowbreak{}")


def ledger_latex(ledger: Ledger) -> str:
    """The document's source, for any pdflatex with amsmath, graphicx and hyperref.

    Raises ``MissingExtra`` without Jinja2 (extra ``report``).
    """
    environment = tex_templates("tpcalc.ledger")
    environment.filters.update(tex=escape_as_codes, rich=rich, rows=_rows, measured=_measured,
                               key=lambda key: breakable(escape_as_codes(key)))
    return environment.get_template("ledger.tex.j2").render(
        accounts=list(ledger.accounts.values()), statuses=ledger.statuses, kinds=KINDS)


def _measured(text: str) -> str:
    return escape_as_codes(text).replace(" +- ", r" $\pm$ ")


def _rows(body: str) -> list[str]:
    r"""The lines of an ``aligned`` body; each is set by itself, so that long derivations break over pages."""
    return [row.strip() for row in _split(body) if row.strip()]


def _split(body: str) -> list[str]:
    rows, level, start = [], 0, 0
    for match in re.finditer(r"\\begin\{|\\end\{|\\\\(\[[^\]]*\])?", body):
        token: str = match.group()
        if token == r"\begin{":
            level += 1
        elif token == r"\end{":
            level -= 1
        elif level == 0:
            rows.append(body[start:match.start()])
            start = match.end()
    return [*rows, body[start:]]
