"""Texts of figures can be read: none touches another, crosses a frame or is cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest

import tpcalc as tp
from support.nightly import few

from support.labels import boxes, faults

figures = pytest.importorskip("matplotlib.figure")
PICTURES = sorted((Path(__file__).parent.parent / "docs" / "images").glob("*.svg"))
TASK = tp.Task([1, 0.8, -0.6, 1.1], [1, -0.7, 0.5, 1.2])


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_pictures_of_the_docs(path: Path) -> None:
    assert len(boxes(path)) > 10 and not faults(path)


def test_there_are_pictures() -> None:
    assert len(PICTURES) >= 10


def a_run() -> Any:
    return tp.train(tp.ResNet(), TASK, tp.SGD(1.0), tp.DepthScaling(), 16)


def a_convergence() -> Any:
    return tp.convergence(tp.ResNet(), TASK, tp.SGD(1.0), tp.DepthScaling(), [8, 16, 32])


def a_transfer() -> Any:
    return tp.transfer(tp.ResNet(), TASK, tp.SGD(1.0), [tp.DepthScaling(), tp.DepthScaling(1, 0)], [8, 16, 32],
                       [0.25, 0.5, 1.0])


PLOTS: dict[str, tuple[Callable[[], Any], int]] = {
    "run": (a_run, 1), "convergence": (a_convergence, 1), "transfer": (a_transfer, 2), "web": (tp.web, 1),
    "plane": (tp.phase_diagram, 1), "plane of two matrices": (lambda: tp.phase_diagram(tp.ResNet(block="mlp")), 1)}


@pytest.mark.parametrize("name", few(PLOTS, *list(PLOTS)[:-1]))
def test_plots_of_results(name: str, tmp_path: Path) -> None:
    make, panels = PLOTS[name]
    figure = figures.Figure(figsize=(6.4 * panels, 4.8), layout="constrained")
    axes = figure.subplots(1, panels)
    make().plot(axes)
    figure.savefig(tmp_path / "plot.svg")
    assert len(boxes(tmp_path / "plot.svg")) > 5 and not faults(tmp_path / "plot.svg")


def test_faults_are_found(tmp_path: Path) -> None:
    """Two texts at one place, turned ones that only their boxes make meet, one beyond the edge, one across a frame."""
    def said(*texts: tuple[float, float, str, float]) -> list[str]:
        figure = figures.Figure(figsize=(4, 4))
        ax = figure.add_axes((0.25, 0.25, 0.5, 0.5), xticks=[], yticks=[])
        for x, y, words, angle in texts:
            ax.text(x, y, words, rotation=angle, ha="center", va="center")
        figure.savefig(tmp_path / "one.svg")
        return faults(tmp_path / "one.svg")

    assert said((0.5, 0.5, "first", 0), (0.5, 0.52, "second", 0)) == ["'first' overlaps 'second'"]
    assert said((0.4, 0.6, "turned", 45), (0.6, 0.4, "turned too", 45)) == []
    assert said((0.5, 0.5, "turned", 45), (0.5, 0.5, "turned too", -45)) == ["'turned' overlaps 'turned too'"]
    assert said((0.5, -0.5, "below", 0)) == ["'below' is cut off"]
    assert said((1.0, 0.5, "across", 0)) == ["'across' crosses a frame"]
