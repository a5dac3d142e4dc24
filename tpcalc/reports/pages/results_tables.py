"""The tables of a report: which numbers stand beside which, and what the captions say."""

from __future__ import annotations

from .document import TableColumn, DocumentTable
from ..judged import Classified
from ..stages import Converged, Networks
from .tables import flag_cell

MEANING = {
    "stable_at_init": ("stable at initialization", "the stream and the output stay of order one as the depth grows"),
    "output_stable": ("output stable", "in training, the stream and the output stay of order one"),
    "stable_in_training": ("stable in training", "the same, and the branches' inner values too"),
    "nontrivial": ("nontrivial", "training changes the output in the limit"),
    "faithful_at_init": ("faithful at initialization", "the inner values of a branch are of order one before training"),
    "faithful_in_training": ("faithful in training", "they are of order one in training"),
    "feature_learning": ("feature learning", "the inner values change by order one"),
    "redundant": ("redundant", "neighboring layers come to compute the same"),
    "layerwise_linear": ("layerwise linear", "each layer may be linearized in its update"),
}


def convergence_table(found: Converged) -> DocumentTable:
    return DocumentTable(
        "convergence", "Training at infinite width, depth by depth: the loss of the last step, the largest change of "
        "any output from the depth before, and the largest difference of any output from the limit at infinite depth.",
        [TableColumn("depth", "depth $L$", "int"), TableColumn("last_loss", "loss of the last step", "fixed", 8),
         TableColumn("cauchy", "change from the depth before", "sci"),
         TableColumn("distance", "distance to the limit", "sci")],
        found.rows)


def training_table(found: Converged) -> DocumentTable:
    """Step by step: the shallowest, the deepest, the limit."""
    first, last = found.depths[0], found.depths[-1]
    accuracies = found.limit_accuracies or found.accuracies[-1]
    rows = [{"step": t, "first": found.losses[0][t], "last": found.losses[-1][t],
             "limit": None if found.limit_losses is None else found.limit_losses[t], "accuracy": accuracies[t]}
            for t in range(len(found.losses[0]))]
    columns = [TableColumn("step", "step", "int"), TableColumn("first", f"loss, $L = {first}$", "fixed", 6),
               TableColumn("last", f"loss, $L = {last}$", "fixed", 6)]
    if found.limit_losses is not None:
        columns.append(TableColumn("limit", r"loss, $L = \infty$", "fixed", 6))
    where = r"$L = \infty$" if found.limit_losses is not None else f"$L = {last}$"
    share = ""
    if any(a is not None for a in accuracies):
        columns.append(TableColumn("accuracy", f"accuracy, {where}", "percent", 1))
        share = (" The accuracy is the share of the batch, before the step learns from it, whose largest output is "
                 "at the largest target; it has no meaning while all outputs are zero.")
    return DocumentTable("training", "The loss of every step, before the step is taken." + share, columns, rows)


def networks_table(found: Networks) -> DocumentTable:
    rows = [{**row, "scaled": row["error"] * row["width"]**0.5} for row in found.rows]
    known = found.extrapolated_z is not None
    return DocumentTable(
        "networks", f"{found.seeds} real networks of each width at depth $L = {found.depth}$ against infinite width: "
        "root mean square difference of the outputs, its standard deviation from one network to the next, the "
        r"difference times $\sqrt{n}$, and the fluctuation that a run estimates for itself at initialization"
        + (", and the root mean square of $z$, the mean difference over its standard error, which has the bias of "
           "order $1/n$ in it." if known else "."),
        [TableColumn("width", "width $n$", "int"), TableColumn("error", "difference", "sci"),
         TableColumn("spread", "its spread", "sci"),
         TableColumn("scaled", r"difference $\times \sqrt{n}$", "fixed", 3),
         TableColumn("fluctuation", "fluctuation of $f_0$", "sci"),
         *([TableColumn("z", "$z$", "fixed", 2)] if known else [])], rows)


def band_table(found: Networks) -> DocumentTable:
    """What theory says of real networks, beside what they do; of results with a band."""
    assert found.band is not None
    return DocumentTable(
        "band", f"Real networks on {found.band['task']}: root mean square difference of the outputs from infinite "
        r"width, as computed from their covariances $\Sigma / n$ over initializations, the range in which 95 of 100 "
        "networks are expected, what was measured, and the share of networks in that range.",
        [TableColumn("width", "width $n$", "int"), TableColumn("predicted", "predicted", "sci"),
         TableColumn("low", "from", "sci"),
         TableColumn("high", "to", "sci"), TableColumn("measured", "measured", "sci"),
         TableColumn("inside", "inside", "percent", 0)],
        found.band["rows"])


def flags_table(found: Classified) -> DocumentTable:
    rows = [{"property": name, "answer": flag_cell(found.flags[key]), "meaning": meaning}
            for key, (name, meaning) in MEANING.items()]
    return DocumentTable("verdict", "The verdict, property by property; the exponents below decide.",
                         [TableColumn("property", "property"), TableColumn("answer", "answer"),
                          TableColumn("meaning", "what it says")], rows)


def exponents_table(found: Classified) -> DocumentTable:
    rows = [{**row, "exponent": "" if row["derived_latex"] is None else f"${row['derived_latex']}$"}
            for row in found.rows]
    depths = "" if found.depths is None else f" from $L = {found.depths[0]}$ to ${found.depths[-1]}$"
    return DocumentTable(
        "exponents", "Powers of $L$: derived from the terms of the equations" + (
            "." if found.depths is None else
            f", and fitted to the exact solver's values at growing depth{depths}, with the standard error of the fit "
            "(it does not know of corrections that die out with depth)."),
        [TableColumn("name", "quantity"), TableColumn("exponent", "derived", "markup"),
         TableColumn("measured", "measured", "fixed", 4),
         TableColumn("uncertainty", "standard error", "sci", 2)], rows)
