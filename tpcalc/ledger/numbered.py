"""How many of the papers' numbered statements the ledger settles, and how well."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Mapping

from .checking import Ledger
from .catalogue import package
from .status import Standing

MISSING, TESTED = "missing", "tested"
TESTS = "tests/"   # what a test of the project begins with, where an entry's key would begin with a paper


def numbered() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """The numbered statements by paper: keys of the entries that settle each, () where there is none.

    Where an entry would say nothing that a test of the project does not, the test stands there, as pytest names it:
    ``"tests/studies/test_finite_size.py::test_the_decomposition_112_to_116"``.
    """
    module = importlib.import_module(f"{package().__name__}._numbered")
    return dict(module.NUMBERED)


def counts(ledger: Ledger) -> dict[str, Counter[str]]:
    """By paper, how many numbered statements have each standing: that of the weakest of their entries.

    Entries that were not checked count as missing. Tests are not run here: statements that have tests and no entry
    count as tested.
    """
    order = list(Standing)
    found = {}
    for paper, statements in numbered().items():
        found[paper] = Counter[str]()
        for settled in statements.values():
            keys = [key for key in settled if not key.startswith(TESTS)]
            if settled and not keys:
                found[paper][TESTED] += 1
                continue
            standings = [ledger.statuses[key].standing for key in keys if key in ledger.statuses]
            weakest = min(standings, key=order.index).value if keys and len(standings) == len(keys) else MISSING
            found[paper][weakest] += 1
    return found


def table_of_counts(ledger: Ledger) -> str:
    """A line a paper: numbered statements by standing, the strongest first."""
    names = [standing.value for standing in reversed(Standing)] + [TESTED, MISSING]
    lines = []
    for paper, count in counts(ledger).items():
        parts = ", ".join(f"{count[name]} {name}" for name in names if count[name])
        lines.append(f"{paper}: {sum(count.values())} numbered statements: {parts}")
    return "\n".join(lines)
