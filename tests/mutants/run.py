"""Seeded faults against the tests that cover their lines: what the tests would miss. ``tox -e mutants``, by hand.

    tox -e mutants -- [--minutes 55] [--each 25] [--longest 600] [--map-only] [--tests NAME] [folders]

First each test file is run once under coverage, so that it is known which lines each of its tests runs and how long it
takes (those of kernels as plain Python, for compiled lines are not seen; what fixtures run counts for the whole file);
then, folder by folder, faults are put in a copy of the tree, one at a time, and the tests that run the line are run,
the quickest first, until one fails. What is finished is kept in .mutants and not done again, but that maps are made
anew when sources move, and survivors meet new tests; a run ends by itself after ``--minutes``. Survivors are printed;
those that change nothing are declared in equivalent.json, each with its reason. ``--tests`` takes the test files with a
name in their path alone, ``--longest`` so many seconds of them for a fault: what these kill is killed, what they do not
is judged again by others, or by more of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator
from xml.etree import ElementTree

from coverage import CoverageData
from operators import Fault, faults

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".mutants"
FOLDERS = ("calculus", "orders", "limits", "classification", "media", "methods", "kernels", "interpreters", "lowering",
           "programs", "proofs")
MARKS = "not slow and not bench"
PATIENCE = 240     # seconds; what takes three times as long as without a fault is endless
TOGETHER = 15      # seconds of tests that are run in one process
LEFT_OUT = ("latex", "benchmarks", "mutants", "support", "references", "golden",
            "test_installed.py")  # which installs the package from a tree that is not laid out like the copy


class OutOfTime(Exception):
    pass


def test_files(names: list[str]) -> list[Path]:
    """All, or those with one of some names in their path."""
    found = sorted(p for p in (ROOT / "tests").rglob("test_*.py") if not set(LEFT_OUT) & set(p.relative_to(ROOT).parts))
    return [p for p in found if not names or any(name in str(p.relative_to(ROOT)) for name in names)]


def pytest(tree: Path, tests: list[str], seconds: float, *before: str, options: tuple[str, ...] = ()
           ) -> subprocess.CompletedProcess[bytes]:
    """The fast tests among some, files or functions in them, on the package that lies in ``tree``."""
    command = [sys.executable, *before, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", MARKS, *options,
               *tests]
    settings = {"PYTHONPATH": str(tree), "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1",
                "NUMBA_CACHE_DIR": str(KEPT / "numba"), "TPCALC_CACHE_DIR": str(KEPT / "cache")}
    if before and "tests/kernels/" in tests[0]:
        settings["NUMBA_DISABLE_JIT"] = "1"
    return subprocess.run(command, cwd=tree, env={**os.environ, **settings}, timeout=seconds, capture_output=True)


def copied() -> Path:
    """A tree in which faults are put; proofs lie in the package, as where it is installed."""
    tree = KEPT / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("tpcalc", "tests", "docs"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "proofs", tree / "tpcalc" / "proofs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "CHANGELOG.md", "setup.cfg", "tox.ini", "pyproject.toml"):
        shutil.copy(ROOT / name, tree / name)
    return tree


def covered(tests: list[Path], end: float) -> dict[str, dict[str, Any]]:
    """By test file: how long each of its tests takes, and by file and line of the package the tests that run it."""
    found: dict[str, dict[str, Any]] = {}
    (KEPT / "map").mkdir(parents=True, exist_ok=True)
    tree: Path | None = None
    package = digest(*sorted((ROOT / "tpcalc").rglob("*.py")), *sorted((ROOT / "proofs").rglob("*.py")))
    for test in tests:
        name = str(test.relative_to(ROOT))
        kept = KEPT / "map" / f"{name.replace('/', '-')}-{digest(test)}-{package}.json"  # lines move with the sources
        if not kept.exists():
            if time.monotonic() > end:
                raise OutOfTime(f"{len(found)} of {len(tests)} test files are mapped")
            tree = tree or copied()
            kept.write_text(json.dumps(mapped(tree, name)))
            print(f"mapped {name}: {sum(json.loads(kept.read_text())['seconds'].values()):.0f} s", flush=True)
        found[name] = json.loads(kept.read_text())
    return found


def digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def mapped(tree: Path, name: str) -> dict[str, Any]:
    """seconds: by function of a test file, "" for all; lines: by file of the package and line, such functions."""
    data, settings, times = KEPT / "coverage", KEPT / "coveragerc", KEPT / "times.xml"
    settings.write_text(f"[run]\ndynamic_context = test_function\ndata_file = {data}\nsource = {tree / 'tpcalc'}\n")
    data.unlink(missing_ok=True)
    done = pytest(tree, [name], 1800, "-m", "coverage", "run", f"--rcfile={settings}", options=(f"--junitxml={times}",))
    if done.returncode not in (0, 5):  # 5: no fast test in it
        raise SystemExit(f"{name} fails without a fault:\n{done.stdout.decode()[-2000:]}")
    seconds: dict[str, float] = {"": 0.0}
    for case in ElementTree.parse(times).iter("testcase"):
        for function in ("", case.attrib["name"].split("[")[0]):
            seconds[function] = seconds.get(function, 0.0) + float(case.attrib["time"])
    found = CoverageData(str(data))
    found.read()

    def functions(contexts: list[str]) -> list[str]:
        """Of fixtures, and of what hypothesis runs under a name of its own, the whole file is meant."""
        names = {context.rsplit(".", 1)[-1] for context in contexts}
        return sorted({name if name in seconds else "" for name in names})

    return {"seconds": seconds, "lines": {
        str(Path(file).relative_to(tree)): {line: functions(contexts)
                                            for line, contexts in found.contexts_by_lineno(file).items()}
        for file in found.measured_files()}}


def drawn(folder: str, each: int) -> Iterator[tuple[Path, Fault]]:
    """Faults of a folder, the same in every run on the same sources."""
    home = ROOT / "proofs" if folder == "proofs" else ROOT / "tpcalc" / folder
    places = [(file, fault) for file in sorted(home.rglob("*.py")) for fault in faults(file.read_text())]
    yield from random.Random(folder).sample(places, min(each, len(places)))


def name_of(file: Path, fault: Fault) -> str:
    """A name that stays as long as the line does, wherever it moves."""
    line = file.read_text().splitlines()[fault.line - 1]
    text = f"{file.relative_to(ROOT)} {line} {fault.start} {fault.after}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def judge(tree: Path, file: Path, fault: Fault, known: dict[str, dict[str, Any]], longest: float) -> dict[str, Any]:
    """What becomes of one fault: killed by a test, or survived those that run its line, in so far as there is time."""
    inside = file.relative_to(ROOT)
    inside = Path("tpcalc") / inside if inside.parts[0] == "proofs" else inside
    source = file.read_text()
    tests = sorted((known[name]["seconds"][function], f"{name}::{function}" if function else name)
                   for name, function in running(str(inside), fault.line, known))
    result: dict[str, Any] = {
        "file": str(file.relative_to(ROOT)), "line": fault.line, "was": source.splitlines()[fault.line - 1].strip(),
        "is": fault.apply(source).splitlines()[fault.line - 1].strip(), "tests": len(tests)}
    (tree / inside).write_text(fault.apply(source))
    met = 0
    try:
        for seconds, some in together(tests, longest):
            try:
                done = pytest(tree, some, max(PATIENCE, 3 * seconds))
            except subprocess.TimeoutExpired:
                return {**result, "killed": True, "by": f"{', '.join(some)}: endless"}
            met += len(some)
            if done.returncode in (1, 2) or done.returncode < 0 or b"ERROR collecting" in done.stdout:  # or a crash
                return {**result, "killed": True, "by": ", ".join(some)}
            if done.returncode not in (0, 5):
                raise SystemExit(f"{', '.join(some)} cannot be run:\n{done.stdout.decode()[-2000:]}")
    finally:
        (tree / inside).write_text(source)
    return {**result, "killed": False, "by": f"{met} of {len(tests)} tests that run the line"}


def running(file: str, line: int, known: dict[str, dict[str, Any]]) -> set[tuple[str, str]]:
    """The tests that run a line, by file and function: of a compiled line that none was seen to run, those that run
    functions of a file that imports its own."""
    seen = {(name, function) for name, one in known.items()
            for function in one["lines"].get(file, {}).get(str(line), ())}
    if seen or "/kernels/" not in file:
        return seen
    own = re.compile(rf"^from [.\w]*kernels(\.{Path(file).stem} import| import .*\b{Path(file).stem}\b)", re.MULTILINE)
    callers = {str(p.relative_to(ROOT)) for p in (ROOT / "tpcalc").rglob("*.py") if own.search(p.read_text())}
    return {(name, function) for name, one in known.items() for caller in callers
            for functions in one["lines"].get(caller, {}).values() for function in functions if function}


def together(tests: list[tuple[float, str]], longest: float) -> Iterator[tuple[float, list[str]]]:
    """Tests that are run in one process, with their time: quick ones share one; in all ``longest`` or one test."""
    total, some, taken = 0.0, [], 0.0
    for seconds, name in tests:
        if some and taken + seconds > TOGETHER:
            yield taken, some
            some, taken = [], 0.0
        if total and total + seconds > longest:
            break
        some, taken, total = [*some, name], taken + seconds, total + seconds
    if some:
        yield taken, some


def main() -> None:
    ask = argparse.ArgumentParser(description="faults that the tests would miss")
    ask.add_argument("--minutes", type=float, default=55)
    ask.add_argument("--each", type=int, default=25)
    ask.add_argument("--longest", type=float, default=600)
    ask.add_argument("--map-only", action="store_true")
    ask.add_argument("--tests", action="append", default=[], metavar="NAME")
    ask.add_argument("folders", nargs="*", default=FOLDERS)
    asked = ask.parse_args()
    unknown = set(asked.folders) - set(FOLDERS)
    if unknown:
        raise SystemExit(f"folders: {', '.join(sorted(unknown))} given; allowed are {', '.join(FOLDERS)}")
    end = time.monotonic() + 60 * asked.minutes
    KEPT.mkdir(exist_ok=True)
    results = KEPT / "results.json"
    done: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {}
    wanted: dict[str, list[str]] = {}
    tests = test_files(asked.tests)
    seen = digest(*tests)
    try:
        known = covered(tests, end)
        tree = copied()
        for folder in () if asked.map_only else asked.folders:
            wanted[folder] = []
            for file, fault in drawn(folder, asked.each):
                name = name_of(file, fault)
                wanted[folder].append(name)
                if name in done and (done[name]["killed"] or done[name]["met"] == [seen, asked.longest]):
                    continue  # killed once is killed; what survived meets tests that it has not met
                if time.monotonic() > end:
                    raise OutOfTime(f"{len(done)} faults are judged")
                one = done[name] = {**judge(tree, file, fault, known, asked.longest), "met": [seen, asked.longest]}
                results.write_text(json.dumps(done, indent=1))
                print(f"{'killed' if one['killed'] else 'SURVIVED'}  {one['file']}:{one['line']}  {one['was']}  ->  "
                      f"{one['is']}  {one['by']}", flush=True)
    except OutOfTime as reason:
        print(f"out of time: {reason}; run it again, what is done is kept")
    report(done, wanted)


def report(done: dict[str, Any], wanted: dict[str, list[str]]) -> None:
    """Counts by folder; a fault that is declared equivalent is no survivor."""
    declared = json.loads((Path(__file__).parent / "equivalent.json").read_text())
    left = False
    for folder, names in wanted.items():
        judged = [name for name in names if name in done and name not in declared]
        killed = sum(done[name]["killed"] for name in judged)
        same = sum(name in declared for name in names)
        open_ = len(names) - len(judged) - same
        print(f"{folder}: {killed} of {len(judged)} killed, {same} equivalent, {open_} to do")
        left = left or killed < 0.9 * len(judged)
        for name in judged:
            if not done[name]["killed"]:
                one = done[name]
                print(f"  {name} {one['file']}:{one['line']}  {one['was']}  ->  {one['is']}  {one['by']}")
    sys.exit(int(left))


if __name__ == "__main__":
    main()
