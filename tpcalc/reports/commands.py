"""What each command does, given parsed arguments; results go to standard output."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from .._types import Fields
from .. import Problem, ResNet, Run, _checks, train as train_network
from ..methods.choice import ALIASES, methods_by_preference
from ..methods.takes import WrongSizes
from .failures import NoResult
from ..optimizers.updates import BY_NAME
from .options import ReportOptions, Setup
from .progress import bar
from .stages import accuracy
from .store import print_json
from .transformer_options import TransformerOptions

if TYPE_CHECKING:
    from .pages.results import Results
    from .pages.transformer_page import TransformerResults

OPTIMIZERS: Fields = {name: type(opt) for name, opt in BY_NAME.items() if name != "momentum"}
DEPTHS, WIDTHS = tuple(2**k for k in range(4, 11)), (128, 256, 512)
SAMPLED = tuple(2**k for k in range(2, 6)), {"steps": 3, "batch": 4}  # what particles do in minutes


def report_command(args: argparse.Namespace) -> int:
    """Write the report; 2 where a part of it has no result, which is then said."""
    results = _report_transformer(args) if args.net == "transformer" else _report_resnet(args)
    if results.failures:
        stage, message = next(iter(results.failures.items()))
        raise NoResult(f"no result for {', '.join(results.failures)} ({stage}: {message}); the rest is in "
                       f"{args.output}")
    return 0


def _report_resnet(args: argparse.Namespace) -> Results:
    from .report import write_report

    _require_unasked(args, ("positions", "head_dim"))
    net = ResNet(args.phi or "linear", args.block or "post_nonlin", args.norm)
    depths, digits = (DEPTHS, {}) if net.is_plain else SAMPLED
    args.task = args.task or "digits"
    if args.task == "digits":
        args.steps, args.batch = (getattr(args, name) or digits.get(name) for name in ("steps", "batch"))
    _checks.folder("--output", args.output)
    options = ReportOptions(_setup(args, net), args.depths or depths, args.widths or WIDTHS,
                            args.network_depth or ReportOptions.network_depth, args.seeds, args.seed)
    return write_report(options, Path(args.output), args.fresh, not args.no_pdf,
                        say=lambda text: print(text, flush=True))


def _report_transformer(args: argparse.Namespace) -> TransformerResults:
    from .transformer import write_transformer_report

    _require_unasked(args, ("block", "norm", "network_depth"))
    if args.task not in (None, "text"):
        raise ValueError(f"--task: got {args.task!r} with --net transformer; expected text, or nothing")
    given = {name: getattr(args, name) for name in ("steps", "batch", "positions", "head_dim", "phi", "depths",
                                                    "widths")}
    options = TransformerOptions(args.alpha, args.gamma, args.lr, data_seed=args.data_seed, seeds=args.seeds,
                                 seed=args.seed, **{name: value for name, value in given.items() if value is not None})
    _checks.folder("--output", args.output)
    return write_transformer_report(options, Path(args.output), args.fresh, not args.no_pdf,
                                    say=lambda text: print(text, flush=True))


def _require_unasked(args: argparse.Namespace, names: tuple[str, ...]) -> None:
    """Raise ``ValueError`` for options that a report on this kind of network does not have."""
    for name in names:
        if getattr(args, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')}: got {getattr(args, name)} with --net {args.net}; expected "
                             "nothing")


def train_command(args: argparse.Namespace) -> int:
    """Print the losses of one training."""
    _checks.choice("optimizer", args.optimizer, OPTIMIZERS)
    if args.save:
        _checks.writable("--save", args.save)
    said: tuple[str, ...] = ()
    try:
        setup, run = _trained(args)
    except MemoryError:
        fewer = {name: number for name, number in SAMPLED[1].items() if getattr(args, name) is None}
        if args.task != "digits" or not fewer:
            raise
        vars(args).update(fewer)
        setup, run = _trained(args)
        said = (f"{args.steps} steps of {args.batch} digits, since more do not fit into memory",)
    notes = (*run.notes, *said)
    opt, depth, width = run.problem.opt, run.problem.depth, run.problem.width
    if args.save:
        np.savez(args.save, outputs=run.outputs, losses=run.losses, targets=setup.task.targets)
    shares = accuracy(setup.task, run.outputs)
    if args.json:
        print_json({"setup": {**setup.numbers, "optimizer": repr(opt)},
                    "depth": run.depth, "width": run.width, "method": run.method, "error_estimate": run.error_estimate,
                    "notes": notes, "losses": run.losses, "accuracies": shares, "outputs": run.outputs})
        return 0
    print(f"alpha = {setup.alpha}, gamma = {setup.gamma}, learning rate {', '.join(f'{r:g}' for r in setup.lr)}")
    print(f"method {run.method}, depth {depth}, width {width}; outputs are off by about {run.error_estimate:.1e}")
    for note in notes:
        print(f"note: {note}")
    known = any(share is not None for share in shares)
    print(f"{'step':>5} {'loss':>14}" + (f" {'accuracy':>9}" if known else ""))
    for step, (loss, share) in enumerate(zip(run.losses, shares)):
        print(f"{step:>5} {loss:>14.10f}" + (f" {'-' if share is None else format(share, '.1%'):>9}" if known else ""))
    return 0


def _trained(args: argparse.Namespace) -> tuple[Setup, Run]:
    setup = _setup(args, ResNet(args.phi, args.block, args.norm))
    opt = OPTIMIZERS[args.optimizer.lower()](setup.opt.lr)
    problem = _problem(args, Problem(setup.net, setup.task, opt, setup.scale, sp.oo))
    with bar("training", setup.task.steps) as progress:
        return setup, train_network(problem, method=args.method, seed=args.seed, samples=args.samples,
                                    progress=progress)


def _problem(args: argparse.Namespace, problem: Problem) -> Problem:
    """A problem of the depth and the width that are given; of others, the first that goes with these and the method."""
    depths, widths = ([sp.oo, finite] if given is None else [given] for given, finite in (
        (args.depth, ReportOptions.network_depth), (args.width, WIDTHS[0])))
    tried = [replace(problem, depth=depth, width=width) for width in widths for depth in depths]
    name = args.method.lower()
    asked = [ALIASES[name]()] if name in ALIASES else list(methods_by_preference(problem))
    return next((one for one in tried if not all(isinstance(method.refuses(one), WrongSizes) for method in asked)),
                tried[0])


def _setup(args: argparse.Namespace, net: ResNet) -> Setup:
    return Setup(args.alpha, args.gamma, args.lr, args.task, args.steps, args.batch, args.data_seed, net)
