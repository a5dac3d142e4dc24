"""``tpcalc report --net transformer``: stages in order, files of each as soon as it is finished, page and paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np

from .._files import write_text
from ..errors import Divergence
from ..ledger.bibliography import bibtex
from . import html, latex
from .figures import save
from .latex import compile_pdf, find_tex
from .progress import bar
from .report import NO_TEX, Say, require_extra
from .store import Store, write_json
from .tables import write_csv, write_table
from .transformer_options import TransformerOptions
from .transformer_page import (RESTS_ON, TransformerResults, document, figures_of, limit_table, networks_table,
                               rates_table)
from .transformer_stages import (BestRates, Limit, RealTransformers, Written, find_rates, solve_limit, train_real,
                                 write_program)


def write_transformer_report(options: TransformerOptions, folder: Path, fresh: bool = False, pdf: bool = True,
                             say: Say = lambda text: None) -> TransformerResults:
    """Compute what is not there yet, and write the folder.

    A stage whose solution diverges or does not fit into memory is left out, with the reason in
    ``TransformerResults.failures``; one that refuses these exponents, with its sentence in ``left_out``. fresh: compute
    all stages again. pdf: compile report.tex where a TeX is found. say: is told each finished part. Raises
    ``MissingExtra`` before the work, ``CompileError`` where TeX fails (all other files are there then).
    """
    require_extra()
    store, tex = Store(folder / "stages", fresh), find_tex() if pdf else None
    results = TransformerResults(options, "This report is also a paper: [[file:report.pdf]]." if tex else
                                 NO_TEX if pdf else "This report is also a paper, not compiled: [[file:report.tex]].")
    try:
        _stages(options, results, store, folder, say)
    finally:  # an interruption loses nothing that was finished
        page = document(results)
        write_text(folder / "references.bib", bibtex(RESTS_ON))
        write_json(folder / "report.json", results.numbers())
        write_text(folder / "report.tex", latex.render(page))
        write_text(folder / "index.html", html.render(page, folder))
    say(f"written: {folder / 'index.html'}, report.tex, report.json and tables")
    if tex:
        compile_pdf(folder, tex)
        say(f"written: {folder / 'report.pdf'}")
    elif pdf:
        say("no TeX was found: report.tex is there, report.pdf is not")
    return results


def _stages(options: TransformerOptions, results: TransformerResults, store: Store, folder: Path, say: Say) -> None:
    numbers, real = options.numbers, {"depths": options.depths, "widths": options.widths, "seed": options.seed}

    def stage(name: str, depends: Any, kind: Callable[..., Any], total: int,
              compute: Callable[[Callable[[int, int], None]], Any]) -> Any:
        try:
            with bar(name, total) as progress:
                found = store.run(name, depends, kind, lambda: compute(progress))
        except (Divergence, MemoryError, ValueError) as error:
            refused = isinstance(error, ValueError) and not isinstance(error, Divergence)
            (results.left_out if refused else results.failures)[name] = str(error)
            say(f"{name}: {error}")
            return None
        results.seconds[name] = found.seconds
        for key, figure in figures_of(found.result, results.limit is not None):
            save(figure, folder / "figures", key)
        say(f"{name}: " + ("as computed before" if found.reused else f"{found.seconds:.1f} s"))
        return found.result

    results.written = stage("program", numbers, Written, 1, lambda p: write_program(options))
    results.limit = stage("limit", numbers, Limit, 1, lambda p: solve_limit(options))
    if results.limit is not None:
        _write_outputs(folder / "outputs.csv", options, results.limit)
    results.real = stage("networks", {**numbers, **real, "seeds": options.seeds, "limit": results.limit is not None},
                         RealTransformers, len(options.widths) * len(options.depths),
                         lambda p: train_real(options, results.limit, p))
    write_table(folder / "training.csv", limit_table(results))
    if results.real is not None:
        write_table(folder / "networks.csv", networks_table(results.real))
    results.rates = stage("rates", {**numbers, **real}, BestRates, len(options.scalings) * len(options.depths),
                          lambda p: find_rates(options, p))
    if results.rates is not None:
        write_table(folder / "rates.csv", rates_table(results.rates))


def _write_outputs(path: Path, options: TransformerOptions, limit: Limit) -> None:
    """Every output of the limit: a line for each step, sequence, position and character."""
    outputs, errors = np.array(limit.outputs), np.array(limit.standard_error)
    lines = [[*index, target, float(outputs[index]), float(errors[index])]
             for index, target in np.ndenumerate(options.task.targets)]
    write_csv(path, ["step", "sequence", "position", "character", "target", "limit", "standard_error"], lines)
