"""What a report says: from results to sections. The numbers and formulas are those of the results."""

from __future__ import annotations

from typing import Sequence

import sympy as sp

from ...derivations.printing import with_formulas
from ...verdicts import Verdict
from ...ledger.bibliography import CITED
from ...ledger.citations import INTERPRETERS
from .derivations import derivation
from .document import Block, Code, Document, DisplayedFormula, Paragraph, DrawnFigure, Plain, Section, literal
from .tables import math_number, with_uncertainty
from .phase import DividedPlane, plane_blocks
from .results import Results, failed, missing_stage, of_stage, references, reproduce
from .results_tables import band_table, convergence_table, exponents_table, flags_table, networks_table, training_table
from ..judged import Classified
from ..stages import Converged, Derived, Networks


def report_document(results: Results) -> Document:
    """The report, with as many parts as there are."""
    setup = results.options.setup
    title = f"{setup.network}, wide and deep"
    subtitle = (f"SGD at $({sp.latex(sp.Symbol('alpha'))}, {sp.latex(sp.Symbol('gamma'))}) = "
                f"({sp.latex(setup.scale.alpha)}, {sp.latex(setup.scale.gamma)})$")
    return Document(title, subtitle, [
        Section("summary", "Summary", _summary(results)), Section("program", "The program", _program(results)),
        Section("kets", "At infinite width: the ket equations", _kets(results)),
        Section("recursion", "From kets to numbers: the recursion", _recursion(results)),
        Section("convergence", "As the depth grows", _convergence(results)),
        Section("limit", "The limit of infinite depth", _limit(results)),
        Section("networks", "Real networks", _networks(results)),
        Section("classification", "Where this scaling stands", _classification(results)),
        Section("plane", "The plane of depth scalings", _plane(results)),
        Section("reproduce", "How to reproduce this", _reproduce(results)),
        Section("references", "References", references(rests_on(results))), *_appendices(results)])


def _appendices(results: Results) -> list[Section]:
    """The derivations, step by step."""
    d = results.derived
    if d is None:
        return []
    found = [Section("derived-kets", "The ket equations, derived", [
        Paragraph("From the program of this report to its ket equations. Every equality is a recorded step, made by "
                  "applying the rule that stands beneath it."), *derivation(d.steps[:d.ket_steps])], True)]
    if d.recursion:
        found.append(Section("derived-recursion", "The recursion, derived", [
            Paragraph("From the ket equations to the recursion of coefficients and covariances. A coefficient is a "
                      "derivative in a generic base ket."), *derivation(d.steps[d.ket_steps:])], True))
    return found


def _summary(results: Results) -> list[Block]:
    setup, task = results.options.setup, results.options.setup.task
    where = "scikit-learn's handwritten digits" if setup.source == "digits" else "data of the user's own"
    rate = math_number(setup.lr[0]) if len(setup.lr) == 1 else "one a step"
    blocks: list[Block] = [Paragraph(
        f"{setup.network} is trained on {where}: {task.steps} steps of {task.batch} inputs with "
        f"${task.d_in}$ components, ${task.d_out}$ outputs, squared loss, learning rate {rate}. Its branches are "
        f"multiplied by ${_power(-setup.scale.alpha)}$ and its weight updates by ${_power(-setup.scale.gamma)}$, "
        f"where $L$ is the depth.")]
    c, n, v = results.converged, results.networks, results.classified
    if c is not None and c.limit_order is not None:
        blocks.append(Paragraph(
            f"**Depth.** At infinite width, training at depth $L$ approaches training at infinite depth like "
            f"$L^{{-r}}$, {with_uncertainty(c.limit_order, c.limit_uncertainty, name='r')}; at $L = {c.depths[-1]}$ "
            f"the largest difference of an output is {math_number(c.rows[-1]['distance'])} ([[figure:convergence]]). "
            f"The loss goes from {math_number(_first(c.limit_losses), 4)} to {math_number(_last(c.limit_losses), 4)} "
            f"in the limit, whose outputs are found with an error of about {math_number(c.limit_error, 1)}."))
    elif c is not None:
        blocks.append(Paragraph("**Depth.** There is no limit of infinite depth to compare with; the section on the "
                                "limit says why."))
    if n is not None:
        blocks.append(Paragraph(
            f"**Width.** Real networks of widths ${n.rows[0]['width']}$ to ${n.rows[-1]['width']}$ and depth $L = "
            f"{n.depth}$ differ from infinite width by {math_number(n.rows[0]['error'])} down to "
            f"{math_number(n.rows[-1]['error'])}, falling like $n^{{-r}}$, "
            f"{with_uncertainty(n.order, n.uncertainty, 2, 'r')}; theory says $r = 1/2$ ([[figure:networks]])."))
    if v is not None:
        blocks.append(Paragraph("**Verdict.** The exponents of $L$ in the derived equations put this scaling into "
                                f"one cell of the plane: **{literal(v.name)}** ([[table:verdict]])."))
    return [*blocks, *failed(results), Paragraph(results.pdf)]


