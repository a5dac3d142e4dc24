"""The graph of uses: order, closure, cycles, unknown keys, DOT."""

import pytest
from support.entries import entry, erratum, proof

from tpcalc.ledger import check, closure, dot

FIRST = entry("p/first")
SECOND = entry("p/second", uses=("p/first",), derive=proof, errata=(erratum(),))
THIRD = entry("p/third", uses=("p/second", "p/first"))
ALL = {e.key: e for e in (THIRD, SECOND, FIRST)}


def test_every_entry_stands_after_those_it_uses() -> None:
    assert [e.key for e in closure(ALL)] == ["p/first", "p/second", "p/third"]
    assert [e.key for e in closure(ALL, ["p/second"])] == ["p/first", "p/second"]
    assert list(check(ALL, ["p/second"]).accounts) == ["p/first", "p/second"]


def test_cycles_are_named() -> None:
    circle = {"a": entry("a", uses=("b",)), "b": entry("b", uses=("c",)), "c": entry("c", uses=("b",))}
    with pytest.raises(ValueError, match="uses run in a circle: b -> c -> b"):
        closure(circle)


def test_unknown_keys_are_named_with_who_uses_them_and_what_is_near() -> None:
    with pytest.raises(ValueError, match="got 'p/secnd'; the ledger has no such entry; .* near are 'p/second'"):
        check(ALL, ["p/secnd"])
    with pytest.raises(ValueError, match="p/fourth uses what is not there: key: got 'p/thrid'"):
        closure({**ALL, "p/fourth": entry("p/fourth", uses=("p/thrid",))})


def test_dot_has_every_node_and_arrow() -> None:
    ledger = check(ALL)
    text = dot([a.entry for a in ledger.accounts.values()], ledger.statuses)
    assert text.startswith("digraph ledger {") and text.rstrip().endswith("}")
    assert text.count("->") == 3 and '"p/third" -> "p/second";' in text
    assert text.count("[label=") == 3 and "derived, false as printed" in text


def test_progress_counts_entries() -> None:
    seen: list[tuple[int, int]] = []
    check(ALL, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
