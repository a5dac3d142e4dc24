"""A report on transformers as a document: sections, tables and figures, from the numbers of its stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import sympy as sp
from matplotlib.figure import Figure

from ...ledger.citations import NONLINEAR
from .document import (Block, Code, DisplayedFormula, Document, DocumentTable, DrawnFigure, Paragraph, Plain, Section,
                       TableColumn)
from .figures import BLUE, GREEN, GRAY, ORANGE, bare_axes, loss_ranges, of_steps, power_of_two_ticks
from .results import FinishedStages, failed, missing_stage, of_stage, references, reproduce
from .tables import flag_cell, math_number, with_uncertainty
from ..transformer_options import TransformerOptions
from ..transformer_stages import BestRates, AttentionTraining, RealTransformers, Written

RESTS_ON = (NONLINEAR["dense"], NONLINEAR["collocation"])
COLORS = (BLUE, ORANGE, GREEN, GRAY, "#cc79a7")


@dataclass
class TransformerResults(FinishedStages):
    """Everything a report on transformers is written from."""

    refusing: ClassVar[str] = "these exponents"

    options: TransformerOptions
    written: Written | None = None
    limit: AttentionTraining | None = None
    real: RealTransformers | None = None
    rates: BestRates | None = None


def transformer_document(results: TransformerResults) -> Document:
    """The report, with as many parts as there are."""
    scale = results.options.scale
    subtitle = (f"SGD at $({sp.latex(sp.Symbol('alpha'))}, {sp.latex(sp.Symbol('gamma'))}) = "
                f"({sp.latex(scale.alpha)}, {sp.latex(scale.gamma)})$, on text")
    return Document(f"A {results.options.net.title}, wide and deep", subtitle, [
        Section("summary", "Summary", _summary(results)), Section("program", "The program", _program(results)),
        Section("limit", "The limit of infinite width, heads and depth", _limit(results)),
        Section("networks", "Real transformers", _real(results)),
        Section("rates", "The best learning rate against depth", _rates(results)),
        Section("reproduce", "How to reproduce this", reproduce(
            results, "All numbers are in [[file:report.json]], those of the tables in one `.csv` file each.")),
        Section("references", "References", references(RESTS_ON))])


def _summary(results: TransformerResults) -> list[Block]:
    options, task = results.options, results.options.task
    blocks: list[Block] = [Paragraph(
        f"A transformer with heads of ${options.head_dim}$ coordinates reads English that ships with Python: "
        f"{task.steps} steps of {task.batch} sequences of ${task.positions}$ characters, each position's target being "
        f"the next character, of ${task.d_out}$, and the loss its cross-entropy. Attention and a {options.phi} MLP, "
        "each after an RMSNorm, are trained by gradient descent; embedding and readout are not. Losses are those of a "
        "position.")]
    limit, real, rates = results.limit, results.real, results.rates
    if limit is not None:
        blocks.append(Paragraph(
            f"**The limit.** At infinite width, number of heads and depth the loss goes from "
            f"{math_number(limit.losses[0], 4)}, that of a uniform guess, to {math_number(limit.losses[-1], 4)}; "
            f"outputs are known within {math_number(limit.error, 1)}."))
    if real is not None and limit is not None:
        last = real.rows[-1]
        blocks.append(Paragraph(
            f"**Real transformers** of width ${last['width']}$ and depth ${last['depth']}$ differ from it by "
            f"{math_number(last['error'])}" + (
                "" if real.order is None else ", and at that depth the difference falls with the width like $n^{-r}$, "
                f"{with_uncertainty(real.order, real.uncertainty, 2, 'r')}; theory says $r = 1/2$")
            + " ([[figure:networks]])."))
    if rates is not None:
        own = f"{options.alpha}, {options.gamma}"
        fitted = rates.measured[own]
        blocks.append(Paragraph(
            f"**The best learning rate** goes like $L^p$ with $p$ {math_number(rates.predicted[own], 2)} by theory and "
            f"{math_number(fitted, 2)} as measured ([[figure:rates]])."))
    return [*blocks, *failed(results), Paragraph(results.pdf)]


@of_stage("written", "program")
def _program(results: TransformerResults, written: Written) -> list[Block]:
    refused = [f"{name}: {why}" for name, why in written.refused.items() if why]
    beside: list[Block] = [Paragraph("What does not take this program yet, in its own words:"), Plain(refused)]
    return [Paragraph("What is computed, as a Tensor Program: vectors have $n$ coordinates, and $n$ goes to infinity. "
                      "The forward statements are those of the network; the backward pass and the updates are derived. "
                      "A sum over the coordinates of a head is given back to each of them."),
            DisplayedFormula(written.latex), Paragraph("The same as text:"), Code(written.text),
            *(beside if refused else [])]


def limit_table(results: TransformerResults) -> DocumentTable:
    """Step by step: the limit's loss, and that of the deepest and widest real networks."""
    limit, real = results.limit, results.real
    rows = [{"step": t, "limit": None if limit is None else limit.losses[t],
             "real": None if real is None else real.losses[t]} for t in range(results.options.steps)]
    o = results.options
    return DocumentTable("training",
                         "The loss of a position at every step, before the step is taken: in the limit, and the "
                         f"mean of real transformers of width ${o.widths[-1]}$ and depth ${o.depths[-1]}$.",
                         [TableColumn("step", "step", "int"), TableColumn("limit", r"loss, limit", "fixed", 4),
                          TableColumn("real", "loss, real", "fixed", 4)], rows)


