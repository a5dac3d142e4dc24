"""Recorded steps as a text of mathematics: chains of equalities, each with the rule that it holds by."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Sequence

from ..._types import Json
from .document import Block, DisplayedFormula, Paragraph

RELATION = " &= "


def derivation(steps: Sequence[Json]) -> list[Block]:
    """A formula for every run of steps with one left side, and the rules of its equalities below.

    steps: dictionaries of number, rule, reason, source, latex. A rule is explained where it is used first.
    """
    blocks: list[Block] = []
    known: set[tuple[str, str]] = set()
    for left, run in groupby(steps, key=lambda step: step["latex"].partition(RELATION)[0]):
        chain = list(run)
        rights = [rf"& \overset{{({step['number']})}}{{=}} {step['latex'].partition(RELATION)[2]}" for step in chain]
        blocks += [DisplayedFormula(" \\\\\n".join([f"{left} {rights[0]}", *rights[1:]])),
                   Paragraph(_words(chain, known))]
    return blocks


def _words(chain: Sequence[Json], known: set[tuple[str, str]]) -> str:
    """By which rules the equalities of a chain hold, as one sentence."""
    parts = []
    for (rule, reason, source), same in groupby(chain, key=lambda step: (step["rule"], step["reason"], step["source"])):
        numbers = ", ".join(f"({step['number']})" for step in same)
        new = (rule, reason) not in known
        known.add((rule, reason))
        parts.append(f"{numbers} **{rule}**" + (f": {reason} ({_with_keys(source)})" if new else ""))
    return "By " + "; ".join(parts) + "."


def _with_keys(source: str) -> str:
    """A source, with keys of the ledger as code behind it."""
    return re.sub(r" \[([^]]+)\]", r", `\1`", source)
