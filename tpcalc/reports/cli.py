"""The command line: ``tpcalc report | derive | train | classify | audit | prove | figure | warmup``.

Only argparse is imported to read arguments; what computes is imported when a command runs.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from fractions import Fraction
from importlib import import_module
from typing import Any, Callable, Sequence

from .. import __version__
from ..errors import Divergence, MissingExtra
from .arguments import (Defaults, OneLineParser, exact_number, growing, join_negative, named_numbers, nonnegative,
                        number_argument, one_line, pair_argument, positive, power_argument, rates_argument,
                        size_argument)
from .failures import ReportError

HALF = Fraction(1, 2)
# commands in files of their own names; the others are in ``commands``
ALONE = ("audit", "classify", "derive", "figure", "prove", "warmup")


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = OneLineParser(prog="tpcalc", description="Wide and deep networks: derive, solve and check their limits.")
    parser.add_argument("--version", action="version", version=f"tpcalc {__version__}")
    commands = parser.add_subparsers(dest="command", required=True,
                                     metavar="{report,derive,train,classify,audit,prove,figure,warmup}")
    for name, add, text in (
            ("report", _report, "derive, solve, check and write it all into one folder: HTML, LaTeX, PDF, figures, "
                                "CSV, JSON"),
            ("derive", _derive, "print what can be derived of a training, of any network or a program of your own: "
                                "ket equations, recursion, limit of infinite depth, kernels and action"),
            ("train", _train, "train one network, of any width and depth, infinity included"),
            ("classify", _classify, "say what a depth scaling (alpha, gamma) does, and why"),
            ("audit", _audit, "say which depth scaling a recipe of powers of the depth is, what falls short in it, "
                              "and what to change"),
            ("prove", _prove, "check the ledger of proofs, and write its graph and its document into a folder"),
            ("figure", _figure, "draw figures of the papers anew, and say what their numbers show"),
            ("warmup", None, "compile all kernels now, so that no training waits for them: a minute, once")):
        own = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".",
                                  formatter_class=Defaults)
        if add is not None:
            add(own)
    return parser


def _scaling(parser: argparse.ArgumentParser, default: Fraction | None = HALF) -> None:
    form = "an exact number such as 1/2" + ("; a symbol where it is not given" if default is None else "")
    parser.add_argument("--alpha", type=exact_number, default=default, metavar="A",
                        help=f"branches are multiplied by L^-A; {form}")
    parser.add_argument("--gamma", type=exact_number, default=default, metavar="G",
                        help=f"weight updates are of size L^-G; {form}")


def _learning_rate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lr", type=rates_argument, default=(1.0,), metavar="R",
                        help="learning rate, or one a step with commas")


def _training(parser: argparse.ArgumentParser) -> None:
    _scaling(parser)
    _learning_rate(parser)
    parser.add_argument("--task", default="digits", metavar="DATA",
                        help="digits, a .npz file with arrays inputs and targets, or a .csv file whose header's "
                        "names start with x (inputs) and y (targets); a transformer's is text")
    parser.add_argument("--steps", type=positive, metavar="N", help="training steps (10 of the digits, 3 where "
                        "a training of so many does not fit into memory)")
    parser.add_argument("--batch", type=positive, metavar="N", help="inputs a step (64 of the digits, or 4)")
    parser.add_argument("--data-seed", type=nonnegative, default=0, metavar="N", help="order in which the digits are "
                                                                                      "seen")


def _network(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--phi", default="linear", metavar="NAME", help="the activation: linear, relu, abs, tanh, erf, "
                                                                        "gelu (a transformer's) or silu")
    parser.add_argument("--block", default="post_nonlin", metavar="NAME",
                        help="what a branch computes: post, phi(W x); pre, W phi(x); mlp, W2 phi(W1 x); glu, "
                             "W3 (phi(W1 x) * W2 x); swiglu, geglu, reglu, a glu with silu, gelu or relu")
    parser.add_argument("--norm", metavar="NAME", help="rms: the block's input is divided by its root mean square; "
                                                       "layer: its mean is subtracted before")


def _optimizer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--optimizer", default="sgd", metavar="NAME",
                        help="sgd, signsgd, lion, adam, adamw, muon, normalizedsgd, shampoo or soap")


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--net", default="resnet", choices=("resnet", "transformer"),
                        help="what is trained; a transformer reads text")
    _training(parser)
    _network(parser)
    parser.set_defaults(task=None, phi=None, block=None)
    parser.add_argument("--positions", type=positive, metavar="P", help="characters of a sequence of a transformer, at "
                                                                        "least 2 (4 if not given)")
    parser.add_argument("--head-dim", type=positive, metavar="D", help="coordinates of a head of a transformer (2 if "
                                                                       "not given)")
    parser.add_argument("--depths", type=growing, metavar="LIST",
                        help="depths such as 16,32,64, or a doubling range such as 16:1024, which it is for the linear "
                             "network if not given; 4:32 for others, with 3 steps of 4 digits, or of 2 sequences")
    parser.add_argument("--widths", type=growing, metavar="LIST",
                        help="widths of real networks; 128,256,512 if not given, 32:256 for transformers")
    parser.add_argument("--network-depth", type=positive, metavar="L", help="depth of real networks (16 if not given; "
                                                                            "transformers have --depths)")
    parser.add_argument("--seeds", type=positive, default=8, metavar="N", help="real networks of each width, at "
                                                                               "least 2")
    parser.add_argument("--seed", type=nonnegative, default=0, metavar="N", help="seed of the first of them")
    parser.add_argument("-o", "--output", default="tpcalc-report", metavar="FOLDER", help="where to write")
    parser.add_argument("--fresh", action="store_true", help="compute everything again, also what is finished")
    parser.add_argument("--no-pdf", action="store_true", help="do not compile report.tex")


def _derive(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", nargs="?", metavar="MODULE:FUNCTION",
                        help="a function that returns a tp.Program of your own, in the place of a network")
    parser.add_argument("--net", choices=("resnet", "transformer"), help="what is trained (resnet if not given)")
    _scaling(parser, None)
    _learning_rate(parser)
    _network(parser)
    parser.add_argument("--matrices", type=positive, metavar="K", help="matrices of an mlp block (2 if not given)")
    parser.add_argument("--positions", type=positive, metavar="P", help="positions of a transformer (2 if not given)")
    parser.add_argument("--head-dim", type=positive, metavar="D", help="coordinates of its heads (1 if not given)")
    _optimizer(parser)
    parser.add_argument("--momentum", type=exact_number, metavar="M", help="of an optimizer that has one")
    parser.add_argument("--weight-decay", type=exact_number, metavar="W", help="of an optimizer that has one")
    parser.set_defaults(**dict.fromkeys(("net", "phi", "block", "lr", "optimizer")))  # to tell what is given
    parser.add_argument("--derivation", action="store_true", help="print the recorded steps too")
    _form(parser).add_argument("--fragment", action="store_true", help="print the equations alone as LaTeX, each in an "
                                                                       "environment")


def _train(parser: argparse.ArgumentParser) -> None:
    _training(parser)
    parser.add_argument("--depth", type=size_argument, metavar="L",
                        help="a whole number, or oo; if not given oo, or 16 where "
                             "width or method go with finite depths alone")
    parser.add_argument("--width", type=size_argument, metavar="N",
                        help="a whole number, or oo; if not given oo, or 128 where the method is one of real networks")
    parser.add_argument("--method", default="auto",
                        help="auto, coefficients, reflection (finite depth), collocation, long_collocation, "
                             "extrapolated, attention or common_draws (depth oo), loop_time (visits of layers without "
                             "end), particles (finite depth, width oo), conditioned or dense (finite depth and width)")
    _network(parser)
    _optimizer(parser)
    parser.add_argument("--samples", type=positive, metavar="N", help="particles in a batch")
    parser.add_argument("--seed", type=nonnegative, metavar="N", help="seed of what is drawn; 0 where not given")
    parser.add_argument("--save", metavar="FILE", help="write outputs and losses into a .npz file")
    parser.add_argument("--json", action="store_true", help="print JSON, with all outputs")


def _classify(parser: argparse.ArgumentParser) -> None:
    _scaling(parser)
    parser.add_argument("--phi", default="linear", metavar="NAME", help="the activation: linear, relu, abs, tanh, erf, "
                                                                        "gelu or silu")
    parser.add_argument("--block", default="post_nonlin", metavar="NAME",
                        help="what a branch computes: post, phi(W x); pre, W phi(x); mlp, W2 phi(W1 x)")
    parser.add_argument("--plane", action="store_true",
                        help="print all regions of the (alpha, gamma) plane instead, with what holds on each")
    parser.add_argument("--measure", action="store_true", help="measure exponents too, with the exact solver")
    parser.add_argument("--depths", type=growing, metavar="LIST", help="depths to measure at")
    _form(parser)


def _audit(parser: argparse.ArgumentParser) -> None:
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--branch", type=power_argument, metavar="P",
                       help="branches are multiplied by L^P, such as -1/2")
    given.add_argument("--recipe", metavar="NAME", help="a named recipe, such as completep")
    given.add_argument("--list", action="store_true", help="print all named recipes as a table")
    parser.add_argument("--hf", metavar="FILE",
                        help="a config.json of transformers: print what --recipe sets for every parameter of the "
                        "model, which is not built where it is large")
    parser.add_argument("--base", metavar="FILE",
                        help="with --hf, the config.json of the small model whose settings are right; if not given, "
                        "the plan is from --hf to twice its layers")
    parser.add_argument("--lr", type=power_argument, default=Fraction(0), metavar="P",
                        help="the learning rate of blocks goes like L^P")
    parser.add_argument("--optimizer", metavar="NAME",
                        help="sgd, momentum, signsgd, lion, adam, adamw, muon or normalizedsgd; adam if not given, "
                        "adamw with --hf")
    eps = parser.add_mutually_exclusive_group()
    eps.add_argument("--eps", type=power_argument, default=Fraction(0), metavar="P",
                     help="Adam's eps goes like L^P; 0 where it is not scaled")
    eps.add_argument("--no-eps", action="store_true", help="Adam's eps is negligible")
    parser.add_argument("--init", type=power_argument, default=Fraction(0), metavar="P",
                        help="initial weights of blocks go like L^P")
    parser.add_argument("--weight-decay", type=power_argument, metavar="P",
                        help="weight decay goes like L^P; none if not given")
    parser.add_argument("--gradient", type=power_argument, metavar="P",
                        help="gradients go like L^P; like the branches if not given")
    parser.add_argument("--sizes", type=named_numbers, metavar="NAME=NUMBER,...",
                        help="depth, width, eps and gradient (root mean square of an entry) of one network, which say "
                             "from which depth on eps is in charge, such as depth=12,width=768,eps=1e-8,gradient=1e-5")
    parser.add_argument("--batch-size", type=pair_argument, metavar="BASE,TARGET",
                        help="batch sizes of a training and of one that is planned, such as 512,1024: print what rate "
                             "and decay become; with --hf the plan has them")
    parser.add_argument("--steps", type=pair_argument, metavar="BASE,TARGET", help="numbers of steps, likewise")
    parser.add_argument("--decay", type=number_argument, metavar="X", help="the weight decay of that training")
    parser.add_argument("--x", type=number_argument, metavar="X", help="the best rate goes like data to the power -x")
    parser.add_argument("--u", type=number_argument, metavar="U", help="what decay takes in a step goes like data to "
                        "the power -u; 1 keeps it the same share of training")
    parser.add_argument("--data", metavar="NAME", help="fixed or width, the number of directions of "
                        "samples, for Muon and spheres with --hf")
    parser.add_argument("--coupled", action="store_true", help="weight decay is added to the gradient")
    parser.add_argument("--independent", action="store_true", help="weight decay is not multiplied by the learning "
                                                                   "rate")
    _form(parser)


def _prove(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("keys", nargs="*", metavar="KEY",
                        help="entries such as tensor_programs_vi/lemma_d1, with all that they use; all where none is "
                        "given")
    parser.add_argument("-o", "--output", default="tpcalc-ledger", metavar="FOLDER", help="where to write")
    parser.add_argument("--seed", type=nonnegative, default=0, metavar="N", help="seed of the random numbers")
    parser.add_argument("--spoil", action="store_true",
                        help="make every equation of the statements wrong, one thing at a time, and say which the "
                        "checks of their entries read: minutes")
    parser.add_argument("--workers", type=positive, default=1, metavar="N", help="processes that check entries; the "
                                                                                 "results are those of one")
    parser.add_argument("--no-pdf", action="store_true", help="do not compile ledger.tex")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _figure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("keys", nargs="*", metavar="KEY", help="figures such as tp6/11 or depthwise/B1")
    parser.add_argument("--list", action="store_true", help="print all keys: what a figure shows, how much is trained "
                                                            "for it, what differs from the paper's")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--toy", action="store_true", help="tiny networks, in seconds, to see that it runs")
    size.add_argument("--full", action="store_true", help="the paper's sizes: for clusters")
    parser.add_argument("--data", default="digits", metavar="DATA",
                        help="digits, a folder with CIFAR-10's data_batch_1.bin to data_batch_5.bin, or a .npz file "
                        "with arrays images and labels")
    parser.add_argument("--workers", type=positive, default=1, metavar="N", help="processes that train networks")
    parser.add_argument("-o", "--output", default="tpcalc-figures", metavar="FOLDER",
                        help="where to write, and where finished trainings are kept")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _form(parser: argparse.ArgumentParser) -> Any:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--latex", action="store_true", help="print LaTeX")
    form.add_argument("--json", action="store_true", help="print JSON")
    return form


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status.

    0: done. 1: TeX failed on a report that is otherwise complete, or a check of the ledger failed. 2: bad input, or a
    solution that diverges, with one line on standard error. 130: interrupted.
    """
    try:
        args = build_parser().parse_args(join_negative(list(sys.argv[1:] if argv is None else argv)))
    except SystemExit as stop:  # --help and errors of argparse
        return stop.code if isinstance(stop.code, int) else 2
    try:
        return _run(args)
    except KeyboardInterrupt:
        kept = f"; finished parts are in {args.output}" if args.command in ("report", "figure") else ""
        print(f"tpcalc {args.command}: interrupted{kept}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, Divergence, MemoryError, MissingExtra, OSError) as error:
        return _say(args, error, 2)
    except ReportError as error:
        return _say(args, error, error.status)


def command_of(name: str) -> Callable[[argparse.Namespace], int]:
    """The function that carries out a command; modules of the other commands are not imported."""
    home = import_module(f".{name if name in ALONE else 'commands'}", __package__)
    found: Callable[[argparse.Namespace], int] = getattr(home, f"{name}_command")
    return found


def _run(args: argparse.Namespace) -> int:
    with warnings.catch_warnings():
        # what overflows is reported by a Divergence that names the step; NumPy's words would only precede it
        warnings.filterwarnings("ignore", "overflow|invalid value", RuntimeWarning)
        status = command_of(args.command)(args)
    sys.stdout.flush()  # here, where a reader that has gone can still be dealt with
    return status


def _say(args: argparse.Namespace, error: Exception, status: int) -> int:
    print(f"tpcalc {args.command}: {one_line(error) or type(error).__name__}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
