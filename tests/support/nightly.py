"""Which cases of a large walk every run takes, and which are left to ``tox -e nightly``."""

from __future__ import annotations

from typing import Any, Iterable
from zlib import crc32

import pytest

SHARE = 10  # one case in so many is in every run


def is_drawn(name: str) -> bool:
    """Does every run take the case of this name? Decided by the name alone: it stays when other cases come and go."""
    return crc32(name.encode()) % SHARE == 0


def sampled(cases: Iterable[tuple[str, Any]]) -> list[Any]:
    """Parameters of (name, values of the case), without the mark where every run takes them."""
    return [pytest.param(*values, id=name, marks=() if is_drawn(name) else pytest.mark.nightly)
            for name, values in cases]


def few(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """The cases of one parameter; every run takes those that are ``kept``, the others are left to nightly."""
    cases = list(cases)
    assert all(case in cases for case in kept), f"{kept}: expected some of {cases}"
    return [case if case in kept else pytest.param(case, marks=pytest.mark.nightly) for case in cases]


def few_of(cases: Iterable[tuple[Any, ...]], *kept: tuple[Any, ...]) -> list[Any]:
    """The same of several parameters, of which each case is a tuple."""
    cases = list(cases)
    assert all(case in cases for case in kept), f"{kept}: expected some of {cases}"
    return [pytest.param(*case, marks=() if case in kept else pytest.mark.nightly) for case in cases]