@of_stage("derived", "derivation")
def _program(results: Results, d: Derived) -> list[Block]:
    return [Paragraph("What is computed, as a Tensor Program: vectors have $n$ coordinates, and $n$ goes to "
                      "infinity. One input and one output a step are written; a batch adds an index to the step, and "
                      "outputs are independent coordinates. The exponents stay symbols here."),
            DisplayedFormula(d.program_latex), Paragraph("The same as text:"),
            Code(d.program)]


@of_stage("derived", "derivation")
def _kets(results: Results, d: Derived) -> list[Block]:
    return [Paragraph("At infinite width the coordinates of a vector become independent copies of one random "
                      "variable, its ket; brackets are expectations. A hat marks the Gaussian part of a product with "
                      "an initial matrix; what the vector owes to that matrix's transpose is the sum over earlier "
                      "steps. They are derived in [[appendix:derived-kets]]."),
            DisplayedFormula(d.kets_latex)]


@of_stage("derived", "derivation")
def _recursion(results: Results, d: Derived) -> list[Block]:
    if not d.recursion:
        return [Paragraph("This part is left out: the kets of this network are no linear combinations of initial "
                          "vectors and hat-kets, so that there is no recursion of coefficients. At finite depth "
                          "infinite width is sampled instead: coordinates of vectors as particles, hats drawn with the "
                          "covariances that the equations above say.")]
    return [Paragraph("All kets are linear combinations of initial vectors and hat-kets, so that coefficients and "
                      "covariances are all there is to know. They follow a recursion of plain numbers, which is what "
                      "is evaluated below. It is derived in [[appendix:derived-recursion]]."),
            DisplayedFormula(d.recursion_latex)]


@of_stage("converged", "convergence")
def _convergence(results: Results, c: Converged) -> list[Block]:
    solved = "Training at infinite width is evaluated exactly at every depth." if c.sampling_error is None else (
        f"Training at infinite width is sampled at every depth by {c.method}, with the same seed; outputs are within "
        f"{math_number(c.sampling_error)} with 95% confidence, and orders say something where changes are larger.")
    text = (f"{solved} The fitted order of the changes from "
            f"one depth to the next is {with_uncertainty(c.cauchy_order, c.cauchy_uncertainty)}")
    if c.limit_order is not None:
        text += (f"; that of the distance to the limit, which is found independently, is "
                 f"{with_uncertainty(c.limit_order, c.limit_uncertainty)}")
    return [Paragraph(text + ". Orders are fitted over the deeper half of the depths; the uncertainty is the "
                      "standard error of the fit."),
            DrawnFigure("convergence",
                        "Largest change of any output from one depth to the next, and largest distance of any output "
                        "to its limit, against depth, both on logarithmic axes; straight dashed lines are the fitted "
                        "power laws."),
            convergence_table(c)]


def _limit(results: Results) -> list[Block]:
    c, scale = results.converged, results.options.setup.scale
    blocks: list[Block] = [Paragraph(
        "Over the whole depth, the squares of the branch multipliers add up to the order of "
        f"${_power(scale.noise_exponent)}$: what the initial matrices do to the stream {_fate(scale.noise_exponent)}. "
        f"Branch multipliers times updates add up to the order of ${_power(scale.drift_exponent)}$: what training does "
        f"to it {_fate(scale.drift_exponent)}.")]
    derived = results.derived
    if derived is not None and derived.limit_latex:
        what = "recursion becomes" if derived.recursion else "kets become"
        blocks += [Paragraph(f"The {what} these equations in layer time, from 0 to 1:"),
                   DisplayedFormula(derived.limit_latex)]
    if c is None:
        return blocks + missing_stage(results, "convergence")
    if c.limit_losses is None:
        blocks += [Paragraph("There is no limit, or none that can be found:"), Plain([c.reason])]
    else:
        blocks.append(Paragraph(
            "What remains at infinite depth is a system of equations in layer time, solved on "
            f"{c.limit_nodes} collocation nodes; the outputs are off by about {math_number(c.limit_error, 1)}."))
        if c.notes:
            blocks += [Paragraph("To be known about this limit:"), Plain(c.notes)]
    caption = "The loss of every batch before its step, at three depths."
    if c.limit_losses is not None:
        caption = ("Left: the loss of every batch before its step, at three depths and in the limit. Right: the "
                   "distance of these losses to those of the limit, on a logarithmic axis.")
    return [*blocks, DrawnFigure("training", caption), training_table(c)]


