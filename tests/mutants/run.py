"""Seeded faults against the tests that run their lines: what the tests would miss. ``tox -e mutants``, by hand.

    tox -e mutants -- [--minutes 55] [--each 25] [--longest 600] [--jobs 2] [--seed N] [--tests PATH ...] [folders]

Faults are put in a copy of the tree, one at a time. One that a test noticed before, as killers.json tells, meets that
test first. For those that are left, all fast tests are run once, on a copy with a probe in front of every such line, so
that it is known which tests run it and how long they take; these are then run, the quick and close ones first, until
one fails. What is finished is kept in .mutants and not done again, but that survivors meet new tests; a run ends by
itself after ``--minutes``. Survivors are printed; those that change nothing are declared in equivalent.json, each with
its reason.
``--longest``: so many seconds of tests for a fault; what they do not kill is judged again by more of them.
``--seed``: draws other faults, in three folders where none are named. ``--tests``: these files or folders of tests
stand for all of them; what they miss others may notice.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterator

from drawing import FOLDERS, ROOT, Drawn, drawn, folders_of
from probes import SITE, placed, probed

HERE = Path(__file__).resolve().parent
KEPT = ROOT / ".mutants"
MARKS = "not slow and not nightly and not bench"
PATIENCE = 240     # seconds; what takes three times as long as without a fault is endless
TOGETHER = 15      # seconds of tests that are run in one process
OWN = 10           # how much sooner a fault meets tests of its folder than others that cost as much
LEFT_OUT = ("latex", "benchmarks", "mutants", "pytorch")  # other installations' tests
NOT_HERE = "tests/test_installed.py"  # installs the package from a tree that is not laid out like the copy
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+?\.py(?:::\w+)*)", re.MULTILINE)  # parameters may be of any form


class OutOfTime(Exception):
    pass


def pytest(tree: Path, tests: list[str], seconds: float, *options: str, **settings: str) -> tuple[int, str]:
    """The exit status and what the fast tests among some print, on the package that lies in ``tree``."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", MARKS, *options, *tests]
    own = {"PYTHONPATH": str(tree), "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1",
           "NUMBA_CACHE_DIR": str(KEPT / "numba"), "TPCALC_CACHE_DIR": str(KEPT / "cache")}
    done = subprocess.run(command, cwd=tree, env={**os.environ, **own, **settings}, timeout=seconds,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode(errors="replace")


def copied(name: str) -> Path:
    """A tree in which faults are put; proofs lie in the package, as where it is installed."""
    tree = KEPT / name
    shutil.rmtree(tree, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("tpcalc", "tests", "docs"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignored)
    shutil.copytree(ROOT / "proofs", tree / "tpcalc" / "proofs", ignore=ignored, dirs_exist_ok=True)
    for file in ("README.md", "CHANGELOG.md", "setup.cfg", "tox.ini", "pyproject.toml"):
        shutil.copy(ROOT / file, tree / file)
    return tree


def digest(*names: str) -> str:
    """Of files, and of all sources in folders."""
    files = [file for name in names for file in ([ROOT / name] if (ROOT / name).is_file() else
                                                 sorted((ROOT / name).rglob("*.py")))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


class Seen:
    """Which tests run the lines of faults, by function of a test file, or by file, and how long each takes."""

    def __init__(self, wanted: list[Drawn], tests: list[str], jobs: int) -> None:
        names = hashlib.sha256("".join(sorted(one.name for one in wanted)).encode()).hexdigest()[:12]
        home = KEPT / f"seen-{digest('tpcalc', 'proofs')}-{names}"
        home.mkdir(parents=True, exist_ok=True)
        asked = [ROOT / name for name in tests]
        files = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "tests").rglob("test_*.py"))
                 if not asked or any(p.is_relative_to(one) for one in asked)]
        now = {file: digest(file) for file in files if file != NOT_HERE and file.split("/")[1] not in LEFT_OUT}
        runs = [json.loads(one.read_text()) for one in home.glob("*/done.json")]
        new = [file for file, text in now.items() if not any(run.get(file) == text for run in runs)]
        if new:
            run = home / digest(*new)
            shutil.rmtree(run, ignore_errors=True)
            run.mkdir()
            kernels = [file for file in new if file.startswith("tests/kernels/")]
            self._run(wanted, new, run, jobs, compiled=True)
            if kernels:
                self._run([one for one in wanted if "kernels" in one.inside.parts], kernels, run, jobs, compiled=False)
            (run / "done.json").write_text(json.dumps({file: now[file] for file in new}))
        self.seconds: dict[str, float] = {}
        self.tests: dict[str, set[str]] = {}
        for file in home.glob("*/*.jsonl"):
            of = json.loads((file.parent / "done.json").read_text())
            for line in map(json.loads, file.read_text().splitlines()):
                at = line["test"].split("::")[0]
                if at not in now or of.get(at) != now[at]:
                    continue  # an earlier text of the file
                for test in {line["test"], at}:
                    self.seconds[test] = self.seconds.get(test, 0.0) + line["seconds"]
                for name in line["seen"]:
                    self.tests.setdefault(name, set()).add(line["test"])
        self.wide = Counter(test for tests in self.tests.values() for test in tests)

    def of(self, one: Drawn) -> list[tuple[float, str]]:
        """The tests of a fault with their times, first those that are quick, see little else, and are the folder's."""
        def late(test: str) -> float:
            own = test.split("/")[1] in one.inside.parts
            return self.seconds[test] * self.wide[test] / (OWN if own else 1)

        return [(self.seconds[test], test) for test in sorted(self.tests.get(one.name, ()), key=late)]

    @staticmethod
    def _run(wanted: list[Drawn], tests: list[str], home: Path, jobs: int, compiled: bool) -> None:
        tree = copied("probed")
        (tree / "sitecustomize.py").write_text(SITE)
        for file, probes in placed(wanted, compiled).items():
            (tree / file).write_text(probed((tree / file).read_text(), probes))
        several = ["-n", str(jobs), "--dist", "loadfile"]
        print(f"which tests run the lines of {len(wanted)} faults{'' if compiled else ' in kernels'} ...", flush=True)
        _, said = pytest(tree, tests, 7200, "-p", "recorder", *several,
                         PYTHONPATH=f"{tree}{os.pathsep}{HERE}", MUTANTS_SEEN=str(home),
                         NUMBA_DISABLE_JIT="0" if compiled else "1")
        print(said.strip().splitlines()[-1], *FAILED.findall(said), sep="\n  ", flush=True)


