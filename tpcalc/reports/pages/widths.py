"""How wide a formula is, in letters, read from its LaTeX alone."""

from __future__ import annotations

import re
from functools import lru_cache

TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[{}^_&]|\s+|.", re.DOTALL)
SMALL = 0.7  # of scripts
FRACTIONS = (r"\frac", r"\tfrac", r"\dfrac")
WORDS = (r"\text", r"\mathrm", r"\operatorname", r"\textbf", r"\mathtt")
SILENT = {r"\left", r"\right", r"\Bigl", r"\Bigr", r"\displaystyle", r"\limits", "&"}
MARKS = {r"\hat", r"\tilde", r"\dot", r"\mathbb", r"\mathcal", r"\mathbf"}
SPACES = {r"\quad": 1.8, r"\qquad": 3.6, r"\,": 0.3, r"\;": 0.5, r"\ ": 0.5, r"\!": 0.0}
LETTERS = {r"\min": 3.0, r"\max": 3.0, r"\exp": 3.0, r"\tanh": 4.0, r"\log": 3.0, r"\ldots": 1.8}
RELATIONS = {"+", "-", "=", r"\leq", r"\geq", r"\neq", ":", r"\cdot", r"\times", r"\otimes", "<", ">", r"\in"}
LARGE = {r"\sum", r"\int", r"\prod"}


@lru_cache(maxsize=8192)
def width(latex: str) -> float:
    """Roughly how wide a line of LaTeX is set, in letters.

    >>> width("a + b") == width("a - b") > width(r"\\frac{a}{b}")
    True
    """
    found, rest = _row(TOKEN.findall(latex), 0)
    return found


def _row(tokens: list[str], at: int, display: bool = True) -> tuple[float, int]:
    """The width from a token to a closing brace, the widest of lines where there are several, and where it ends.

    display: whether limits of sums stand above and below, as they do outside of fractions.
    """
    lines, total = [0.0], 0.0
    while at < len(tokens) and tokens[at] != "}" and tokens[at] != r"\end":
        if tokens[at] == "\\\\":
            lines.append(total)
            total, at = 0.0, at + 1
            continue
        one, at = _atom(tokens, at, display)
        total += one
    return max(*lines, total), at


def _atom(tokens: list[str], at: int, display: bool) -> tuple[float, int]:
    """The width of the next thing with its scripts, and where it ends."""
    nucleus, large = tokens[at], tokens[at] in LARGE
    found, at = _nucleus(tokens, at, display)
    scripts = [0.0]
    while at < len(tokens) and tokens[at] in ("^", "_", r"\limits"):
        if tokens[at] == r"\limits":
            at += 1
            continue
        one, at = _nucleus(tokens, _skip(tokens, at + 1))
        scripts.append(SMALL * one)
    above = display and large and nucleus != r"\int"
    return (max(found, *scripts) if above else found + max(scripts)), at


def _nucleus(tokens: list[str], at: int, display: bool = True) -> tuple[float, int]:
    token = tokens[at]
    at += 1
    if token == "{":
        found, at = _row(tokens, at, display)
        return found, at + 1
    if token in FRACTIONS:
        above, at = _nucleus(tokens, _skip(tokens, at), False)
        below, at = _nucleus(tokens, _skip(tokens, at), False)
        return max(above, below) * (SMALL if token == r"\tfrac" else 1.0) + 0.3, at
    if token == r"\overset":
        above, at = _nucleus(tokens, _skip(tokens, at))
        found, at = _nucleus(tokens, _skip(tokens, at))
        return max(SMALL * above, found), at
    if token in WORDS:
        start, at = at, _nucleus(tokens, _skip(tokens, at))[1]
        text = "".join(tokens[start:at]).strip("{} ")
        formulas = text.split("$")[1::2]
        plain = "".join(text.split("$")[::2])
        return 0.9 * len(plain) + sum(map(width, formulas)), at
    if token == r"\begin":
        _, at = _nucleus(tokens, at)
        found, at = _row(tokens, at)
        return found, _nucleus(tokens, at + 1)[1]
    if token == r"\substack" or token in MARKS:
        return _nucleus(tokens, _skip(tokens, at), display)
    if token in SILENT or token.isspace():
        return 0.0, at
    if token in SPACES:
        return SPACES[token], at
    return LETTERS.get(token, 1.9 if token in RELATIONS else 2.0 if token in LARGE else 1.0), at


def _skip(tokens: list[str], at: int) -> int:
    """Past white space."""
    while at < len(tokens) and tokens[at].isspace():
        at += 1
    return at
