"""MathML holds formulas and words: words as they are, no elements, links or looks that LaTeX asks for."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st

from tpcalc.derivations import mathml
from tpcalc.derivations.printing import escape_as_codes, unescape

SPACE = "\N{NO-BREAK SPACE}"
LINE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Co"]), max_size=30)
PLAIN = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=30)
COMMANDS = pytest.importorskip("latex2mathml.commands")


@given(PLAIN)
def test_escaped_text_is_read_back(text: str) -> None:
    assert unescape(escape_as_codes(text)) == text


@settings(deadline=None)
@given(PLAIN)
def test_words_within_formulas_are_text_as_it_is(words: str) -> None:
    """Whatever is in them: a page that holds the formula has the words, and no element that they spell."""
    element = ET.fromstring(mathml.inline(rf"a + \text{{{escape_as_codes(words)}}} + b"))
    assert "".join(element.itertext()) == f"a+{words}+b".replace(" ", SPACE)
    assert {node.tag for node in element.iter()} <= {"math", "mrow", "mi", "mo", "mtext"}


@given(LINE.filter(lambda text: "$" not in text))
def test_words_beside_formulas_are_text_as_it_is(words: str) -> None:
    cell = ET.fromstring(mathml.annotated([("x &= y", words)]))[0][0][2]
    assert "".join(cell.itertext()) == words.replace(" ", SPACE) and {node.tag for node in cell} <= {"mtext"}


@pytest.mark.parametrize("words", [
    "<script>f()</script>", "<a href='j'>x</a>", 'a "b" <b', "&lt;b&gt;", "&#x3c;b>", "a & b"])
def test_words_that_look_like_markup(words: str) -> None:
    for formula in (rf"\text{{{words}}}", rf"\text{{{escape_as_codes(words)}}}"):
        shown = mathml.inline(formula)
        assert shown.count("<") == 6 and "".join(ET.fromstring(shown).itertext()) == words.replace(" ", SPACE)


@pytest.mark.parametrize("formula", [
    r"\href{javascript:f()}{x}", r"\class{a}{x}", r"\style{background:url(//a)}{x}", r"\text{\href{a}{b}}",
    r"\text{see $\href{a}{b}$}", r"\newcommand{\a}{\href{j}{k}} \a", r"\frac{1}{\href{a}{b}}", "\ue0000"])
def test_links_and_looks_are_refused(formula: str) -> None:
    with pytest.raises(ValueError, match="is not known|no links"):
        mathml.inline(formula)


def test_no_command_of_the_converter_reaches_beyond_the_formula() -> None:
    """Each with arguments that are addresses; what comes out has no attribute that a browser follows or runs."""
    known = {"href", "class", "style", "src", "actiontype", "id"}
    refused = set()
    for command in COMMANDS.CONVERSION_MAP:
        for arguments in ("{javascript:f()}{x}", "{x}", " x", "[a]{b}"):
            try:
                element = ET.fromstring(mathml.inline(command + arguments))
            except Exception as error:  # of the converter's own kinds, for arguments that are not the command's
                refused |= {command} if "no links" in str(error) else set()
                continue
            names = {name for node in element.iter() for name in node.attrib}
            assert not names & known and not any(name.startswith("on") for name in names), command
    assert refused == {r"\href", r"\class", r"\style"} & set(COMMANDS.CONVERSION_MAP)
