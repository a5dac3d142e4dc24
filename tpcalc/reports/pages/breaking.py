"""Long rows of an aligned formula, broken as by hand: before signs, and where that is not enough within brackets, and
where no sign is left between factors."""

from __future__ import annotations

import re
from typing import Callable

from .widths import width

TOKEN = re.compile(
    r"\\left|\\right|\\begin\{\w+\*?\}|\\end\{\w+\*?\}|\\\\(?:\[[^]]*\])?|, \\quad |,\\; |\\.|[{}]| [+-] ")
WORDS = (r", \quad ", r",\; ")  # before conditions, and between what is listed
CONTINUED = r"& \qquad "
INDENTED = re.compile(r"(\\quad )*")  # statements in loops
FUNCTION = re.compile(r"\\(?:operatorname\{\w+\}|tanh|cosh|sin|cos|exp|log|erf)(?=\{\\left\()")
NO_TERM = re.compile(r"(^|=|=\}|[&(\[])\s*$")  # before a sign that is no difference
FACTOR = re.compile(r"(?<=[^-+=&(\[{\s]) (?=\\sum|\\mathbb\{E\}|\\int)")  # before what may stand on a line of its own
PRODUCT = " "  # between factors; on a new line a sign stands before the second one
BRACKETS = re.compile(r"\\left([(\[])|\\right([)\]])")
WIDEST = 75.0  # letters of a line, on a page and on paper
SHORT = 12.0  # letters within brackets that are not opened where a product may be broken
TALLEST = 11  # lines of one display, which paper cannot break
GAP = 3.6  # of a row that is continued, in letters


def _pieces(body: str, is_separator: Callable[[str], bool]) -> list[tuple[str, str]]:
    """``body`` cut before separators that stand outside of braces, brackets and environments, as (separator, piece)."""
    found, level, start, before = [], 0, 0, ""
    for match in TOKEN.finditer(body):
        token = match.group()
        if token in ("{", r"\left") or token.startswith(r"\begin"):
            level += 1
        elif token in ("}", r"\right") or token.startswith(r"\end"):
            level -= 1
        elif level == 0 and is_separator(token):
            if token.strip() == "-" and NO_TERM.search(body[start:match.start()]):
                continue  # a sign of its own, no difference
            found.append((before, body[start:match.start()]))
            before, start = token, match.end()
    return [*found, (before, body[start:])]


def rows(body: str, limit: float = WIDEST) -> list[str]:
    r"""The rows of an aligned body, each broken where it is wider than ``limit`` letters.

    A row is broken before its signs and its conditions, which are whole; a term that is wider than a row, before signs
    within its outermost brackets, or before a sum or a mean among its factors. What has none of these stays.
    """
    return [line for _, lines in _groups(body, limit) for line in lines]


def aligned(body: str, limit: float = WIDEST) -> str:
    """An aligned body with its long rows broken, and what stands between its rows as it was."""
    found = ""
    for separator, lines in _groups(body, limit):
        found += (separator + "\n" if found else "") + " \\\\\n".join(lines) + " "
    return found.rstrip()


def displays(body: str, limit: float = WIDEST, most: int = TALLEST) -> list[str]:
    """``aligned`` in parts of ``most`` lines, which begin with rows where rows are no longer than that."""
    found: list[list[str]] = [[]]
    for _, lines in _groups(body, limit):
        if len(found[-1]) + len(lines) > most:
            found.append([])
        found[-1] += lines[:most]
        found += [lines[at:at + most] for at in range(most, len(lines), most)]
    return [" \\\\\n".join(lines) for lines in found if lines]


def _groups(body: str, limit: float) -> list[tuple[str, list[str]]]:
    """Every row as its lines, with what separates it from the row before; the widest left sides have room too."""
    whole = [(separator, row.strip().partition("&"))
             for separator, row in _pieces(body, lambda token: token.startswith("\\\\")) if row.strip()]
    limit -= max((width(left) for _, (left, sign, _) in whole if sign), default=0.0)
    return [(separator, _broken(left + sign, right, limit)) for separator, (left, sign, right) in whole]


def _broken(left: str, right: str, limit: float) -> list[str]:
    """A row as lines; its left side is not broken, nor is what stands beside the formula."""
    right, *words = right.split("&&", 1)
    indented = INDENTED.match(right)
    assert indented is not None
    continued = rf"& {indented[0]}\quad " if indented[0] else CONTINUED
    lines, line = [], ""
    for separator, piece in _signed(right, limit - width(indented[0])):
        longer = line + separator + piece
        if line and width(longer) > limit:
            lines.append(line + ("," if separator.startswith(",") else ""))
            sign = r" \times " if separator == PRODUCT else separator
            line = continued + (piece if separator.startswith(",") else "{}" + sign + piece)
        else:
            line = longer
    lines.append(line)
    lines[0] = left + "&&".join([lines[0], *words])
    return lines


