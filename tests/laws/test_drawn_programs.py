"""Limits and verdicts of programs of any shape are right or refused: laws on one draw of programs.

A seed that breaks a law is shown with its program and both numbers. Some seeds here, 300 in parts of ten with
``-m slow``, each of which can be run by itself: ``-k "limit and 120-129"``.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any, Callable

import pytest

from tpcalc.verdicts.classify import classify
from drawn.drawn_programs import DeepProgram, deep_program
from drawn.refusals import Refused, refused_or
from drawn.deep_blocks import block_recipe, drawn_net
from drawn.drawn_programs import POINTS
from drawn.deep_laws import (
    assert_limit_agrees, assert_names_do_not_matter, assert_recursion_agrees, assert_steps_hold, derived_recursion,
    derived_region)
from drawn.verdict_laws import assert_verdict_agrees, assert_verdict_ignores_names, is_clear, walls

FAST, SLOW, PART = 5, 300, 10
BLOCKS = 4
SHARE = 1 / 3  # of programs, refused
LEAST = 1 / 5  # of ten programs that follow each other, judged
ALWAYS = ("recursion", "steps")  # laws of what is never refused

SEEDS = [*range(FAST)]
LINEAR = [seed for seed in SEEDS if deep_program(seed).is_linear]
PARTS = [pytest.param(range(first, first + PART), marks=pytest.mark.slow, id=f"{first}-{first + PART - 1}")
         for first in range(FAST, SLOW, PART)]
BLOCK_PARTS = [pytest.param(range(first, first + PART), marks=pytest.mark.slow, id=f"{first}-{first + PART - 1}")
               for first in range(BLOCKS, SLOW // 3, PART)]


def seeds(numbers: list[int], parts: list[Any] = PARTS, later: tuple[int, ...] = (3,)) -> list[Any]:
    """One by one, those that are ``later`` with the parts of ten."""
    return [*(pytest.param(range(n, n + 1), id=str(n), marks=[pytest.mark.slow] * (n in later)) for n in numbers),
            *parts]


def verdict_of_program(example: DeepProgram) -> None:
    is_fast = example.seed is not None and example.seed < FAST
    deepest = (256 if example.is_linear else 64) if is_fast else 1024
    assert_verdict_agrees(example.program, example.point, example.is_linear, str(example), deepest)


LAWS: dict[str, Callable[[DeepProgram], None]] = {
    "limit": assert_limit_agrees, "names": assert_names_do_not_matter,
    "recursion": assert_recursion_agrees, "steps": assert_steps_hold, "verdict": verdict_of_program}


@lru_cache(maxsize=None)
def refusal(law: str, seed: int) -> str:
    """Why a seed's program is refused, empty where the law holds; raises ``AssertionError`` where it is broken."""
    try:
        LAWS[law](deep_program(seed))
    except Refused as refused:
        return refused.reason
    return ""


def assert_holds(law: str, part: range, wanted: Callable[[DeepProgram], bool] = lambda e: e.is_linear) -> None:
    """Of a part, and that it is judged: all of the fast programs, and of ten others at least one in five."""
    refused = [refusal(law, seed) for seed in part if wanted(deep_program(seed))]
    assert_judged(refused, min(part) < FAST or law in ALWAYS)


def assert_judged(refused: list[str], whole: bool) -> None:
    """Of programs, why they are refused or empty: is none refused, or is a fifth of them judged at least?"""
    counts = Counter(refused)
    assert counts[""] >= (1 if whole else LEAST) * len(refused), counts


@pytest.mark.parametrize("part", seeds(LINEAR))
def test_a_depth_limit_is_what_outputs_converge_to(part: range) -> None:
    assert_holds("limit", part)


@pytest.mark.parametrize("part", seeds(LINEAR))
def test_names_do_not_change_a_limit(part: range) -> None:
    assert_holds("names", part)


@pytest.mark.parametrize("part", seeds(LINEAR))
def test_a_recursion_computes_what_its_program_does(part: range) -> None:
    assert_holds("recursion", part)


