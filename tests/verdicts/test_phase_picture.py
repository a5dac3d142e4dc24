"""Drawings of the plane: every region is there, says what is known of it, and needs nothing from elsewhere."""

import re
import sys
from html import unescape
from xml.etree import ElementTree

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts.phases import picture as phase_picture
from tpcalc.verdicts.phases.html import _Sheet
from tpcalc.verdicts.phases.picture import FAST, PIECES, SLOW, mixed


@pytest.fixture(scope="module")
def linear() -> tp.verdicts.phases.PhaseDiagram:
    return tp.phase_diagram()


def test_every_region_is_a_shape_and_every_name_is_written_once(linear) -> None:
    shapes = linear.picture.shapes
    assert [s.dimension for s in shapes] == [one.dimension for one in linear.regions]
    assert sorted(s.label for s in shapes if s.label) == sorted({one.name for one in linear.regions})
    for shape, one in zip(shapes, linear.regions):
        if one.dimension == 2:  # its middle lies inside, or in a neighbor of its name
            assert linear.at(*map(sp.nsimplify, shape.middle)).name == one.name


def test_labels_have_room(linear) -> None:
    """A name stands where all areas of that name, not the first of them, leave most room about it."""
    yellow = next(shape for shape in linear.picture.shapes if shape.label == "trivial, with h growing")
    assert sorted(map(tuple, yellow.room)) == [(1.0, 0.0), (1.75, -0.75), (1.75, 0.0)]
    alpha, gamma = yellow.middle
    assert alpha + gamma > 1.25 and -0.3 < gamma < -0.1  # away from the thick line alpha + gamma = 1
    assert next(s for s in linear.picture.shapes if s.label == "explodes at initialization").middle == (0.125, 0.25)


def test_all_that_is_known_is_said(linear) -> None:
    for shape, one in zip(linear.picture.shapes, linear.regions):
        assert one.name in shape.said and one.row["where"] in shape.said


def test_rates_run_along_the_line_of_nontrivial_limits_only(linear) -> None:
    found = {one.name: shape.rates for one, shape in zip(linear.regions, linear.picture.shapes) if shape.rates}
    assert set(found) == {"Depth-muP", "ODE limit", "converges in x and f, not in h"}
    ode = next(shape.rates for one, shape in zip(linear.regions, linear.picture.shapes)
               if one.name == "ODE limit" and one.dimension == 1)
    assert len(ode) == PIECES
    for ((a0, g0), (a1, g1)), rate, _ in ode:
        assert a0 + g0 == pytest.approx(1) == a1 + g1
        assert rate == pytest.approx(2 * (a0 + a1) / 2 - 1)  # min(1, 2 alpha - 1) in the middle of the piece


def test_the_page_has_a_tooltip_for_every_region_and_no_address(linear) -> None:
    page = linear.html()
    assert page == linear._repr_html_()
    drawing = ElementTree.fromstring(re.search(r"<svg.*</svg>", page, re.DOTALL)[0])
    titles = [title.text for title in drawing.iter("title")]
    for shape in linear.picture.shapes:
        assert shape.said in titles
    assert any("at (49/96, 47/96): r = 1/48" in title for title in titles)
    assert "<script" not in page and "http" not in page and "url(" not in page
    assert all(label in unescape(re.sub(r"</tspan><tspan[^>]*>", " ", page))
               for label in ("explodes at initialization", "Depth-muP"))


def test_the_drawing_has_its_axes_the_right_way_round(linear) -> None:
    """alpha to the right, gamma upwards: Depth-muP's star is above the point (1, 0) and left of it."""
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = linear.plot()
    assert [text.get_text().replace("\n", " ") for text in ax.texts] == [
        s.label for s in linear.picture.shapes if s.label]
    star = next(line for line in ax.lines if line.get_marker() == "*")
    assert star.get_xydata().tolist() == [[0.5, 0.5]]
    assert ax.get_xlim() == (-0.25, 1.75) and ax.get_ylim() == (-0.75, 1.25)
    assert linear.plot(ax) is ax
    plt.close("all")
    circles = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', linear.html())
    (x0, y0), (x1, y1) = [(float(x), float(y)) for x, y in circles]
    names = [one.name for one in linear.regions if one.dimension == 0]
    assert names == ["ODE limit", "Depth-muP"] and x1 < x0 and y1 < y0


def test_without_matplotlib_the_extra_is_named(linear, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(tp.MissingExtra, match=r"tpcalc\[report\]"):
        linear.plot()
    assert linear.html()


def test_colors_between_two() -> None:
    assert (mixed(SLOW, FAST, 0), mixed(SLOW, FAST, 1)) == (SLOW, FAST)
    assert mixed("#000000", "#ffffff", 0.5) == "#808080"


def test_networks_without_a_recursion_have_no_rates() -> None:
    relu = tp.phase_diagram(tp.ResNet("relu"))
    assert not relu.picture.has_rates and relu.rate(1, 0) is None
    assert {one.name for one in relu.regions} >= {"Depth-muP", "ODE limit", "undecided"}


def test_lines_of_a_label_are_centered_about_its_place(linear) -> None:
    sheet = _Sheet(linear.picture)
    areas = [shape for shape in linear.picture.shapes if shape.dimension == 2 and shape.label]
    assert max(len(shape.lines) for shape in areas) > 1
    for shape in areas:
        text = ElementTree.fromstring(sheet.label(shape))
        moves = [float(line.attrib["dy"]) for line in text]
        heights = [float(text.attrib["y"]) + sum(moves[:i + 1]) for i in range(len(moves))]
        assert sum(heights) / len(heights) == pytest.approx(sheet.at(*shape.middle)[1], abs=0.06)


def test_rates_are_written_beside_the_ends_of_their_colors(linear) -> None:
    bars = [ElementTree.fromstring(part) for part in _Sheet(linear.picture).color_bar()]
    rows = [(float(one.attrib["y"]), one.attrib["fill"]) for one in bars if one.tag == "rect"]
    words = {one.text: float(one.attrib["y"]) for one in bars if one.tag == "text"}
    height = rows[0][0] - rows[1][0]
    lowest, highest = max(rows), min(rows)
    assert lowest[1] == mixed(SLOW, FAST, 0.5 / len(rows)) and highest[1] == mixed(SLOW, FAST, 1 - 0.5 / len(rows))
    assert words["rate L^-r"] < highest[0] < words["r = 1"] <= highest[0] + height
    assert words["r = 0"] == lowest[0] + height


@pytest.mark.parametrize("label", ["x", "two words", "a label of an area that is broken into lines"])
def test_a_label_asks_for_the_room_that_its_lines_take(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(phase_picture, "_with_room", lambda room, near, half: asked.append(half) or near)
    shape = phase_picture.Shape(label, [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], "#000", "", [])
    assert shape.middle == pytest.approx((1 / 3, 1 / 3))
    assert asked == [(max(map(len, shape.lines)) * phase_picture.LETTER / 2, len(shape.lines) / 2)]


def test_lines_lie_above_areas_and_points_above_lines(linear) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = linear.plot()
    areas = {patch.get_zorder() for patch in ax.patches}
    points = {one.get_zorder() for one in ax.lines if one.get_marker() != "None"}
    lines = {one.get_zorder() for one in ax.lines if one.get_marker() == "None"}
    plt.close("all")
    assert max(areas) < min(lines) and max(lines) < min(points)
