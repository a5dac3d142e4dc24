"""Verdicts against those of the engine that counted monomials: tests/references/recorded_exponents.py.

What it said exactly must be said again. Its upper bounds may be lowered, and what it refused may be answered.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sympy as sp

from references.recorded_exponents import EXPONENTS, answer, described, drawn

ROWS = [json.loads(line) for line in (
    Path(__file__).parents[1] / "references" / "recorded_exponents.jsonl").read_text().splitlines()[1:]]
EACH = 1.3    # seconds of each kind in every run, as they were recorded
REMEMBERED = 0.1  # a row that took less was answered from memory then, and takes longer now
GROUP = 12    # rows of a slow test


def number(text: str) -> float:
    return float(text.replace("oo", "inf")) if "oo" in text else float(Fraction(text))


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What an answer says otherwise than the one that was recorded."""
    if "exponents" not in before:
        return []
    if "exponents" not in now:
        return [f"{before['name']} was said, now {now}"]
    found = [] if before["bounds"] or now["name"] == before["name"] else [f"{before['name']}, now {now['name']}"]
    for name, old, new in zip(EXPONENTS, before["exponents"], now["exponents"]):
        if name == "change of h" and new is not None:  # the stream's own change was counted to it then
            new = max(new, now["exponents"][EXPONENTS.index("change of x")], key=number)
        if old is None or old == new and (name in before["bounds"] or name not in now["bounds"]):
            continue
        if name not in before["bounds"] or new is None or number(new) > number(old):
            found.append(f"{name}: L^({old}){' at most' * (name in before['bounds'])}, now L^({new})"
                         f"{' at most' * (name in now['bounds'])}")
    for name, alone in before.get("matrices", {}).items():
        if now.get("matrices", {}).get(name) != alone:
            found.append(f"{name} alone: {alone}, now {now.get('matrices', {}).get(name)}")
    return found


def checked(row: dict[str, Any], matrices: bool) -> list[str]:
    net, opt, points = drawn(row["kind"], row["seed"])
    found = []
    for point in points:
        before = row["answers"]["{} {}".format(*point)]
        if "exponents" in before:
            alone = matrices and "matrices" in before
            now = answer(net, opt, point, alone)
            found += [f"{row['kind']} {row['seed']}, {row['drawn']} at {point}: {what}"
                      for what in differences(before if alone else {**before, "matrices": {}}, now)]
    return found


def quick(kind: str) -> list[dict[str, Any]]:
    """The first rows of a kind that take little time together, of those whose time is known."""
    found, left = [], EACH
    for row in ROWS:
        seconds = sum(one["seconds"] for one in row["answers"].values())
        answered = any("exponents" in one for one in row["answers"].values())
        if row["kind"] == kind and answered and REMEMBERED <= seconds <= left:
            found.append(row)
            left -= seconds
    return found


QUICK = [row for kind in ("plane", "linear", "program", "block", "network") for row in quick(kind)]


def test_a_thousand_answers_were_recorded() -> None:
    answers = [one for row in ROWS for one in row["answers"].values()]
    assert len(answers) >= 1000 and sum("exponents" in one for one in answers) > 600


def test_seeds_mean_what_they_meant() -> None:
    assert [row["drawn"] for row in QUICK] == [described(row["kind"], row["seed"]) for row in QUICK]


def test_quick_answers_are_the_recorded_ones() -> None:
    found = [what for row in QUICK for what in checked(row, False)]
    assert len({row["kind"] for row in QUICK}) == 5 and not found, "\n".join(found)


def test_a_difference_is_seen() -> None:
    row = next(one for one in ROWS if "matrices" in next(iter(one["answers"].values())))
    before = next(iter(row["answers"].values()))
    now = {**before, "exponents": [*before["exponents"]], "matrices": {**before["matrices"]}}
    assert not differences(before, now)
    for number_of, wrong in enumerate(before["exponents"]):
        changed = [*before["exponents"]]
        rises = EXPONENTS[number_of] == "change of h"  # it may be less than the stream's, which was counted to it
        changed[number_of] = str(sp.Rational(wrong) + sp.Rational(2 * rises - 1, 8)) if "oo" not in wrong else "0"
        assert differences(before, {**now, "exponents": changed})
        looser = {**before, "bounds": [EXPONENTS[number_of]]}
        assert bool(differences(looser, {**now, "exponents": changed})) == (rises or "-oo" in wrong)
        assert differences(before, {**now, "bounds": [EXPONENTS[number_of]]})
    assert differences(before, {**now, "matrices": {}}) and differences(before, {"refused": "ValueError", "said": ""})


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(ROWS), GROUP))
def test_all_answers_are_the_recorded_ones(first: int) -> None:
    rows = ROWS[first:first + GROUP]
    assert [row["drawn"] for row in rows] == [described(row["kind"], row["seed"]) for row in rows]
    found = [what for row in rows for what in checked(row, True)]
    assert not found, "\n".join(found)
