"""The graph of uses: order, what an entry rests on, cycles and unknown keys, and the graph as DOT."""

from __future__ import annotations

import difflib
from typing import Iterable, Mapping

from .entry import Entry
from .status import Standing, Status

SHAPES = {"definition": "box", "rule": "box", "remark": "note"}
COLORS = {Standing.FAILS: "#e06666", Standing.UNDERMINED: "#f4cccc", Standing.CITED: "#eeeeee",
          Standing.DEFINITION: "#d9e7f5", Standing.MEASURED: "#fff2cc", Standing.COMPARED: "#e6f2cc",
          Standing.DERIVED: "#d9ead3", Standing.DERIVED_THROUGHOUT: "#93c47d"}


def unknown_key(key: str, known: Iterable[str], name: str = "key") -> ValueError:
    """The error for a key that is not there, with the nearest that are."""
    known = sorted(known)
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.3) or known
    return ValueError(f"{name}: got {key!r}; the ledger has no such entry; expected its keys, near are "
                      f"{', '.join(map(repr, near))}")


def closure(entries: Mapping[str, Entry], keys: Iterable[str] | None = None) -> list[Entry]:
    """The entries named (default: all) and all that they use, every entry after those it uses.

    Raises ``ValueError`` for a key that is not there, naming who uses it, and for a cycle, naming its entries.
    """
    done: dict[str, Entry] = {}

    def visit(key: str, path: tuple[str, ...]) -> None:
        if key in done:
            return
        if key in path:
            raise ValueError("uses run in a circle: " + " -> ".join((*path[path.index(key):], key)))
        if key not in entries:
            error = unknown_key(key, entries)
            raise ValueError(f"{path[-1]} uses what is not there: {error}") if path else error
        for used in entries[key].uses:
            visit(used, (*path, key))
        done[key] = entries[key]

    for key in sorted(entries) if keys is None else keys:
        visit(key, ())
    return list(done.values())


def dot(entries: Iterable[Entry], statuses: Mapping[str, Status]) -> str:
    """The graph in the language of Graphviz: an arrow from every entry to what it uses, colors by status."""
    lines = ["digraph ledger {", "  rankdir=BT;",
             '  node [style=filled, fontname="Helvetica", fontsize=10];']
    for entry in entries:
        status = statuses[entry.key]
        label = f"{entry.title}\\n{entry.source}\\n{status}".replace('"', r'\"')
        outline = ', color="#cc0000", penwidth=2' if status.slips else ""
        lines.append(f'  "{entry.key}" [label="{label}", shape={SHAPES.get(entry.kind, "ellipse")}, '
                     f'fillcolor="{COLORS[status.standing]}"{outline}];')
        lines += [f'  "{entry.key}" -> "{used}";' for used in entry.uses]
    return "\n".join([*lines, "}"]) + "\n"
