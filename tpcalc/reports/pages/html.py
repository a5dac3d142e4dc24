"""The report as one HTML page that needs nothing but itself."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

import jinja2
from markupsafe import Markup

from ..._types import Json
from ...derivations import mathml
from . import breaking, tables
from .document import TableColumn, Document, DocumentTable, translate


def render_html(document: Document, folder: Path) -> str:
    """The page; figures are read from ``folder``/figures/<key>.svg, missing ones are left out with a word."""
    environment = jinja2.Environment(loader=jinja2.PackageLoader("tpcalc.reports"), autoescape=True,
                                     trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters["rich"] = lambda text: _rich(text, document)
    environment.filters["formula"] = lambda body: Markup(mathml.display(breaking.rows(body)))
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.filters["svg"] = lambda key: _data(folder / "figures" / f"{key}.svg")
    environment.globals["cell"] = lambda row, column: _cell(row, column, document)
    environment.globals["letter_of"] = lambda section: document.numbers["appendix", section.key]
    environment.globals["number_of"] = lambda block: document.numbers[
        "table" if isinstance(block, DocumentTable) else "figure", block.key]
    return environment.get_template("index.html.j2").render(document=document)


def _rich(text: str, document: Document) -> Markup:
    return Markup(translate(
        text, escape, mathml.inline, lambda code: f"<code>{escape(code)}</code>",
        lambda strong: f"<strong>{escape(strong)}</strong>",
        lambda kind, key: _reference(kind, key, document)))


def _reference(kind: str, key: str, document: Document) -> str:
    if kind == "file":
        return f'<a href="{escape(key)}"><code>{escape(key)}</code></a>'
    number = document.numbers.get((kind, key))
    location = key if kind == "appendix" else f"{kind}-{key}"
    return f"the {kind} that is missing" if number is None else f'<a href="#{location}">{kind} {number}</a>'


def _cell(row: Json, column: TableColumn, document: Document) -> Markup:
    value = row.get(column.key)
    if column.numeric:
        return Markup(tables.html_number(value, column))
    return _rich(str(value), document) if column.form == "markup" else Markup(escape(str(value)))


def _data(path: Path) -> str:
    """As data, so that the page stands alone; each in its own <img>, where ids cannot clash."""
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()