def _signed(row: str, limit: float) -> list[tuple[str, str]]:
    """(separator, piece) for all places where a row may be broken; brackets of pieces wider than a row are opened."""
    found = []
    for beside, part in _pieces(row, lambda token: token in WORDS):
        if beside and width(part) + GAP <= limit:
            found.append((beside, part))
            continue
        for sign, piece in _terms(part):
            separator = sign or beside
            if width(piece) + GAP <= limit:
                found.append((separator, piece))
            elif (opened := _opened(piece)) is not None:
                (_, first), *rest = _signed(opened, limit)
                found += [(separator, first), *rest]
            else:
                factors = _factors(piece)
                if len(factors) < 2:
                    factors = _fractions(piece)
                for factor in factors:
                    (_, first), *rest = _signed(factor, limit) if len(factors) > 1 else [("", factor)]
                    found += [(separator, first), *rest]
                    separator = PRODUCT
    return found


def _factors(piece: str) -> list[str]:
    """A product cut before sums and means that stand outside of braces and brackets."""
    found, start = [], 0
    for match in FACTOR.finditer(piece):
        if _is_outside_of_all(piece, match.start()):
            found.append(piece[start:match.start()])
            start = match.end()
    return [*found, piece[start:]]


def _opened(piece: str) -> str | None:
    """The piece with its widest outermost brackets of a fixed size, for different lines, or with a sum above a fraction
    line behind it; None where there is neither. Braces around brackets of functions are opened first."""
    piece = _bare(piece)
    pairs = _outermost(piece)
    instead = None if len(_factors(piece)) > 1 else _without_fraction(piece)  # a product is broken first
    if not pairs:
        return instead
    left, right = max(pairs, key=lambda pair: width(piece[pair[0].end():pair[1].start()]))
    inside = piece[left.end():right.start()]
    is_whole = max(len(_terms(inside)), len(_factors(inside)), len(_fractions(inside))) < 2
    if is_whole or width(inside) < SHORT and len(_factors(piece)) > 1:
        return instead
    return rf"{piece[:left.start()]}\Bigl{left[1]}{inside}\Bigr{right[2]}{piece[right.end():]}"


def _bare(piece: str) -> str:
    """The piece without braces around the brackets of functions."""
    for match in reversed([*FUNCTION.finditer(piece)]):
        inside = _braced(piece, match.end())
        if inside.endswith(r"\right)}"):
            piece = piece[:match.end()] + inside[1:-1].rstrip() + piece[match.end() + len(inside):]
    return piece


def _outermost(piece: str) -> list[tuple[re.Match[str], re.Match[str]]]:
    """The outermost brackets outside of braces, as they open and as they close."""
    pairs, open_at, level = [], None, 0
    for match in BRACKETS.finditer(piece):
        if match[1]:
            open_at = match if level == 0 else open_at
            level += 1
        else:
            level -= 1
            if level == 0 and open_at is not None and _is_outside(piece, open_at.start()):
                pairs.append((open_at, match))
    return pairs


def _without_fraction(piece: str) -> str | None:
    """The piece with the sum above its widest fraction line behind the fraction; None where there is no sum above that
    is wider than what stands below."""
    found: list[tuple[float, str]] = []
    for match in re.finditer(r"\\frac(?=\{)", piece):
        above = _braced(piece, match.end())
        below = _braced(piece, match.end() + len(above))
        inside, rest = above[1:-1], piece[match.end() + len(above + below):]
        is_sum = _opened(inside) is not None or len(_terms(inside)) > 1
        if _is_outside(piece, match.start()) and is_sum and width(inside) > width(below):
            product = inside if len(_terms(inside)) == 1 else rf"\left({inside}\right)"
            found.append((width(inside), rf"{piece[:match.start()]}\frac{{1}}{below} {product}{rest}"))
    return max(found)[1] if found else None


def _fractions(piece: str) -> list[str]:
    """A fraction over a product of brackets as a product of two: the last bracket has a fraction line of its own."""
    for match in re.finditer(r"\\frac(?=\{)", piece):
        above = _braced(piece, match.end())
        below = _braced(piece, match.end() + len(above))
        brackets = _outermost(product := below[1:-1])
        if len(brackets) > 1 and product.endswith(r"\right)") and _is_outside_of_all(piece, match.start()):
            opens, closes = brackets[-1]
            first, last = product[:opens.start()].strip(), product[opens.end():closes.start()]
            if len(brackets) == 2 and first.startswith(r"\left(") and first.endswith(r"\right)"):
                first = first.removeprefix(r"\left(").removesuffix(r"\right)")
            return [rf"{piece[:match.start()]}\frac{above}{{{first}}}",
                    rf"\frac{{1}}{{{last}}}{piece[match.end() + len(above + below):]}"]
    return [piece]


def _terms(text: str) -> list[tuple[str, str]]:
    return _pieces(text, lambda token: token in (" + ", " - "))


def _braced(text: str, start: int) -> str:
    """What stands in braces from a place on, with them."""
    level = 0
    for match in re.compile(r"\\.|[{}]").finditer(text, start):
        level += {"{": 1, "}": -1}.get(match.group(), 0)
        if level == 0 and match.group() == "}":
            return text[start:match.end()]
    return text[start:]


def _is_outside(piece: str, at: int) -> bool:
    """Is a place outside of all braces?"""
    before = re.sub(r"\\[{}]", "", piece[:at])
    return before.count("{") == before.count("}")


def _is_outside_of_all(piece: str, at: int) -> bool:
    """Is a place outside of all braces and brackets?"""
    return _is_outside(piece, at) and piece[:at].count(r"\left") == piece[:at].count(r"\right")
