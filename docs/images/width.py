"""Draw docs/images/width.svg, the plane of strategies in the width and the web of limits in width and depth, and
docs/images/width_phases.svg, phase diagrams of powers of the width."""

from pathlib import Path
from typing import Any

import matplotlib
import sympy as sp
from matplotlib.figure import Figure

import tpcalc as tp
from tpcalc.width import broken_principles
from tpcalc.width.counting import own_gradients
from tpcalc.width.principles import learning

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file
HALF = sp.Rational(1, 2)
LOW, HIGH = sp.Rational(-1, 2), sp.Rational(3, 2)
P, R = sp.symbols("p r", real=True)


def strategy(p: sp.Expr, r: sp.Expr) -> tp.WidthScaling:
    """The point (p_L, r) of the plane in which hidden layers are critical, rates are equivalent and q_1 = 0."""
    return tp.WidthScaling((0, 0, p), (0, 0, p), r)


def draw_plane(ax: Any) -> None:
    """p_L to the right, r upwards; the line on which eta H is of order one, by what its parts break."""
    line, = sp.solve(learning(own_gradients(strategy(P, R).q[-1]), R, 3).power, R)
    at = [(float(p), float(line.subs(P, p))) for p in (LOW, HIGH)]
    for r, color, offset in ((LOW, "#c6dbef", sp.Rational(-1, 2)), (HIGH, "#fcbba1", sp.Rational(1, 2))):
        ax.fill(*zip(*at, (float(HIGH), float(r)), (float(LOW), float(r))), color=color, linewidth=0)
        middle = (LOW + HIGH) / 2
        breach = broken_principles(strategy(middle, line.subs(P, middle) + offset)).breaches[0]
        ax.annotate(f"{breach.principle}:\n$\\eta H$ {'grows' if breach.power > 0 else 'vanishes'}",
                    (float(middle - offset / 2), float(line.subs(P, middle) + offset)), ha="center", fontsize=8)
    for start, end in ((LOW, sp.Integer(0)), (sp.Integer(0), sp.Integer(1)), (sp.Integer(1), HIGH)):
        inside = (start + end) / 2
        found = broken_principles(strategy(inside, line.subs(P, inside)))
        ax.plot([float(start), float(end)], [float(line.subs(P, x)) for x in (start, end)], linewidth=3,
                color="#238b45" if found.passes else "#888888", linestyle="-" if found.passes else ":")
        label = "\n".join(["breaks", *found.breaches[0].principle.split()]) if found.breaches else "meta-principled"
        away = 2.8 * label.count("\n")  # the middle of more lines is farther from the line
        ax.annotate(label, (float(inside), float(line.subs(P, inside))), xytext=(7 + away, -9 - away), rotation=45,
                    fontsize=7, textcoords="offset points", ha="center", va="center", rotation_mode="anchor")
    for name in ("NTP", "muP"):
        one = tp.width.width_recipe(name, 3).canonical()
        assert one == strategy(one.p[-1], one.r), "the recipe is a point of the plane"
        ax.plot([float(one.p[-1])], [float(one.r)], "o", color="#08306b", markersize=9, zorder=3)
        ax.annotate(name, (float(one.p[-1]), float(one.r)), xytext=(-10, 8), textcoords="offset points", ha="right")
    limits = float(LOW), float(HIGH)
    ax.set(xlim=limits, ylim=limits, xlabel="$p_L$: outputs start with variance $n^{-p_L}$",
           ylabel="$r$: the global learning rate is $n^r$", aspect="equal")


def draw(path: Path) -> None:
    figure = Figure(figsize=(10.4, 4.8), layout="constrained")
    plane, web = figure.subplots(1, 2)
    draw_plane(plane)
    tp.web().plot(web)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def draw_phases(path: Path) -> None:
    """The same plane as a phase diagram, and that of two exponents of an abc-parametrization."""
    s, a, c = sp.symbols("s a_L c", real=True)
    figure = Figure(figsize=(11.6, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    tp.phase_diagram(scale=strategy(s, R)).plot(left)
    tp.phase_diagram(scale=tp.WidthScaling.from_abc((0, HALF, a), (0, 0, 0), c)).plot(right)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    draw(Path(__file__).with_name("width.svg"))
    draw_phases(Path(__file__).with_name("width_phases.svg"))
