"""Formulas as MathML, so that pages need no network, and a directive that sets what tpcalc derives.

A block

    ```{derived}
    tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling())))
    ```

runs when the site is built. Its last line is what is set, by its ``latex()``; names hold for the rest of the page.
"""

from __future__ import annotations

import ast
from typing import Any

import sympy as sp
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

import tpcalc as tp
from tpcalc.derivations import mathml
from tpcalc.reports import breaking

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
        raise ValueError(f"derived: {code!r} given; allowed is code that ends with an expression")
    exec(compile(ast.Module(lines, []), "derived", "exec"), names)
    return eval(compile(ast.Expression(last.value), "derived", "eval"), names)


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
    app.add_css_file("math.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