def judge(tree: Path, one: Drawn, tests: list[tuple[float, str]], longest: float, given: bool = False
          ) -> dict[str, Any]:
    """What becomes of one fault: killed by a test, or survived those there are, in so far as there is time.

    given: tests are not those of this tree, but a killer that one before it had.
    """
    source = one.file.read_text()
    was, is_ = one.lines()
    result: dict[str, Any] = {"file": str(one.file.relative_to(ROOT)), "line": one.fault.line, "was": was, "is": is_}
    (tree / one.inside).write_text(one.fault.apply(source))
    met = 0
    try:
        for seconds, some in together(tests, longest):
            try:
                status, said = pytest(tree, some, max(PATIENCE, 3 * seconds), "-x")
            except subprocess.TimeoutExpired:
                return {**result, "killed": True, "by": some[-1], "how": "endless"}
            met += len(some)
            if status in (1, 2) or status < 0 or "ERROR collecting" in said:
                return {**result, "killed": True, "by": (FAILED.findall(said) or some)[0], "how": "fails"}
            if status == 4 and given:  # a killer that is no more
                return {**result, "killed": False, "by": "nothing: it has another name"}
            if status not in (0, 5):  # 5: there is no fast test among them
                raise SystemExit(f"{', '.join(some)} cannot be run:\n{said[-2000:]}")
    finally:
        (tree / one.inside).write_text(source)
    return {**result, "killed": False, "by": f"{met} of {len(tests)} tests that run the line"}


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


