"""A document as data: sections of blocks, which HTML and LaTeX each write in their own way.

Text carries a little markup: ``$...$`` for formulas, backquotes for code, ``**...**`` for what is strong,
``[[figure:key]]``, ``[[table:key]]`` and ``[[appendix:key]]`` for references, ``[[file:name]]`` for a file of the
folder. Text that comes from elsewhere (messages, file names) goes into ``Plain`` and ``Code`` blocks, which are escaped
whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Callable, Iterator, Sequence, Union

from ..._types import Json

MARKUP = re.compile(r"\$(?P<math>[^$]+)\$|`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|"
                    r"\[\[(?P<kind>figure|table|appendix|file):(?P<key>[\w.-]+)\]\]")


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class DisplayedFormula:
    """The body of an ``aligned`` environment."""

    latex: str


@dataclass(frozen=True)
class Plain:
    """Sentences as a list, without markup but for formulas between dollar signs where they ``have_formulas``."""

    items: Sequence[str]
    have_formulas: bool = False


@dataclass(frozen=True)
class Code:
    text: str


@dataclass(frozen=True)
class DrawnFigure:
    """A drawn figure: files figures/<key>.svg, .pdf, .png; the caption says what one sees.

    page: HTML that stands on the page instead, where it can say more than a picture.
    """

    key: str
    caption: str
    page: str = ""


@dataclass(frozen=True)
class TableColumn:
    """One column: the key of its values in the rows, a header with markup, and a form.

    form: "int", "sci" (three digits and a power of ten), "fixed" with ``digits`` places, "percent", "text",
    "markup", "flag".
    """

    key: str
    header: str
    form: str = "text"
    digits: int = 3

    @property
    def numeric(self) -> bool:
        return self.form in ("int", "sci", "fixed", "percent")


@dataclass(frozen=True)
class DocumentTable:
    key: str
    caption: str
    columns: Sequence[TableColumn]
    rows: Sequence[Json]


Block = Union[Paragraph, DisplayedFormula, Plain, Code, DrawnFigure, DocumentTable]


@dataclass(frozen=True)
class Section:
    """A section, or an appendix: appendices stand last, and have letters."""

    key: str
    title: str
    blocks: Sequence[Block]
    is_appendix: bool = False


@dataclass(frozen=True)
class Document:
    title: str
    subtitle: str
    sections: Sequence[Section]
    numbers: dict[tuple[str, str], int | str] = field(init=False)

    def __post_init__(self) -> None:
        counts = {"figure": 0, "table": 0}
        numbers: dict[tuple[str, str], int | str] = {
            ("appendix", section.key): letter
            for section, letter in zip((s for s in self.sections if s.is_appendix), ascii_uppercase)}
        for block in self.blocks():
            if isinstance(block, (DrawnFigure, DocumentTable)):
                kind = "table" if isinstance(block, DocumentTable) else "figure"
                counts[kind] += 1
                numbers[kind, block.key] = counts[kind]
        object.__setattr__(self, "numbers", numbers)

    def blocks(self) -> Iterator[Block]:
        for section in self.sections:
            yield from section.blocks


def literal(text: str) -> str:
    """A short text from elsewhere, without the characters that are markup."""
    return re.sub(r"[$`*\[\]]", "", text)


def translate(text: str, plain: Callable[[str], str], math: Callable[[str], str], code: Callable[[str], str],
              strong: Callable[[str], str], reference: Callable[[str, str], str]) -> str:
    """Marked-up text in another language, piece by piece."""
    parts, position = [], 0
    for match in MARKUP.finditer(text):
        parts.append(plain(text[position:match.start()]))
        if match["math"] is not None:
            parts.append(math(match["math"]))
        elif match["code"] is not None:
            parts.append(code(match["code"]))
        elif match["strong"] is not None:
            parts.append(strong(match["strong"]))
        else:
            parts.append(reference(match["kind"], match["key"]))
        position = match.end()
    return "".join([*parts, plain(text[position:])])
