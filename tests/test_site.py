"""Pages of the site are read without a network: formulas are MathML, and derived ones are what is derived."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import tpcalc as tp

nodes = pytest.importorskip("docutils.nodes")
sphinx_application = pytest.importorskip("sphinx.application")
pytest.importorskip("myst_parser")
pytest.importorskip("latex2mathml")
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated. Check CHANGES for Sphinx API")

DOCS = Path(__file__).parent.parent / "docs"
sys.path.insert(0, str(DOCS / "_ext"))
CONF = """
import sys
sys.path.insert(0, {extensions!r})
extensions = ["myst_parser", "offline_math"]
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
compute_slow = False
suppress_warnings = ["myst.xref_missing"]
"""
FORMULA = re.compile(r"(?<!\$)\$\$?(?=[^\s$])[^$]+\$\$?")
DERIVED = re.compile(r"^```\{derived\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMPUTED = re.compile(r"^```\{computed\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TABLE = re.compile(r'<table class="computed[^>]*>.*?</table>', re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
PAGES = [page for page in sorted(DOCS.glob("*.md")) if "{toctree}" not in page.read_text()
         and (DERIVED.search(page.read_text()) or COMPUTED.search(page.read_text())
              or FORMULA.search(CODE.sub("", page.read_text())))]


BUILT = os.environ.get("TPCALC_SITE")  # a site that stands already, with its slow tables


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages with formulas, built where a warning fails."""
    if BUILT:
        return Path(BUILT)
    source, built = (tmp_path_factory.mktemp(name) for name in ("source", "site"))
    (source / "conf.py").write_text(CONF.format(extensions=str(DOCS / "_ext")))
    names = [page.stem for page in PAGES]
    (source / "index.md").write_text("# Site\n\n```{toctree}\n" + "\n".join(names) + "\n```\n")
    for page in PAGES:
        text = re.sub(r"!\[[^]]*\]\([^)]*\)", "", page.read_text(encoding="utf-8"))
        text = re.sub(r"```\{(?!derived|computed).*?```", "", text, flags=re.DOTALL)
        (source / page.name).write_text(text, encoding="utf-8")
    app = sphinx_application.Sphinx(source, source, built, built / "trees", "html", status=None, warningiserror=True,
                                    confoverrides={"html_theme": "basic"})
    app.build()
    assert app.statuscode == 0
    return built


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_formula_is_mathml(page: Path, site: Path) -> None:
    html = (site / f"{page.stem}.html").read_text(encoding="utf-8")
    source, math = page.read_text(encoding="utf-8"), re.compile(r"<math\b.*?</math>", re.DOTALL)
    tables = [code for code in COMPUTED.findall(source) if BUILT or not code.startswith(":slow:")]
    assert len(TABLE.findall(html)) == len(tables)
    written = math.findall(TABLE.sub("", html))  # tables have formulas of their own
    assert len(written) == len(FORMULA.findall(CODE.sub("", source))) + len(DERIVED.findall(source))
    assert written or COMPUTED.search(source)
    for formula in math.findall(html):
        assert "".join(ElementTree.fromstring(formula).itertext()).strip() and "\\" not in formula
    assert not re.search(r"<(script|link)[^>]*https?:", html) and "mathjax.js" not in html.lower()
    prose = re.sub(r"<(pre|code|script)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert "\\" not in prose and "$" not in re.sub(r"<[^>]*>", "", prose)


def test_displays_scroll_in_a_box_of_their_own(site: Path) -> None:
    html = (site / "limits.html").read_text(encoding="utf-8")
    assert html.count('<div class="math"><math display="block">') == html.count('display="block"') > 0
    assert re.search(r"div\.math \{[^}]*overflow-x: auto", (DOCS / "_static" / "math.css").read_text())


def test_what_is_derived_is_what_the_object_says() -> None:
    import offline_math

    names = offline_math.names()
    assert offline_math.value("net = tp.ResNet()\ntp.program(net, tp.SGD(), tp.DepthScaling())", names) == tp.program(
        tp.ResNet(), tp.SGD(), tp.DepthScaling())
    assert names["net"] == tp.ResNet()  # for the rest of the page
    with pytest.raises(ValueError, match="ends with an expression"):
        offline_math.value("x = 1", {})
    assert r"\begin" not in offline_math.display(r"\begin{aligned}a &= b\end{aligned}")


def test_a_computed_table_has_the_rows_of_its_value() -> None:
    import offline_math

    rows = [{"in_depth": "L^(-1/2)", "name": "unstable in "
                                             "training"}, {"in_depth": "1, n^1 L^(3/4) = 0.5", "name": None}]
    found = offline_math.table(rows)
    cells = [[entry.astext() for entry in row.findall(nodes.entry)] for row in found.findall(nodes.row)]
    assert cells == [["in depth", "name"], ["L^{-1/2}", "unstable in training"], ["1, n L^{3/4} = 0.5", "-"]]
    assert [one.astext() for one in found.findall(nodes.math)] == ["L^{-1/2}", "n L^{3/4} = 0.5"]
    assert offline_math.formula("Lion") is offline_math.formula("no") is offline_math.formula("-1/2") is None


def test_the_site_uses_it() -> None:
    text = (DOCS / "conf.py").read_text()
    assert '"offline_math"' in text and 'html_math_renderer = "mathml"' in text
