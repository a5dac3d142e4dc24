"""The ledger as text, and as plain data; how many of the papers' numbered statements it settles, and how well."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Mapping

from .._types import Json
from .catalogue import package
from .checking import Ledger
from .status import Standing

MISSING, TESTED = "missing", "tested"
TESTS = "tests/"   # what a test of the project begins with, where an entry's key would begin with a paper


def ledger_table(ledger: Ledger) -> str:
    """One line an entry: key, source, status, what was checked; then what fails, and why."""
    head = ("key", "source", "status", "checked")
    lines = [(key, account.entry.source, str(ledger.statuses[key]), account.checks + _read(ledger, key))
             for key, account in sorted(ledger.accounts.items())]
    widths = [max(len(row[i]) for row in [head, *lines]) for i in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
            for row in [head, tuple("-" * width for width in widths), *lines]]
    for key, failures in ledger.failures.items():
        text += [f"FAILS {key}: {failure}" for failure in failures]
    return "\n".join(text)


def _read(ledger: Ledger, key: str) -> str:
    """How many equations are read, where they were spoiled."""
    several = ledger.read.get(key)
    if several is None or not several.equations:
        return ""
    return f", {sum(one.is_read for one in several.equations)} of {len(several.equations)} equations read"


def data(ledger: Ledger) -> list[Json]:
    """One dictionary an entry, of strings, numbers and lists."""
    rows = []
    for key, account in sorted(ledger.accounts.items()):
        entry = account.entry
        rows.append({
            "key": key, "kind": entry.kind, "title": entry.title, "source": entry.source,
            "status": str(ledger.statuses[key]), "assumptions": list(entry.assumptions), "uses": list(entry.uses),
            "statement": account.statement, "steps": len(account.steps), "difference": account.difference,
            "evidence": [] if account.evidence is None else list(account.evidence.lines),
            "errata": [{"where": erratum.where, "printed": erratum.printed, "corrected": corrected,
                        "witness": str(witness)} for erratum, corrected, witness in account.errata],
            "equations": [{"text": one.text, "is_read": one.is_read, "missed": list(one.missed)}
                          for one in ledger.read[key].equations] if key in ledger.read else [],
            "failures": list(account.failures), "seconds": round(account.seconds, 3)})
    return rows


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
