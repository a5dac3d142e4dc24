"""Tables as CSV, and their cells as HTML or LaTeX."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, Sequence

from ..._files import write_text
from .document import TableColumn, DocumentTable
from .numbers import DASH, MINUS, missing, split_power


def write_csv(path: Path, header: Sequence[str], lines: Sequence[Sequence[Any]]) -> None:
    """Numbers in full precision; what is missing stays empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([["" if missing(cell) else cell for cell in line] for line in lines])
    write_text(path, out.getvalue())


def write_table(path: Path, table: DocumentTable) -> None:
    """The table's values under the keys of its columns."""
    write_csv(path, [c.key for c in table.columns], [[row.get(c.key) for c in table.columns] for row in table.rows])


def number(value: float | None, column: TableColumn) -> tuple[str, int | None]:
    """A numeric cell: its digits, and a power of ten where it has one."""
    if value is None or missing(value):
        return DASH, None
    if column.form == "int":
        return str(value), None
    if column.form == "percent":
        return f"{100 * value:.{column.digits}f} %", None
    if column.form == "fixed":
        return f"{value:.{column.digits}f}", None
    return split_power(float(value), column.digits, always=True)


def flag_cell(value: bool | None) -> str:
    return "undefined here" if value is None else "yes" if value else "no"


def html_number(value: float | None, column: TableColumn) -> str:
    digits, power = number(value, column)
    digits = digits.replace("-", MINUS)
    if power is None:
        return digits
    return f"{digits}&#8239;×&#8239;10<sup>{str(power).replace('-', MINUS)}</sup>"


def tex_number(value: float | None, column: TableColumn) -> str:
    digits, power = number(value, column)
    if digits == DASH:
        return "--"
    digits = digits.replace("%", r"\%")
    return f"${digits}$" if power is None else rf"${digits} \times 10^{{{power}}}$"
