"""Every figure of the papers has its entry, and is drawn or says why not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.labels import faults

from tpcalc import ResNet
from tpcalc.figures.figure import Figure, Sizes, figure_of, figures
from tpcalc.figures.grids import Grid

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
PAPERS = {"tp6": [*map(str, range(1, 25))],
          "depthwise": [*map(str, range(1, 8)), *(f"B{k}" for k in range(1, 9)), "M1"]}
KEYS = [key for key, figure in figures().items() if figure.asks is not None]
TOY = Sizes("toy")
EXACT = ("tp6/1", "depthwise/6")  # what needs no training, and is resolved at any size


def numbers_in(value: Any) -> list[float]:
    """All numbers of what was drawn."""
    if isinstance(value, dict):
        return [one for inner in value.values() for one in numbers_in(inner)]
    return np.asarray(value).ravel().tolist() if np.asarray(value).dtype.kind in "fiu" else []


def test_every_figure_has_its_entry_in_order() -> None:
    assert [*figures()] == [f"{paper}/{number}" for paper, numbers in PAPERS.items() for number in numbers]


def test_a_figure_that_is_not_drawn_says_why() -> None:
    for figure in figures().values():
        assert figure.shows and figure.instead
        if figure.asks is None:
            with pytest.raises(ValueError, match=f"figure {figure.key}: it is not drawn: "):
                figure.draw(TOY)


@pytest.mark.parametrize("key", KEYS)
def test_figures_are_drawn(key: str, tmp_path: Path) -> None:
    """With numbers, and something that the paper concludes; texts do not overlap."""
    figure = figure_of(key)
    drawing = figure.draw(TOY)
    assert drawing.conclusions and all(one.claim and one.numbers for one in drawing.conclusions)
    found = numbers_in(dict(drawing.numbers))
    assert len(found) > 9 or key == "tp6/1"
    assert key not in EXACT or all(one.agrees for one in drawing.conclusions)
    drawing.picture.savefig(tmp_path / "one.svg")
    assert not faults(tmp_path / "one.svg")


@pytest.mark.parametrize("key", KEYS)
def test_usual_sizes_take_minutes(key: str) -> None:
    """On two processes of ten billion multiplications a second, which Python's overheads leave."""
    count, cost = figure_of(key).cost(Sizes())
    assert cost < 2e12 and (count > 0 or cost == 0) and figure_of(key).cost(TOY)[1] <= max(cost, 0) / 10 + 1


def test_keys_are_checked() -> None:
    with pytest.raises(ValueError, match="figure: got 'tp6/99'; expected one of tp6/1, tp6/2"):
        figure_of("tp6/99")


def test_figures_are_asked_and_answered() -> None:
    """A figure may ask several times; it is sent losses of the shape that it asked for."""
    shapes = []

    def asks(sizes: Sizes) -> Any:
        grid = Grid.of(sizes, (-1, 1))
        for _ in range(2):
            asked = grid.rates(ResNet("relu"), 0.5, 0.5)[:1, :1]
            shapes.append((asked.shape, (yield asked).shape))
        return "done"

    assert Figure("tp6/0", "a test", "nothing", asks).draw(TOY) == "done"
    assert shapes == [((1, 1, 2), (1, 1, 2, 4))] * 2 and not math.isnan(Figure("a", "b", "c", asks).cost(TOY)[1])
