"""MathML holds formulas and words: words as they are, no elements, links or looks that LaTeX asks for."""

from __future__ import annotations

import ast
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import tpcalc
from tpcalc.derivations import mathml
from tpcalc.derivations.printing import CHARACTERS, escape_as_codes, unescape

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


ILL_FORMED = ["x^2^3", "x_1_2", "x''^2", "x_{1}_{2}", "x^{2", "{", "}", "x_", "^", r"\left(x", r"\right)", r"\sqrt",
              r"\frac{1}", r"\overset{a}", r"\begin{matrix}a", r"\begin", r"\end{x}", r"\hat", r"\left", r"\text",
              r"\text{a", "a & b", "", "%", r"\nosuch{x}", r"\sqrt[3]", r"\middle|"]


@pytest.mark.parametrize("formula", ILL_FORMED)
def test_formulas_that_are_not_well_formed_are_refused_by_name(formula: str) -> None:
    for show in (mathml.inline, lambda row: mathml.display([row]), lambda row: mathml.annotated([(row, "words")])):
        try:
            show(formula)
        except ValueError as refusal:
            said = str(refusal).replace("\\\\", "\\")
            assert said.startswith("formula: ") and formula.split("&")[0] in said
        else:
            assert formula in ("", "%", "a & b") and show is not mathml.inline  # a row of a table may be empty


@settings(deadline=None)
@given(st.lists(st.sampled_from([
    "x", "2", "^", "_", "{", "}", r"\frac", r"\left(", r"\right)", "&", "'", r"\sum", r"\hat", r"\sqrt", "[", "]",
    r"\text{a}", r"\begin{aligned}", r"\end{aligned}", r"\tilde"]), max_size=7))
def test_no_error_of_the_converter_is_seen(parts: list[str]) -> None:
    try:
        shown = mathml.inline(" ".join(parts))
    except ValueError as refusal:
        assert str(refusal).startswith("formula: ")
    else:
        assert ET.fromstring(shown).tag == "math"


def commands_of_printers() -> set[str]:
    """Every command in a string of the package's sources that prints formulas: what is behind a backslash in it."""
    found: set[str] = set()
    for path in sorted(Path(tpcalc.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text())
        if path.name in ("latex.py", "document.py", "sections.py") or not any(
                isinstance(node, ast.FunctionDef) and "latex" in node.name for node in ast.walk(tree)):
            continue
        patterns = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Call)
                    and ast.unparse(node.func).startswith("re.") for inner in ast.walk(node)}
        for node in ast.walk(tree):
            if id(node) not in patterns and isinstance(node, ast.Constant) and isinstance(node.value, str) \
                    and "\n    " not in node.value:
                found |= set(re.findall(r"\\([a-zA-Z]+)", node.value))
    return found


ARGUMENTS = {"frac": "{a}{b}", "tfrac": "{a}{b}", "left": r"( a \right)", "right": None, "end": None, "middle": None,
             "begin": r"{aligned} a \end{aligned}",
             "begingroup": None, "endgroup": None, "allowdisplaybreaks": None}  # around the displays of a fragment


def test_every_command_of_the_printers_has_mathml() -> None:
    known = commands_of_printers()
    assert {"frac", "partial", "rangle", "Gamma", "sum", "top", "text"} <= known | {"sum", "frac"} and len(known) > 15
    wrong = {}
    for command in sorted(known):
        argument = ARGUMENTS.get(command, "{a}")
        if argument is None:
            continue
        try:
            words = rf"\{command}{{}}" in CHARACTERS
            formula = rf"\text{{\{command}{{}}}}" if words else rf"\{command}{argument}"
            shown = ET.fromstring(mathml.inline(formula))
            assert rf"\{command}" not in "".join(shown.itertext())
        except ValueError as refusal:
            wrong[command] = str(refusal)
    assert not wrong
