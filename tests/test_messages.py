"""Messages of bad input have one form: ``name: got X; expected Y``."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Iterator

import tpcalc as tp

PACKAGE = Path(tp.__file__).parent
FORMER = re.compile(r"given;? allowed|[;,:] allowed (here )?(is|are)\b|\bneeded are\b")
LONGEST = 240  # characters of a message without what is put in: two lines of 120
NAMED = re.compile(r"(?:[\w{}, .\[\]'-]+: )+got ")


def written(node: ast.expr) -> str:
    """The text of a message, with {} in the place of what is put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(written, node.values))
    if isinstance(node, ast.BinOp):
        return written(node.left) + written(node.right)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "{}"


def raised(source: str) -> Iterator[tuple[str, str]]:
    """(class, message) of every error that a file raises with a text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            yield ast.unparse(node.exc.func), written(node.exc.args[0])


def faults(source: str) -> list[str]:
    """Texts of another form: words of the former one, and bad input that does not say what was expected."""
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)
             and isinstance(node.value, str)]
    return [text for text in texts if FORMER.search(text)] + [
        text for kind, text in raised(source) if kind == "ValueError" and NAMED.match(text)
        and "expected" not in text and not text.endswith("{}")]


def test_messages_say_what_they_got_and_what_they_expected() -> None:
    paths = [path for path in PACKAGE.rglob("*.py") if "proofs" not in path.relative_to(PACKAGE).parts]
    found = {path.relative_to(PACKAGE).as_posix(): faults(path.read_text(encoding="utf-8")) for path in paths}
    assert len(paths) > 300
    assert {path: texts for path, texts in found.items() if texts} == {}


def test_most_errors_have_that_form() -> None:
    """So that the walk reads what there is."""
    texts = [text for path in PACKAGE.rglob("*.py") for kind, text in raised(path.read_text(encoding="utf-8"))
             if kind == "ValueError"]
    assert sum(bool(NAMED.match(text)) for text in texts) > len(texts) / 2 > 100


def test_the_walk_sees_other_forms() -> None:
    for text in ("f'n: {n} given; allowed is 1'", "'n: it is 2, allowed are 1 and ' + known", "f'n: got {n}; take 1'",
                 "f'a, b: got {a}, ' f'{b}; they must be alike'"):
        assert faults(f"raise ValueError({text})"), text
    assert not faults("raise ValueError(f'n: got {n}; expected 1')")
    assert not faults("raise NotCovered(f'n: got {n}; it has no limit')")


def lengths(source: str) -> dict[str, int]:
    """Lengths of what a file raises, and of the refusals that it returns, without what is put in: a constant of the
    module is read."""
    tree = ast.parse(source)
    known = {target.id: line.value for line in tree.body if isinstance(line, ast.Assign)
             for target in line.targets if isinstance(target, ast.Name)}

    def read(node: ast.expr) -> str:
        if isinstance(node, ast.JoinedStr):
            return "".join(map(read, node.values))
        if isinstance(node, ast.BinOp):
            return read(node.left) + read(node.right)
        name = node.value if isinstance(node, ast.FormattedValue) else node
        return written(known.get(name.id, name) if isinstance(name, ast.Name) else node).replace("{}", "")

    said = [node.exc if isinstance(node, ast.Raise) else node.value for node in ast.walk(tree)
            if isinstance(node, (ast.Raise, ast.Return))]
    texts = [read(node.args[0] if isinstance(node, ast.Call) and node.args else node) for node in said if node]
    return {text: len(text) for text in texts if "got " in text or "expected " in text}


def test_messages_have_two_lines() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): lengths(path.read_text(encoding="utf-8"))
             for path in PACKAGE.rglob("*.py")}
    assert sum(map(len, found.values())) > 500
    assert {path: [text for text, length in texts.items() if length > LONGEST]
            for path, texts in found.items() if max(texts.values(), default=0) > LONGEST} == {}


def test_lengths_count_constants_and_no_values() -> None:
    source = "ALLOWED = 'one'\ndef f(n):\n    raise ValueError(f'n: got {n}; ' f'expected {ALLOWED}')\n"
    assert lengths(source) == {"n: got ; expected one": 21}
    assert lengths("def f(n):\n    return f'n: got {n}; ' + expected(n)\n") == {"n: got ; ": 9}
    assert lengths("def f(n):\n    return NotCovered(f'n: got {n}; no rule')") == {"n: got ; no rule": 16}