@of_stage("networks", "networks")
def _networks(results: Results, n: Networks) -> list[Block]:
    if n.extrapolated_z is None:
        means = ("Infinite width is sampled itself here, and its error is a part of every difference: means over seeds "
                 "are not extrapolated.")
    else:
        means = ("Besides this scatter, which is of mean zero, a finite width has a bias of order $1/n$: extrapolated "
                 f"in $1/n$, the means over seeds differ from infinite width by {math_number(n.extrapolated_z)} "
                 "standard errors in root mean square over the outputs" + (
                     "." if n.extrapolated_z_expected is None else
                     f" ({math_number(n.extrapolated_z_expected)} is expected where they agree, with much scatter: the "
                     "outputs of one network are not independent)."))
    beside = "" if n.band is None else (
        f" On the right networks on {n.band['task']}, with the range in which theory expects 95 of 100 of them.")
    curves = "" if n.band is None else (
        f" On the right, on {n.band['task']}, the band in which 95 of 100 networks are expected at every step, with "
        "their computed mean; dots are networks.")
    return [Paragraph(
        f"Networks with real matrices, drawn from {n.seeds} seeds at each width and trained on the same data, are "
        f"compared with infinite width at the same depth $L = {n.depth}$ (solved by {n.infinite_method}, off by about "
        f"{math_number(n.infinite_error, 1)}). The difference falls like $n^{{-r}}$, "
        f"{with_uncertainty(n.order, n.uncertainty, 2, 'r')}. " + means),
        *_spread(n),
        DrawnFigure("networks", "Root mean square difference of the outputs of real networks from those of infinite "
                    "width, against width: each dot is one network, circles are root mean squares over seeds, the "
                    "dashed "
                    r"line falls like $n^{-1/2}$." + beside),
        DrawnFigure("widths", "The loss of every batch before its step, at infinite width, and the range of the losses "
                    f"of the {n.seeds} networks of the narrowest and the widest." + curves), networks_table(n),
        *([] if n.band is None else [band_table(n)])]


def _spread(n: Networks) -> list[Block]:
    if n.band is None:
        return [Paragraph("How far real networks are expected to be is not known here:"), Plain([n.no_band])]
    blocks: list[Block] = [Paragraph(
        "How far a network of width $n$ is from its limit can be computed: over initializations the covariances of "
        f"its outputs are $\\Sigma / n$. On {n.band['task']} networks of width ${n.band['rows'][-1]['width']}$ differ "
        f"by {math_number(n.band['rows'][-1]['measured'])} where {math_number(n.band['rows'][-1]['predicted'])} is "
        "predicted ([[table:band]]).")]
    if n.band["warning"]:
        blocks += [Paragraph("This is the leading order in $1/n$, which small widths do not follow:"),
                   Plain([n.band["warning"]])]
    return blocks


@of_stage("classified", "classification")
def _classification(results: Results, v: Classified) -> list[Block]:
    blocks: list[Block] = [
        Paragraph("The verdict follows from exponents of $L$, which are read off the terms of the derived equations."),
        flags_table(v), Paragraph("In words:"), Plain(list(map(with_formulas, v.reasons)), have_formulas=True)]
    if any(row["measured"] is not None for row in v.rows):
        blocks.append(DrawnFigure("exponents",
                                  "Powers of $L$: open circles are derived, dots are slopes fitted to exact "
                                  "values at growing depth."))
    if v.unmeasured:
        blocks += [Paragraph("Nothing was measured:"), Plain([v.unmeasured])]
    return blocks + [exponents_table(v)]


@of_stage("plane", "plane")
def _plane(results: Results, plane: DividedPlane) -> list[Block]:
    return plane_blocks(plane)


def _reproduce(results: Results) -> list[Block]:
    return reproduce(results, f"The data's SHA-256 begins with `{results.options.numbers['data'][:16]}`. All numbers "
                     "are in [[file:report.json]], those of the tables in one `.csv` file each, and all outputs in "
                     "[[file:outputs.csv]].")


def rests_on(results: Results) -> list[str]:
    """Keys of the ledger that the report's derivation and methods cite."""
    found = {key for step in (results.derived.steps if results.derived else ())
             for key in CITED.findall(step["source"])}
    if results.converged is not None:
        found |= {INTERPRETERS[name] for name in (results.converged.method, "collocation") if name in INTERPRETERS}
    if results.networks is not None:
        found.add(INTERPRETERS["dense"])
    if results.classified is not None:
        found |= set(CITED.findall(Verdict.__doc__ or ""))
    return sorted(found)


def _power(exponent: sp.Expr) -> str:
    return sp.latex(sp.Symbol("L")**exponent) if exponent != 0 else "L^{0}"


def _fate(exponent: sp.Expr) -> str:
    return "stays" if exponent == 0 else "dies out" if exponent < 0 else "grows without bound"


def _first(values: Sequence[float] | None) -> float | None:
    return None if values is None else values[0]


def _last(values: Sequence[float] | None) -> float | None:
    return None if values is None else values[-1]
