"""Entries checked elsewhere are the same entries with the same accounts."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from tpcalc.errors import NotCovered
from tpcalc.ledger import check, check_entry, entries
from tpcalc.ledger.checking import _brought_home, _check_away

KEYS = ["gaussian/isserlis", "gaussian/conditioning"]


def test_accounts_are_those_of_one_process() -> None:
    told: list[tuple[int, int]] = []
    alone = check(entries(), KEYS)
    with ThreadPoolExecutor(2) as pool:
        found = check(entries(), KEYS, progress=lambda *at: told.append(at), executor=pool)
    assert told == [(done, len(alone.accounts)) for done in range(1, len(alone.accounts) + 1)]
    assert found.statuses == alone.statuses
    for key, account in alone.accounts.items():
        assert replace(found.accounts[key], seconds=0, steps=()) == replace(account, seconds=0, steps=())


def test_entries_are_sent_by_their_keys_and_accounts_without_functions() -> None:
    known = entries()
    for entry in known.values():
        assert pickle.loads(pickle.dumps(entry)) is entry
    entry = next(one for one in known.values() if one.key == "tensor_programs_vi/remark_e1")
    away: Any = _check_away(0, entry)
    home = _brought_home(entry, pickle.loads(pickle.dumps(away)))
    assert home.entry is entry and all(one is its for (one, *_), its in zip(home.errata, entry.errata))


@pytest.mark.parametrize("key", ["gaussian/conditioning", "gaussian/price", "depthwise_transfer/one_step_finite_depth",
                                 "depthwise_transfer/proposition_2", "tensor_programs_vi/claim_51"])
def test_steps_are_sent_without_their_rules(key: str) -> None:
    entry = entries()[key]
    here = check_entry(entry)
    home = _brought_home(entry, pickle.loads(pickle.dumps(_check_away(0, entry))))
    assert home.own_standing == here.own_standing and len(home.steps) == len(here.steps) > 0
    assert [(one.rule, one.latex()) for one in home.steps] == [(one.rule, one.latex()) for one in here.steps]
    with pytest.raises(NotCovered, match="was checked in the process that made it"):
        home.steps[0].check()
