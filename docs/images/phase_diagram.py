"""Draw docs/images/phase_diagram.svg: what Tensor Programs VI's Figure 1 shows, exactly, with rates of convergence."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

import tpcalc as tp

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file


def draw(path: Path) -> None:
    figure = Figure(figsize=(7.4, 5.2), layout="constrained")
    tp.phase_diagram().plot(figure.subplots())
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).with_name("phase_diagram.svg"))
