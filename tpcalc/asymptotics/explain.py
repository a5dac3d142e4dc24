"""Why a size is as large as it is: back along the terms that attain it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy as sp

from .graph import Enters, TermEntry
from .parts import CHANGE, DERIVATIVE, SCALAR, SHRINK, TURNED, Unknown, parts_in_words

if TYPE_CHECKING:
    from .solution import SizeSolution

MOST = 12  # sentences
RULES = {"layers": "layers add it up coherently, + 1", "independent layers": "layers add it up like a root, + 1/2"}


def explain(at: SizeSolution, key: Unknown) -> tuple[str, ...]:
    """A sentence a term: of an unknown, of the largest factor that its largest term reads, and so on."""
    said: list[str] = []
    seen: set[Unknown] = set()
    current: Unknown | None = key
    while current is not None and current not in seen and len(said) < MOST:
        seen.add(current)
        if current.sort == SHRINK or at.value_of(current) is None:
            break
        entry, rule = _largest(at, current)
        said.append(_sentence(at, current, entry, rule))
        inside = [ref for ref in entry.node.refs if at.value_of(ref) is not None and ref.sort != SHRINK]
        current = max(inside, key=lambda ref: (ref not in seen, at.value_of(ref) or 0, str(ref)), default=None)
    return tuple(said)


def _largest(at: SizeSolution, key: Unknown) -> tuple[TermEntry, str]:
    ways = [(term.value, number, entry, term.rule) for number, entry in enumerate(at.entries(key))
            for term in at.terms_of(entry)]
    _, _, entry, rule = max(ways, key=lambda one: (one[0], -one[1]))
    return entry, rule


def _sentence(at: SizeSolution, key: Unknown, entry: TermEntry, rule: str) -> str:
    value = at.value_of(key)
    label = max(at.table[key], key=lambda one: at.table[key][one])
    bound = "at most " if value is not None and value & 1 else ""
    how = RULES[rule] if entry.enters == Enters.LAYERS and rule else "as it is"
    of = f", {parts_in_words(label, at.counted.reading.sources)}" if key.sort != SCALAR else ""
    return f"{named(at, key)} is {bound}{_power(at.power(value).exponent)}{of}: by {entry.term}, {how}"


def named(at: SizeSolution, key: Unknown) -> str:
    """The name of an unknown in a sentence, such as "the change of x[1]"."""
    if key.sort == SCALAR:
        return f"{key.name}[{key.step}]"
    vector = f"{at.counted.equations.setting.families[int(key.name)].name}[{key.step}]"
    if key.sort in (DERIVATIVE, TURNED) and key.base is not None:
        setting = at.counted.equations.setting
        base = (setting.program.vectors[key.base.number].name if key.base.is_initial
                else f"product {key.base.number} of step {key.base.step}")
        return f"the {'change of the ' * (key.sort == TURNED)}derivative of {vector} in {base}"
    return f"the change of {vector}" if key.sort == CHANGE else vector


def _power(exponent: sp.Expr) -> str:
    if exponent == sp.oo:
        return "larger than every power of L"
    return "of order one" if exponent == 0 else f"L^({exponent})"
