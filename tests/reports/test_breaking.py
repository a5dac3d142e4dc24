"""Long formulas fit a line, and broken ones are the formulas that they were."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from string import ascii_lowercase

import pytest
from hypothesis import given, strategies as st

import tpcalc as tp
from support.nightly import few
from tpcalc.reports.pages import breaking
from tpcalc.reports.pages.derivations import derivation
from tpcalc.reports.pages.document import DisplayedFormula, Paragraph
from tpcalc.reports.stages import derive_stage
from tpcalc.reports.pages.widths import width

GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("*.tex"))
NETS = {"linear": tp.ResNet(), "two matrices": tp.ResNet(block="mlp"), "tanh": tp.ResNet("tanh"),
        "gated": tp.ResNet("silu", "glu")}


@lru_cache(maxsize=None)
def bodies(name: str) -> list[str]:
    """All formulas of a network's derivation."""
    found = derive_stage(NETS[name], tp.SGD())
    chains = [block.latex for block in derivation(found.steps) if isinstance(block, DisplayedFormula)]
    return [body for body in (found.program_latex, found.kets_latex, found.recursion_latex, found.limit_latex, *chains)
            if body]


def bare(text: str) -> str:
    """A formula without what only sets it: gaps, ends of lines, places to align, sizes of brackets."""
    text = text.replace(r"\Bigl", r"\left").replace(r"\Bigr", r"\right").replace(r"{} \times ", "")
    return re.sub(r"\s+|\\\\(\[1ex\])?|&|\\qquad|\\quad|\\;|\{\}", "", text)


@pytest.mark.parametrize("name", few(NETS, "linear", "tanh", "gated"))
def test_every_line_fits_and_nothing_is_lost(name: str) -> None:
    broken = 0
    for body in bodies(name):
        lines = breaking.rows(body)
        left = max((width(line.partition("&")[0]) for line in lines if "&" in line), default=0.0)
        for line in lines:
            assert left + width(line.partition("&")[2]) <= breaking.WIDEST + breaking.GAP or r"\text{no limit" in line
        assert bare("".join(lines)) == bare(body)
        broken += len(lines) > len(breaking.rows(body, 1e9))
    assert broken >= 1  # so that there was something to break


def test_conditions_and_short_brackets_stay_whole() -> None:
    a, b = "a" * 20, "b" * 20
    lines = breaking.rows(rf"y &= {a} + {b}, \quad p = 0, \ldots, P - 1", 30)
    assert lines[1:] == [rf"& \qquad {{}} + {b},", r"& \qquad p = 0, \ldots, P - 1"]
    lines = breaking.rows(rf"y &= {a} \left(1 - c\right) \sum_{{k}} {b}", 40)
    assert lines == [rf"y &= {a} \left(1 - c\right)", rf"& \qquad {{}} \times \sum_{{k}} {b}"]


@given(st.lists(st.text(ascii_lowercase, min_size=1, max_size=30), min_size=1, max_size=8), st.data())
def test_sums_are_broken_where_they_must_be(names: list[str], data: st.DataObject) -> None:
    signs = [data.draw(st.sampled_from([" + ", " - "])) for _ in names[1:]]
    body = "y &= - " + names[0] + "".join(sign + name for sign, name in zip(signs, names[1:]))
    lines = breaking.rows(body, 40)
    assert bare("".join(lines)) == bare(body)
    assert all(width(line) <= 40 + breaking.GAP for line in lines)
    assert len(lines) == 1 or all(width(a) + width(b) > 40 - 10 for a, b in zip(lines, lines[1:]))  # none is too short


def test_brackets_are_opened_where_signs_are_within() -> None:
    lines = breaking.rows(r"y &= a \left(" + " - ".join("b" * 20 for _ in range(4)) + r"\right) c", 50)
    assert lines[0].startswith(r"y &= a \Bigl(bb") and lines[-1].endswith(r"b\Bigr) c") and len(lines) > 1
    power = breaking.rows(r"y &= e^{\left(" + " + ".join("b" * 20 for _ in range(4)) + r"\right)}", 20)
    assert len(power) == 1 and r"\left(" in power[0]  # not in a script


def test_products_are_broken_where_no_sign_is_left() -> None:
    mean = r"\mathbb{E}\left[" + "a" * 30 + r"\right]"
    lines = breaking.rows(rf"y &= \sum_{{s}} b {mean} {mean} \sum_{{k}} c", 50)
    assert lines == [rf"y &= \sum_{{s}} b {mean}", rf"& \qquad {{}} \times {mean} \sum_{{k}} c"]
    inside = breaking.rows(rf"y &= \left({mean} {mean}\right)", 50)
    assert inside == [rf"y &= \Bigl({mean}", rf"& \qquad {{}} \times {mean}\Bigr)"]
    fraction = rf"y &= \frac{{{mean} {mean}}}{{d}}"
    assert breaking.rows(fraction, 50) == [fraction]  # not within braces


