"""LaTeX formulas as MathML; with latex2mathml, of the extra ``report``."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from ..errors import of_extra
from .printing import unescape

BEYOND = {"href", "class", "style"}  # attributes that reach what is outside of the formula
REFERENCE = re.compile("&#x([0-9A-Fa-f]{1,6});")  # as the converter writes characters
WORDS = "\ue000"  # of private use: what stands for words begins with it
OPERATORS = "\u00b1\u2213\u00d7\u223c"  # plus-minus, times and ~ need the gaps of operators
TIGHT = "|/\u27e8\u27e9"  # the brackets of kets are not signs of divisibility
SUM, DOT = "\u2211", "\u02d9"
TEXT, DOLLAR = re.compile(r"\\text\{"), re.compile(r"(?<!\\)\$")
PARTS = {**dict.fromkeys(("mfrac", "msub", "msup", "munder", "mover", "mroot"), 2), "msubsup": 3, "munderover": 3}
LIMITS = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}


def inline(formula: str) -> str:
    """A formula within text."""
    return _text(_element(formula, "inline"))


def display(rows: list[str]) -> str:
    """Rows of an ``aligned`` body as one displayed formula."""
    return _text(_element(r"\begin{align*}" + r" \\ ".join(rows) + r"\end{align*}", "block"))


def annotated(rows: Sequence[tuple[str, str]]) -> str:
    """Rows of an ``aligned`` body as one displayed formula, each with words beside it; formulas between dollar signs.
    Raises ``MissingExtra`` without latex2mathml, ``ValueError`` for LaTeX that it does not know."""
    whole = ET.Element("math", display="block")
    table = ET.SubElement(whole, "mtable", columnalign="right left left", displaystyle="true")
    for formula, words in rows:
        row = _element(r"\begin{align*}" + formula + r"\end{align*}", "block").find(".//mtr")
        if row is None:
            raise ValueError(f"formula: {formula!r} has no MathML: nothing is in it")
        cell = ET.SubElement(row, "mtd")
        for i, part in enumerate(words.split("$")):
            if i % 2:
                cell.extend(_element(part, "inline"))
            elif part:
                ET.SubElement(cell, "mtext").text = part.replace(" ", "\N{NO-BREAK SPACE}")
        table.append(row)
    return _text(whole)


def _words(formula: str) -> tuple[str, list[str]]:
    r"""The formula with ``\text`` numbered, and the words of each: they are text as it is, which no converter reads.
    Formulas within words, between dollar signs, are set beside them."""
    words: list[str] = []
    found, at = "", 0
    for match in TEXT.finditer(formula):
        if match.start() < at:
            continue
        level, end = 1, match.end()
        while level and end < len(formula):
            level += {"{": 1, "}": -1}.get(formula[end], 0)
            end += 2 if formula[end] == "\\" else 1
        found += formula[at:match.start()]
        for i, part in enumerate(DOLLAR.split(formula[match.end():end - 1])):
            if i % 2:
                found += part
            elif part:
                found += rf"\text{{{WORDS}{len(words)}}}"
                words.append(part)
        at = end
    return found + formula[at:], words


def _element(formula: str, mode: str) -> ET.Element:
    converter = of_extra("latex2mathml.converter", "report", "MathML")
    if WORDS in formula:
        raise ValueError(f"formula: {formula!r} has no MathML: {WORDS!r} is not known")
    numbered, words = _words(formula)
    if _open_braces(numbered):
        raise ValueError(f"formula: {formula!r} has no MathML: its braces are not closed")
    try:
        element: ET.Element = converter.Converter(display=mode).convert_to_element(numbered)
    except Exception as error:  # of the converter, which has an error of its own for every fault of a formula
        raise ValueError(f"formula: {formula!r} has no MathML: {_fault(error)}") from error
    del element.attrib["xmlns"]  # HTML knows the element; no address is left in the page
    for node in element.iter():
        _read(node, words, formula)
    for node in element.iter():
        if len(node) != PARTS.get(node.tag, len(node)):
            raise ValueError(f"formula: {formula!r} has no MathML: {node.tag} of {len(node)} parts where it has "
                             f"{PARTS[node.tag]}")
        _improve(node)
    return element


def _open_braces(formula: str) -> bool:
    """Is a brace without its other one?"""
    level = 0
    for brace in re.findall(r"\\.|[{}]", formula):
        level += {"{": 1, "}": -1}.get(brace, 0)
        if level < 0:
            return True
    return level > 0


def _fault(error: Exception) -> str:
    """The converter's name for a fault, as words: DoubleSuperscriptsError is double superscripts."""
    name = type(error).__name__.removesuffix("Error") if "latex2mathml" in type(error).__module__ else ""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower() or "it is not well formed"


def _read(node: ET.Element, words: list[str], formula: str) -> None:
    """Characters for the converter's numbers of them, words for those of ``_words``; refuses what is not known."""
    text = REFERENCE.sub(lambda code: chr(int(code[1], 16)), node.text or "")
    if text.startswith(WORDS):
        text = unescape(words[int(text[len(WORDS):])]).replace(" ", "\N{NO-BREAK SPACE}")
    elif "\\" in text or "&" in text and r"\&" not in formula:
        raise ValueError(f"formula: {formula!r} has no MathML: {text!r} is not known")
    if beyond := sorted(node.attrib.keys() & BEYOND):
        raise ValueError(f"formula: {formula!r} has no MathML: {', '.join(beyond)} in it; a formula has no links "
                         "and no looks of its own")
    node.text = text or None


def _improve(node: ET.Element) -> None:
    """What the converter leaves to be done, as browsers show it."""
    name, text, children = node.tag, node.text or "", list(node)
    if name == "mi" and text and text in OPERATORS:
        name = node.tag = "mo"
    if name == "mo" and text and text in TIGHT:
        node.set("lspace", "0")
        node.set("rspace", "0")
    if name == "mover" and children[1].text == DOT:
        node.set("accent", "true")
        if "".join(children[0].itertext()) == "\u27e9":  # a dot of full size that does not touch the bracket
            children[0].tag = "mpadded"
            children[0].set("height", "0.95em")
    if name in LIMITS and children[0].text == SUM:  # within brackets as well
        node.tag = LIMITS[name]
    for first, second in zip(children, children[1:]):
        if first.text == ":" and second.text == "=":  # one operator, set without a gap
            first.tag, first.text = second.tag, ":="
            node.remove(second)


def _text(element: ET.Element) -> str:
    return ET.tostring(element, encoding="unicode")
