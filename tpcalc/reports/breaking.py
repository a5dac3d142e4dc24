"""Long rows of an aligned formula, broken before plus signs."""

from __future__ import annotations

import re

from ..derivations.mathml import width

TOKEN = re.compile(r"\\left|\\right|\\begin\{\w+\*?\}|\\end\{\w+\*?\}|\\\\|\\.|[{}]| \+ ")
CONTINUED = r"& \qquad {} + "


def _split(body: str, separator: str) -> list[str]:
    """``body`` cut where ``separator`` stands outside of all braces, brackets and environments."""
    parts, level, start = [], 0, 0
    for match in TOKEN.finditer(body):
        token = match.group()
        if token in ("{", r"\left") or token.startswith(r"\begin"):
            level += 1
        elif token in ("}", r"\right") or token.startswith(r"\end"):
            level -= 1
        elif token == separator and level == 0:
            parts.append(body[start:match.start()])
            start = match.end()
    return [*parts, body[start:]]


def rows(body: str, limit: float) -> list[str]:
    r"""The rows of an aligned body, each broken before " + " where it is wider than ``limit`` letters."""
    found: list[str] = []
    for row in _split(body, r"\\"):
        row = row.strip()
        if row:
            found += _broken(row, limit)
    return found


def _broken(row: str, limit: float) -> list[str]:
    lines: list[str] = []
    line = ""
    for term in _split(row, " + "):
        longer = f"{line} + {term}" if line else term
        if line and width(longer.replace("&", "")) > limit:
            lines.append(line)
            line = CONTINUED + term
        else:
            line = longer
    return [*lines, line]
