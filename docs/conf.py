"""The site: ``sphinx-build -W -n docs <folder>``."""

from __future__ import annotations

import gc
import re
import sys
from pathlib import Path
from typing import Any

import tpcalc

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

gc.set_threshold(100_000, 20, 50)  # as in the tests: sympy makes and drops many objects and few cycles

project = "tpcalc"
author = "tpcalc"
release = version = tpcalc.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "offline_math"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_math_renderer = "mathml"  # nothing is fetched: a page is read without a network
html_static_path = ["_static"]
html_title = "tpcalc"

autodoc_member_order = "bysource"
add_module_names = False
python_use_unqualified_type_names = True

# Types of other projects, and those of ours that stand behind public objects without being public themselves.
nitpick_ignore_regex = [
    ("py:.*", r"(np|numpy|sp|sympy|concurrent|collections|typing|fractions|enum|hypothesis)\..*"),
    ("py:.*", r"tpcalc\.\w+\.\w+\..*|tpcalc\._\w+\..*|(dataclasses\.)?InitVar.*|Rows|Setting|"
              r"Scalar|Matrix|Vector|Number|RecursionEquation"),
    ("py:.*", r"Block|SkipConnection"),  # functions that users write
    ("py:.*", r"str \| ~tpcalc.*"),  # a union that is written as one name
]

HEADING = re.compile(r"(-{3,}|={3,})$")
NAMED = re.compile(r"\w[\w, ]*: \S")  # an attribute or argument and what it is, on a line of its own
CODE = re.compile(r"(``[^`]*``)")
MARKUP = re.compile(r"([|]|_(?=\W|$)|\*)")


def as_prose(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are prose: headings become bold lines, attributes paragraphs; |x>, x_t and a*b mean themselves."""
    found: list[str] = []
    for line in lines:
        if HEADING.match(line) and found and found[-1]:
            found[-1:] = [f"**{found[-1]}**", ""]
            continue
        if NAMED.match(line) and found and found[-1]:
            found.append("")
        parts = CODE.split(line)
        found.append("".join(part if part.startswith("``") else MARKUP.sub(r"\\\1", part) for part in parts))
    lines[:] = found


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", as_prose)
