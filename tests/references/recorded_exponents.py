"""Verdicts of drawn networks and programs, as the engine of one commit gives them: run by hand, writes JSON lines.

What is drawn is said by a kind and a seed: linear residual networks; residual networks with any block, activation,
norm, skip and optimizer; training programs of any shape; networks of drawn blocks; transformers. Each is asked at
several points (alpha, gamma), plain linear ones on a grid. The first line says which commit answered and what the
columns are; each other line is one draw, with its answers. An answer has the name of the verdict, the exponents in the
order of the columns, the names of those that are bounds, what classification read them from, and for some draws what
each matrix does alone. A refusal is kept as its kind and sentence, and what takes longer than ``LIMIT`` seconds as
"too slow"; after one of these no other point is tried. Runs that are cut off go on where they stopped.

What is kept was answered by commit e887df7. Names of options, blocks, columns and verdicts in it were converted since
to those of today (norm_place='after' to norm_position='output', block='post' to 'post_nonlin'); numbers are as they
were answered, and so are the kinds of refusals, NotCovered was ValueError then, and their sentences.

    PYTHONPATH=tests python tests/references/recorded_exponents.py NEW.jsonl
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import sympy as sp

import tpcalc as tp
from drawn.deep_blocks import block_recipe, drawn_net
from drawn.drawn_programs import POINTS, deep_program
from drawn.position_blocks import drawn_transformer

LIMIT = 20  # seconds of this process, an answer
EXPONENTS = ("x at initialization", "h at initialization", "change of f", "change of x", "change of h", "update of h",
             "noise of x over a piece", "drift of x over a piece", "linearization error of a layer")
READ = ("x_init", "h_init", "f_init", "dx", "dh", "df", "update", "noise", "drift", "linearization")
MATRIX = ("gamma", "name", "update", "effect", "output", "second_order", "partners")
FAR = (sp.Rational(5, 4), -sp.Rational(1, 8))  # a point that no line of a phase diagram usually meets
OPTIMIZERS = (tp.SGD(), tp.SGD(), tp.SGD(), tp.SGD(momentum=0.9), tp.SGD(momentum=0.9, nesterov=True),
              tp.SGD(weight_decay=0.1), tp.Adam(), tp.AdamW(), tp.SignSGD(), tp.Lion(), tp.Muon(), tp.NormalizedSGD())
DEPTH = sp.Symbol("L")
SKIPS = (tp.Skip(learned=True), tp.Skip(inject=sp.Rational(1, 2)), tp.Skip(keep=1 - 1 / DEPTH),
         tp.Skip(keep=1 - 1 / DEPTH, inject=1 / DEPTH), tp.Skip(keep=sp.Rational(1, 2)),
         tp.HyperConnections((1, 0), ((1, 0), (0, 1)), (1, 1)), tp.HyperConnections((1, 1), ((0, 1), (1, 0)), (1, 0)))
COUNTS = {"plane": 3, "linear": 30, "program": 110, "block": 50, "network": 60, "transformer": 6}
MANY = 4  # points of a draw; a linear network with a built-in block has more, a transformer its own alone
GRID = tuple((sp.Rational(a, 4), sp.Rational(g, 4)) for a in range(9) for g in range(-4, 5))
PLANE = (*POINTS, FAR, *((sp.Rational(a, 4), sp.Rational(g, 4)) for a, g in (
    (0, 4), (1, 3), (3, 0), (5, 0), (6, -2), (2, 0), (8, 1))))


class TooSlow(Exception):
    """An answer that took too long."""


def one(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def drawn_network(seed: int) -> tuple[tp.ResNet, Any]:
    """A residual network of a seed and its optimizer."""
    rng = np.random.default_rng([2029, seed])
    options: dict[str, Any] = {"phi": one(rng, ("linear", "linear", "tanh", "relu", "gelu", "silu", "abs", "erf")),
                               "block": one(rng, (*["post_nonlin"] * 2, *["pre_nonlin"] * 2, "mlp", "mlp", "glu"))}
    if rng.random() < 0.4:
        options["norm"] = one(rng, ("rms", "rms", "layer"))
        options["norm_position"] = one(rng, ("pre", "pre", "pre", "output", "sandwich", "post"))
        options["gains"] = bool(rng.random() < 0.3)
    if rng.random() < 0.2:
        options["skip"] = one(rng, SKIPS)
    if options["block"] == "mlp" and rng.random() < 0.2:
        options["matrices"] = one(rng, (1, 3))
    return tp.ResNet(**options), one(rng, OPTIMIZERS)


def drawn(kind: str, seed: int) -> tuple[Any, Any, list[tuple[sp.Rational, sp.Rational]]]:
    """What is asked: a network or program, an optimizer or None, and points (alpha, gamma)."""
    rng = np.random.default_rng([2030, seed])
    order = [POINTS[i] for i in rng.permutation(len(POINTS))]
    points = [*POINTS[:2], *[at for at in [*order, FAR] if at not in POINTS[:2]]][:MANY]
    if kind == "plane":
        return tp.ResNet(block=("post_nonlin", "pre_nonlin", "mlp")[seed]), tp.SGD(), list(GRID)
    if kind == "linear":
        options = {"block": one(rng, ("post_nonlin", "pre_nonlin", "mlp")), "skip": one(rng, (None, None, *SKIPS[:-2]))}
        return tp.ResNet(**options), OPTIMIZERS[seed % len(OPTIMIZERS)], list(PLANE)
    if kind == "network":
        return *drawn_network(seed), points
    if kind == "program":
        return deep_program(seed).program, None, points
    if kind == "block":
        return drawn_net(block_recipe(seed)), None, points
    transformer = drawn_transformer(seed)
    return transformer.net, transformer.opt, [transformer.point]


def described(kind: str, seed: int) -> str:
    """What was drawn, in words, so that a reader, and a test, see whether a seed still means the same."""
    if kind == "program":
        return str(deep_program(seed).recipe)
    if kind == "block":
        return str(block_recipe(seed))
    net, opt, _ = drawn(kind, seed)
    return f"{changed(net)}, {changed(opt)}"


def changed(value: Any) -> str:
    """A dataclass by what is not as usual in it, so that options that come later change nothing."""
    if not is_dataclass(value) or isinstance(value, type):
        return getattr(value, "__name__", repr(value))
    told = (f"{f.name}={changed(getattr(value, f.name))}" for f in fields(value)
            if f.default is MISSING or getattr(value, f.name) != f.default)
    return f"{type(value).__name__}({', '.join(told)})"


def said(value: object) -> Any:
    """Numbers as strings, for JSON has no fractions and no infinity."""
    if isinstance(value, (bool, type(None))):
        return value
    return [said(v) for v in value] if isinstance(value, tuple) else str(value)


def answer(net: Any, opt: Any, point: tuple[sp.Rational, sp.Rational], matrices: bool = False) -> dict[str, Any]:
    """What ``tp.classify`` says, or the refusal."""
    try:
        verdict = tp.classify(*point, net=net, opt=opt)
        found: dict[str, Any] = {
            "name": verdict.name, "exponents": [said(verdict.exponents.get(name)) for name in EXPONENTS],
            "bounds": sorted(verdict.bounds)}
        if matrices and verdict.matrices:
            found["matrices"] = {name: [said(getattr(alone, part)) for part in MATRIX]
                                 for name, alone in verdict.matrices.items()}
        return found
    except (tp.NotCovered, tp.Divergence) as error:
        return {"refused": type(error).__name__, "said": str(error)[-300:]}
    except TooSlow:
        raise
    except Exception as error:
        return {"broken": type(error).__name__, "said": str(error)[-300:]}


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlow
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def watched(kept: list[dict[str, Any]]) -> None:
    """Keep what classification reads before it judges, of every verdict from here on."""
    def watching(judge: Callable[..., Any]) -> Callable[..., Any]:
        def judged(alpha: Any, gamma: Any, region: Any, exponents: Any, matrices: Any = None, point: Any = None) -> Any:
            at = point
            if at is None:
                at = (alpha, gamma) if region.size else ()
            sizes = exponents.at(at)
            kept.append({"sizes": [said(sizes[name]) for name in READ], "grows": exponents.grows,
                         "explosions": [[step, said(rate.at(at))] for step, rate in exponents.explosions],
                         "exact": exponents.exact, "bounds": sorted(exponents.bounds)})
            return judge(alpha, gamma, region, exponents, matrices, point)
        return judged

    for name in ("classify", "transformers", "from_nothing"):
        module = sys.modules.get(f"tpcalc.verdicts.{name}")
        if hasattr(module, "judge"):
            setattr(module, "judge", watching(getattr(module, "judge")))


def record(kind: str, seed: int, kept: list[dict[str, Any]]) -> dict[str, Any]:
    net, opt, points = drawn(kind, seed)
    row: dict[str, Any] = {"kind": kind, "seed": seed, "drawn": described(kind, seed), "answers": {}}
    for point in points:
        if any(one.get("refused") == "too slow" for one in row["answers"].values()):
            row["answers"]["{} {}".format(*point)] = {"refused": "too slow", "seconds": 0}
            continue
        kept.clear()
        start = time.process_time()
        try:
            with at_most(LIMIT):
                found = answer(net, opt, point)
                if kept and "name" in found:
                    found["read"] = kept[0]
        except TooSlow:
            found = {"refused": "too slow"}
        found["seconds"] = round(time.process_time() - start, 2)
        if kind in ("network", "block") and found["seconds"] < 2 and "name" in found and point in POINTS[:2]:
            try:
                with at_most(LIMIT):
                    found = {**found, **{k: v for k, v in answer(net, opt, point, True).items() if k == "matrices"}}
            except TooSlow:
                pass
        row["answers"]["{} {}".format(*point)] = found
    return row


def jobs() -> list[tuple[str, int]]:
    """All draws, the kinds mixed, so that a run that is cut off has some of each."""
    return sorted(((kind, seed) for kind, count in COUNTS.items() for seed in range(count)),
                  key=lambda job: (job[0] not in ("plane", "linear"), job[1] / COUNTS[job[0]], job[0]))


def main(path: Path) -> None:
    done = {(row["kind"], row["seed"]) for row in map(json.loads, path.read_text().splitlines()[1:])} if (
        path.exists()) else set()
    kept: list[dict[str, Any]] = []
    watched(kept)
    with path.open("a") as file:
        if not file.tell():  # a new file begins with what was asked
            commit = subprocess.run(["git", "rev-parse", "HEAD:tpcalc", "HEAD"], cwd=Path(tp.__file__).parent,
                                    capture_output=True, text=True, check=True).stdout.split()
            print(json.dumps({"commit": commit[1], "tree of tpcalc": commit[0], "columns": EXPONENTS, "read": READ,
                              "matrices": MATRIX, "limit in seconds": LIMIT}), file=file)
        for kind, seed in jobs():
            if (kind, seed) not in done:
                print(json.dumps(record(kind, seed, kept)), file=file, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
