"""Verdicts against those of the engine that counted monomials: tests/references/recorded_exponents.py.

What it said exactly must be said again, but for what ``EXPLAINED`` says why it is not. Its upper bounds may be lowered,
and what it refused may be answered.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.orders import settled_orders
from references.recorded_exponents import EXPONENTS, answer, described, drawn

ROWS = [json.loads(line) for line in (
    Path(__file__).parents[1] / "references" / "recorded_exponents.jsonl").read_text().splitlines()[1:]]
EACH = 1.3    # seconds of each kind in every run, as they were recorded
REMEMBERED = 0.1  # a row that took less was answered from memory then, and takes longer now
GROUP = 12    # rows of a slow test


class Explained(NamedTuple):
    rows: frozenset[str]  # kinds and seeds
    looks: str            # what a difference looks like
    why: str


def rows(text: str) -> frozenset[str]:
    """Kinds with their seeds: "linear 0, 18; block 18"."""
    return frozenset(f"{kind} {seed}" for kind, _, seeds in (part.strip().partition(" ") for part in text.split(";"))
                     for seed in seeds.split(", "))


EXPLAINED = [  # What is said otherwise now, of which rows, and why
    Explained(
        rows("linear 1, 5, 14, 15, 27; plane 2"), r"trivial, with h growing, now unstable in training",
        "what each of two matrices learns multiplies what the other does: the output grows at the second update, which "
        "was not looked at (test_two_matrices_learn_from_each_other)"),
    Explained(
        rows("linear 0, 18, 26; network 3, 18, 30; block 18; program 7"),
        r"(noise|drift) of x over a piece: L\^\(oo\), now L\^\(-?[0-9/]+\)",
        "what layers add where training explodes is now what they add at first, and what the first update adds, as it "
        "was for other networks"),
    Explained(
        rows("network 2, 5, 12, 26, 27; program 8, 14; transformer 0"),
        r"linearization error of a layer: L\^\((.*)\), now L\^\(\1\) at most",
        "where updates outgrow the stream and are held back all that they do is a bound; this one was not marked"),
    Explained(
        rows("program 43"), r"linearization error of a layer: L\^\(-oo\), now L\^\(-[12]\)",
        "W^T W k(x) is of second order in W; products of a matrix with its own transpose were left out"),
    Explained(
        rows("program 7"), r"update of h: L\^\(0\), now L\^\(-1/4\)",
        "gradients of the first step are linear in the readout: they overlap with nothing that the forward pass made; "
        "such overlaps were counted as of order one"),
    Explained(
        rows("program 7"),
        r"explodes at initialization was said, now .*whether that makes it grow or decay is not known.*",
        "a loop of unknown sign is no explosion (abs of what comes back transposed)"),
    Explained(
        rows("program 7"), r"undecided, with h growing, now undecided|.*: L\^\(.*\), now L\^\(oo\) at most",
        "where upper bounds alone explode no size in training is known, nor that h grows")]


def is_explained(row: str, what: str) -> bool:
    return any(row in one.rows and re.search(one.looks + "$", what) for one in EXPLAINED)


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
                      for what in differences(before if alone else {**before, "matrices": {}}, now)
                      if not is_explained(f"{row['kind']} {row['seed']}", what)]
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


@pytest.mark.parametrize("point", [("3/2", "-1/4"), (2, "-1/2"), ("5/4", "-1/8")])
def test_two_matrices_learn_from_each_other(point: tuple[str, str]) -> None:
    """The recursion of coefficients, which is exact: f_1 is small, and f_2 grows."""
    alpha, gamma = sp.symbols("alpha gamma", real=True)
    net, (a, g) = tp.ResNet("linear", "mlp"), map(sp.Rational, point)
    recursion = tp.recursion(tp.kets(tp.program(net, tp.SGD(), tp.DepthScaling(alpha, gamma))))
    cell, = settled_orders(recursion, at=((alpha, a), (gamma, g))).cells
    assert cell.of("f", 1).at(()) < 0 < cell.of("f", 2).at(())
    assert tp.classify(a, g, net).name == "unstable in training"


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