def is_layered(example: DeepProgram) -> bool:
    """Does its optimizer know layers, or parts of a family?"""
    return example.is_linear and bool(example.features & {"rate of l", "decay of l", "heavy ball",
                                                          "optimizers over parts"})


@pytest.mark.parametrize("part", seeds([seed for seed in LINEAR if is_layered(deep_program(seed))]))
def test_every_step_holds_for_layered_optimizers(part: range) -> None:
    assert_holds("steps", part, is_layered)


@pytest.mark.parametrize("part", seeds(SEEDS))
def test_a_programs_verdict_is_what_its_training_shows(part: range) -> None:
    assert_holds("verdict", part, lambda example: True)


def names_of_block(seed: int) -> None:
    assert_verdict_ignores_names(block_recipe(seed))


def verdict_of_block(seed: int) -> None:
    """At the drawn depth scaling, or the first of the list that keeps away from walls which it does not lie on."""
    recipe = block_recipe(seed)
    net = drawn_net(recipe)
    try:
        lines = refused_or(walls, net)
    except Refused:  # of the whole plane, where the point alone has a verdict
        lines = ()
    point = next(point for point in (recipe.point, *POINTS) if is_clear(point, lines))
    deepest = 1024 if seed >= BLOCKS else 256 if recipe.is_linear else 64
    assert_verdict_agrees(net, point, recipe.is_linear, f"block of seed {seed}: {recipe}", deepest)


BLOCK_LAWS: dict[str, Callable[[int], None]] = {"names": names_of_block, "verdict": verdict_of_block}


@lru_cache(maxsize=None)
def refusal_of_block(law: str, seed: int) -> str:
    """Why a block is refused, empty where the law holds; raises ``AssertionError`` where it is broken."""
    try:
        BLOCK_LAWS[law](seed)
    except Refused as refused:
        return refused.reason
    return ""


@pytest.mark.parametrize("part", seeds([*range(BLOCKS)], BLOCK_PARTS, ()))
def test_names_do_not_change_the_verdict_of_a_block(part: range) -> None:
    assert_judged([refusal_of_block("names", seed) for seed in part], min(part) < BLOCKS)


@pytest.mark.parametrize("part", seeds([*range(BLOCKS)], BLOCK_PARTS, (2,)))
def test_the_verdict_of_a_block_is_what_its_training_shows(part: range) -> None:
    assert_judged([refusal_of_block("verdict", seed) for seed in part], min(part) < BLOCKS)


@pytest.mark.slow
@pytest.mark.parametrize("law", BLOCK_LAWS)
def test_refused_blocks_are_fewer_than_two_thirds(law: str) -> None:
    """By reason; powers of real networks that are not resolved at these depths count as refused, too."""
    counts = Counter(refusal_of_block(law, seed) for seed in range(SLOW // 9))
    print(f"{law}: {sum(counts.values()) - counts['']} of {sum(counts.values())} blocks are refused: {counts}")
    assert counts[""] > sum(counts.values()) / 3, counts


ASKED: dict[str, Callable[[DeepProgram], object]] = {
    "limit": derived_region, "recursion": lambda example: derived_recursion(example).compile(),
    "verdict": lambda example: classify(*example.point, example.program)}


@pytest.mark.slow
@pytest.mark.parametrize("law", ASKED)
def test_refusals_are_fewer_than_a_third(law: str) -> None:
    """Of all programs, by reason, whatever is found of the others: most have one matrix for all layers."""
    counts: Counter[str] = Counter()
    for example in map(deep_program, range(SLOW)):
        if law == "verdict" or example.is_linear:
            try:
                refused_or(ASKED[law], example)
                counts[""] += 1
            except Refused as refused:
                counts[refused.reason] += 1
    total = sum(counts.values())
    print(f"{law}: {total - counts['']} of {total} programs are refused: {counts}")
    assert total - counts[""] <= (0 if law in ALWAYS else SHARE * total), counts
