"""What the indices of a program stand for, by name instead of by place."""

from __future__ import annotations

from typing import Iterable, Mapping, Sequence

import sympy as sp

from .language import Member

ROLES = ("clock", "layer", "visit", "sample", "position", "width")


def read_roles(program: str, given: Mapping[sp.Symbol, str], indices: Sequence[sp.Symbol],
               outermost: Mapping[sp.Symbol, sp.Expr], members: Iterable[Member], size: sp.Symbol | None
               ) -> dict[sp.Symbol, str]:
    """The role of every index: the one that is given for it, or else the customary one.

    By custom the clock is the index of the first outermost loop that runs to the first size, layers stand among
    superscripts, and all else are samples; a program that names a clock has no other. program: its name; indices: of
    all loops and sums; outermost: last values of outermost loops by index; members: all that its statements have;
    size: the first size. Raises ``ValueError`` for a role that is unknown or of no index, and for a clock that is not
    the index of one outermost loop.
    """
    for index, role in given.items():
        if role not in ROLES:
            raise ValueError(f"roles: got {role!r} for {index}; expected {', '.join(map(repr, ROLES))}")
        if index not in indices:
            raise ValueError(f"roles: got {role!r} for {index}, which is the index of no loop and no sum; expected "
                             f"indices of program {program}, {', '.join(map(str, indices)) or 'none'}")
    clocks = [index for index, role in given.items() if role == "clock"]
    if len(clocks) > 1 or not set(clocks) <= set(outermost):
        raise ValueError(f"roles: got the clock {', '.join(map(str, clocks))}; expected the index of one outermost "
                         f"loop of program {program}, one of {', '.join(map(str, outermost)) or 'none'}")
    found = dict.fromkeys(indices, "sample")
    found.update(dict.fromkeys((i for i in indices if i in _superscripts(members)), "layer"))
    customary = [index for index, last in outermost.items() if size is not None and size in last.free_symbols]
    found.update(dict.fromkeys([] if clocks else customary[:1], "clock"))
    return {**found, **given}


def _superscripts(members: Iterable[Member]) -> set[sp.Symbol]:
    """Symbols among the superscripts of some member."""
    found: set[sp.Symbol] = set()
    for member in members:
        cut = len(member.indices) - int(member.args[2])
        found |= {s for index in member.indices[cut:] for s in index.free_symbols}
    return found