def test_sums_above_fraction_lines_come_down() -> None:
    long = " + ".join("a" * 30 for _ in range(2))
    lines = breaking.rows(rf"y &= \frac{{{long}}}{{d^{{2}}}} c", 50)
    assert lines == [r"y &= \frac{1}{d^{2}} \Bigl(" + "a" * 30, r"& \qquad {} + " + "a" * 30 + r"\Bigr) c"]
    product = breaking.rows(rf"y &= \frac{{b \left({long}\right)}}{{d}}", 50)
    assert product[0] == r"y &= \frac{1}{d} b \Bigl(" + "a" * 30
    tall = r"y &= \frac{" + "a" * 60 + "}{d}"
    assert breaking.rows(tall, 50) == [tall]


def test_fractions_over_products_are_two() -> None:
    below = r"\left(1 - b\right) \left(e + " + "c" * 30 + r"\right)"
    lines = breaking.rows(rf"y &= d \left(\frac{{{'a' * 30}}}{{{below}}}\right)", 40)
    assert lines == [rf"y &= d \Bigl(\frac{{{'a' * 30}}}{{1 - b}}",
                     rf"& \qquad {{}} \times \frac{{1}}{{e + {'c' * 30}}}\Bigr)"]
    assert breaking.rows(rf"y &= d \left(\frac{{{'a' * 30}}}{{{below}}}\right)", 60)[0].count(r"\frac") == 1


def test_brackets_of_functions_are_opened() -> None:
    lines = breaking.rows(r"y &= \operatorname{sign}{\left(" + "a" * 30 + " + " + "b" * 30 + r"\right)}", 40)
    assert lines == [r"y &= \operatorname{sign}\Bigl(" + "a" * 30, r"& \qquad {} + " + "b" * 30 + r"\Bigr)"]


def test_statements_in_loops_are_continued_further_in() -> None:
    lines = breaking.rows(r"&\quad \quad y := " + " + ".join("a" * 30 for _ in range(2)), 50)
    assert lines == [r"&\quad \quad y := " + "a" * 30, r"& \quad \quad \quad {} + " + "a" * 30]


def test_what_stands_beside_and_between_stays() -> None:
    body = r"y &= " + " + ".join("a" * 30 for _ in range(3)) + r" && \text{by a + b} \\[1ex] z &= 1"
    found = breaking.aligned(body, 50)
    assert r"\\[1ex]" in found and found.count(r"&& \text{by a + b}") == 1
    assert "[1ex]" not in "".join(breaking.rows(body, 50))
    assert breaking.aligned("a &= b") == "a &= b" and breaking.rows("") == []


def test_tall_formulas_are_parts() -> None:
    body = r" \\ ".join(f"x_{i} &= {i}" for i in range(30))
    parts = breaking.displays(body, most=11)
    assert [part.count("&=") for part in parts] == [11, 11, 8]
    long = "y &= " + " + ".join("a" * 60 for _ in range(30))
    assert [part.count(r"\\") + 1 for part in breaking.displays(long, most=11)] == [11, 11, 8]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_widths_are_about_those_of_mathml(path: Path) -> None:
    """Letters that are set, as the converted formula has them, are about as many as its LaTeX is wide."""
    from xml.etree import ElementTree

    mathml = pytest.importorskip("tpcalc.derivations.mathml")
    pytest.importorskip("latex2mathml")
    for row in breaking.rows(path.read_text(encoding="utf-8"), 1e9):
        formula = row.partition("&&")[0]
        if r"\frac" not in formula and r"\text" not in formula:
            text = "".join(ElementTree.fromstring(mathml.inline(formula.replace("&", ""))).itertext())
            letters = len(re.sub(r"\s", "", text))
            assert 0.6 * letters - 3 <= width(formula) <= 1.6 * letters + 3, row


def test_derivations_are_chains_of_equalities() -> None:
    found = derive_stage(NETS["linear"], tp.SGD())
    blocks = derivation(found.steps)
    formulas = [block.latex for block in blocks if isinstance(block, DisplayedFormula)]
    words = [block.text for block in blocks if isinstance(block, Paragraph)]
    assert len(formulas) == len(words) == len(blocks) / 2
    numbers = [int(n) for latex in formulas for n in re.findall(r"\\overset\{\((\d+)\)\}\{=\}", latex)]
    assert numbers == [step["number"] for step in found.steps]
    assert [int(n) for text in words for n in re.findall(r"\((\d+)\)", text)] == numbers
    for step in found.steps:  # each is in its chain, and its rule is explained once
        assert any(step["latex"].partition(" &= ")[2] in latex for latex in formulas)
        source = step["source"].replace(" [", ", `").replace("]", "`")
        assert sum(f"**{step['rule']}**: {step['reason']} ({source})" in text for text in words) == 1
    assert len(formulas) < len(found.steps)
