"""``tpcalc prove``: check the ledger, and write its graph and its document into a folder."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Sequence

from .. import _checks
from .._files import write_text
from ..ledger import Entry, Ledger, check, closure, dot, entries
from ..ledger.document import ledger_latex
from ..ledger.record import ReadEntry, counts_of_read, read_ledger, read_record, write_record
from ..ledger.table import data, ledger_table, table_of_counts
from .failures import CompileError
from .pages.latex import compile_pdf, find_tex
from .progress import bar, workers
from .store import write_json


def prove_command(args: argparse.Namespace) -> int:
    """Print the table, write the folder; 1 where a check fails, or where nothing reads an equation that is spoiled."""
    known = entries()
    ordered = closure(known, args.keys or None)
    _checks.folder("--output", args.output)
    with bar("proving", len(ordered)) as progress, workers(args.workers) as executor:
        ledger = check(known, args.keys or None, args.seed, progress, executor)
    if args.spoil:
        ledger = replace(ledger, read=_read(ordered, args))
    print(json.dumps(data(ledger), indent=1, allow_nan=False) if args.json else ledger_table(ledger), flush=True)
    if not args.keys and not args.json:
        print(f"\n{table_of_counts(ledger)}", flush=True)
    unread = [one for several in ledger.read.values() for one in (*several.equations, *several.corrections)
              if not one.is_read]
    if args.spoil and not args.json:
        print("".join(f"\n{one}" for one in unread))
        print(f"\n{counts_of_read(ledger.read)}", flush=True)
    write_ledger(ledger, Path(args.output), not args.no_pdf)
    return 1 if ledger.failures or unread else 0


def _read(ordered: Sequence[Entry], args: argparse.Namespace) -> dict[str, ReadEntry]:
    """What the checks read, entry by entry: each is kept in the folder when it is done, and goes into the record there,
    which keeps what it says of other entries."""
    with bar("spoiling", len(ordered)) as progress, workers(args.workers) as executor:
        read = read_ledger({one.key: one for one in ordered}, args.seed, progress, executor,
                           Path(args.output) / "read")
    record = Path(args.output) / "read.json"
    write_record(record, {**(read_record(record) if record.exists() else {}), **read})
    return read


def write_ledger(ledger: Ledger, folder: Path, pdf: bool = True) -> None:
    """ledger.json, ledger.dot, ledger.tex, and ledger.pdf where a TeX is; raises ``CompileError`` where it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "ledger.json", data(ledger))
    write_text(folder / "ledger.dot", dot([account.entry for account in ledger.accounts.values()], ledger.statuses))
    source = ledger_latex(ledger)
    write_text(folder / "ledger.tex", source)
    tex = find_tex()
    if not pdf or tex is None:
        return
    with tempfile.TemporaryDirectory() as build:
        write_text(Path(build) / "report.tex", source)
        try:
            shutil.copy(compile_pdf(Path(build), tex), folder / "ledger.pdf")
        except CompileError as error:
            raise CompileError(str(error).replace("report.tex", "ledger.tex")) from None