class Judgements:
    """What has become of faults, kept as it is found, and killers with it."""

    def __init__(self) -> None:
        self._file, self._lock = KEPT / "results.json", threading.Lock()
        self.done: dict[str, Any] = json.loads(self._file.read_text()) if self._file.exists() else {}
        self.killers: dict[str, str] = json.loads((HERE / "killers.json").read_text())

    def add(self, one: Drawn, result: dict[str, Any]) -> None:
        with self._lock:
            self.done[one.name] = result
            self._file.write_text(json.dumps(self.done, indent=1))
            self.killers.pop(one.name, None)
            if result["killed"]:
                self.killers[one.name] = result["by"]
            (HERE / "killers.json").write_text(json.dumps(dict(sorted(self.killers.items())), indent=0) + "\n")
        fate = "killed" if result["killed"] else "SURVIVED"
        location = f"{result['file']}:{result['line']}"
        print(f"{fate}  {location}  {result['was']}  ->  {result['is']}  {result['by']}", flush=True)


def main() -> None:
    ask = argparse.ArgumentParser(description="faults that the tests would miss")
    ask.add_argument("--minutes", type=float, default=55)
    ask.add_argument("--each", type=int, default=25)
    ask.add_argument("--longest", type=float, default=600)
    ask.add_argument("--jobs", type=int, default=2)
    ask.add_argument("--seed", type=int)
    ask.add_argument("--tests", nargs="+", default=[])
    ask.add_argument("folders", nargs="*")
    asked = ask.parse_args()
    asked.folders = asked.folders or (FOLDERS if asked.seed is None else folders_of(asked.seed))
    unknown = set(asked.folders) - set(FOLDERS)
    if unknown:
        raise SystemExit(f"folders: {', '.join(sorted(unknown))} given; allowed are {', '.join(FOLDERS)}")
    end = time.monotonic() + 60 * asked.minutes
    KEPT.mkdir(exist_ok=True)
    declared = json.loads((HERE / "equivalent.json").read_text())
    print(f"seed {asked.seed}: {asked.each} faults in each of {', '.join(asked.folders)}", flush=True)
    wanted = {folder: drawn(folder, asked.each, asked.seed) for folder in asked.folders}
    every = [one for faults in wanted.values() for one in faults if one.name not in declared]
    kept = Judgements()
    met = [digest("tests"), asked.longest, *asked.tests]
    trees: queue.Queue[Path] = queue.Queue()
    for job in range(asked.jobs):
        trees.put(copied(f"tree-{job}"))

    def on_a_tree(one: Drawn, tests: list[tuple[float, str]], final: bool) -> None:
        if time.monotonic() > end:
            return
        tree = trees.get()
        try:
            result = judge(tree, one, tests, asked.longest, given=not final)
        finally:
            trees.put(tree)
        if result["killed"] or final:
            kept.add(one, {**result, "met": met})

    def left() -> list[Drawn]:
        """Killed once is killed; what survived meets tests that it has not met."""
        return [one for one in every if not (one.name in kept.done and (
            kept.done[one.name]["killed"] or kept.done[one.name]["met"] == met))]

    with ThreadPoolExecutor(asked.jobs) as several:
        list(several.map(lambda one: on_a_tree(one, [(1.0, kept.killers[one.name])], False),
                         [one for one in left() if one.name in kept.killers]))
        if left() and time.monotonic() < end:
            seen = Seen(every, asked.tests, asked.jobs)
            list(several.map(lambda one: on_a_tree(one, seen.of(one), True), left()))
    if left():
        print(f"out of time: {len(left())} faults are to do; run it again, what is done is kept")
    report(kept.done, wanted, declared)


def report(done: dict[str, Any], wanted: dict[str, list[Drawn]], declared: dict[str, str]) -> None:
    """Counts by folder; a fault that is declared equivalent is no survivor."""
    few = False
    total = [0, 0]
    for folder, faults in wanted.items():
        names = [one.name for one in faults]
        judged = [name for name in names if name in done and name not in declared]
        killed = sum(done[name]["killed"] for name in judged)
        same = sum(name in declared for name in names)
        print(f"{folder}: {killed} of {len(judged)} killed, {same} equivalent, "
              f"{len(names) - len(judged) - same} to do")
        few = few or killed < 0.9 * len(judged)
        total = [total[0] + killed, total[1] + len(judged)]
        for name in judged:
            if not done[name]["killed"]:
                one = done[name]
                print(f"  {name} {one['file']}:{one['line']}  {one['was']}  ->  {one['is']}  {one['by']}")
    print(f"all: {total[0]} of {total[1]} killed")
    sys.exit(int(few))


if __name__ == "__main__":
    main()
