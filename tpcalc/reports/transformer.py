"""``tpcalc report --net transformer``: stages in order, files of each as soon as it is finished, page and paper."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .pages.figures import save
from .report import Say, publish, require_extra, run_stage, write_pages
from .store import Store
from .pages.tables import write_csv, write_table
from .transformer_options import TransformerOptions
from .pages.transformer_page import (RESTS_ON, TransformerResults, figures_of, limit_table, rates_table,
                                     real_networks_table, transformer_document)
from .transformer_stages import (BestRates, AttentionTraining, RealTransformers, Written, find_rates, limit_stage,
                                 train_real, write_program)


def write_transformer_report(options: TransformerOptions, folder: Path, fresh: bool = False, pdf: bool = True,
                             say: Say = lambda text: None) -> TransformerResults:
    """Compute what is not there yet, and write the folder.

    A stage whose solution diverges or does not fit into memory is left out, with the reason in
    ``TransformerResults.failures``; one that refuses these exponents, with its sentence in ``left_out``. fresh: compute
    all stages again. pdf: compile report.tex where a TeX is found. say: is told each finished part. Raises
    ``MissingExtra`` before the work, ``CompileError`` where TeX fails (all other files are there then).
    """
    require_extra()
    store = Store(folder / "stages", fresh)
    return publish(folder, pdf, say, lambda pdf_said: TransformerResults(options, pdf_said),
                   lambda results: _stages(options, results, store, folder, say),
                   lambda results: write_pages(folder, transformer_document(results), RESTS_ON, results.numbers()))


def _stages(options: TransformerOptions, results: TransformerResults, store: Store, folder: Path, say: Say) -> None:
    numbers, real = options.numbers, {"depths": options.depths, "widths": options.widths, "seed": options.seed}

    def draw(found: Any) -> None:
        for key, figure in figures_of(found, results.limit):
            save(figure, folder / "figures", key)

    stage = partial(run_stage, results, store, say, finish=draw)
    results.written = stage("program", numbers, Written, 1, lambda p: write_program(options))
    results.limit = stage("limit", numbers, AttentionTraining, 1, lambda p: limit_stage(options))
    if results.limit is not None:
        _write_outputs(folder / "outputs.csv", options, results.limit)
    results.real = stage("networks", {**numbers, **real, "seeds": options.seeds, "limit": results.limit is not None},
                         RealTransformers, len(options.widths) * len(options.depths),
                         lambda p: train_real(options, results.limit, p))
    write_table(folder / "training.csv", limit_table(results))
    if results.real is not None:
        write_table(folder / "networks.csv", real_networks_table(results.real))
    results.rates = stage("rates", {**numbers, **real}, BestRates, len(options.scalings) * len(options.depths),
                          lambda p: find_rates(options, p))
    if results.rates is not None:
        write_table(folder / "rates.csv", rates_table(results.rates))


def _write_outputs(path: Path, options: TransformerOptions, limit: AttentionTraining) -> None:
    """Every output of the limit: a line for each step, sequence, position and character."""
    outputs, errors = np.array(limit.outputs), np.array(limit.standard_error)
    lines = [[*index, target, float(outputs[index]), float(errors[index])]
             for index, target in np.ndenumerate(options.task.targets)]
    write_csv(path, ["step", "sequence", "position", "character", "target", "limit", "standard_error"], lines)
