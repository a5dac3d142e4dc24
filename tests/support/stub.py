"""What type checkers see of ``tpcalc``, made from ``HOMES``: ``python tests/support/stub.py`` writes it."""

from __future__ import annotations

from pathlib import Path

import tpcalc as tp
from tpcalc import errors

PATH = Path(tp.__file__).with_name("__init__.pyi")


def lines_of(home: str, names: list[str], most: int = 120) -> list[str]:
    """Imports of names that are public where they are imported to, on as few lines as they fit."""
    lines = [f"from {home} import"]
    for name in names:
        longer = f"{lines[-1]}{',' if ' as ' in lines[-1] else ''} {name} as {name}"
        if len(longer) > most:
            lines.append(longer := f"from {home} import {name} as {name}")
        lines[-1] = longer
    return lines


def stub() -> str:
    homes = {".errors": [name for name in vars(errors) if name in tp.__all__], ".": sorted(tp.PACKAGES),
             **{home: names.split() for home, names in tp.HOMES.items()}}
    return "\n".join(['"""What type checkers see of ``tpcalc``; ``__init__.py`` imports the same at first use."""', "",
                      *(line for home, names in homes.items() for line in lines_of(home, names)), "",
                      "__version__: str", "__all__: list[str]", ""])


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")