def _limit(results: TransformerResults) -> list[Block]:
    if results.limit is None:
        return [*missing_stage(results, "limit"), limit_table(results)]
    return [Paragraph(
        "A layer enters training through kernels, which map Gram matrices of the positions of sequences to Gram "
        "matrices. Means over one head are taken by scrambled Sobol points, several times: how the answers differ says "
        "how well they are known. The largest standard error is "
        f"{math_number(float(np.max(results.limit.standard_error)), 2)}; layer time leaves at most "
        f"{math_number(results.limit.discretization, 2)}."), limit_table(results)]


def real_networks_table(found: RealTransformers) -> DocumentTable:
    known = any(row["error"] is not None for row in found.rows)
    columns = [TableColumn("width", "width $n$", "int"), TableColumn("depth", "depth $L$", "int"),
               TableColumn("last_loss", "loss of the last step", "fixed", 4)]
    if known:
        columns += [TableColumn("error", "difference", "sci"), TableColumn("spread", "its spread", "sci"),
                    TableColumn("z", "$z$", "fixed", 2)]
    beside = (", the root mean square difference of all outputs from the limit, its standard deviation from one "
              "network to the next, and the root mean square of $z$, the mean difference over its standard error, "
              "which has the biases of a finite width and depth in it") if known else ""
    return DocumentTable("networks",
                         f"{found.seeds} real transformers of each width and depth: the mean loss of the last "
                         f"step{beside}.", columns, found.rows)


@of_stage("real", "networks")
def _real(results: TransformerResults, real: RealTransformers) -> list[Block]:
    drawn = [DrawnFigure("networks",
                         "Root mean square difference of the outputs of real transformers from the limit of infinite "
                         "width and depth, against width, a line a depth; the dashed one falls like $n^{-1/2}$.")]
    limit = "" if results.limit is None else "; dashed, the limit of infinite width and depth"
    return [Paragraph("Transformers with real matrices, trained on the same text, at several widths and depths."),
            *(drawn if results.limit is not None else []),
            DrawnFigure("widths", "The range of the losses of a position, step by step, of the deepest transformers, "
                        f"the narrowest and the widest{limit}."), real_networks_table(real)]


def rates_table(found: BestRates) -> DocumentTable:
    rows = [{**row, "inside": flag_cell(row["bracketed"])} for row in found.rows]
    return DocumentTable("rates",
                         f"Real transformers of width ${found.width}$ that see one batch again, {found.updates} "
                         "updates: the best learning rate by depth and exponents, and the least loss of a position; "
                         "the last column says whether the best one is inside the grid.",
                         [TableColumn("alpha", r"$\alpha$"), TableColumn("gamma", r"$\gamma$"),
                          TableColumn("depth", "depth $L$", "int"),
                          TableColumn("optimum", "best rate", "fixed", 3),
                          TableColumn("loss", "least loss", "fixed", 4),
                          TableColumn("inside", "inside")], rows)


