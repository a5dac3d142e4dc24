"""What a person sees of a value: a short ``repr``, and rows that are printed as text or as a table of a page."""

from __future__ import annotations

from dataclasses import fields
from html import escape
from typing import Any, Callable, Iterable

import numpy as np

from ._types import Fields
from .errors import of_extra

FEW = 6      # numbers of an array that are shown
LONGEST = 72  # of one part


def brief(value: object) -> str:
    """``repr`` where it is short, else what there is: the shape of an array, how many there are of what.

    >>> brief(np.zeros((3, 4))), brief((1, 2)), brief("a" * 100)[:6]
    ('array of shape (3, 4)', '(1, 2)', "'aaaaa")
    """
    if isinstance(value, np.ndarray):
        return str(np.round(value, 6).tolist()) if value.size <= FEW and value.ndim <= 1 else (
            f"array of shape {value.shape}")
    if isinstance(value, (tuple, list, dict, frozenset)) and len(value) > FEW:
        return f"{len(value)} of {_kind(value)}"
    text = repr(value)
    if len(text) <= LONGEST and "\n" not in text and " object at 0x" not in text:
        return text
    if isinstance(value, (tuple, list, dict, frozenset)):
        return f"{len(value)} of {_kind(value)}"
    return text[:LONGEST - 3].replace("\n", " ") + "..." if isinstance(value, str) else f"{type(value).__name__}(...)"


def _kind(values: Iterable[object]) -> str:
    return " or ".join(sorted({type(value).__name__ for value in values})[:2])


def or_why(text: Callable[[], object]) -> str:
    """A part of a text that is found when it is printed, or why there is none: printing raises nothing.

    >>> or_why(lambda: 1 / 2), or_why(lambda: {}["W"])[:9]
    ('0.5', 'not known')
    """
    try:
        return str(text())
    except (ValueError, ArithmeticError, LookupError, MemoryError) as error:
        return f"not known ({error})"


class Short:
    """A dataclass whose ``repr`` is a line: all of it is in its attributes."""

    def __repr__(self) -> str:
        shown = (f"{f.name}={brief(getattr(self, f.name))}" for f in fields(self)  # type: ignore[arg-type]
                 if f.repr)
        return f"{type(self).__name__}({', '.join(shown)})"


class Tabled:
    """A result with ``rows`` for pages to show as a table."""

    rows: Any

    def _repr_html_(self) -> str:
        return html_table(self.rows, type(self).__name__)


def html_table(rows: Iterable[Fields], caption: str = "") -> str:
    """Rows as an HTML table that needs nothing but itself."""
    lines = list(rows)
    if not lines:
        return f"<p>{escape(caption)}</p>"
    names = list(dict.fromkeys(name for row in lines for name in row))
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell(row.get(name)))}</td>" for name in names) + "</tr>"
                   for row in lines)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def pyplot(what: str) -> Any:
    """matplotlib's pyplot; raises ``MissingExtra`` without it, which names what was asked for."""
    return of_extra("matplotlib.pyplot", "report", what)


def text_table(rows: Iterable[Fields]) -> str:
    """Rows as text, a line each beneath their names, numbers to the right."""
    lines = list(rows)
    names = list(dict.fromkeys(name for row in lines for name in row))
    table = [[name.replace("_", " ") for name in names], *([cell(row.get(name)) for name in names] for row in lines)]
    widths = [max(len(line[i]) for line in table) for i in range(len(names))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths)) for line in table)


def cell(value: object) -> str:
    """A number to six digits, nothing for None, anything else as it prints."""
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
