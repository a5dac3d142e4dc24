"""The report: stages in order, files of each as soon as it is finished, then one page and one paper."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterable, TypeVar

import numpy as np

from .._types import Json
from .._files import write_text
from ..errors import Divergence, of_extra, NotCovered
from ..ledger.bibliography import bibtex
from .pages.document import Document, DocumentTable
from .judged import Classified, judge_network
from .pages.latex import compile_pdf, find_tex
from .options import ReportOptions
from .pages.phase import DividedPlane, divide_plane, plane_figure, plane_table, write_regions
from .progress import bar
from .pages.results import FinishedStages, Results
from .stages import Converged, Derived, Networks, compare_networks, converge, derive_stage
from .store import Store, write_json
from .pages.tables import write_csv, write_table

Say = Callable[[str], None]
Found = TypeVar("Found", bound=FinishedStages)
NO_TEX = "No TeX was found: [[file:report.tex]] is there, `report.pdf` is not."


def require_extra() -> None:
    """Raise ``MissingExtra`` before the work where a package that writes reports is not installed."""
    for module in ("jinja2", "latex2mathml", "matplotlib"):
        of_extra(module, "report", "tpcalc report")


def write_report(options: ReportOptions, folder: Path, fresh: bool = False, pdf: bool = True,
                 say: Say = lambda text: None) -> Results:
    """Compute what is not there yet, and write the folder.

    A stage whose solution diverges or does not fit into memory is left out, with the reason in
    ``Results.failures``; of nonlinear networks also one that refuses the network, with its sentence in
    ``Results.left_out``; other parts are written. fresh: compute all stages again. pdf: compile
    report.tex where a TeX is found. say: is told each finished part. Raises ``MissingExtra`` before
    the work, ``CompileError`` where TeX fails (all other files are there then).
    """
    require_extra()
    store = Store(folder / "stages", fresh)
    return publish(folder, pdf, say, lambda pdf_said: Results(options, pdf_said),
                   lambda results: _stages(options, results, store, folder, say),
                   lambda results: write_documents(results, folder))


def publish(folder: Path, pdf: bool, say: Say, begin: Callable[[str], Found], run: Callable[[Found], None],
            write: Callable[[Found], None]) -> Found:
    """Run the stages of a report, write its documents, and compile report.tex where a TeX is found.

    begin: results without stages, from the sentence on report.pdf; write: documents of what there is.
    """
    tex = find_tex() if pdf else None
    results = begin("This report is also a paper: [[file:report.pdf]]." if tex else
                    NO_TEX if pdf else "This report is also a paper, not compiled: [[file:report.tex]].")
    try:
        run(results)
    finally:  # an interruption loses nothing that was finished
        write(results)
    say(f"written: {folder / 'index.html'}, report.tex, report.json and tables")
    if tex:
        compile_pdf(folder, tex)
        say(f"written: {folder / 'report.pdf'}")
    elif pdf:
        say("no TeX was found: report.tex is there, report.pdf is not")
    return results


def run_stage(results: FinishedStages, store: Store, say: Say, name: str, depends: Json, kind: Callable[..., Any],
              total: int,
              compute: Callable[[Callable[[int, int], None]], Any], finish: Callable[[Any], None],
              refuses: bool = True) -> Any:
    """A stage's result, computed or as it was; None where it failed, or refuses, with the reason in ``results``.

    refuses: may it raise ``NotCovered``? Where it may not, that is raised.
    """
    try:
        with bar(name, total) as progress:
            found = store.run(name, depends, kind, lambda: compute(progress))
    except (Divergence, MemoryError, NotCovered) as error:
        refused = isinstance(error, NotCovered)
        if refused and not refuses:
            raise
        (results.left_out if refused else results.failures)[name] = str(error)
        say(f"{name}: {error}")
        return None
    results.seconds[name] = found.seconds
    finish(found.result)
    say(f"{name}: " + ("as computed before" if found.reused else f"{found.seconds:.1f} s"))
    return found.result


def _stages(options: ReportOptions, results: Results, store: Store, folder: Path, say: Say) -> None:
    from .pages import results_tables as content

    setup = options.setup
    net = repr(setup.net)
    learning = {"lr": list(setup.lr), "net": net}

    stage = partial(run_stage, results, store, say, refuses=not setup.net.is_plain)

    def tables(*makers: Callable[[Any], DocumentTable]) -> Callable[[Any], None]:
        def finish(result: Any) -> None:
            for make in makers:
                table = make(result)
                write_table(folder / f"{table.key}.csv", table)
            draw_figures(result, folder)
        return finish

    def finish_convergence(found: Converged) -> None:
        tables(content.convergence_table, content.training_table)(found)
        write_outputs(folder / "outputs.csv", options, found)

    def finish_plane(found: DividedPlane) -> None:
        tables(plane_table)(found)
        write_regions(found, folder)  # in the place of the page's table, which has fewer columns

    results.derived = stage(
        "derivation", {**learning, "alpha": str(setup.alpha), "gamma": str(setup.gamma)}, Derived, 1,
        lambda p: derive_stage(setup.net, setup.opt, at=(setup.alpha, setup.gamma)), lambda r: None)
    results.classified = stage(
        "classification", {"alpha": str(setup.alpha), "gamma": str(setup.gamma), "net": net}, Classified, 7,
        lambda p: judge_network(setup, p), tables(content.flags_table, content.exponents_table))
    results.plane = stage("plane", {"alpha": str(setup.alpha), "gamma": str(setup.gamma), "net": net}, DividedPlane, 1,
                          lambda p: divide_plane(setup), finish_plane)
    results.converged = stage(
        "convergence", {**setup.numbers, "depths": options.depths}, Converged, len(options.depths),
        lambda p: converge(setup, options.depths, p), finish_convergence)

    def finish_networks(found: Networks) -> None:
        tables(content.networks_table, *([] if found.band is None else [content.band_table]))(found)

    results.networks = stage(
        "networks", {**setup.numbers, "widths": options.widths, "depth": options.network_depth, "seeds": options.seeds,
                     "seed": options.seed},
        Networks, 2 * options.seeds * len(options.widths), lambda p: compare_networks(options, p), finish_networks)


def draw_figures(result: Any, folder: Path) -> None:
    """The figures of one stage; none of exponents where none was measured."""
    if isinstance(result, Classified) and result.depths is None:
        return
    from .pages import figures

    drawn: dict[type, list[tuple[str, Callable[[Any], Any]]]] = {
        Converged: [("convergence", figures.convergence_figure), ("training", figures.training_figure)],
        Networks: [("networks", figures.networks_figure), ("widths", figures.widths_figure)],
        Classified: [("exponents", figures.exponents_figure)],
        DividedPlane: [("plane", plane_figure)]}
    for key, make in drawn[type(result)]:
        figures.save(make(result), folder / "figures", key)


def write_outputs(path: Path, options: ReportOptions, found: Converged) -> None:
    """Every output: a line for each step, input and component; a column for each depth and the limit."""
    values = np.array(found.outputs)
    columns = [values[i].ravel() for i in range(len(values))]
    header = ["step", "input", "component", "target", *(f"L={depth}" for depth in found.depths)]
    if found.limit_outputs is not None:
        columns.append(np.array(found.limit_outputs).ravel())
        header.append("limit")
    lines = [[*index, target, *(float(column[i]) for column in columns)]
             for i, (index, target) in enumerate(np.ndenumerate(options.setup.task.targets))]
    write_csv(path, header, lines)


def write_documents(results: Results, folder: Path) -> None:
    """index.html, report.tex and report.json of what there is."""
    from .pages.sections import report_document, rests_on

    write_pages(folder, report_document(results), rests_on(results), results.numbers())


def write_pages(folder: Path, page: Document, rests_on: Iterable[str], numbers: Json) -> None:
    """The page and the paper of a document, its references, and its numbers."""
    from .pages import html, latex

    write_text(folder / "references.bib", bibtex(rests_on))
    write_json(folder / "report.json", numbers)
    write_text(folder / "report.tex", latex.render_latex(page))
    write_text(folder / "index.html", html.render_html(page, folder))
