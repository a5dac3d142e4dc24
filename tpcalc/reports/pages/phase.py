"""The phase diagram in a report: its regions as a table, its picture for paper and for the page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sympy as sp

from ..._types import Json
from ... import phase_diagram
from ...derivations.printing import latex
from ...verdicts.phases.drawing import draw_phase_diagram
from ...verdicts.phases.html import html
from ...verdicts.phases.picture import PhasePicture, Shape
from .document import Block, TableColumn, Paragraph, DrawnFigure as Drawn, DocumentTable, literal
from ..options import Setup
from .tables import write_csv


@dataclass(frozen=True)
class DividedPlane:
    """The plane divided by verdicts: rows, a dictionary a region; picture: shapes and box; here: (alpha, gamma)."""

    rows: list[dict[str, str]]
    picture: Json
    here: list[float]

    @property
    def drawing(self) -> PhasePicture:
        return PhasePicture([Shape(**shape) for shape in self.picture["shapes"]], self.picture["box"])

    @property
    def marked(self) -> tuple[float, float] | None:
        """The report's own scaling, where the picture has it."""
        (a0, g0), (a1, g1) = self.picture["box"]
        alpha, gamma = self.here
        return (alpha, gamma) if a0 <= alpha <= a1 and g0 <= gamma <= g1 else None


def divide_plane(setup: Setup) -> DividedPlane:
    """The diagram of the report's network."""
    found = phase_diagram(setup.net)
    rows = [{**one.row, "conditions": ",\\; ".join(map(latex, one.conditions)),
             "diversity": _formula(one.verdict.said["diversity_exponent"])} for one in found.regions]
    return DividedPlane(rows, asdict(found.picture), [float(setup.alpha), float(setup.gamma)])


def plane_figure(found: DividedPlane) -> Any:
    """A matplotlib figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 5.2), layout="constrained")
    draw_phase_diagram(found.drawing, figure.subplots(), found.marked)
    return figure


def plane_table(found: DividedPlane) -> DocumentTable:
    rows = [{**row, "conditions": f"${row['conditions']}$"} for row in found.rows]
    return DocumentTable(
        "regions", "The plane, region by region, the largest first; all flags are in the CSV file.",
        [TableColumn("name", "region"), TableColumn("conditions", "where", "markup"),
         TableColumn("stable_in_training", "stable"),
         TableColumn("nontrivial", "nontrivial"), TableColumn("feature_learning", "features"),
         TableColumn("diversity", "diversity", "markup")], rows)


def write_regions(found: DividedPlane, folder: Path) -> None:
    """Every flag of every region."""
    keys = [key for key in found.rows[0] if key not in ("conditions", "diversity")]
    write_csv(folder / "regions.csv", keys, [[row[key] for key in keys] for row in found.rows])


def plane_blocks(found: DividedPlane) -> list[Block]:
    names = list(dict.fromkeys(row["name"] for row in found.rows))
    circle = "" if found.marked is None else " The circle is this report's own scaling."
    return [
        Paragraph(f"The plane of all depth scalings is divided exactly: into ${len(found.rows)}$ regions, segments and "
                  "points on which every verdict has the same answers. Their borders are lines on which an exponent "
                  "of $L$ changes its sign; nothing is sampled."),
        Drawn("plane", r"What depth scalings do: branches are multiplied by $L^{-\alpha}$, updates by $L^{-\gamma}$ "
              f"({', '.join(map(literal, names))}). Where a nontrivial limit exists, the color of the line is the "
              "rate $r$ at which the distance to infinite depth falls, like $L^{-r}$." + circle,
              html(found.drawing, found.marked)),
        plane_table(found)]


def _formula(exponent: bool | sp.Expr | None) -> str:
    return f"${latex(exponent)}$" if isinstance(exponent, sp.Expr) else "-"
