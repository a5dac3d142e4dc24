"""The LaTeX document: numbered statements, references that are there, text that is escaped."""

import re

from support.entries import entry, erratum, measured, proof

from tpcalc.ledger import Ledger, check
from tpcalc.ledger.document import ledger_latex, rich

SQUARE = entry("a_paper/square", derive=proof, errata=(erratum(),), assumptions=("$a < 1$ & so on",))
USER = entry("a_paper/user", uses=("a_paper/square",), evidence=measured, kind="remark")


def document(*entries: object) -> tuple[Ledger, str]:
    ledger = check({e.key: e for e in entries})  # type: ignore[attr-defined]
    return ledger, ledger_latex(ledger)


def test_statements_are_numbered_and_cross_referenced() -> None:
    _, text = document(SQUARE, USER)
    labels = re.findall(r"\\label\{(.+?)\}", text)
    assert labels == ["a_paper/square", "a_paper/user"]
    assert set(re.findall(r"\\ref\{(.+?)\}", text)) == set(labels)
    assert r"\textbf{Uses} \ref{a_paper/square}." in text


def test_everything_found_is_in_it() -> None:
    _, text = document(SQUARE, USER)
    for part in (r"S &= a^{2} + 2 a b + b^{2}", r"(1) \textbf{identity}", "derived throughout, false as printed",
                 r"\emph{Erratum.} the first line", r"S &= a^2 + b^2", r"S &= (a + b)^2",
                 r"something: 1 $\pm$ 0.01, expected 1", r"$a < 1$ \& so on",
                 r"\texttt{a\_\allowbreak{}paper/\allowbreak{}square}", r"100\% of $b$"):
        assert part in text


def test_failures_are_in_it_too() -> None:
    _, text = document(entry("p/bad", evidence=lambda: measured(7.0)))
    assert r"\textbf{Fails.}" in text and "evidence does not hold" in text
    _, text = document(entry("p/worse", derive=lambda: 1 / 0))
    assert "ZeroDivisionError" in text


def test_formulas_stay_and_text_is_escaped() -> None:
    assert rich("100% of $x_t$ & <y>") == r"100\% of $x_t$ \& \textless{}y\textgreater{}"
