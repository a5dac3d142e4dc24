"""Digests of functions: equal for the same code wherever it stands, different where what is written differs."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tpcalc.studies.written_code import code_of

START = """
import functools
import numpy as np

SIZE = 3

def helper(x):
    return x + SIZE

class Base:
    def value(self):
        return 1

class Model(Base):
    width = 4
    def build(self, n):
        return [Model() for _ in range(n)] if n in {"a", "b", "c", "d"} else helper(n)

def even(n):
    return n == 0 or odd(n - 1)

def odd(n):
    return n != 0 and even(n - 1)

@functools.cache
def cached(n):
    return np.sin(n)

def make(depth, scale=2.0):
    inner = lambda x: x * scale
    return Model().build(depth), inner, even(depth), cached(depth)
"""


def module(text: str) -> Any:
    held: dict[str, Any] = {"__name__": "__main__"}
    exec(text, held)
    return held["make"]


@pytest.mark.parametrize("old, new", [
    ("SIZE = 3", "SIZE = 4"), ("return x + SIZE", "return x - SIZE"), ("return 1", "return 2"),
    ("width = 4", "width = 5"), ("helper(n)", "helper(n + 1)"),
    ("n == 0 or", "n == 1 or"), ("np.sin", "np.cos"), ("scale=2.0", "scale=2.5"),
    ("x * scale", "x / scale"), ('"d"}', '"e"}'), ("Model(Base)", "Model")])
def test_what_is_written_counts(old: str, new: str) -> None:
    assert old in START and code_of(module(START)) != code_of(module(START.replace(old, new)))


@pytest.mark.parametrize("old, new", [
    ("SIZE = 3", "# how many\n\nSIZE = 3"), ("return x + SIZE", "return (x +\n            SIZE)"),
    ("SIZE = 3", "OTHER = 1\nSIZE = 3")])
def test_how_it_is_laid_out_does_not(old: str, new: str) -> None:
    assert code_of(module(START)) == code_of(module(START.replace(old, new)))


def test_what_a_function_closes_over_counts() -> None:
    def of(number: float) -> Any:
        return lambda x: number * x

    assert code_of(of(1.0)) == code_of(of(1.0)) != code_of(of(2.0))


def reading(text: str, **held: Any) -> Any:
    exec(f"def make(x):\n    {text}", held)
    return held["make"]


@pytest.mark.parametrize("old, new", [
    ({"beta": 0.9}, {"beta": 0.5}), ([1, 2], [1, 3]), (Namespace(beta=0.9), Namespace(beta=0.5)),
    (SimpleNamespace(beta=[0.9]), SimpleNamespace(beta=[0.5])), ({1, 2}, {1, 3}), ({"a": {"b": 1}}, {"a": {"b": 2}})])
def test_settings_that_a_function_reads_count(old: Any, new: Any) -> None:
    text = "return lambda: x * settings"
    assert code_of(reading(text, settings=old)) == code_of(reading(text, settings=copy.deepcopy(old)))
    assert code_of(reading(text, settings=old)) != code_of(reading(text, settings=new))


def test_a_container_that_holds_itself() -> None:
    held: list[Any] = [1]
    held.append(held)
    assert code_of(reading("return settings", settings=held)) == code_of(reading("return settings", settings=held))


def test_names_that_are_not_read_do_not_count() -> None:
    """An attribute is no global of that name; a count of a function's own calls is none of its settings."""
    assert code_of(reading("return x.t()", t=1)) == code_of(reading("return x.t()", t=2))
    count = "global calls\n    calls = calls + 1\n    return x"
    assert code_of(reading(count, calls=1)) == code_of(reading(count, calls=2))


def test_digests_are_the_same_in_every_process(tmp_path: Path) -> None:
    """Whatever the order of sets there, and whether the file is run or imported."""
    path = tmp_path / "written.py"
    path.write_text(f"{START}\nif __name__ == '__main__':\n    from tpcalc.studies.written_code import code_of\n"
                    "    print(code_of(make))\n")
    root = str(Path(__file__).parents[2])

    def printed(seed: str, *command: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}
        return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True, cwd=tmp_path,
                              env=environment).stdout

    code = "import written; from tpcalc.studies.written_code import code_of; print(code_of(written.make))"
    assert printed("1", str(path)) == printed("2", str(path)) == printed("3", "-c", code) != ""
