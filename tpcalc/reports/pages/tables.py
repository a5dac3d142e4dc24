"""Numbers as people read them, None and NaN as a dash; tables as CSV, and their cells as HTML or LaTeX."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any, Sequence

from ..._files import write_text
from .document import TableColumn, DocumentTable

DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


def missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def split_power(value: float, digits: int = 3, always: bool = False) -> tuple[str, int | None]:
    """``value`` with ``digits`` digits as mantissa and power of ten.

    No power of ten between 0.01 and 10000, unless ``always``.
    """
    if value == 0 or not math.isfinite(value):
        return ("0" if value == 0 else str(value)), None
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    if not always and -2 <= int(power) <= 3:
        return f"{value:.{max(0, digits - 1 - int(power))}f}", None
    return mantissa, int(power)


def math_number(value: float | None, digits: int = 3) -> str:
    """The number as a formula in marked-up text."""
    if value is None or missing(value):
        return DASH
    mantissa, power = split_power(value, digits)
    return f"${mantissa}$" if power is None else rf"${mantissa} \times 10^{{{power}}}$"


def with_uncertainty(value: float | None, uncertainty: float | None, digits: int = 3, name: str = "") -> str:
    """``name = value +- uncertainty`` as a formula, with enough places to show the uncertainty."""
    name = f"{name} = " if name else ""
    if value is None or missing(value):
        return f"${name}$ {DASH}" if name else DASH
    if uncertainty is None or not math.isfinite(uncertainty):
        return f"${name}{value:.{digits}f}$"
    locations = digits if uncertainty == 0 else max(digits, min(6, 1 - math.floor(math.log10(uncertainty))))
    return rf"${name}{value:.{locations}f} \pm {uncertainty:.{locations}f}$"


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
