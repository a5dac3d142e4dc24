"""``tpcalc figure``: draw a figure of the papers anew, and say what its numbers show."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from .. import _checks
from ..figures.figure import Drawing, Figure, Sizes, figure_of, figures
from ..figures.images import DIGITS, labeled_images
from ..figures.panels import write_picture
from .progress import bar, workers
from .store import print_json, write_json

FORMATS = {"svg": "Date", "pdf": "CreationDate"}
TRAININGS = "trainings"  # the folder of what is finished, so that a stopped figure goes on


def figure_command(args: argparse.Namespace) -> int:
    """Draw the figures that were asked for, or list all of them."""
    if bool(args.keys) == args.list:
        raise ValueError("figure: expected keys such as tp6/11, or --list alone, which prints all of them")
    sizes = Sizes("full" if args.full else "toy" if args.toy else "usual", args.data)
    if args.list:
        return _list(sizes, args.json)
    chosen = [figure_of(key) for key in dict.fromkeys(args.keys)]
    for figure in chosen:
        figure.require(sizes)
    if sizes.data != DIGITS:
        labeled_images(sizes.data)  # before anything is written
    _checks.folder("--output", args.output)
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    with workers(args.workers) as executor:
        for figure in chosen:
            start = time.perf_counter()
            with bar(figure.key, 1) as progress:
                drawing = figure.draw(sizes, executor, folder / TRAININGS, progress)
            data = write_drawing(figure, sizes, drawing, folder)
            if args.json:
                print_json(data)
            else:
                print(_said(figure, sizes, drawing, folder, time.perf_counter() - start), flush=True)
    return 0


def write_drawing(figure: Figure, sizes: Sizes, drawing: Drawing, folder: Path) -> dict[str, Any]:
    """The picture, and its numbers and conclusions as JSON, named by the figure's key; returns what the JSON has."""
    name = figure.key.replace("/", "-")
    for form, date in FORMATS.items():
        write_picture(drawing.picture, str(folder / f"{name}.{form}"), date)
    data = {"figure": figure.key, "shows": figure.shows, "size": sizes.size, "data": sizes.data,
            "instead": difference_from_paper(figure, sizes), "numbers": drawing.numbers,
            "conclusions": [{"paper": one.claim, "numbers": one.numbers, "agrees": one.agrees}
                            for one in drawing.conclusions]}
    write_json(folder / f"{name}.json", data)
    return data


def difference_from_paper(figure: Figure, sizes: Sizes) -> str:
    """What differs from the paper's figure."""
    data = "" if sizes.data == DIGITS else f", on {sizes.data}"
    usual = f"for the paper's: {figure.instead}" + (f"; here{data}" if data else "")
    return {"full": f"sizes of the paper{data}", "toy": f"tiny networks{data}, to see that it runs",
            "usual": usual}[sizes.size]


def _said(figure: Figure, sizes: Sizes, drawing: Drawing, folder: Path, seconds: float) -> str:
    name = figure.key.replace("/", "-")
    return "\n".join([f"{figure.key}: {figure.shows}", f"  {difference_from_paper(figure, sizes)}",
                      *(f"  {one}" for one in drawing.conclusions),
                      f"  {folder / name}.svg, .pdf, .json ({seconds:.0f} s)"])


def _list(sizes: Sizes, as_json: bool) -> int:
    """Every figure: what it shows, how much is trained for it, what differs from the paper's."""
    rows = []
    for figure in figures().values():
        count, cost = (0, 0.0) if figure.asks is None else figure.cost(sizes)
        rows.append({"figure": figure.key, "shows": figure.shows, "is drawn": figure.asks is not None,
                     "instead": figure.instead, "trainings": count, "multiplications": cost})
    if as_json:
        print_json(rows)
        return 0
    for row in rows:
        work = (f"{row['trainings']} trainings, {row['multiplications']:.1e} multiplications" if row["trainings"] else
                "computed in one process" if row["is drawn"] else "not drawn")
        print(f"{row['figure']:<13} {row['shows']}\n{'':<13} {work}; {row['instead']}")
    return 0
