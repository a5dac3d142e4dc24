"""The report names the papers of exactly the statements that it rests on, and shows the limit's equations."""

from __future__ import annotations

from fractions import Fraction

import pytest

import tpcalc as tp
from tpcalc.ledger import entries
from tpcalc.ledger.bibliography import PAPERS, bibtex, papers
from tpcalc.reports.pages import latex
from tpcalc.reports.pages.document import Code, DisplayedFormula
from tpcalc.reports.options import ReportOptions, Setup
from tpcalc.reports.pages.results import Results
from tpcalc.reports.pages.sections import report_document, rests_on
from tpcalc.reports.stages import derive_stage

HALF = Fraction(1, 2)


@pytest.fixture(scope="module")
def results() -> Results:
    found = Results(ReportOptions(Setup(steps=1, batch=1)), "no paper")
    found.derived = derive_stage(found.options.setup.net, found.options.setup.opt, at=(HALF, HALF))
    return found


def test_every_statement_of_the_ledger_has_its_paper() -> None:
    assert papers(entries()) == sorted(PAPERS)
    assert bibtex([]) == "" and bibtex(["gaussian/price"]) == ""
    assert bibtex(["tensor_programs_vi/lemma_d1"]).count("@") == 1
    with pytest.raises(ValueError, match="keys: got nowhere"):
        bibtex(["nowhere/lemma"])


def test_references_are_those_of_the_steps(results: Results) -> None:
    keys = rests_on(results)
    assert keys and set(keys) <= set(entries())
    assert results.derived is not None
    cited = {key for key in entries() if any(f"[{key}]" in step["source"] for step in results.derived.steps)}
    assert set(keys) == cited
    page = {section.key: section for section in report_document(results).sections}["references"]
    text, = (block.text for block in page.blocks if isinstance(block, Code))
    assert text.count("@") == len(papers(keys)) and "depthwise_transfer" not in text


def test_the_paper_has_a_title(results: Results) -> None:
    page = report_document(results)
    assert page.title and f"pdftitle={{{page.title}}}" in latex.render_latex(page)


def test_the_limit_is_that_of_the_scaling(results: Results) -> None:
    assert results.derived is not None
    limit = tp.depth_limit(tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling()))))
    other = tp.depth_limit(tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(1, 0)))))
    assert len(limit.at().equations) == len(other.at().equations) and str(limit) != str(other)
    assert results.derived.limit.count("\n") >= len(limit.at().equations)
    page = {section.key: section for section in report_document(results).sections}["limit"]
    assert results.derived.limit_latex in [block.latex for block in page.blocks if isinstance(block, DisplayedFormula)]
    everywhere = derive_stage(tp.ResNet(), tp.SGD())
    assert len(everywhere.limit) > len(results.derived.limit) and not everywhere.no_limit


def test_networks_without_a_recursion_have_a_limit_of_kets() -> None:
    found = derive_stage(tp.ResNet("tanh"), tp.SGD())
    assert not found.recursion and "phi'(u[t])" in found.limit and not found.no_limit
