"""The ledger as text, and as plain data."""

from __future__ import annotations


from .._types import Json
from .checking import Ledger


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