@of_stage("rates", "rates")
def _rates(results: TransformerResults, found: BestRates) -> list[Block]:
    said = [f"({key}): {power:+.2f} by theory, " + ("not measured" if found.measured[key] is None else
                                                    f"{found.measured[key]:+.2f} measured")
            for key, power in found.predicted.items()]
    return [Paragraph("Updates of all layers add up to $L^{1 - \\alpha - \\gamma}$ times the learning rate, so that "
                      "the best one goes like $L^{\\alpha + \\gamma - 1}$ and stays where that is 0. Powers of $L$, by "
                      "$(\\alpha, \\gamma)$:"),
            Plain(said), DrawnFigure("rates", "The best learning rate of real transformers against depth; dashed lines "
                                     "have the slopes of theory."), rates_table(found)]


def real_networks_figure(found: RealTransformers) -> Figure:
    figure = Figure(figsize=(6.2, 3.8), layout="constrained")
    ax, = bare_axes(figure)
    widths = sorted({row["width"] for row in found.rows})
    for color, depth in zip(COLORS * len(found.rows), sorted({row["depth"] for row in found.rows})):
        errors = [row["error"] for row in found.rows if row["depth"] == depth]
        ax.plot(widths, errors, "o-", color=color, markersize=4, linewidth=0.8, label=f"$L$ = {depth}")
    reference = np.exp(np.mean(np.log(errors) + 0.5 * np.log(widths)))
    ax.plot(widths, reference / np.sqrt(widths), "--", color="black", linewidth=1, label="order 1/2")
    ax.set_yscale("log")
    power_of_two_ticks(ax, widths, "width $n$")
    ax.set_ylabel("difference from the limit")
    ax.legend(frameon=False, fontsize=8)
    return figure


def loss_ranges_figure(found: RealTransformers, limit: AttentionTraining | None) -> Figure:
    figure = Figure(figsize=(6.2, 3.8), layout="constrained")
    ax, = bare_axes(figure)
    loss_ranges(ax, found.ranges)
    if limit is not None:
        ax.plot(limit.losses, "--", color=ORANGE, label="infinite width and depth")
    of_steps(ax)
    ax.set_ylabel("loss of a position")
    return figure


def rates_figure(found: BestRates) -> Figure:
    figure = Figure(figsize=(6.2, 3.8), layout="constrained")
    ax, = bare_axes(figure)
    depths = np.array(sorted({row["depth"] for row in found.rows}), dtype=float)
    for color, (key, power) in zip(COLORS * len(found.predicted), found.predicted.items()):
        own = [row for row in found.rows if f"{row['alpha']}, {row['gamma']}" == key and row["bracketed"]]
        if not own:
            continue
        at, best = np.array([[row["depth"], row["optimum"]] for row in own], dtype=float).T
        ax.plot(at, best, "o", color=color, label=f"({key})")
        height = np.exp(np.mean(np.log(best) - power * np.log(at)))
        ax.plot(depths, height * depths**power, "--", color=color, linewidth=1)
    ax.set_yscale("log")
    power_of_two_ticks(ax, [int(depth) for depth in depths], "depth $L$")
    ax.set_ylabel("best learning rate")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=8, title=r"$(\alpha, \gamma)$")
    return figure


def figures_of(stage: Any, limit: AttentionTraining | None) -> list[tuple[str, Figure]]:
    """The figures that one stage's numbers are drawn in; limit: None without one."""
    if isinstance(stage, RealTransformers):
        known = [] if limit is None else [("networks", real_networks_figure(stage))]
        return [*known, ("widths", loss_ranges_figure(stage, limit))]
    return [("rates", rates_figure(stage))] if isinstance(stage, BestRates) else []
