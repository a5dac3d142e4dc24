"""Formulas as MathML, so that pages need no network, and directives that set what tpcalc derives and computes.

A block

    ```{derived}
    tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling())))
    ```

runs when the site is built. Its last line is what is set, by its ``latex()``; names hold for the rest of the page.
A block

    ```{computed}
    tp.named_recipes()
    ```

sets its code and, as a table, the rows of its last line: a list of dictionaries, or a value whose ``rows`` are one.
With the option ``:slow:`` the table is left out where the configuration has ``compute_slow = False``.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import sympy as sp
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

import tpcalc as tp
from tpcalc._shown import cell
from tpcalc.derivations import mathml
from tpcalc.reports.pages import breaking

LOGGER = logging.getLogger(__name__)


def display(body: str) -> str:
    """A displayed formula, lines of an ``aligned`` environment or one line, in a box that scrolls where it must."""
    inside = body.strip().removeprefix(r"\begin{aligned}").removesuffix(r"\end{aligned}")
    return f'<div class="math">{mathml.display(breaking.rows(inside))}</div>'


def value(code: str, names: dict[str, Any]) -> Any:
    """What the last line of the code is, after the lines before it."""
    lines = ast.parse(code).body
    last = lines.pop() if lines else None
    if not isinstance(last, ast.Expr):
        raise ValueError(f"code: {code!r} given; allowed is code that ends with an expression")
    exec(compile(ast.Module(lines, []), "page", "exec"), names)
    return eval(compile(ast.Expression(last.value), "page", "eval"), names)


POWER = r"[nL](?:\^(?:\([^()]*\)|\w+))?"
POWERS = re.compile(rf"{POWER}(?: {POWER})*(?: = [\d.e+-]+)?")


def formula(text: str) -> str | None:
    """LaTeX of what is a product of powers of n and L, and its value where that follows, None of any other text."""
    if not POWERS.fullmatch(text):
        return None
    return re.sub(r"\^\(?([^() ]+)\)?", lambda power: "" if power[1] == "1" else f"^{{{power[1]}}}", text)


def entry(value: object) -> nodes.entry:
    """A cell: powers of n and L, alone or in a list, are formulas."""
    found = nodes.paragraph()
    for k, part in enumerate(cell(value).split(", ")):
        power = formula(part)
        found += nodes.Text(", " if k else "")
        found += nodes.math(power, power) if power else nodes.Text(part)
    return nodes.entry("", found)


def table(rows: list[dict[str, Any]]) -> nodes.table:
    """Rows with the same names, beneath these names."""
    heads = list(dict.fromkeys(name for row in rows for name in row))
    group = nodes.tgroup(cols=len(heads))
    group += [nodes.colspec(colwidth=1) for _ in heads]
    group += nodes.thead("", nodes.row("", *(entry(head.replace("_", " ")) for head in heads)))
    group += nodes.tbody("", *(nodes.row("", *(entry(row.get(head)) for head in heads)) for row in rows))
    return nodes.table("", group, classes=["computed"])


def names() -> dict[str, Any]:
    """What a page's code may use from the start."""
    return {"tp": tp, "sp": sp}


class Derived(SphinxDirective):
    """A derived formula, typeset; its code stands in the page's source alone."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        code = "\n".join(self.content)
        known = self.env.temp_data.setdefault("derived names", names())
        body = value(code, known).latex()
        return [nodes.math_block(body, body, number=None, label=None, nowrap=True)]


class Computed(SphinxDirective):
    """Code, and the table that it computes."""

    has_content = True
    option_spec = {"slow": directives.flag}

    def run(self) -> list[nodes.Node]:
        code = "\n".join(self.content)
        shown: list[nodes.Node] = [nodes.literal_block(code, code, language="python")]
        if "slow" not in self.options or self.config.compute_slow:
            found = value(code, self.env.temp_data.setdefault("derived names", names()))
            shown.append(table(list(getattr(found, "rows", found))))
        return shown


def _text(visitor: Any, node: nodes.Element, render: Any) -> None:
    """The formula, or its source and a warning where there is no MathML for it."""
    try:
        visitor.body.append(render(node.astext()))
    except ValueError as error:
        LOGGER.warning("%s", error, location=node)
        visitor.body.append(f"<code>{visitor.encode(node.astext())}</code>")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (lambda visitor, node: _text(visitor, node, mathml.inline), None),
                               (lambda visitor, node: _text(visitor, node, display), None))
    app.add_directive("derived", Derived)
    app.add_config_value("compute_slow", True, "env", bool)
    app.add_directive("computed", Computed)
    app.add_css_file("math.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
